//! Owners of pods: kinds that make pods of one template. What differs between them is a trait. What they do alike is here:
//! one snapshot, one decision, one status.

pub mod decide;
pub mod status;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use jiff::Timestamp;
use serde_json::Value;

use crate::blocked::Cause;
use crate::feature_gates::Gates;
use crate::objects::node::Node;
use crate::objects::node::image::NodeImage;
use crate::objects::pod::{Metadata, Pod};
use crate::plan::{Outcome, Plan, Refusal, Stage, Step};
use crate::update::inplace::resize::Ability;
use crate::update::podset::adopt::Orphans;
use crate::update::podset::history::{self, Revisions};
use crate::update::podset::{Phases, Scene, Unreadable, Workload};
use crate::update::revision::Revision;
use berth_api::fields::condition::WorkloadStatus;

/// A kind that owns pods. A value has what only this kind adds to a [`Snapshot`].
pub trait PodOwner: Clone + Debug + Sized {
    /// Its API type.
    type Object: Clone + Debug;
    /// The status of that.
    type Status: WorkloadStatus;
    /// Where the template lets pods run, for kinds that choose nodes.
    type Places<'a>
    where
        Self: 'a;
    /// What the spec asks for.
    type Settings;
    /// What the controller remembers of pods that end again and again.
    type Ended: Clone + Debug + Default + Send + Sync + 'static;

    /// What every owner of pods has.
    fn workload(object: &Self::Object, gates: Gates) -> Workload<'_>;

    /// The status as it was read.
    fn status(object: &Self::Object) -> &Option<Self::Status>;

    /// Whether an object without an owner may be from an earlier object of this name.
    fn is_left(_object: &Self::Object, _orphan: &Metadata) -> bool {
        true
    }

    /// Whether a pod without an owner may be adopted.
    fn is_orphan(workload: &Workload<'_>, pod: &Pod) -> bool;

    /// Places of the snapshot's pods.
    fn places<'a>(snapshot: &'a Snapshot<Self>, template: &Value) -> Self::Places<'a>;

    /// Reads and checks the spec.
    ///
    /// # Errors
    /// The refusal names the object, the field, the value and the remedy.
    fn settings(
        snapshot: &Snapshot<Self>,
        template: &Value,
        places: &Self::Places<'_>,
    ) -> Result<Self::Settings, Refusal>;

    /// Asks to look again when a cause of only this kind begins to count.
    fn watch(_snapshot: &Snapshot<Self>, _plan: &mut Plan, _now: Timestamp) {}

    /// The revisions to work with, once orphaned ones are adopted, and the step that makes the updated one the newest.
    ///
    /// # Errors
    /// The stages that must come first.
    fn revisions(
        snapshot: &Snapshot<Self>,
        template: &Value,
        _plan: &mut Plan,
        _now: Timestamp,
    ) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
        history::revisions(&snapshot.scene(), template, BTreeMap::new()).map_err(|one| vec![one])
    }

    /// What is done while a revision is written.
    fn await_revision(_: &Snapshot<Self>, _: &Self::Settings, _: &mut Plan, _now: Timestamp) {}

    /// Plans the pods that the spec asks for: adopts, creates, deletes and updates.
    fn roll_out(
        snapshot: &Snapshot<Self>,
        template: &Value,
        chosen: (Self::Settings, Self::Places<'_>),
        revisions: Revisions,
        plan: &mut Plan,
        now: Timestamp,
    );

    /// Counts pods into the status. Without revisions the template has become none, and no pod is of it.
    fn count(
        snapshot: &Snapshot<Self>,
        read: (&Value, &Self::Places<'_>),
        revisions: Option<&Revisions>,
        outcome: &Outcome,
        status: &mut Self::Status,
        now: Timestamp,
    );

    /// All that blocks the workload.
    fn causes(
        snapshot: &Snapshot<Self>,
        places: &Self::Places<'_>,
        written: (&Plan, &Outcome),
        status: &Self::Status,
        now: Timestamp,
    ) -> Vec<Cause>;

    /// What the controller remembers of ended pods after it has carried out this plan; `None` if that stays the same.
    fn ended(_: &Snapshot<Self>, _: &Plan, _now: Timestamp) -> Option<Self::Ended> {
        None
    }
}

/// All that a decision about one owner of pods reads.
#[derive(Debug, Clone)]
pub struct Snapshot<K: PodOwner> {
    /// The owner.
    pub set: Arc<K::Object>,
    /// What only its kind has.
    pub own: K,
    /// Every pod that it controls and that its selector matches ([`crate::update::podset::split_by_selector`]), those being deleted
    /// included.
    pub pods: Vec<Arc<Pod>>,
    /// Those that it controls and that its selector does not match any more.
    pub strays: Vec<Arc<Pod>>,
    /// Objects without a controller that it may adopt.
    pub orphans: Orphans,
    /// Every revision that it controls, sorted oldest first ([`crate::update::revision::sort`]).
    pub revisions: Vec<Arc<Revision>>,
    /// By node name: what the daemons report, for the nodes of the pods.
    pub node_images: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// By name: the nodes of the pods if the template says how they are spread over nodes; all nodes if the kind chooses nodes.
    pub nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// Every ImagePullJob that it controls, those being deleted included; `None` where there is no such kind.
    pub jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// Its pods, claims and revisions that cannot be read, by kind and name. `pods` has these pods as they were last read.
    pub unreadable: Vec<Unreadable>,
    /// Names of the older workloads of its kind and namespace with which it overlaps ([`crate::update::podset::overlap`]), sorted.
    pub overlapping: Vec<String>,
    /// Pods that ended one soon after the other.
    pub ended: K::Ended,
    /// Where pods are in their updates, as far as decisions have read it.
    pub phases: Phases,
    /// Feature gates.
    pub gates: Gates,
    /// Whether resources may change in place.
    pub resize: Ability,
    /// The source of names of new pods: another number for every decision.
    pub seed: u64,
}

impl<K: PodOwner> Snapshot<K> {
    /// What every owner of pods has.
    pub fn scene(&self) -> Scene<'_> {
        Scene {
            workload: K::workload(&self.set, self.gates),
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

    /// The snapshot without the pods that cannot be read.
    fn readable(&self) -> Self {
        let mut readable = self.clone();
        let is_pod = |one: &&Unreadable| one.kind == "Pod";
        readable.pods.retain(|pod| {
            let mut unreadable = self.unreadable.iter().filter(is_pod);
            unreadable.all(|one| *one.name != *pod.metadata.name)
        });
        readable
    }
}

/// Of objects without an owner those that this one may adopt.
pub fn orphans<K: PodOwner>(set: &K::Object, all: Orphans) -> Orphans {
    let workload = K::workload(set, Gates::default());
    let is_left = |metadata: &Metadata| K::is_left(set, metadata);
    all.of(&workload, is_left, |pod| K::is_orphan(&workload, pod))
}
