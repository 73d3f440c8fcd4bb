//! What decisions are tested against: an apiserver that applies writes, and kubelets that follow. Objects are JSON, patched
//! as the server patches them.

pub(crate) mod apiserver;
pub(crate) mod claims;
pub(crate) mod containers;
pub(crate) mod health;
pub(crate) mod kubelet;
pub(crate) mod resizing;
pub(crate) mod unknown;
pub(crate) mod world;

// The apiserver is also compiled into a test that holds it against a real one, so it names the plan from here.
use berth_workload::plan;
