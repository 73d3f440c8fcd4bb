//! The condition `Progressing` and its deadline, `spec.progressDeadlineSeconds`.
//!
//! It says one of five things, the first that holds: everything is updated and available; the rollout is paused; all that
//! the partition allows is updated and available; nothing moved for longer than the deadline; it gets on. `lastUpdateTime`
//! is when the reason was entered, or when something last moved while it gets on: the deadline counts from there. So time
//! spent paused, or at a partition that is reached, does not count. A deadline that is over stays over, whatever moves
//! afterwards, until one of the first three holds or the template is another: a rollout that came too late is not on time.

use berth_api::names::{condition, reason};
use berth_api::v1beta1::cloneset::{CloneSet, CloneSetCondition, CloneSetSpec, CloneSetStatus};
use berth_workload::intstr;
use berth_workload::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What clients write for "no deadline".
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

/// Nothing announces that a deadline has passed: asks to decide again then.
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

/// Time until the deadline is over, nothing once it is. The API cuts off what is less than a second, so the condition may
/// be up to a second younger than it says.
fn left(
    condition: &CloneSetCondition,
    deadline: SignedDuration,
    now: Timestamp,
) -> Option<SignedDuration> {
    let since = condition.last_update_time.as_ref()?.0;
    let left = deadline + SignedDuration::from_secs(1) - now.duration_since(since);
    left.is_positive().then_some(left)
}

/// Status, reason and message, as the peer words them.
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
    // A partition keeps its revision for later pods, too, where there are none of it now.
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

/// Did the rollout get on since the last status: another template, pods that came or went, more of them in service?
fn moved(old: &CloneSetStatus, new: &CloneSetStatus) -> bool {
    new.update_revision != old.update_revision
        || new.updated_replicas != old.updated_replicas
        || new.replicas != old.replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const START: i64 = 1_000_000;

    struct Case {
        spec: CloneSetSpec,
        status: CloneSetStatus,
        now: Timestamp,
    }

    impl Case {
        fn new(spec: Value) -> Self {
            let mut whole = json!({"selector": {}, "template": {}, "replicas": 4, "progressDeadlineSeconds": 10});
            for (key, value) in spec.as_object().unwrap() {
                whole[key] = value.clone();
            }
            let spec = serde_json::from_value(whole).unwrap();
            Self {
                spec,
                status: CloneSetStatus::default(),
                now: Timestamp::from_second(START).unwrap(),
            }
        }

        /// A new status with these counts (replicas, updated, available, updated available) some seconds later. Gives
        /// reason and seconds since the start of the condition's two times.
        fn after(&mut self, seconds: i64, counts: [i32; 4], revisions: [&str; 2]) -> String {
            self.now += SignedDuration::from_secs(seconds);
            let [
                replicas,
                updated_replicas,
                available_replicas,
                updated_available_replicas,
            ] = counts;
            let partition = self
                .spec
                .update_strategy
                .rolling_update
                .as_ref()
                .and_then(|r| r.partition.clone());
            let partition = partition.map_or(0, |p| {
                if let berth_api::IntOrString::Int(p) = p {
                    p
                } else {
                    0
                }
            });
            let mut new = CloneSetStatus {
                replicas,
                updated_replicas,
                available_replicas,
                ready_replicas: available_replicas,
                updated_available_replicas,
                expected_updated_replicas: self.spec.replicas.unwrap_or(1) - partition,
                current_revision: revisions[0].to_owned(),
                update_revision: revisions[1].to_owned(),
                conditions: self.status.conditions.clone(),
                ..CloneSetStatus::default()
            };
            set(&self.spec, &self.status, &mut new, self.now);
            self.status = new;
            let Some(c) = of(&self.status) else {
                return "none".to_owned();
            };
            let at = |time: &Option<Time>| time.as_ref().unwrap().0.as_second() - START;
            format!(
                "{} {} {} {}",
                c.status,
                c.reason,
                at(&c.last_update_time),
                at(&c.last_transition_time)
            )
        }

        fn set(&mut self, spec: Value) {
            let mut case = Case::new(spec);
            std::mem::swap(&mut self.spec, &mut case.spec);
        }
    }

    #[test]
    fn there_is_none_without_a_deadline() {
        for deadline in [json!(null), json!(i32::MAX)] {
            let mut case = Case::new(json!({}));
            assert_eq!(
                case.after(0, [0; 4], ["1", "1"]),
                "True CloneSetUpdated 0 0"
            );
            case.set(json!({"progressDeadlineSeconds": deadline}));
            assert_eq!(case.after(1, [0; 4], ["1", "1"]), "none");
        }
    }

    #[test]
    fn the_deadline_counts_from_the_last_progress() {
        let mut case = Case::new(json!({}));
        assert_eq!(
            case.after(0, [4, 0, 4, 0], ["1", "2"]),
            "True CloneSetUpdated 0 0"
        );
        assert_eq!(
            case.after(9, [4, 0, 4, 0], ["1", "2"]),
            "True CloneSetUpdated 0 0"
        );
        assert_eq!(
            case.after(0, [4, 1, 3, 0], ["1", "2"]),
            "True CloneSetUpdated 9 0",
            "a pod was updated"
        );
        assert_eq!(
            case.after(10, [4, 1, 3, 0], ["1", "2"]),
            "True CloneSetUpdated 9 0"
        );
        let over = "False ProgressDeadlineExceeded 20 20";
        assert_eq!(case.after(1, [4, 1, 3, 0], ["1", "2"]), over);
        assert_eq!(
            of(&case.status).unwrap().message,
            "CloneSet revision 2 has timed out progressing"
        );
        assert_eq!(case.after(98, [4, 1, 3, 0], ["1", "2"]), over);
        assert_eq!(
            case.after(1, [4, 2, 4, 1], ["1", "2"]),
            over,
            "what moves too late is too late"
        );
        assert_eq!(
            case.after(1, [4, 1, 3, 0], ["1", "3"]),
            "True CloneSetUpdated 120 120",
            "another template"
        );
        assert_eq!(
            case.after(1, [4, 4, 4, 4], ["3", "3"]),
            "True CloneSetAvailable 121 120"
        );
        assert_eq!(
            case.after(99, [4, 4, 4, 4], ["3", "3"]),
            "True CloneSetAvailable 121 120"
        );
        assert_eq!(
            case.after(0, [4, 4, 3, 3], ["3", "3"]),
            "True CloneSetUpdated 220 120",
            "a pod fails"
        );
        assert_eq!(
            case.after(11, [4, 4, 3, 3], ["3", "3"]),
            "False ProgressDeadlineExceeded 231 231"
        );
    }

    #[test]
    fn time_spent_paused_or_at_the_partition_does_not_count() {
        let mut case = Case::new(json!({}));
        assert_eq!(
            case.after(0, [4, 0, 4, 0], ["1", "2"]),
            "True CloneSetUpdated 0 0"
        );
        case.set(json!({"updateStrategy": {"rollingUpdate": {"paused": true}}}));
        assert_eq!(
            case.after(5, [4, 0, 4, 0], ["1", "2"]),
            "True CloneSetPaused 5 0"
        );
        assert_eq!(
            case.after(500, [4, 0, 4, 0], ["1", "2"]),
            "True CloneSetPaused 5 0"
        );
        case.set(json!({"updateStrategy": {"rollingUpdate": {"partition": 3}}}));
        assert_eq!(
            case.after(0, [4, 0, 4, 0], ["1", "2"]),
            "True CloneSetUpdated 505 0"
        );
        assert_eq!(
            case.after(5, [4, 1, 4, 1], ["1", "2"]),
            "True ProgressPartitionAvailable 510 0"
        );
        assert_eq!(
            case.after(500, [4, 1, 4, 1], ["1", "2"]),
            "True ProgressPartitionAvailable 510 0"
        );
        case.set(json!({}));
        assert_eq!(
            case.after(0, [4, 1, 4, 1], ["1", "2"]),
            "True CloneSetUpdated 1010 0"
        );
    }

    #[test]
    fn a_rollout_that_still_has_a_pod_too_many_is_not_at_its_partition() {
        let mut case = Case::new(json!({}));
        assert_eq!(
            case.after(0, [5, 4, 5, 4], ["1", "2"]),
            "True CloneSetUpdated 0 0",
            "an old pod is still there"
        );
        assert_eq!(
            case.after(0, [4, 4, 4, 4], ["1", "2"]),
            "True CloneSetUpdated 0 0",
            "it has not become the current one"
        );
        case.set(json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}));
        assert_eq!(
            case.after(0, [5, 3, 5, 3], ["1", "2"]),
            "True ProgressPartitionAvailable 0 0"
        );
    }

    #[test]
    fn a_partition_without_pods_is_reached() {
        let mut case = Case::new(json!({"replicas": 0}));
        case.set(json!({"replicas": 0, "updateStrategy": {"rollingUpdate": {"partition": "80%"}}}));
        assert_eq!(
            case.after(0, [0; 4], ["1", "1"]),
            "True CloneSetAvailable 0 0"
        );
        assert_eq!(
            case.after(5, [0; 4], ["1", "2"]),
            "True ProgressPartitionAvailable 5 0"
        );
        assert_eq!(
            case.after(500, [0; 4], ["1", "2"]),
            "True ProgressPartitionAvailable 5 0"
        );
        case.set(json!({"replicas": 0}));
        assert_eq!(
            case.after(0, [0; 4], ["2", "2"]),
            "True CloneSetAvailable 505 0"
        );
    }

    #[test]
    fn it_looks_again_when_the_deadline_is_over() {
        let mut case = Case::new(json!({}));
        case.after(0, [4, 0, 4, 0], ["1", "2"]);
        let mut set = CloneSet {
            spec: case.spec.clone(),
            status: Some(case.status.clone()),
            ..CloneSet::default()
        };
        let wait = |set: &CloneSet, seconds: i64| {
            let mut plan = Plan::default();
            look_again(
                set,
                &mut plan,
                Timestamp::from_second(START + seconds).unwrap(),
            );
            plan.look_again.map(|wait| wait.as_secs())
        };
        assert_eq!(
            (wait(&set, 0), wait(&set, 4), wait(&set, 11)),
            (Some(11), Some(7), None)
        );
        case.after(11, [4, 0, 4, 0], ["1", "2"]);
        set.status = Some(case.status);
        assert_eq!(
            wait(&set, 12),
            None,
            "it is over, and nothing is to be looked for"
        );
    }
}
