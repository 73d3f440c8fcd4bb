//! Advanced StatefulSet: pods that each have a name, claims and a place in the order of their own.

mod adopt;
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

use berth_api::names::condition;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::v1beta1::statefulset::{MAX_MIN_READY_SECONDS, StatefulSet, StatefulSetSpec};
use berth_workload::claim::Claim;
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use berth_workload::node::Node;
use berth_workload::node::image::NodeImage;
use berth_workload::pod::Pod;
use berth_workload::pod::gates::OF_NEW_PODS;
use berth_workload::podset::{Blocked, Phases, Scene, Unreadable, Workload};
use berth_workload::resource::STATEFUL_SETS;
use berth_workload::revision::{PodLabels, Revision};

pub use adopt::Orphans;
pub use blocked::nodes_to_watch;
pub use decide::decide;
pub use places::{former_claims, names_to_look_at};
pub use settings::ordinals;
pub use status::status;

/// All that a decision about one StatefulSet reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The StatefulSet.
    pub set: Arc<StatefulSet>,
    /// Every pod that it controls, that its selector matches and that is named after it, those being deleted included.
    pub pods: Vec<Arc<Pod>>,
    /// Those that it controls and that are not, or not any more.
    pub strays: Vec<Arc<Pod>>,
    /// Pods that it does not control and that have names of its pods, by name ([`names_to_look_at`]).
    pub others: BTreeMap<Box<str>, Arc<Pod>>,
    /// What nobody controls and the StatefulSet may take over.
    pub orphans: Orphans,
    /// Claims with the names that its pods' claims have, by name, whoever owns them; those of earlier claim templates
    /// ([`former_claims`]), too.
    pub claims: BTreeMap<Box<str>, Arc<Claim>>,
    /// Where its pods ran last, if that is kept.
    pub records: Option<Arc<PersistentPodState>>,
    /// Every revision that it controls, sorted oldest first ([`berth_workload::revision::sort`]).
    pub revisions: Vec<Arc<Revision>>,
    /// By node name: what the daemons report, for the nodes of the pods.
    pub node_images: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// Every ImagePullJob that it controls, those being deleted included; `None` where there is no such kind.
    pub jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// Its pods and revisions that exist and cannot be read. The pods among them are in `pods`, too, as they were last read, if
    /// they ever were.
    pub unreadable: Vec<Unreadable>,
    /// By name: the nodes of the pods, where the template says how its pods are spread over them; else empty.
    pub nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// By name: nodes that tell why a pod is not gone or not scheduled ([`nodes_to_watch`]). What is not here does not exist.
    pub watched_nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// Where pods are in their updates, as far as it was asked.
    pub phases: Phases,
    /// Feature gates.
    pub gates: Gates,
    /// May resources change in place?
    pub resize: Ability,
}

impl Snapshot {
    /// What of it is the same for every owner of pods.
    pub fn scene(&self) -> Scene<'_> {
        Scene {
            workload: workload(&self.set),
            pods: &self.pods,
            strays: &self.strays,
            revisions: &self.revisions,
            node_images: &self.node_images,
            nodes: &self.nodes,
            jobs: self.jobs.as_deref(),
            unreadable: &self.unreadable,
            phases: &self.phases,
            gates: self.gates,
            resize: self.resize,
        }
    }

    /// The same without the pods that cannot be read.
    fn readable(&self) -> Self {
        let is_unreadable = |name: &str| {
            self.unreadable
                .iter()
                .any(|it| it.kind == "Pod" && it.name == name)
        };
        let mut readable = self.clone();
        readable
            .pods
            .retain(|pod| !is_unreadable(&pod.metadata.name));
        readable
    }
}

/// What of a StatefulSet is the same for every owner of pods.
fn workload(set: &StatefulSet) -> Workload<'_> {
    let (spec, status) = (&set.spec, set.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let blocked = conditions.find(|c| c.type_ == condition::BLOCKED && c.status == "True");
    Workload {
        resource: STATEFUL_SETS,
        metadata: &set.metadata,
        selector: &spec.selector,
        template: &spec.template,
        claim_templates: &spec.volume_claim_templates,
        lifecycle: spec.lifecycle.as_ref(),
        min_ready_seconds: min_ready_seconds(spec),
        pods_to_delete: &[],
        labels: PodLabels::default(),
        gates: &OF_NEW_PODS,
        // Kubernetes stores a template with its defaults: so its revisions are found, and its pods stay theirs.
        meets_by_meaning: true,
        tells_replacements: false,
        current_revision: status.map_or("", |status| &status.current_revision),
        collisions: status
            .and_then(|status| status.collision_count)
            .unwrap_or(0),
        blocked: blocked.map(|blocked| Blocked {
            reason: &blocked.reason,
            message: &blocked.message,
        }),
    }
}

/// Seconds that a pod is ready before it is available.
fn min_ready_seconds(spec: &StatefulSetSpec) -> i32 {
    let rolling = spec.update_strategy.rolling_update.as_ref();
    rolling
        .and_then(|rolling| rolling.min_ready_seconds)
        .unwrap_or(0)
        .clamp(0, MAX_MIN_READY_SECONDS)
}
