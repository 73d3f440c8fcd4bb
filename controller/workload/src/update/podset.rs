//! What every owner of pods made from one template does, whatever its kind: its history, new pods, updates in place and by
//! recreating, lifecycle hooks, and pods that it lets go.
//!
//! A kind chooses: how many pods, which of them, in which order. What is done to a chosen pod is decided here, from a
//! [`Scene`]. Nothing here knows a kind.

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
