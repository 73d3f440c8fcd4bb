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
mod news;
mod places;
mod settings;
mod status;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::lifecycle::Lifecycle;
use berth_api::names::condition;
use berth_api::v1beta1::daemonset::{DaemonSet, RollingUpdateType};
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use berth_workload::node::Node;
use berth_workload::node::image::NodeImage;
use berth_workload::pod::Pod;
use berth_workload::pod::gates::{KRUISE_POD_READY, OF_NEW_PODS};
use berth_workload::podset::overlap;
use berth_workload::podset::{Blocked, Phases, Scene, Unreadable, Workload};
use berth_workload::resource::DAEMON_SETS;
use berth_workload::revision::{PodLabels, Revision};

pub use adopt::{Orphans, namesakes};
pub use berth_workload::podset::ended::Ended;
pub use decide::decide;
pub use ended::noted;
pub use held::{holds_revision, kept};
pub use news::{News, is_another};
pub use places::node_of;
pub use status::{is_urgent, status};

/// All that a decision about one DaemonSet reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The DaemonSet.
    pub set: Arc<DaemonSet>,
    /// The hooks that it knows, see [`hooks`].
    pub hooks: Option<Lifecycle>,
    /// Every pod that it controls and that its selector matches, those being deleted included.
    pub pods: Vec<Arc<Pod>>,
    /// Those that it controls and that its selector does not match any more.
    pub strays: Vec<Arc<Pod>>,
    /// What nobody controls and the DaemonSet may take over.
    pub orphans: Orphans,
    /// Pods that another DaemonSet of its name controls ([`namesakes`]).
    pub namesakes: Vec<Arc<Pod>>,
    /// Every revision that it controls, sorted oldest first ([`berth_workload::revision::sort`]).
    pub revisions: Vec<Arc<Revision>>,
    /// By node name: what the daemons report, for the nodes of the pods.
    pub node_images: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// Every ImagePullJob that it controls, those being deleted included; `None` where there is no such kind.
    pub jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// Its pods and revisions that exist and cannot be read. The pods among them are in `pods`, too, as they were last read, if
    /// they ever were.
    pub unreadable: Vec<Unreadable>,
    /// Names of the older DaemonSets of its namespace with which it overlaps ([`overlap()`]), sorted.
    pub overlapping: Vec<String>,
    /// All nodes by name.
    pub nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// By node name: pods that ended there again and again.
    pub ended: BTreeMap<Box<str>, Ended>,
    /// Where pods are in their updates, as far as it was asked.
    pub phases: Phases,
    /// Feature gates.
    pub gates: Gates,
    /// May resources change in place?
    pub resize: Ability,
    /// Does the scheduler bind new pods to their nodes? Else they are created bound.
    pub assigns_by_scheduler: bool,
    /// What the names of new pods are drawn from.
    pub seed: u64,
}

impl Snapshot {
    /// What of it is the same for every owner of pods.
    pub fn scene(&self) -> Scene<'_> {
        Scene {
            workload: Workload {
                lifecycle: self.hooks.as_ref(),
                ..workload(&self.set)
            },
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

    /// An annotation of the DaemonSet.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.set
            .metadata
            .annotations
            .as_ref()?
            .get(key)
            .map(String::as_str)
    }
}

/// Does the selector of one select the pods that the other makes?
pub fn overlap(one: &DaemonSet, other: &DaemonSet) -> bool {
    overlap::overlap(&workload(one), &workload(other))
}

/// The hooks of a DaemonSet: it knows preDelete alone.
pub fn hooks(set: &DaemonSet) -> Option<Lifecycle> {
    let pre_delete = set.spec.lifecycle.as_ref()?.pre_delete.clone()?;
    Some(Lifecycle {
        pre_delete: Some(pre_delete),
        ..Lifecycle::default()
    })
}

/// Are pods updated in place where that is possible?
fn is_in_place(set: &DaemonSet) -> bool {
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    rolling.is_some_and(|rolling| rolling.type_ == RollingUpdateType::InPlaceIfPossible)
}

/// What of a DaemonSet is the same for every owner of pods, but for its hooks.
fn workload(set: &DaemonSet) -> Workload<'_> {
    let (spec, status) = (&set.spec, set.status.as_ref());
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let blocked = conditions.find(|c| c.type_ == condition::BLOCKED && c.status == "True");
    Workload {
        resource: DAEMON_SETS,
        metadata: &set.metadata,
        selector: &spec.selector,
        template: &spec.template,
        claim_templates: &[],
        lifecycle: None,
        min_ready_seconds: spec.min_ready_seconds,
        pods_to_delete: &[],
        labels: PodLabels {
            short: true,
            template_hash: false,
            on_revisions: true,
        },
        gates: if is_in_place(set) {
            &OF_NEW_PODS
        } else {
            &[KRUISE_POD_READY]
        },
        // Kubernetes stores a template with its defaults: so its revisions are found, and its pods stay theirs.
        meets_by_meaning: true,
        tells_replacements: false,
        current_revision: "",
        collisions: status
            .and_then(|status| status.collision_count)
            .unwrap_or(0),
        blocked: blocked.map(|blocked| Blocked {
            reason: &blocked.reason,
            message: &blocked.message,
        }),
    }
}
