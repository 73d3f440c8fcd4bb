//! What decisions about several kinds share: pure functions over small values.
//!
//! Nothing here does I/O, reads a clock or holds state between calls, and nothing knows a kind: those are in `berth-kinds`.

pub mod budget;
pub mod claim;
pub mod condition;
pub mod gates;
pub mod inplace;
pub mod intstr;
pub mod launch;
pub mod lifecycle;
pub mod merge_patch;
pub mod namespace;
pub mod native_budget;
pub mod node;
pub mod ordinals;
pub mod owner;
pub mod pin;
pub mod plan;
pub mod pod;
pub mod pod_owner;
pub mod pod_patch;
pub mod podset;
pub mod predownload;
pub mod prepull;
pub mod pull;
pub mod recreate;
pub mod resource;
pub mod revision;
pub mod rollout;
pub mod selector;
pub mod share;
pub mod stateful_workload;
pub mod strategic_merge;
pub mod stuck;
pub mod target;
pub mod untyped_workload;
pub mod update_order;
