//! Shared by all kinds whose pods have one template: history, new pods, in-place updates and
//! recreation, lifecycle hooks, and releasing pods.
//!
//! A kind decides how many pods to change, which ones, and in which order. This module decides,
//! from a [`Scene`], the writes for each chosen pod. It does not depend on any kind.

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
pub(crate) mod scene;
pub mod spec;
pub mod unreadable;
pub mod update;
pub mod way;

use std::collections::BTreeSet;

pub use phases::Phases;
pub use release::split_by_selector;
pub use scene::Unreadable;
pub use scene::{Blocked, Hooks, Scene, Workload};

/// Uids of pods.
pub type Uids = BTreeSet<Box<str>>;
