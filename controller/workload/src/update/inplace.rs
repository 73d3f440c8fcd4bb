//! Updating a pod in place: what may change, the records on the pod, and when the change is exact.

pub mod batch;
pub mod batches;
pub mod brief;
pub mod change;
pub mod decision;
pub mod env;
pub mod exact;
pub mod inherited;
pub mod kubelet_hash;
pub mod phase;
pub mod resize;
pub mod restart;
pub mod sidecars;
pub mod state;
pub mod steps;
