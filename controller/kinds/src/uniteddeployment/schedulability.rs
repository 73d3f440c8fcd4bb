//! Whether the nodes of a subset have capacity for its pods, in the two adaptive modes.
//!
//! Without reservation a subset whose pods wait too long for a node is unschedulable for a while,
//! and other subsets get its replicas. With reservation the pods that wait stay, marked by a label,
//! and other subsets run substitutes until the pods serve.

use std::sync::Arc;

use super::condition;
use berth_api::kinds::uniteddeployment::names::condition::SCHEDULABLE;
use berth_api::kinds::uniteddeployment::names::label::RESERVED_POD;
use berth_api::v1beta1::uniteddeployment::{
    ScheduleStrategy, SubsetStatus, UnitedDeploymentCondition,
};
use berth_workload::objects::pod::{Condition, Pod};
use jiff::{SignedDuration, Timestamp};

/// The last status of a subset, and the state of its workload.
pub(super) struct Seen<'a> {
    /// The status that was written last. `None`: the subset is new.
    pub(super) reported: Option<&'a SubsetStatus>,
    /// Whether any status was written before, so that a subset without one was added later.
    pub(super) added_later: bool,
    /// `spec.replicas` of the workload; `None` without a workload.
    pub(super) replicas: Option<i32>,
    /// `status.replicas` and `status.readyReplicas` of the workload.
    pub(super) counted: (i32, i32),
    /// The pods of the workload that are not being deleted and have not ended.
    pub(super) pods: Vec<&'a Arc<Pod>>,
    /// Whether a pod has a revision that the partition gives it.
    pub(super) is_at_revision: Vec<bool>,
}

/// Whether the nodes of a subset have capacity.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Schedulability {
    /// False while pods wait too long for a node, or are reserved.
    pub(super) schedulable: bool,
    /// True while the subset recovers or is new, so that new pods do not count until they serve.
    pub(super) marked: bool,
    /// Reserved pods that exist.
    pub(super) reserved: i32,
    /// Pods that the workload of a marked subset has not created yet. They count as reserved.
    pub(super) missing: i32,
    /// The condition to write; `None` if there is none.
    pub(super) condition: Option<UnitedDeploymentCondition>,
    /// Pods whose label changes, with the new value.
    pub(super) labels: Vec<(Arc<Pod>, bool)>,
    /// Pods that wait too long for a node, by name.
    pub(super) waiting: Vec<String>,
    /// Decide again after this time.
    pub(super) look_again: Option<SignedDuration>,
}

impl Schedulability {
    /// A subset whose pods find nodes, or whose division does not depend on nodes.
    pub(super) fn fixed() -> Self {
        Self {
            schedulable: true,
            ..Self::default()
        }
    }

    /// Whether the pod counts as reserved, by its label or by the one that is written now.
    pub(super) fn reserves(&self, pod: &Pod) -> bool {
        let written = self
            .labels
            .iter()
            .find(|(of, _)| of.metadata.uid == pod.metadata.uid);
        written.map_or_else(
            || pod.metadata.label(RESERVED_POD) == Some("true"),
            |(_, reserved)| *reserved,
        )
    }

    fn look_again_after(&mut self, wait: SignedDuration) {
        self.look_again = Some(self.look_again.map_or(wait, |other| other.min(wait)));
    }

    /// Marks a subset that has just recovered and grows: its new pods count only once they serve.
    pub(super) fn mark_if_it_grows(&mut self, present: Option<i32>, next: i32, now: Timestamp) {
        if self.schedulable && self.marked && present.is_some_and(|present| next > present) {
            let reported = self.condition.take();
            self.condition = Some(since(
                reported,
                false,
                "reschedule",
                "subset just recovered scaled up".to_owned(),
                now,
            ));
        }
    }
}

/// Reads a subset without reservation.
pub(super) fn without_reservation(
    strategy: &ScheduleStrategy,
    seen: &Seen<'_>,
    now: Timestamp,
) -> Schedulability {
    let mut found = Schedulability {
        condition: condition_of(seen.reported).cloned(),
        ..Schedulability::fixed()
    };
    let reported = found
        .condition
        .clone()
        .filter(|reported| reported.status == "False");
    if let Some(reported) = reported {
        let seconds = strategy.unschedulable_duration();
        let since_then = reported
            .last_transition_time
            .as_ref()
            .map_or(now, |time| time.0);
        let left = until(since_then, seconds, now);
        if left.is_positive() {
            found.schedulable = false;
            found.look_again_after(left);
        } else {
            let message = format!("unschedulable subset recovered after {seconds} seconds");
            found.condition = Some(since(Some(reported), true, "recover", message, now));
        }
    }
    let (replicas, ready) = seen.counted;
    if ready < replicas {
        for pod in &seen.pods {
            waits_too_long(pod, strategy, now, &mut found);
        }
    }
    if !found.waiting.is_empty() {
        found.schedulable = false;
        let message = "timeout pending pods found".to_owned();
        found.condition = Some(since(
            found.condition.take(),
            false,
            "reschedule",
            message,
            now,
        ));
        found.look_again_after(SignedDuration::from_secs(
            strategy.unschedulable_duration().into(),
        ));
    }
    found
}

/// Reads a subset with reservation.
pub(super) fn with_reservation(
    strategy: &ScheduleStrategy,
    seen: &Seen<'_>,
    now: Timestamp,
) -> Schedulability {
    let reported = condition_of(seen.reported);
    let is_new = seen.reported.is_none() && seen.added_later;
    let marked_since = reported
        .filter(|reported| reported.status == "False")
        .and_then(|reported| reported.last_transition_time.as_ref());
    let marked = is_new || reported.is_some_and(|reported| reported.status == "False");
    let mut found = Schedulability {
        marked,
        ..Schedulability::default()
    };
    for (pod, is_at_revision) in seen.pods.iter().zip(&seen.is_at_revision) {
        let label = pod.metadata.label(RESERVED_POD);
        // A pod from before the mark served already.
        let is_younger = pod
            .metadata
            .creation_timestamp
            .zip(marked_since)
            .is_none_or(|(made, mark)| made >= mark.0);
        let reserved = match label {
            Some("true") => !serves(pod, *is_at_revision, strategy, now, &mut found),
            None if marked && is_younger => {
                !serves(pod, *is_at_revision, strategy, now, &mut found)
            }
            _ => waits_too_long(pod, strategy, now, &mut found),
        };
        found.reserved += i32::from(reserved);
        let labelled = label.map(|label| label == "true");
        // Every pod of a marked subset has the label, so that no controller takes it for a new one.
        if labelled != Some(reserved) && (reserved || labelled.is_some() || marked) {
            found.labels.push(((*pod).clone(), reserved));
        }
    }
    let pods = i32::try_from(seen.pods.len()).unwrap_or(i32::MAX);
    found.missing = if marked {
        seen.replicas.unwrap_or(0).saturating_sub(pods).max(0)
    } else {
        0
    };
    found.schedulable = found.reserved + found.missing == 0;
    found.condition = Some(match found.schedulable {
        // The mark stays until the workload has pods, and they serve.
        true if marked && seen.replicas.is_none() => reported.cloned().unwrap_or_else(|| {
            let message = "newly-created subsets in reservation strategy".to_owned();
            since(None, false, "created", message, now)
        }),
        true => since(
            reported.cloned(),
            true,
            "reschedule",
            "no reserved pods".to_owned(),
            now,
        ),
        false => since(
            reported.cloned(),
            false,
            "reschedule",
            "reserved pods found".to_owned(),
            now,
        ),
    });
    found
}

/// Whether a reserved pod serves: it is ready for longer than `unschedulableDuration`, at a
/// revision that the partition gives it.
fn serves(
    pod: &Pod,
    is_at_revision: bool,
    strategy: &ScheduleStrategy,
    now: Timestamp,
    found: &mut Schedulability,
) -> bool {
    let Some(ready) = pod
        .condition("Ready")
        .filter(|ready| &*ready.status == "True" && is_at_revision)
    else {
        if waits_for_node(pod, strategy, now).is_some() {
            found.waiting.push(pod.metadata.name.to_string());
        }
        return false;
    };
    let left = ready
        .last_transition_time
        .map(|time| until(time, strategy.unschedulable_duration(), now));
    if let Some(left) = left.filter(|left| left.is_positive()) {
        found.look_again_after(left);
        return false;
    }
    true
}

/// Whether a pod has waited too long for a node. For a pod that may wait longer, the plan asks for
/// another decision.
fn waits_too_long(
    pod: &Pod,
    strategy: &ScheduleStrategy,
    now: Timestamp,
    found: &mut Schedulability,
) -> bool {
    match waits_for_node(pod, strategy, now) {
        Some(left) if left.is_positive() => {
            found.look_again_after(left);
            false
        }
        Some(_) => {
            found.waiting.push(pod.metadata.name.to_string());
            true
        }
        None => false,
    }
}

/// How much longer a pod may wait for a node; not positive once it has waited too long. `None` if
/// it does not wait.
fn waits_for_node(
    pod: &Pod,
    strategy: &ScheduleStrategy,
    now: Timestamp,
) -> Option<SignedDuration> {
    let refused =
        |reported: &Condition| &*reported.status == "False" && &*reported.reason == "Unschedulable";
    let waits = &*pod.status.phase == "Pending"
        && pod.spec.node_name.is_empty()
        && pod.metadata.deletion_timestamp.is_none()
        && pod.condition("PodScheduled").is_some_and(refused);
    let made = pod.metadata.creation_timestamp.filter(|_| waits)?;
    Some(until(made, strategy.reschedule_critical_seconds(), now))
}

/// How long until `seconds` have passed since `time`; not positive once they have.
fn until(time: Timestamp, seconds: i32, now: Timestamp) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds)) - now.duration_since(time)
}

/// The condition of a subset as it was written last.
pub(super) fn condition_of(reported: Option<&SubsetStatus>) -> Option<&UnitedDeploymentCondition> {
    reported?
        .conditions
        .iter()
        .find(|condition| condition.type_ == SCHEDULABLE)
}

/// The new condition. Its time is that of the one before, if the status is the same.
fn since(
    before: Option<UnitedDeploymentCondition>,
    is_true: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) -> UnitedDeploymentCondition {
    condition::since(
        before.as_ref(),
        SCHEDULABLE,
        is_true,
        (reason, message),
        now,
    )
}
