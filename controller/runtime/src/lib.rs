//! How Berth sees and acts.
//!
//! [`feed`] keeps a [`Store`] of slim objects equal to what the apiserver has and tells the store's subscribers what changed; they
//! add keys to a [`queue::Queue`]; a [`driver::Driver`] runs one reconcile per key at a time while this process leads
//! ([`election`]); the [`executor::Executor`] carries out a plan, and [`expectations::Expectations`] keep a workload from being
//! decided on before the store has seen what was written for it; a new leader waits for what the one before wrote ([`handover`]).
//! A [`supervisor::Supervisor`] knows every task, and ends the process when one ends.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod client;
pub mod driver;
pub mod election;
pub mod events;
pub mod executor;
pub mod expectations;
pub mod feed;
pub mod handover;
pub mod http;
pub mod metrics;
pub mod object;
pub mod queue;
pub mod store;
pub mod supervisor;

pub use object::{Key, Object, Owned, Resource};
pub use store::{Change, Index, Store};
pub use tokio_util::sync::CancellationToken;
pub use tokio_util::task::TaskTracker;
