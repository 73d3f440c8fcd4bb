//! The state of a workload in a word and a sentence, from its spec and its status.

use berth_api::names::{condition, reason};
use serde_json::Value;

use crate::commands::rollout::kind::RolloutKind;
use crate::commands::rollout::{self, progress};
use crate::kinds;
use crate::objects::{condition as condition_of, number, text};

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
    /// The reason of a blocked workload.
    pub reason: Option<String>,
    /// The sentence.
    pub sentence: String,
    /// The pods.
    pub counts: Counts,
}

impl State {
    /// The word with its reason, for a table.
    pub fn short(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{}: {reason}", self.health.word()),
            None => self.health.word().to_owned(),
        }
    }
}

/// The JSON pointer to the limits of the rollout.
pub fn rolling(plural: &str) -> &'static str {
    match plural {
        "sidecarsets" => "/spec/updateStrategy",
        "broadcastjobs" => "/spec",
        _ => "/spec/updateStrategy/rollingUpdate",
    }
}

/// The kind with its rules of rollouts.
fn rollout_kind(plural: &str) -> Option<RolloutKind> {
    RolloutKind::of(&kinds::parse(plural).ok()?)
}

/// Whether the user has paused the rollout.
pub fn is_paused(plural: &str, object: &Value) -> bool {
    rollout_kind(plural).is_some_and(|kind| rollout::target::is_paused(kind, object))
}

/// The state of a workload of this kind.
pub fn state(plural: &str, object: &Value) -> State {
    let counts = counts(plural, object);
    let (health, reason, sentence) = judge(plural, object, counts);
    State {
        health,
        reason,
        sentence,
        counts,
    }
}

fn counts(plural: &str, object: &Value) -> Counts {
    let status = |field: &str| number(object, &format!("/status/{field}"));
    let kind = rollout_kind(plural);
    let desired = kind.map_or(0, |kind| kind.total(object));
    // The controller reports a value that it refuses in the condition Blocked.
    let kept = kind.and_then(|kind| kind.kept_of(object).ok());
    let (current, updated, ready, available) = match plural {
        "daemonsets" => (
            status("currentNumberScheduled"),
            status("updatedNumberScheduled"),
            status("numberReady"),
            status("numberAvailable"),
        ),
        "sidecarsets" => (
            status("matchedPods"),
            status("updatedPods"),
            status("readyPods"),
            status("readyPods"),
        ),
        "broadcastjobs" => (
            status("active") + status("succeeded") + status("failed"),
            status("succeeded"),
            status("active"),
            status("succeeded"),
        ),
        _ => (
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
        goal: desired - kept.unwrap_or_default(),
    }
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
        desired,
        updated,
        goal,
        ..
    } = counts;
    if updated < goal && is_paused(plural, object) {
        let sentence = format!("{updated} of {desired} pods are updated");
        return (Health::Paused, None, sentence);
    }
    if desired == 0 && counts.current == 0 {
        let sentence = match plural {
            "daemonsets" => format!("no node should have a pod: {}", progress::NO_NODE),
            "sidecarsets" => "no pod has its containers".to_owned(),
            _ => "scaled to 0".to_owned(),
        };
        return (Health::Healthy, None, sentence);
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
    let late = || {
        let progressing = condition_of(object, condition::PROGRESSING)?;
        let reason = text(progressing, "/reason");
        let is_late = reason == reason::PROGRESS_DEADLINE_EXCEEDED;
        is_late.then(|| (reason, text(progressing, "/message")))
    };
    let (reason, message) = progress::blocked(object).or_else(late)?;
    Some((Health::Blocked, Some(reason.to_owned()), message.to_owned()))
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
