//! What every owner of pods made from one template does, whatever its kind: its history, new pods, updates in place and by
//! recreating, lifecycle hooks, and pods that it lets go.
//!
//! A kind chooses: how many pods, which of them, in which order. What is done to a chosen pod is decided here, from a
//! [`Scene`]. Nothing here knows a kind.

pub(crate) mod chosen;
pub(crate) mod claim_template;
pub(crate) mod history;
pub(crate) mod hooks;
pub(crate) mod new_pod;
mod phases;
pub(crate) mod release;
pub(crate) mod scene;
pub(crate) mod unreadable;
pub(crate) mod update;
pub(crate) mod way;

use std::collections::BTreeSet;

pub use phases::Phases;
pub use release::split_by_selector;
pub use scene::Unreadable;
pub(crate) use scene::{Blocked, Scene, Workload};

/// Uids of pods.
pub(crate) type Uids = BTreeSet<Box<str>>;
