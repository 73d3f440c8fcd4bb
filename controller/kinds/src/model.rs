//! The simulated cluster for tests of decisions: an apiserver that applies writes, and kubelets
//! that follow. Objects are JSON, patched as the apiserver patches them.

pub(crate) mod apiserver;
pub(crate) mod claims;
pub(crate) mod containers;
pub(crate) mod health;
pub(crate) mod kubelet;
pub(crate) mod resizing;
pub(crate) mod rollout_status;
pub(crate) mod unknown;
pub(crate) mod world;

// The apiserver is also compiled into a test that compares it with a real one, so it uses the plan
// from here.
use berth_workload::plan;
