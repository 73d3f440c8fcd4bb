//! Simulated kubelets: thousands of nodes and tens of thousands of pods in one small process, on a real apiserver.
//!
//! [`run`] makes the Node objects, binds pods to them, and reports what kubelets would: containers that run, and others with
//! new ids where the image changes; the generation that the report is of; readiness with all its gates; and it lets deleted
//! pods go. Where asked to, it fills the status of NodeImages as the nodes' daemons would. What it reports next of a pod is
//! decided in [`kubelet::next`], from the pod alone: so it may be killed and started again at any time.

pub mod kubelet;
pub mod nodeimage;
pub mod nodes;
pub mod pod;
mod process;

pub use process::{Options, now, run};
