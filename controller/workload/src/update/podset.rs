//! Shared by all kinds whose pods have one template: history, new pods, in-place updates and
//! recreation, lifecycle hooks, and releasing pods.
//!
//! A kind decides how many pods to change, which ones, and in which order. This module decides,
//! from a [`WorkloadView`], the writes for each chosen pod. It does not depend on any kind.

pub mod adopt;
pub mod chosen;
pub mod claim_template;
pub mod ended;
pub mod history;
pub mod hooks;
pub mod new_pod;
pub mod overlap;
mod phases;
pub mod release;
pub mod spec;
pub mod unreadable;
pub mod update;
pub mod update_method;
pub(crate) mod workload_view;

use std::collections::BTreeSet;

pub use phases::Phases;
pub use release::split_by_selector;
pub use workload_view::Unreadable;
pub use workload_view::{Blocked, Hooks, Workload, WorkloadView};

/// Uids of pods.
pub type Uids = BTreeSet<Box<str>>;
