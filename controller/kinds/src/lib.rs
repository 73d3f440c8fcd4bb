//! What Berth decides for each kind of object: pure functions from a snapshot to a plan.
//!
//! A kind's module has three entry points: its *snapshot* (what was observed), `decide` (snapshot and time to a
//! [`Plan`](berth_workload::plan::Plan)) and `status` (snapshot and what came of the plan to the status to write). What several
//! kinds share is in `berth-workload`, which knows none of them; and no kind knows another.

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
