//! Pods that may go only when another has come: who is asked for, how the workload is made to bring one, and for how long its room is kept.

use std::sync::Arc;

use berth_api::names::annotation::SURGE_ON_EVICTION;
use berth_api::names::label::{POD_TEMPLATE_HASH, SPECIFIED_DELETE};
use berth_api::v1beta1::podunavailablebudget::{DeploymentReference, Replacement};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::objects::owner::{CLONE_SET, Reference, group};
use crate::objects::pod::{Metadata, Pod, availability};
use crate::objects::resource::REPLICA_SETS;
use crate::plan::{Action, PodPatch, Step, Target};

/// How long a pod that was replaced may be asked for again, until the surplus goes.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// What the value of the label begins with that takes a pod from its ReplicaSet.
const RELEASED: &str = "released-";
/// As much is told of an annotation that has a wrong value.
const LONGEST_ANNOTATION: usize = 32;

/// What is told of a pod for which a budget has no room, instead of the refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// Another is to come first, which is to be noted.
    First {
        /// In words.
        told: String,
        /// The Deployment with which the pod is to go meanwhile.
        deployment: Option<DeploymentReference>,
    },
    /// None can come first, or nobody knows whether it is to.
    Never {
        /// In words.
        told: String,
    },
}

impl Instead {
    /// Of a pod that was taken from its ReplicaSet.
    pub fn of_released(budget: &str) -> Self {
        Self::First {
            told: first("in its place", budget),
            deployment: None,
        }
    }

    /// Of a pod whose topmost owner is of this kind: `None` where that asks for nothing.
    pub fn of(
        pod: &Metadata,
        (kind, top): (&str, &Metadata),
        budget: &str,
        refusal: &str,
    ) -> Option<Self> {
        let words = format!("{kind} {}", top.name);
        match top.annotation(SURGE_ON_EVICTION)? {
            "true" => {}
            "false" => return None,
            other => {
                let other: String = other.chars().take(LONGEST_ANNOTATION).collect();
                let told = format!(
                    "{refusal}; annotation {SURGE_ON_EVICTION} of {words} is {other:?}: set it to \"true\" to have another pod come first"
                );
                return Some(Self::Never { told });
            }
        }
        let told = first(&format!("of {words}"), budget);
        Some(match kind {
            "CloneSet" => Self::First {
                told,
                deployment: None,
            },
            "Deployment" if !may_be_released(pod) => {
                let told = format!(
                    "{refusal}; {words} asks for another pod first, and pod {} lacks annotation {SURGE_ON_EVICTION}: \"true\", without which \
                     no pod is taken from its ReplicaSet: set it in spec.template.metadata.annotations of {words}, too",
                    pod.name
                );
                Self::Never { told }
            }
            "Deployment" => {
                let deployment = DeploymentReference {
                    name: top.name.to_string(),
                    uid: top.uid.to_string(),
                };
                Self::First {
                    told,
                    deployment: Some(deployment),
                }
            }
            _ => {
                let told = format!(
                    "{words} cannot bring another pod before this one goes, as annotation {SURGE_ON_EVICTION} asks"
                );
                Self::Never { told }
            }
        })
    }
}

/// What the message begins with where another pod is to come first.
const FIRST: &str = "replacement first: ";

/// Does a refusal say that the pod may go when another has come?
pub fn is_first(refusal: &str) -> bool {
    refusal.contains(FIRST)
}

fn first(which: &str, budget: &str) -> String {
    format!("{FIRST}another pod {which} is to come, then this one may go ({budget}); try again")
}

/// Whether a pod was taken from its ReplicaSet so that this makes another. Its Deployment's Services still find it.
pub fn is_released(pod: &Metadata) -> bool {
    pod.controller().is_none()
        && pod
            .label(POD_TEMPLATE_HASH)
            .is_some_and(|hash| hash.starts_with(RELEASED))
}

/// Whether the pod's template lets the controller take it from its ReplicaSet. A policy of the chart knows pods by that, and the
/// controller's account cannot write it.
fn may_be_released(pod: &Metadata) -> bool {
    pod.annotation(SURGE_ON_EVICTION) == Some("true")
}

/// Whether a replacement is still waited for: the pod is there, and was asked for in the last ten minutes.
pub fn is_open(replacement: &Replacement, pod: Option<&Pod>, now: Timestamp) -> bool {
    let is_it = |pod: &&Pod| {
        *pod.metadata.uid == *replacement.uid && pod.metadata.deletion_timestamp.is_none()
    };
    pod.filter(is_it)
        .is_some_and(|pod| pod.is_active() && is_fresh(replacement, now))
}

fn is_fresh(replacement: &Replacement, now: Timestamp) -> bool {
    now.duration_since(replacement.time.0) < PATIENCE
}

/// Whether the controller deletes the pod once no budget waits for its replacement: a Deployment's pod that it took from its ReplicaSet.
/// A policy of the chart allows no other deletion.
pub fn is_leftover(pod: &Pod) -> bool {
    let metadata = &pod.metadata;
    let is_going = metadata.deletion_timestamp.is_some() || !pod.is_active();
    let has_label = metadata.label(POD_TEMPLATE_HASH) == Some(&released(metadata));
    is_released(metadata)
        && has_label
        && !is_going
        && may_be_released(metadata)
        && deployment(metadata).is_some()
}

/// The name of the Deployment with which a released pod goes.
fn deployment(pod: &Metadata) -> Option<&str> {
    let mut owners = pod.owner_references.iter();
    owners
        .find(|owner| group(&owner.api_version) == "apps" && &*owner.kind == "Deployment")
        .map(|owner| &*owner.name)
}

/// Whether a Deployment has another pod for this one that it lost: all pods of its ReplicaSets are available.
pub fn is_replaced(leftover: &Pod, all: &[Arc<Pod>], now: Timestamp) -> bool {
    let Some(deployment) = deployment(&leftover.metadata) else {
        return false;
    };
    let is_its = |pod: &Pod| {
        let hash = pod.metadata.label(POD_TEMPLATE_HASH).unwrap_or_default();
        let owner = pod
            .metadata
            .controller()
            .filter(|owner| &*owner.kind == "ReplicaSet");
        owner.is_some_and(|owner| {
            owner
                .name
                .strip_prefix(deployment)
                .and_then(|rest| rest.strip_prefix('-'))
                == Some(hash)
        })
    };
    let mut others = all
        .iter()
        .filter(|pod| is_its(pod) && pod.is_active() && pod.metadata.deletion_timestamp.is_none());
    others.all(|pod| availability(pod, 0, now).is_available())
}

/// The value of the label that takes a pod from its ReplicaSet.
fn released(pod: &Metadata) -> String {
    let part: String = pod.uid.chars().take(8).collect();
    format!("{RELEASED}{part}")
}

/// What makes the pod's workload bring another one.
pub fn step(replacement: &Replacement, pod: &Pod, now: Timestamp) -> Option<Step> {
    let metadata = &pod.metadata;
    let is_it = *metadata.uid == *replacement.uid && metadata.deletion_timestamp.is_none();
    if !is_it || !is_fresh(replacement, now) {
        return None;
    }
    let (name, target) = (&metadata.name, Target::from(metadata));
    let owner = Reference::from(metadata.controller()?);
    let (key, value) = if CLONE_SET.is_of(&owner) {
        (SPECIFIED_DELETE, "true".to_owned())
    } else if REPLICA_SETS.owner_kind().is_of(&owner) && may_be_released(metadata) {
        (POD_TEMPLATE_HASH, released(metadata))
    } else {
        return None;
    };
    if metadata.label(key) == Some(&value) {
        return None;
    }
    let patch = PodPatch {
        labels: [(key.to_owned(), Some(value))].into(),
        ..PodPatch::default()
    };
    let reason = format!(
        "{} wants pod {name} to go, and another is to come before",
        replacement.holder
    );
    let mut step = Step::new(Action::PatchPod { target, patch }, reason);
    if let (Some(deployment), POD_TEMPLATE_HASH) = (&replacement.deployment, key) {
        // Its ReplicaSet lets it go, and with the Deployment it is to go, as before.
        let DeploymentReference { name, uid } = deployment;
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid});
        step.actions.insert(
            0,
            Action::AdoptPod {
                target: Target::as_seen(metadata),
                owner,
            },
        );
    }
    Some(step)
}
