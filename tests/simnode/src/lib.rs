//! Simulated kubelets: thousands of nodes and tens of thousands of pods in one small process, on a
//! real apiserver.
//!
//! [`run`] creates the Node objects, binds pods to them, and reports what kubelets would: running
//! containers, and new ones with other ids when the image changes; the generation of the report;
//! and readiness with all its gates. It also removes deleted pods. On request it fills the status
//! of NodeImages as the nodes' daemons would. [`kubelet::next`] decides its next report of a pod,
//! from the pod alone: so the program may be killed and started again at any time.

pub mod kubelet;
pub mod nodeimage;
pub mod nodes;
pub mod pod;
mod process;

pub use process::{Options, now, run};
