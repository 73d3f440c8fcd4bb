//! PersistentPodState: where the pods of a workload ran last.

mod generate;
mod records;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_workload::node::Node;
use berth_workload::ordinals::Ordinals;
use berth_workload::plan::{Event, Plan};
use berth_workload::pod::Pod;
use jiff::Timestamp;

pub use records::status;

/// All that a decision about one PersistentPodState reads.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// It, if it is there.
    pub state: Option<Arc<PersistentPodState>>,
    /// Its workload.
    pub target: Target,
    /// The StatefulSet of its name, which may ask for it by annotations.
    pub generator: Option<Arc<StatefulSet>>,
    /// The pods that its workload controls.
    pub pods: Vec<Arc<Pod>>,
    /// The nodes of those pods, by name.
    pub nodes: BTreeMap<Box<str>, Arc<Node>>,
}

/// The workload of a PersistentPodState.
#[derive(Debug, Clone, Default)]
pub enum Target {
    /// Of a kind of which no records are kept.
    #[default]
    Unknown,
    /// There is none.
    Gone,
    /// It is there. Which ordinals its pods are to have, if its spec can be read.
    Set(Option<Ordinals>),
}

/// Decides what to do beside the records: the object itself comes and goes with its workload's annotations.
pub fn decide(snapshot: &Snapshot, _: Timestamp) -> Plan {
    let mut plan = Plan::default();
    generate::plan(snapshot, &mut plan);
    if let Some(state) = &snapshot.state
        && matches!(snapshot.target, Target::Unknown)
        && state.status.as_ref().map(|status| status.observed_generation) != state.metadata.generation
    {
        let target = &state.spec.target_ref;
        let message = format!(
            "spec.targetRef: no records are kept of {} {} ({}); name a StatefulSet of apps.kruise.io",
            target.kind, target.name, target.api_version
        );
        plan.events.push(Event { warning: true, reason: "TargetUnsupported", message });
    }
    plan
}
