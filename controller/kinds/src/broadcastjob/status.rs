//! The status of a job, from the observed state and the outcome of the plan.

use std::collections::BTreeSet;

use berth_api::kinds::broadcastjob::names::condition;
use berth_api::v1beta1::broadcastjob::{
    BroadcastJobStatus, FailurePolicyType, JobCondition, phase,
};
use berth_workload::objects::condition::number;
use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Outcome, Plan, Verb, Write};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::decide::{CREATE, words};
use super::mark::{self, PodResult};
use super::round::{End, Place, Round};
use super::settings::{Settings, settings};
use super::{Snapshot, blocked, is_finished};

/// The status to write. It equals the job's present status if nothing changed, and always once the
/// job has ended.
pub fn status(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> BroadcastJobStatus {
    let job = &snapshot.job;
    let old = job.status.clone().unwrap_or_default();
    if is_finished(&old) || job.metadata.deletion_timestamp.is_some() {
        return old;
    }
    let mut new = old.clone();
    if new.phase.is_empty() {
        new.phase = phase::RUNNING.to_owned();
    }
    let settings = settings(job).ok();
    let round = settings
        .as_ref()
        .map(|settings| Round::of(snapshot, settings, now));
    let stand = settings.as_ref().zip(round.as_ref());
    if let Some(stand) = stand.filter(|_| plan.refusal.is_none()) {
        new.start_time = old.start_time.or(Some(Time(now)));
        count(snapshot, stand, plan, outcome, &mut new, now);
    }
    blocked::set(snapshot, stand, plan, outcome, &mut new, now);
    new
}

/// Whether the status must be written now. Numbers alone may wait for those that change in the same
/// second.
pub fn is_urgent(old: Option<&BroadcastJobStatus>, new: &BroadcastJobStatus) -> bool {
    let words = |status: &BroadcastJobStatus| {
        let conditions = status
            .conditions
            .iter()
            .map(|c| (c.type_.clone(), c.message.clone()))
            .collect::<Vec<_>>();
        (
            status.phase.clone(),
            status.start_time.clone(),
            conditions,
            status.failed,
        )
    };
    old.is_none_or(|old| words(old) != words(new))
}

fn count(
    snapshot: &Snapshot,
    (settings, round): (&Settings, &Round<'_>),
    plan: &Plan,
    outcome: &Outcome,
    new: &mut BroadcastJobStatus,
    now: Timestamp,
) {
    let job = &snapshot.job;
    let end = round.end(job, settings, now);
    let is_failed = matches!(end, Some(End::FailedPod | End::Deadline));
    // A user who resumes the job accepts the failures until then, and may resume as soon as the
    // pause is visible.
    let is_pausing = end == Some(End::Pause) && outcome.failures.is_empty();
    let accepts = (job.spec.paused || is_pausing) && settings.failure == FailurePolicyType::Pause;
    let result = |place: &Place<'_>| match place.result() {
        Some(PodResult::Failed) if accepts => Some(PodResult::Accepted),
        // The job's end stops this pod.
        None if is_failed && place.is_active() => Some(PodResult::Failed),
        result => result,
    };
    let ended: Vec<_> = round
        .places
        .iter()
        .filter_map(|place| Some((&place.hash, result(place)?)))
        .collect();
    let succeeded = ended
        .iter()
        .filter(|(_, result)| *result == PodResult::Succeeded)
        .count();
    let mut entries: Vec<_> = ended
        .iter()
        .map(|(hash, result)| (*hash, mark::write(hash, *result)))
        .collect();
    // By hash, so that the same entries are always the same list.
    entries.sort_unstable();
    if settings.wait.is_some() && round.places.iter().any(Place::is_new) {
        new.last_end_time = Some(Time(now));
    }
    new.desired = number(round.desired());
    new.active = if is_failed {
        0
    } else {
        number(round.active() + begun(plan, outcome))
    };
    new.succeeded = number(succeeded);
    new.failed = number(ended.len() - succeeded);
    new.ended_nodes = entries.into_iter().map(|(_, entry)| entry).collect();
    new.phase = match end {
        Some(End::Complete) => phase::COMPLETED,
        Some(End::FailedPod | End::Deadline) => phase::FAILED,
        // Until the write of the pause is confirmed, a user would resume too early.
        Some(End::Pause) if !accepts => phase::RUNNING,
        Some(End::Pause) => phase::PAUSED,
        None if job.spec.paused => phase::PAUSED,
        None => phase::RUNNING,
    }
    .to_owned();
    let type_ = match end {
        Some(End::Complete) => condition::COMPLETE,
        Some(End::FailedPod | End::Deadline) => condition::FAILED,
        Some(End::Pause) | None => return,
    };
    if let Some(end) = end {
        finish(new, type_, words(snapshot, end, round), now);
    }
}

fn finish(new: &mut BroadcastJobStatus, type_: &str, message: String, now: Timestamp) {
    new.completion_time = Some(Time(now));
    new.conditions.push(JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
        reason: type_.to_owned(),
        message,
    });
}

/// Pods that this plan has created, which the next snapshot will show. A refused creation does not
/// count.
fn begun(plan: &Plan, outcome: &Outcome) -> usize {
    let is_checked = !outcome
        .failures
        .iter()
        .any(|failure| failure.write.verb == Verb::Validate);
    let create = Write::of(Verb::Create, PODS);
    let failed: BTreeSet<&str> = outcome
        .failures
        .iter()
        .filter(|f| f.write == create)
        .map(|f| f.object.as_str())
        .collect();
    let steps = plan
        .stages
        .iter()
        .filter(|stage| is_checked && stage.name == CREATE)
        .map(|stage| stage.steps.len());
    steps.sum::<usize>().saturating_sub(failed.len())
}
