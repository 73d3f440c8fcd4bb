//! The real controller, with a fault injected at any of its writes, or of the events that it is told.
//!
//! A [`Controller`] is the real program, run again and again. It reaches the apiserver through a proxy that counts its
//! [writes](Write) and the events that it is told, and, where a [`Fault`] says so, ends it with SIGKILL, refuses a write or
//! says nothing of it, or lets what the controller sees fall behind what is there.

mod controller;
mod fault;
mod lag;
mod ledger;
mod proxy;
mod write;

pub use controller::{Controller, Program};
pub use fault::{Fault, IN_DOUBT, Lag, Refusal, Side};
pub use ledger::{Entry, Ledger, PATHS};
pub use write::Write;
