//! Pods that have ended. Each is deleted. If pods keep ending, each next one stays longer before
//! its deletion.

use jiff::{SignedDuration, Timestamp};

use super::{WorkloadView, hooks, update};
use crate::objects::pod::Pod;
use crate::plan::{Event, Plan, Step};

/// How many pods of one generation ended in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The generation of their template.
    pub generation: i64,
    /// The number of pods.
    pub times: u32,
    /// When the last one was deleted.
    pub last: Timestamp,
}

const FIRST: SignedDuration = SignedDuration::from_secs(1);
const MOST: SignedDuration = SignedDuration::from_mins(15);
/// The reason of the condition for pods that fail one after the other.
pub const PODS_FAIL: &str = "PodsFail";
/// How many pods in a row fail before the next failure becomes a condition, because a single one
/// may pass by itself.
pub const OFTEN: u32 = 2;
/// How long a new pod may take until its node's first report.
const YOUNG: SignedDuration = SignedDuration::from_secs(60);

impl Ended {
    /// How long the next ended pod stays before it is deleted: 1 s, doubled each time, up to 15
    /// minutes.
    fn stays(&self) -> SignedDuration {
        let factor = 1_i32
            .checked_shl(self.times.saturating_sub(1))
            .filter(|factor| *factor > 0);
        factor
            .and_then(|factor| FIRST.checked_mul(factor))
            .map_or(MOST, |time| time.min(MOST))
    }

    /// The remaining time until the next ended pod is deleted.
    pub fn rest(&self, now: Timestamp) -> SignedDuration {
        (self.stays() - now.duration_since(self.last)).max(SignedDuration::ZERO)
    }

    /// Whether the count is valid for pods of this generation. It expires half an hour after the
    /// last deletion.
    pub fn is_recent(&self, generation: i64, now: Timestamp) -> bool {
        self.generation == generation && now.duration_since(self.last) < MOST * 2
    }

    /// The count after another ended pod was deleted.
    pub fn again(before: Option<Self>, generation: i64, now: Timestamp) -> Self {
        let times = before
            .filter(|ended| ended.is_recent(generation, now))
            .map_or(0, |ended| ended.times);
        Self {
            generation,
            times: times.saturating_add(1),
            last: now,
        }
    }
}

/// Whether the pod has ended and is not being deleted.
pub fn has_ended(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && pod.has_finished()
}

/// Whether the pod has failed and is not being deleted.
pub fn has_failed(pod: &Pod) -> bool {
    has_ended(pod) && &*pod.status.phase == "Failed"
}

/// How the pod ended, as messages say it: `it has ended (Failed: Evicted)`.
pub fn reason(pod: &Pod) -> String {
    let (phase, reason) = (&pod.status.phase, &pod.status.reason);
    let colon = if reason.is_empty() { "" } else { ": " };
    format!("it has ended ({phase}{colon}{})", &**reason)
}

/// Why pods fail, by the status of a failed one, and the remedy.
pub fn cause(pod: &Pod) -> String {
    let (reason, message) = (&*pod.status.reason, &*pod.status.message);
    let why = if reason.is_empty() {
        "it has failed"
    } else {
        reason
    };
    let why = if message.is_empty() {
        why.to_owned()
    } else {
        format!("{why}: {message}")
    };
    format!("{why}; make room on the node, or change what spec.template.spec asks of it")
}

/// Whether the pod is young and not started. A pod that has not started after a minute has another
/// cause.
pub fn has_not_begun(pod: &Pod, now: Timestamp) -> bool {
    let is_young = pod
        .metadata
        .creation_timestamp
        .is_none_or(|created| now.duration_since(created) < YOUNG);
    pod.metadata.deletion_timestamp.is_some()
        || (is_young && pod.status.container_statuses.is_empty())
}

/// The step that deletes an ended pod, or brings it into the state in which its hook holds it.
/// `event` is the reason of the event for a failed pod.
pub fn delete(
    view: &WorkloadView<'_>,
    pod: &Pod,
    (reason, event): (&str, &'static str),
    plan: &mut Plan,
    now: Timestamp,
) -> Option<Step> {
    if hooks::holds_deletion(view, pod) {
        plan.wait_for_pod(
            pod,
            format!("is to be deleted ({reason}), and hook preDelete holds it"),
        );
        return hooks::hold_deletion(view, pod, reason, false, now);
    }
    let step = update::delete(view, pod, reason);
    if !has_failed(pod) {
        return Some(step);
    }
    let why = if pod.status.reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", &*pod.status.reason)
    };
    let (name, node) = (&pod.metadata.name, &pod.spec.node_name);
    let on = if node.is_empty() {
        String::new()
    } else {
        format!(" on node {node}")
    };
    let message = format!("pod {name}{on} has failed{why}: it is deleted, and another follows");
    Some(Step {
        done: Some(Event::warning(event, message)),
        ..step
    })
}

#[cfg(test)]
mod tests;
