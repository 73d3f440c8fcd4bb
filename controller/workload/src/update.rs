//! The operations of a workload on its pods: create, update in place, replace, restart and release.

pub mod inplace;
pub mod launch;
pub mod pin;
pub mod pod_order;
pub mod podset;
pub mod recreate;
pub mod revision;
pub mod rollout;
pub mod update_order;
