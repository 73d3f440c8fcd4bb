//! What Berth decides: pure functions from a snapshot to a plan.
//!
//! Nothing here does I/O, reads a clock or holds state between calls. A workload's module has three entry points:
//! its *snapshot* (what was observed), `decide` (snapshot and time to [`plan::Plan`]) and `status` (snapshot and
//! what came of the plan to the status to write). What several workloads share are free functions over small values.

pub mod claim;
pub mod cloneset;
pub mod gates;
pub mod imagelistpulljob;
pub mod imagepulljob;
pub mod inplace;
pub mod intstr;
mod launch;
pub mod lifecycle;
pub mod merge_patch;
#[cfg(test)]
mod model;
pub mod node;
pub mod nodeimage;
pub mod owner;
pub mod plan;
pub mod pod;
pub mod podset;
pub mod predownload;
pub mod pull;
pub mod resource;
pub mod revision;
pub mod rollout;
pub mod selector;
mod stuck;
pub mod update_order;
