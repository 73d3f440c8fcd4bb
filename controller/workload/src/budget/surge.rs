//! Pods that may leave only once a replacement is available: which pods, how their workload creates
//! it, and how long its capacity is kept.

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

/// How long a replaced pod may be requested again, until the surplus pod is deleted.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// The first characters of the label value that takes a pod from its ReplicaSet.
const RELEASED: &str = "released-";
/// Most characters of an invalid annotation value that a message shows.
const LONGEST_ANNOTATION: usize = 32;

/// The answer for a pod whose budget allows no more pods out of service, in place of the refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// A replacement must come first, and the ledger must note this.
    First {
        /// The message.
        message: String,
        /// The Deployment whose deletion also deletes the pod meanwhile.
        deployment: Option<DeploymentReference>,
    },
    /// No replacement can come first, or it is unknown whether one must.
    Never {
        /// The message.
        message: String,
    },
}

impl Instead {
    /// The answer for a pod that was taken from its ReplicaSet.
    pub fn of_released(budget: &str) -> Self {
        Self::First {
            message: first("in its place", budget),
            deployment: None,
        }
    }

    /// The answer for a pod whose topmost owner has this kind. `None` if the owner does not ask for
    /// a replacement.
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
                let message = format!(
                    "{refusal}; annotation {SURGE_ON_EVICTION} of {words} is {other:?}: set it to \"true\" to have another pod come first"
                );
                return Some(Self::Never { message });
            }
        }
        let message = first(&format!("of {words}"), budget);
        Some(match kind {
            "CloneSet" => Self::First {
                message,
                deployment: None,
            },
            "Deployment" if !may_be_released(pod) => {
                let message = format!(
                    "{refusal}; {words} asks for another pod first, and pod {} lacks annotation {SURGE_ON_EVICTION}: \"true\", without which \
                     no pod is taken from its ReplicaSet: set it in spec.template.metadata.annotations of {words}, too",
                    pod.name
                );
                Self::Never { message }
            }
            "Deployment" => {
                let deployment = DeploymentReference {
                    name: top.name.to_string(),
                    uid: top.uid.to_string(),
                };
                Self::First {
                    message,
                    deployment: Some(deployment),
                }
            }
            _ => {
                let message = format!(
                    "{words} cannot bring another pod before this one goes, as annotation {SURGE_ON_EVICTION} asks"
                );
                Self::Never { message }
            }
        })
    }
}

/// The first words of a message if a replacement must come first.
const FIRST: &str = "replacement first: ";

/// Whether a refusal says that the pod may leave once its replacement is available.
pub fn is_first(refusal: &str) -> bool {
    refusal.contains(FIRST)
}

fn first(which: &str, budget: &str) -> String {
    format!("{FIRST}another pod {which} is to come, then this one may go ({budget}); try again")
}

/// Whether a pod was taken from its ReplicaSet so that the ReplicaSet creates another. Services of
/// the Deployment still select it.
pub fn is_released(pod: &Metadata) -> bool {
    pod.controller().is_none()
        && pod
            .label(POD_TEMPLATE_HASH)
            .is_some_and(|hash| hash.starts_with(RELEASED))
}

/// Whether the pod's template lets the controller take the pod from its ReplicaSet. A policy of the
/// chart recognizes such pods by this annotation, and the controller's account cannot write it.
fn may_be_released(pod: &Metadata) -> bool {
    pod.annotation(SURGE_ON_EVICTION) == Some("true")
}

/// Whether the ledger still waits for a replacement: the pod exists, and the last request for it is
/// at most ten minutes old.
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

/// Whether the controller deletes the pod once no budget waits for its replacement: a pod of a
/// Deployment that the controller took from its ReplicaSet. A policy of the chart allows the
/// controller no other deletion.
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

/// The Deployment that owns a released pod.
fn deployment(pod: &Metadata) -> Option<&str> {
    let mut owners = pod.owner_references.iter();
    owners
        .find(|owner| group(&owner.api_version) == "apps" && &*owner.kind == "Deployment")
        .map(|owner| &*owner.name)
}

/// Whether a Deployment has a replacement for a pod that was taken from it: all pods of its
/// ReplicaSets are available.
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

/// The step that makes the pod's workload create a replacement.
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
        // The ReplicaSet releases the pod. The Deployment becomes its owner, so that its deletion
        // still deletes the pod.
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
