//! The parts that talk, against a real apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

mod election;
mod events;
mod executor;
mod expectations;
mod feed;
mod history;
mod missing;
mod model;
mod relay;
mod strategic_merge;
mod support;
