//! The decisions of Berth for each kind of object: pure functions from a snapshot to a plan.
//!
//! A kind's module has three entry points. The *snapshot* has the observed objects, `decide` makes
//! a [`Plan`](berth_workload::plan::Plan) from snapshot and time, and `status` makes the status to
//! write from the snapshot and the plan's outcome. Parts that several kinds share are in
//! `berth-workload`, which knows no kind; and no kind knows another.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod broadcastjob;
pub mod cloneset;
pub mod containerrecreaterequest;
pub mod daemonset;
pub mod distributedpoddisruptionbudget;
pub mod foreignpod;
pub mod imagelistpulljob;
pub mod imagepulljob;
pub mod joiningnode;
#[cfg(test)]
mod model;
pub mod nodeimage;
pub mod persistentpodstate;
pub mod podunavailablebudget;
pub mod sidecarset;
pub mod statefulset;
pub mod uniteddeployment;
