//! The real controller, with a fault injected at any of its writes, or of the events that it
//! receives.
//!
//! A [`Controller`] is the real program, run again and again. It reaches the apiserver through a
//! proxy that counts its [writes](Write) and the events that it receives. If a [`Fault`] says so,
//! the proxy ends the program with SIGKILL, refuses a write or does not answer it, or lets the
//! controller's view fall behind the apiserver's state.

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
