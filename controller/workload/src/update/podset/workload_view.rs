//! The input of decisions about owners of pods.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use berth_api::fields::lifecycle::{Lifecycle, LifecycleHook};
use berth_api::fields::template::{PodTemplate, VolumeClaimTemplate};
use berth_api::names::condition;
use berth_api::names::label::SPECIFIED_DELETE;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::Value;

use super::Phases;
use crate::feature_gates::Gates;
use crate::objects::node::Node;
use crate::objects::node::image::NodeFacts;
use crate::objects::node::image::NodeImage;
use crate::objects::node::image::facts;
use crate::objects::owner;
use crate::objects::pod::Pod;
use crate::objects::resource::Resource;
use crate::plan::{Plan, Refusal};
use crate::update::inplace::resize::Ability;
use crate::update::inplace::steps::{self, Phase};
use crate::update::pod_order::spread::Spread;
use crate::update::revision::{PodLabels, Revision};
use berth_api::fields::condition::StatusCondition;

/// The input of a decision about an owner of pods, without the parts that only its kind has.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadView<'a> {
    /// The owner.
    pub workload: Workload<'a>,
    /// Every pod that it controls and its selector matches, including the ones being deleted.
    pub pods: &'a [Arc<Pod>],
    /// The pods that it controls and its selector no longer matches.
    pub strays: &'a [Arc<Pod>],
    /// Every revision that it controls, sorted oldest first ([`crate::update::revision::sort`]).
    pub revisions: &'a [Arc<Revision>],
    /// The daemons' reports for the nodes of the pods, by node name.
    pub node_images: &'a BTreeMap<Box<str>, Arc<NodeImage>>,
    /// The nodes of the pods, by name, if the template says how its pods are spread; otherwise
    /// empty.
    pub nodes: &'a BTreeMap<Box<str>, Arc<Node>>,
    /// Every ImagePullJob that it controls, including the ones being deleted; `None` if the cluster
    /// does not serve the kind.
    pub jobs: Option<&'a [Arc<ImagePullJob>]>,
    /// Its pods, claims and revisions that exist and are unreadable.
    pub unreadable: &'a [Unreadable],
    /// The phases of in-place updates that decisions have computed.
    pub phases: &'a Phases,
    /// Feature gates.
    pub gates: Gates,
    /// Whether resources may change in place.
    pub resize: Ability,
}

/// The parts of an owner of pods that all kinds have. As text it is kind, namespace and name:
/// `CloneSet default/web`.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'a> {
    /// Its kind.
    pub resource: Resource,
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// The selector of its pods.
    pub selector: &'a LabelSelector,
    /// The template of its pods.
    pub template: &'a PodTemplate,
    /// The claim templates: each pod has a claim from each of them.
    pub claim_templates: &'a [VolumeClaimTemplate],
    /// Its hooks.
    pub hooks: Hooks<'a>,
    /// How many seconds a pod must be ready before it is available.
    pub min_ready_seconds: i32,
    /// Names of pods that the spec marks for deletion.
    pub pods_to_delete: &'a [String],
    /// The form of the revision in its pods' labels.
    pub labels: PodLabels,
    /// The readiness gates of its new pods.
    pub gates: &'static [&'static str],
    /// Whether a template belongs to an old revision that means the same and spells out more, so
    /// that no pod gets another label for it.
    pub meets_by_meaning: bool,
    /// Unused revisions to keep, if its spec says it.
    pub history_limit: Option<i32>,
    /// Whether the event of a deleted pod says that a rollout replaces it; otherwise the event is
    /// the one of any deletion.
    pub tells_replacements: bool,
    /// The revision that a rollout starts from, by its status.
    pub current_revision: &'a str,
    /// How many names of new revisions were taken by other objects.
    pub collisions: i32,
    /// The condition `Blocked` in its status, if it is True.
    pub blocked: Option<Blocked<'a>>,
}

/// The lifecycle hooks of a workload.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hooks<'a> {
    /// Before a pod is deleted.
    pub pre_delete: Option<&'a LifecycleHook>,
    /// Around an update in place.
    pub in_place_update: Option<&'a LifecycleHook>,
    /// Before a new pod serves.
    pub pre_normal: Option<&'a LifecycleHook>,
}

impl<'a> From<&'a Option<Lifecycle>> for Hooks<'a> {
    fn from(lifecycle: &'a Option<Lifecycle>) -> Self {
        let Some(lifecycle) = lifecycle else {
            return Self::default();
        };
        Self {
            pre_delete: lifecycle.pre_delete.as_ref(),
            in_place_update: lifecycle.in_place_update.as_ref(),
            pre_normal: lifecycle.pre_normal.as_ref(),
        }
    }
}

/// A condition `Blocked` in a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked<'a> {
    /// Its reason, one CamelCase word.
    pub reason: &'a str,
    /// Its message, a whole sentence.
    pub message: &'a str,
}

impl<'a> Blocked<'a> {
    /// The condition among those of a status, if it is `True`.
    pub fn of(conditions: &'a [impl StatusCondition]) -> Option<Self> {
        let mut all = conditions.iter().map(StatusCondition::fields);
        all.find(|c| c.type_ == condition::BLOCKED && c.is_true)
            .map(|c| Self {
                reason: c.reason,
                message: c.message,
            })
    }
}

impl fmt::Display for Workload<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} {}/{}",
            self.resource.kind,
            self.namespace(),
            self.name()
        )
    }
}

/// A selector that selects nothing.
static NO_SELECTOR: LabelSelector = LabelSelector {
    match_expressions: None,
    match_labels: None,
};
static NO_IMAGES: BTreeMap<Box<str>, Arc<NodeImage>> = BTreeMap::new();
static NO_NODES: BTreeMap<Box<str>, Arc<Node>> = BTreeMap::new();

impl<'a> Workload<'a> {
    /// A workload whose pods are neither selected nor updated.
    pub fn plain(resource: Resource, metadata: &'a ObjectMeta, template: &'a PodTemplate) -> Self {
        Self {
            resource,
            metadata,
            selector: &NO_SELECTOR,
            template,
            claim_templates: &[],
            hooks: Hooks::default(),
            min_ready_seconds: 0,
            pods_to_delete: &[],
            labels: PodLabels::default(),
            gates: &[],
            meets_by_meaning: false,
            history_limit: None,
            tells_replacements: false,
            current_revision: "",
            collisions: 0,
            blocked: None,
        }
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &'a str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The owner reference for objects that it creates.
    pub fn reference(&self) -> Value {
        owner::controller_reference(&self.resource, self.metadata)
    }
}

impl<'a> WorkloadView<'a> {
    /// The input for pods that are neither updated nor spread.
    pub fn plain(
        workload: Workload<'a>,
        pods: &'a [Arc<Pod>],
        unreadable: &'a [Unreadable],
        phases: &'a Phases,
        gates: Gates,
    ) -> Self {
        Self {
            workload,
            pods,
            strays: &[],
            revisions: &[],
            node_images: &NO_IMAGES,
            nodes: &NO_NODES,
            jobs: None,
            unreadable,
            phases,
            gates,
            resize: Ability::default(),
        }
    }

    /// The node's report about the pod; empty without a report.
    pub fn facts(&self, pod: &Pod) -> NodeFacts {
        self.node_images
            .get(&pod.spec.node_name)
            .map(|node| facts(node, pod))
            .unwrap_or_default()
    }

    /// The phase of the pod's in-place update.
    pub(crate) fn phase(&self, pod: &Pod) -> Arc<Phase> {
        let is_under_way = steps::is_under_way(pod);
        if is_under_way {
            self.phases.of(pod, || steps::phase(pod, &self.facts(pod)))
        } else {
            Arc::new(Phase::Idle)
        }
    }

    /// How the pods must be spread.
    pub fn spread(&self) -> Spread {
        Spread::new(self.workload.template, self.nodes)
    }

    /// Whether a user or another controller asked for the pod's deletion, by its label or by name.
    pub fn is_to_delete(&self, pod: &Pod) -> bool {
        pod.metadata.label(SPECIFIED_DELETE).is_some()
            || self
                .workload
                .pods_to_delete
                .iter()
                .any(|name| **name == *pod.metadata.name)
    }

    /// Refuses the spec until its author changes it: an event once, and the condition `Blocked` for
    /// as long as it lasts.
    pub fn refuse(&self, plan: &mut Plan, refusal: Refusal) {
        let is_known = self
            .workload
            .blocked
            .is_some_and(|blocked| blocked.message == refusal.message);
        plan.refuse(refusal, is_known);
    }
}

/// An object that exists and is unreadable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreadable {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The error of reading it.
    pub error: String,
}
