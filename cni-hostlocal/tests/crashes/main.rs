//! The program killed: at random while many calls run at once, at every system call in turn, and on
//! a disk that is full.
//!
//! `BERTH_CRASH_CALLS` is the number of random calls. `BERTH_CRASH_PROGRAM=/usr/lib/cni/host-local`
//! runs them on the reference plugin, and then only reports the findings. Needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

mod every_call;
mod full_disk;
mod plugin;
mod storm;
