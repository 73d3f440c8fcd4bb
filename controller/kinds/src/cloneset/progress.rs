//! The condition `Progressing` and its deadline, `spec.progressDeadlineSeconds`.
//!
//! The condition has one of five reasons, the first that holds: everything is updated and
//! available; the rollout is paused; all that the partition allows is updated and available;
//! nothing changed for longer than the deadline; the rollout makes progress. `lastUpdateTime` is
//! when the reason was set, or when the rollout last changed while it makes progress: the deadline
//! counts from there. So time spent paused, or at a partition that is reached, does not count. Once
//! the deadline has passed, the condition stays, even if pods change afterwards, until one of the
//! first three reasons holds or the template changes: a rollout that is too late stays too late.

use berth_api::names::{condition, reason};
use berth_api::v1beta1::cloneset::{CloneSet, CloneSetCondition, CloneSetSpec, CloneSetStatus};
use berth_workload::objects::intstr;
use berth_workload::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The value by which clients mean "no deadline".
const NEVER: i32 = i32::MAX;

/// Brings the condition among those of `new` up to date. `old` is the status that was written last.
pub(super) fn set(
    spec: &CloneSetSpec,
    old: &CloneSetStatus,
    new: &mut CloneSetStatus,
    now: Timestamp,
) {
    let Some(deadline) = deadline(spec) else {
        new.conditions.retain(|c| c.type_ != condition::PROGRESSING);
        return;
    };
    let before = of(old).cloned();
    let (status, reason, message) = state(spec, old, new, before.as_ref(), deadline, now);
    let same = before
        .as_ref()
        .filter(|c| c.status == status && c.reason == reason);
    let restarted = reason == reason::UPDATED && moved(old, new);
    if same.is_some_and(|c| !restarted && c.message == message && c.last_update_time.is_some()) {
        return;
    }
    let since = before
        .filter(|c| c.status == status)
        .and_then(|c| c.last_transition_time);
    let condition = CloneSetCondition {
        type_: condition::PROGRESSING.to_owned(),
        status: status.to_owned(),
        last_update_time: Some(Time(now)),
        last_transition_time: since.or(Some(Time(now))),
        reason: reason.to_owned(),
        message,
    };
    match new
        .conditions
        .iter_mut()
        .find(|c| c.type_ == condition::PROGRESSING)
    {
        Some(place) => *place = condition,
        None => new.conditions.push(condition),
    }
}

/// Asks for a decision at the deadline, because no event announces it.
pub(super) fn look_again(set: &CloneSet, plan: &mut Plan, now: Timestamp) {
    let Some(deadline) = deadline(&set.spec) else {
        return;
    };
    let condition = set
        .status
        .as_ref()
        .and_then(of)
        .filter(|c| c.reason == reason::UPDATED);
    if let Some(wait) = condition.and_then(|c| left(c, deadline, now)) {
        plan.look_again_after(wait);
    }
}

fn deadline(spec: &CloneSetSpec) -> Option<SignedDuration> {
    let seconds = spec
        .progress_deadline_seconds
        .filter(|seconds| *seconds != NEVER)?;
    Some(SignedDuration::from_secs(i64::from(seconds)))
}

fn of(status: &CloneSetStatus) -> Option<&CloneSetCondition> {
    status
        .conditions
        .iter()
        .find(|c| c.type_ == condition::PROGRESSING)
}

/// The time until the deadline, zero once it has passed. The API drops fractions of a second, so
/// the condition may be up to a second younger than its time says.
fn left(
    condition: &CloneSetCondition,
    deadline: SignedDuration,
    now: Timestamp,
) -> Option<SignedDuration> {
    let since = condition.last_update_time.as_ref()?.0;
    let left = deadline + SignedDuration::from_secs(1) - now.duration_since(since);
    left.is_positive().then_some(left)
}

/// Status, reason and message, in OpenKruise's words.
fn state(
    spec: &CloneSetSpec,
    old: &CloneSetStatus,
    new: &CloneSetStatus,
    before: Option<&CloneSetCondition>,
    deadline: SignedDuration,
    now: Timestamp,
) -> (&'static str, &'static str, String) {
    let replicas = spec.replicas.unwrap_or(1);
    let all = new.current_revision == new.update_revision
        && [
            new.replicas,
            new.updated_replicas,
            new.updated_available_replicas,
        ] == [replicas; 3];
    if all {
        return (
            "True",
            reason::AVAILABLE,
            "CloneSet is available".to_owned(),
        );
    }
    if spec
        .update_strategy
        .rolling_update
        .as_ref()
        .is_some_and(|rolling| rolling.paused)
    {
        return ("True", reason::PAUSED, "CloneSet is paused".to_owned());
    }
    let expected = new.expected_updated_replicas;
    // A partition keeps its revision for later pods, too, even if no pod has it now.
    let partition = spec
        .update_strategy
        .rolling_update
        .as_ref()
        .and_then(|rolling| rolling.partition.as_ref());
    let keeps = new.current_revision != new.update_revision
        && intstr::keeps_any(partition).unwrap_or(false);
    if (expected < replicas || keeps) && expected <= new.updated_available_replicas {
        return (
            "True",
            reason::PARTITION_AVAILABLE,
            "CloneSet has been paused due to partition ready".to_owned(),
        );
    }
    let over = before.is_some_and(|condition| match &*condition.reason {
        reason::PROGRESS_DEADLINE_EXCEEDED => new.update_revision == old.update_revision,
        reason::UPDATED => left(condition, deadline, now).is_none() && !moved(old, new),
        _ => false,
    });
    if over {
        let message = format!(
            "CloneSet revision {} has timed out progressing",
            new.update_revision
        );
        return ("False", reason::PROGRESS_DEADLINE_EXCEEDED, message);
    }
    (
        "True",
        reason::UPDATED,
        "CloneSet is progressing".to_owned(),
    )
}

/// Whether the rollout made progress since the last status: another template, pods created or
/// deleted, more of them in service.
fn moved(old: &CloneSetStatus, new: &CloneSetStatus) -> bool {
    new.update_revision != old.update_revision
        || new.updated_replicas != old.updated_replicas
        || new.replicas != old.replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

#[cfg(test)]
mod tests;
