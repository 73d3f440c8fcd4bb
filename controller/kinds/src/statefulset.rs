//! Advanced StatefulSet: each pod has its own name, its own claims and a fixed position in the
//! order.

mod blocked;
mod choose;
mod claims;
mod create;
mod decide;
mod growth;
mod leaving;
mod places;
mod settings;
mod status;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::v1beta1::statefulset::{MAX_MIN_READY_SECONDS, StatefulSetSpec};
use berth_workload::objects::claim::Claim;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::pod_owner;

pub use berth_workload::pod_owner::decide::decide;
pub use berth_workload::pod_owner::status::status;
pub use blocked::nodes_to_watch;
pub use places::{former_claims, names_to_look_at};
pub use settings::ordinals;

/// All that a decision about one StatefulSet reads. `pods` are named after it; `strays` has the
/// other pods that it controls.
pub type Snapshot = pod_owner::Snapshot<StatefulSetOwner>;

/// The parts that only a StatefulSet's snapshot has.
#[derive(Debug, Clone, Default)]
pub struct StatefulSetOwner {
    /// Pods that it does not control and that have names of its pods, by name
    /// ([`names_to_look_at`]).
    pub others: BTreeMap<Box<str>, Arc<Pod>>,
    /// Claims with the names that its pods' claims have, by name, regardless of their owners; those
    /// of earlier claim templates ([`former_claims`]), too.
    pub claims: BTreeMap<Box<str>, Arc<Claim>>,
    /// The last places of its pods, if they are recorded.
    pub records: Option<Arc<PersistentPodState>>,
    /// By name: nodes that show why a pod is not gone or not scheduled ([`nodes_to_watch`]). A node
    /// that is not here does not exist.
    pub watched_nodes: BTreeMap<Box<str>, Arc<Node>>,
}

/// Seconds that a pod is ready before it is available.
fn min_ready_seconds(spec: &StatefulSetSpec) -> i32 {
    let rolling = spec.update_strategy.rolling_update.as_ref();
    rolling
        .and_then(|rolling| rolling.min_ready_seconds)
        .unwrap_or(0)
        .clamp(0, MAX_MIN_READY_SECONDS)
}
