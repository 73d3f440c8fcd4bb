//! What decisions about every owner of pods read.

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

/// What a decision about an owner of pods reads, beside what its kind alone has.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The owner.
    pub workload: Workload<'a>,
    /// Every pod that it controls and that its selector matches, those being deleted included.
    pub pods: &'a [Arc<Pod>],
    /// Those that it controls and that its selector does not match any more.
    pub strays: &'a [Arc<Pod>],
    /// Every revision that it controls, sorted oldest first ([`crate::update::revision::sort`]).
    pub revisions: &'a [Arc<Revision>],
    /// By node name: what the daemons report, for the nodes of the pods.
    pub node_images: &'a BTreeMap<Box<str>, Arc<NodeImage>>,
    /// By name: the nodes of the pods, where the template says how its pods are spread over them; else empty.
    pub nodes: &'a BTreeMap<Box<str>, Arc<Node>>,
    /// Every ImagePullJob that it controls, those being deleted included; `None` where there is no such kind.
    pub jobs: Option<&'a [Arc<ImagePullJob>]>,
    /// Its pods, claims and revisions that exist and cannot be read.
    pub unreadable: &'a [Unreadable],
    /// Where pods are in their updates, as far as it was asked.
    pub phases: &'a Phases,
    /// Feature gates.
    pub gates: Gates,
    /// May resources change in place?
    pub resize: Ability,
}

/// An owner of pods, as far as its kind does not matter. As text it is kind, namespace and name: `CloneSet default/web`.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'a> {
    /// Its kind.
    pub resource: Resource,
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// Which pods belong to it.
    pub selector: &'a LabelSelector,
    /// What its pods are made from.
    pub template: &'a PodTemplate,
    /// What each pod has a claim from.
    pub claim_templates: &'a [VolumeClaimTemplate],
    /// Its hooks.
    pub hooks: Hooks<'a>,
    /// Seconds that a pod is ready before it is available.
    pub min_ready_seconds: i32,
    /// Names of pods that its author asked to be deleted.
    pub pods_to_delete: &'a [String],
    /// How its pods' labels name their revision.
    pub labels: PodLabels,
    /// The readiness gates of its new pods.
    pub gates: &'static [&'static str],
    /// A template is also that of a revision that means the same and spells out more: so that no pod has another label for it.
    pub meets_by_meaning: bool,
    /// Unused revisions to keep, if its spec says it.
    pub history_limit: Option<i32>,
    /// The event of a pod that goes for a new one in a rollout says so; else it is that of any deletion.
    pub tells_replacements: bool,
    /// Its status names this revision as that from which a rollout goes.
    pub current_revision: &'a str,
    /// How often the name of a new revision was another object's.
    pub collisions: i32,
    /// The condition `Blocked`, where its status has it.
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

/// A condition `Blocked` that was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked<'a> {
    /// In one CamelCase word.
    pub reason: &'a str,
    /// A whole sentence.
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

/// A selector of nothing.
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

    /// The owner reference of what it makes.
    pub fn reference(&self) -> Value {
        owner::controller_reference(&self.resource, self.metadata)
    }
}

impl<'a> Scene<'a> {
    /// What a decision reads of pods that are neither updated nor spread.
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

    /// What the pod's node reports about it; empty where it does not.
    pub fn facts(&self, pod: &Pod) -> NodeFacts {
        self.node_images
            .get(&pod.spec.node_name)
            .map(|node| facts(node, pod))
            .unwrap_or_default()
    }

    /// Where the pod is in its update in place.
    pub(crate) fn phase(&self, pod: &Pod) -> Arc<Phase> {
        let is_under_way = steps::is_under_way(pod);
        if is_under_way {
            self.phases.of(pod, || steps::phase(pod, &self.facts(pod)))
        } else {
            Arc::new(Phase::Idle)
        }
    }

    /// How the pods are to be spread.
    pub fn spread(&self) -> Spread {
        Spread::new(self.workload.template, self.nodes)
    }

    /// Did somebody ask for the pod's deletion, by its label or by name?
    pub fn is_to_delete(&self, pod: &Pod) -> bool {
        pod.metadata.label(SPECIFIED_DELETE).is_some()
            || self
                .workload
                .pods_to_delete
                .iter()
                .any(|name| **name == *pod.metadata.name)
    }

    /// The workload waits for its author: an event once, and the condition `Blocked` for as long as it lasts.
    pub fn refuse(&self, plan: &mut Plan, refusal: Refusal) {
        let is_known = self
            .workload
            .blocked
            .is_some_and(|blocked| blocked.message == refusal.message);
        plan.refuse(refusal, is_known);
    }
}

/// An object that exists and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreadable {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Why it cannot be read.
    pub error: String,
}
