//! CloneSet: a number of interchangeable pods, brought to a template one limit at a time.

mod adopt;
mod blocked;
mod choose;
mod claim_hash;
mod claims;
mod decide;
mod ended;
mod ids;
mod overlap;
mod pods_to_delete;
mod progress;
mod settings;
mod status;

#[cfg(test)]
pub(crate) mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::names::condition;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::claim::Claim;
use berth_workload::gates::{Gate, Gates};
use berth_workload::inplace::resize::Ability;
use berth_workload::node::Node;
use berth_workload::node::image::NodeImage;
use berth_workload::owner::{CLONE_SET, OwnerKey};
use berth_workload::pod::Pod;
use berth_workload::pod::gates::OF_NEW_PODS;
use berth_workload::podset::{Blocked, Phases, Scene, Unreadable, Workload};
use berth_workload::resource::CLONE_SETS;
use berth_workload::revision::{PodLabels, Revision};

pub use adopt::Orphans;
pub use decide::decide;
pub use ended::{Ended, noted};
pub use overlap::overlap;
pub use settings::{Settings, settings};
pub use status::status;

/// All that a decision about one CloneSet reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The CloneSet.
    pub set: Arc<CloneSet>,
    /// Every pod that it controls and that its selector matches ([`split_by_selector`](berth_workload::podset::split_by_selector)), those being deleted included.
    pub pods: Vec<Arc<Pod>>,
    /// Those that it controls and that its selector does not match any more.
    pub strays: Vec<Arc<Pod>>,
    /// Claims with an instance id: those that it controls, and those that its pods own.
    pub claims: Vec<Arc<Claim>>,
    /// What nobody controls and a CloneSet of this name may have left.
    pub orphans: Orphans,
    /// Every revision that it controls, sorted oldest first ([`berth_workload::revision::sort`]).
    pub revisions: Vec<Arc<Revision>>,
    /// By node name: what the daemons report, for the nodes of the pods.
    pub node_images: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// Every ImagePullJob that it controls, those being deleted included; `None` where there is no such kind.
    pub jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// Its pods, claims and revisions that exist and cannot be read, by kind and name. The pods among them are in `pods`, too,
    /// as they were last read, if they ever were.
    pub unreadable: Vec<Unreadable>,
    /// Names of the older CloneSets of its namespace with which it overlaps ([`overlap`]), sorted.
    pub overlapping: Vec<String>,
    /// By name: the nodes of the pods, where the template says how its pods are spread over them; else empty.
    pub nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// Pods that ended one soon after the other.
    pub ended: Option<Ended>,
    /// Where pods are in their updates, as far as it was asked.
    pub phases: Phases,
    /// Feature gates.
    pub gates: Gates,
    /// May resources change in place?
    pub resize: Ability,
    /// Where the names of new pods come from: another number for every decision.
    pub seed: u64,
}

/// A CloneSet as the owner of its objects.
pub fn owner_key(set: &CloneSet) -> OwnerKey<'_> {
    let metadata = &set.metadata;
    OwnerKey {
        kind: CLONE_SET,
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
    }
}

impl Snapshot {
    /// Namespace and name, for messages.
    pub fn name(&self) -> String {
        let workload = self.workload();
        format!("{}/{}", workload.namespace(), workload.name())
    }

    /// What of it is the same for every owner of pods.
    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene {
            workload: self.workload(),
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

    fn workload(&self) -> Workload<'_> {
        workload(
            &self.set,
            PodLabels {
                short: self.gates.has(Gate::CloneSetShortHash),
                template_hash: true,
                on_revisions: false,
            },
        )
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

/// What of a CloneSet is the same for every owner of pods.
fn workload(set: &CloneSet, labels: PodLabels) -> Workload<'_> {
    let (spec, status) = (&set.spec, set.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let blocked = conditions.find(|c| c.type_ == condition::BLOCKED && c.status == "True");
    Workload {
        resource: CLONE_SETS,
        metadata: &set.metadata,
        selector: &spec.selector,
        template: &spec.template,
        claim_templates: &spec.volume_claim_templates,
        lifecycle: spec.lifecycle.as_ref(),
        min_ready_seconds: spec.min_ready_seconds,
        pods_to_delete: &spec.scale_strategy.pods_to_delete,
        labels,
        gates: &OF_NEW_PODS,
        // OpenKruise compares bytes, and has to find the one of the template that is stored.
        meets_by_meaning: false,
        tells_replacements: true,
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
