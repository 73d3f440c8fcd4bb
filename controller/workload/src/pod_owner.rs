//! Owners of pods: kinds that create pods from one template. A trait has the differences between
//! them. This module has the common parts: one snapshot, one decision, one status.

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
use crate::update::podset::{Phases, Unreadable, Workload, WorkloadView};
use crate::update::revision::Revision;
use berth_api::fields::condition::WorkloadStatus;

/// A kind that owns pods. A value has the parts that only this kind adds to a [`Snapshot`].
pub trait PodOwner: Clone + Debug + Sized {
    /// Its API type.
    type Object: Clone + Debug;
    /// The type of its status.
    type Status: WorkloadStatus;
    /// The nodes where the template lets pods run, for kinds that choose nodes.
    type Places<'a>
    where
        Self: 'a;
    /// The checked spec.
    type Settings;
    /// The controller's memory of pods that end repeatedly.
    type Ended: Clone + Debug + Default + Send + Sync + 'static;

    /// The common parts of every owner of pods.
    fn workload(object: &Self::Object, gates: Gates) -> Workload<'_>;

    /// The status that was read.
    fn status(object: &Self::Object) -> &Option<Self::Status>;

    /// Whether an object without an owner may be from an earlier object of this name.
    fn is_left(_object: &Self::Object, _orphan: &Metadata) -> bool {
        true
    }

    /// Whether a pod without an owner may be adopted.
    fn is_orphan(workload: &Workload<'_>, pod: &Pod) -> bool;

    /// The places of the snapshot's pods.
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

    /// Schedules another decision when a cause of only this kind begins to count.
    fn watch(_snapshot: &Snapshot<Self>, _plan: &mut Plan, _now: Timestamp) {}

    /// The revisions to work with, once orphaned ones are adopted, and the step that makes the
    /// updated revision the newest.
    ///
    /// # Errors
    /// The stages that must come first.
    fn revisions(
        snapshot: &Snapshot<Self>,
        template: &Value,
        _plan: &mut Plan,
        _now: Timestamp,
    ) -> Result<(Revisions, Option<Step>), Vec<Stage>> {
        history::revisions(&snapshot.view(), template, BTreeMap::new()).map_err(|one| vec![one])
    }

    /// Adds to a plan the work of this kind that continues while a revision is written.
    fn await_revision(_: &Snapshot<Self>, _: &Self::Settings, _: &mut Plan, _now: Timestamp) {}

    /// Plans the pods of the spec: adopts, creates, deletes and updates.
    fn roll_out(
        snapshot: &Snapshot<Self>,
        template: &Value,
        chosen: (Self::Settings, Self::Places<'_>),
        revisions: Revisions,
        plan: &mut Plan,
        now: Timestamp,
    );

    /// Counts pods into the status. Without revisions the template belongs to no revision yet, and
    /// no pod counts as updated.
    fn count(
        snapshot: &Snapshot<Self>,
        read: (&Value, &Self::Places<'_>),
        revisions: Option<&Revisions>,
        outcome: &Outcome,
        status: &mut Self::Status,
        now: Timestamp,
    );

    /// All causes that block the workload.
    fn causes(
        snapshot: &Snapshot<Self>,
        places: &Self::Places<'_>,
        written: (&Plan, &Outcome),
        status: &Self::Status,
        now: Timestamp,
    ) -> Vec<Cause>;

    /// The controller's memory of ended pods after this plan; `None` if it does not change.
    fn ended(_: &Snapshot<Self>, _: &Plan, _now: Timestamp) -> Option<Self::Ended> {
        None
    }
}

/// The input of a decision about one owner of pods.
#[derive(Debug, Clone)]
pub struct Snapshot<K: PodOwner> {
    /// The owner.
    pub set: Arc<K::Object>,
    /// The parts of only its kind.
    pub own: K,
    /// Every pod that it controls and its selector matches
    /// ([`crate::update::podset::split_by_selector`]), including the ones being deleted.
    pub pods: Vec<Arc<Pod>>,
    /// The pods that it controls and its selector no longer matches.
    pub strays: Vec<Arc<Pod>>,
    /// Objects without a controller that it may adopt.
    pub orphans: Orphans,
    /// Every revision that it controls, sorted oldest first ([`crate::update::revision::sort`]).
    pub revisions: Vec<Arc<Revision>>,
    /// The daemons' reports for the nodes of the pods, by node name.
    pub node_images: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// The nodes of the pods, by name, if the template says how they are spread over nodes; all
    /// nodes if the kind chooses nodes.
    pub nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// Every ImagePullJob that it controls, including the ones being deleted; `None` if the cluster
    /// does not serve the kind.
    pub jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// Its unreadable pods, claims and revisions, by kind and name. `pods` has these pods as they
    /// were last read.
    pub unreadable: Vec<Unreadable>,
    /// Names of the older workloads of its kind and namespace that it overlaps with
    /// ([`crate::update::podset::overlap`]), sorted.
    pub overlapping: Vec<String>,
    /// Pods that ended shortly one after the other.
    pub ended: K::Ended,
    /// The phases of in-place updates that decisions have computed.
    pub phases: Phases,
    /// Feature gates.
    pub gates: Gates,
    /// Whether resources may change in place.
    pub resize: Ability,
    /// The seed for names of new pods: another number for every decision.
    pub seed: u64,
}

impl<K: PodOwner> Snapshot<K> {
    /// The common input of decisions about owners of pods.
    pub fn view(&self) -> WorkloadView<'_> {
        WorkloadView {
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

    /// The snapshot without the unreadable pods.
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

/// The objects without an owner that this workload may adopt.
pub fn orphans<K: PodOwner>(set: &K::Object, all: Orphans) -> Orphans {
    let workload = K::workload(set, Gates::default());
    let is_left = |metadata: &Metadata| K::is_left(set, metadata);
    all.of(&workload, is_left, |pod| K::is_orphan(&workload, pod))
}
