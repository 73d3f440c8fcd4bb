//! The runtime of Berth's controllers: from watch events to reconciles and writes.
//!
//! [`feed`] keeps a [`Store`] of slim objects equal to the apiserver's, and the store reports
//! changes to its subscribers. They add keys to a [`queue::Queue`]. A [`driver::Driver`] runs one
//! reconcile per key at a time while this process leads ([`election`]). The [`executor::Executor`]
//! carries out a plan. [`expectations::Expectations`] delay the next reconcile of a workload until
//! the store has seen the writes for it. A new leader waits until the stores have seen the old
//! leader's writes ([`handover`]). A [`supervisor::Supervisor`] has every task, and ends the
//! process when one ends.

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
