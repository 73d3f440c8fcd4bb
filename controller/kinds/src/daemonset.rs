//! Advanced DaemonSet: one pod on each node that fits.

mod adopt;
mod blocked;
mod choose;
mod create;
mod decide;
mod ended;
mod held;
mod leaving;
mod merge;
mod places;
mod settings;
mod status;
mod triggers;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_api::v1beta1::daemonset::{DaemonSet, RollingUpdateType};
use berth_workload::objects::pod::Pod;
use berth_workload::pod_owner;

pub use adopt::namesakes;
pub use berth_workload::pod_owner::decide::decide;
pub use berth_workload::pod_owner::status::status;
pub use held::{holds_revision, kept};
pub use places::node_of;
pub use status::is_urgent;
pub use triggers::{Triggers, is_another};

/// All that a decision about one DaemonSet reads. `nodes` has all nodes, and `ended` is by node
/// name.
pub type Snapshot = pod_owner::Snapshot<DaemonSetOwner>;

/// The parts that only a DaemonSet's snapshot has.
#[derive(Debug, Clone)]
pub struct DaemonSetOwner {
    /// Pods that another DaemonSet of its name controls ([`namesakes`]).
    pub namesakes: Vec<Arc<Pod>>,
    /// Whether the scheduler binds new pods to their nodes. Otherwise they are created bound.
    pub assigns_by_scheduler: bool,
}

/// Whether pods are updated in place if possible.
fn is_in_place(set: &DaemonSet) -> bool {
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    rolling.is_some_and(|rolling| rolling.type_ == RollingUpdateType::InPlaceIfPossible)
}
