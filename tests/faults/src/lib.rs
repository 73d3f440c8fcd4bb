//! The controller, killed at every write.
//!
//! A [`Controller`] is the real program, run again and again. It reaches the apiserver through a proxy that counts its
//! [writes](Write) and, where a [`Fault`] says so, ends it with SIGKILL: before a write reaches the apiserver, or after
//! the apiserver has carried it out and before the answer reaches the controller.

mod controller;
mod ledger;
mod proxy;
mod write;

pub use controller::{Controller, Program};
pub use ledger::{Entry, Fault, Ledger, Side};
pub use write::Write;
