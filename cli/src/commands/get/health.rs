//! The state of a workload in a word and a sentence, from its spec and its status.

use berth_api::IntOrString;
use berth_api::names::{condition, reason};
use berth_workload::objects::intstr::{Round, partition, resolve};
use serde_json::Value;

use crate::objects::{condition as condition_of, items, number, text};

/// The state of a workload in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Everything is as the spec says.
    Healthy,
    /// The controller is at work.
    Progressing,
    /// The user has paused the rollout.
    Paused,
    /// All pods outside of the partition are updated.
    AtPartition,
    /// A cause blocks the workload that does not pass by itself.
    Blocked,
    /// A job has ended with failures.
    Failed,
}

impl Health {
    /// The word, as it is printed.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Healthy => "Healthy",
            Self::Progressing => "Progressing",
            Self::Paused => "Paused",
            Self::AtPartition => "AtPartition",
            Self::Blocked => "Blocked",
            Self::Failed => "Failed",
        }
    }
}

/// The pods of a workload, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods that should exist.
    pub desired: i64,
    /// Pods that exist.
    pub current: i64,
    /// Pods of the update revision.
    pub updated: i64,
    /// Pods that are ready.
    pub ready: i64,
    /// Pods that are available.
    pub available: i64,
    /// Pods that the rollout may update: the desired ones outside of the partition.
    pub goal: i64,
}

/// The state of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The word.
    pub health: Health,
    /// The word with its reason, for a table.
    pub short: String,
    /// The sentence.
    pub sentence: String,
    /// The pods.
    pub counts: Counts,
}

/// The JSON pointer to the limits of the rollout.
pub fn rolling(plural: &str) -> &'static str {
    match plural {
        "sidecarsets" => "/spec/updateStrategy",
        "broadcastjobs" => "/spec",
        _ => "/spec/updateStrategy/rollingUpdate",
    }
}

/// Whether the user has paused the rollout.
pub fn is_paused(plural: &str, object: &Value) -> bool {
    let paused = object
        .pointer(rolling(plural))
        .and_then(|of| of.get("paused"));
    paused.and_then(Value::as_bool).unwrap_or_default()
}

/// The state of a workload of this kind.
pub fn state(plural: &str, object: &Value) -> State {
    let counts = counts(plural, object);
    let (health, reason, sentence) = judge(plural, object, counts);
    let short = match reason {
        Some(reason) => format!("{}: {reason}", health.word()),
        None => health.word().to_owned(),
    };
    State {
        health,
        short,
        sentence,
        counts,
    }
}

fn counts(plural: &str, object: &Value) -> Counts {
    let status = |field: &str| number(object, &format!("/status/{field}"));
    let (desired, current, updated, ready, available) = match plural {
        "daemonsets" => (
            status("desiredNumberScheduled"),
            status("currentNumberScheduled"),
            status("updatedNumberScheduled"),
            status("numberReady"),
            status("numberAvailable"),
        ),
        "sidecarsets" => (
            status("matchedPods"),
            status("matchedPods"),
            status("updatedPods"),
            status("readyPods"),
            status("readyPods"),
        ),
        "broadcastjobs" => (
            status("desired"),
            status("active") + status("succeeded") + status("failed"),
            status("succeeded"),
            status("active"),
            status("succeeded"),
        ),
        _ => (
            desired_replicas(plural, object),
            status("replicas"),
            status("updatedReplicas"),
            status("readyReplicas"),
            status("availableReplicas"),
        ),
    };
    Counts {
        desired,
        current,
        updated,
        ready,
        available,
        goal: desired - kept(plural, object, desired),
    }
}

fn desired_replicas(plural: &str, object: &Value) -> i64 {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    replicas.unwrap_or_else(|| match plural {
        "uniteddeployments" => {
            let subsets = items(object, "/status/subsetStatuses");
            subsets.map(|subset| number(subset, "/replicas")).sum()
        }
        _ => 1,
    })
}

/// How many pods the partition keeps at the old revision.
fn kept(plural: &str, object: &Value, desired: i64) -> i64 {
    if plural == "uniteddeployments" {
        let subsets = items(object, "/status/subsetStatuses");
        let kept =
            subsets.map(|subset| number(subset, "/partition").min(number(subset, "/replicas")));
        return kept.sum::<i64>().min(desired);
    }
    let of = object
        .pointer(rolling(plural))
        .and_then(|of| of.get("partition"));
    let of = of.and_then(|of| serde_json::from_value::<IntOrString>(of.clone()).ok());
    let total = usize::try_from(desired).unwrap_or_default();
    let kept = match plural {
        "daemonsets" => of.map_or(Ok(0), |of| resolve(&of, total, Round::Down)),
        _ => partition(of.as_ref(), total),
    };
    // The controller reports a value that it refuses in the condition Blocked.
    i64::try_from(kept.unwrap_or_default())
        .unwrap_or_default()
        .min(desired)
}

type Judged = (Health, Option<String>, String);

fn judge(plural: &str, object: &Value, counts: Counts) -> Judged {
    if let Some(blocked) = blocked(object) {
        return blocked;
    }
    let generation = number(object, "/metadata/generation");
    // BroadcastJobs report no generation.
    if plural != "broadcastjobs" && number(object, "/status/observedGeneration") < generation {
        let sentence = "the controller has not yet read the last change".to_owned();
        return (Health::Progressing, None, sentence);
    }
    if plural == "broadcastjobs" {
        return job(object, counts);
    }
    let Counts {
        desired, updated, ..
    } = counts;
    if is_paused(plural, object) {
        let sentence = format!("{updated} of {desired} pods are updated");
        return (Health::Paused, None, sentence);
    }
    if desired == 0 && counts.current == 0 {
        let sentence = match plural {
            "daemonsets" => "no node should have a pod",
            "sidecarsets" => "no pod has its containers",
            _ => "scaled to 0",
        };
        return (Health::Healthy, None, sentence.to_owned());
    }
    rollout(object, counts)
}

/// The state of a rollout that may go on.
fn rollout(object: &Value, counts: Counts) -> Judged {
    let Counts {
        desired,
        current,
        updated,
        goal,
        ready,
        available,
    } = counts;
    let by_deletion = matches!(
        text(object, "/spec/updateStrategy/type"),
        "OnDelete" | "NotUpdate"
    );
    let progressing = |sentence: String| (Health::Progressing, None, sentence);
    if updated < goal && !by_deletion {
        return progressing(if goal == desired {
            format!("{updated} of {desired} pods are updated")
        } else {
            format!("{updated} of {goal} pods outside of the partition are updated")
        });
    }
    if current != desired {
        return progressing(format!("{current} pods exist, {desired} are desired"));
    }
    if ready < desired {
        return progressing(format!("{ready} of {desired} pods are ready"));
    }
    if available < desired {
        return progressing(format!("{available} of {desired} pods are available"));
    }
    match updated < desired {
        true if by_deletion => {
            let sentence = format!(
                "{updated} of {desired} pods are updated, the others when they are deleted"
            );
            (Health::Healthy, None, sentence)
        }
        true => {
            let sentence = format!(
                "{updated} of {desired} pods are updated, the partition keeps {}",
                desired - updated
            );
            (Health::AtPartition, None, sentence)
        }
        false => (
            Health::Healthy,
            None,
            format!("{desired} of {desired} pods are updated and available"),
        ),
    }
}

/// The cause in the condition `Blocked`, or the deadline that is over.
fn blocked(object: &Value) -> Option<Judged> {
    let of = |one: &Value| {
        (
            text(one, "/reason").to_owned(),
            text(one, "/message").to_owned(),
        )
    };
    let blocked = condition_of(object, condition::BLOCKED).filter(|one| one["status"] == "True");
    let late = condition_of(object, condition::PROGRESSING)
        .filter(|one| one["reason"] == reason::PROGRESS_DEADLINE_EXCEEDED);
    let (reason, message) = of(blocked.or(late)?);
    Some((Health::Blocked, Some(reason), message))
}

fn job(object: &Value, counts: Counts) -> Judged {
    let (succeeded, failed) = (counts.updated, number(object, "/status/failed"));
    let sentence = match failed {
        0 => format!("{succeeded} of {} pods have succeeded", counts.desired),
        _ => format!(
            "{succeeded} of {} pods have succeeded, {failed} have failed",
            counts.desired
        ),
    };
    let health = match text(object, "/status/phase") {
        "completed" if failed == 0 => Health::Healthy,
        "completed" | "failed" => Health::Failed,
        "paused" => Health::Paused,
        _ if is_paused("broadcastjobs", object) => Health::Paused,
        _ => Health::Progressing,
    };
    (health, None, sentence)
}

#[cfg(test)]
mod tests;
