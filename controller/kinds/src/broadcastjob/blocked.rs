//! The condition `Blocked` of a job.

use berth_api::names::condition;
use berth_api::v1beta1::broadcastjob::{BroadcastJobStatus, JobCondition};
use berth_workload::plan::{Deed, Outcome, Plan, Verb};
use berth_workload::resource::PODS;
use berth_workload::stuck::{self, Cause, Grade};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Snapshot, is_finished};

/// A pod that runs and does not serve holds no job back.
const NO_CAUSE: &str = "PodNotReady";

/// Brings the condition among those of `new` up to date. A job that has ended is not held back.
pub(super) fn set(snapshot: &Snapshot, plan: &Plan, outcome: &Outcome, new: &mut BroadcastJobStatus, now: Timestamp) {
    let scene = snapshot.scene();
    let mut causes = stuck::of_writes(&scene, plan, outcome, now);
    causes.extend(taken(snapshot, outcome, now));
    causes.extend(stuck::of_pods(&scene, plan, now));
    causes.retain(|cause| cause.reason != NO_CAUSE);
    if is_finished(new) {
        causes.clear();
    }
    let cause = match stuck::gravest(causes, scene.workload.blocked, now) {
        Some((_, true)) => return,
        Some((cause, false)) => Some(cause),
        None => None,
    };
    let told = new.conditions.iter().find(|c| c.type_ == condition::BLOCKED);
    let since = told.and_then(|told| told.last_transition_time.clone());
    new.conditions.retain(|c| c.type_ != condition::BLOCKED);
    new.conditions.extend(cause.map(|cause| JobCondition {
        type_: condition::BLOCKED.to_owned(),
        status: "True".to_owned(),
        last_probe_time: Some(Time(now)),
        last_transition_time: since.or(Some(Time(now))),
        reason: cause.reason.to_owned(),
        message: cause.message,
    }));
}

/// The name of a node's pod is another's.
fn taken(snapshot: &Snapshot, outcome: &Outcome, now: Timestamp) -> Option<Cause> {
    let create = Deed::of(Verb::Create, PODS);
    let failure = outcome.failures.iter().find(|failure| failure.taken && failure.deed == create)?;
    let (job, pod) = (snapshot.scene().workload, &failure.object);
    let message =
        format!("{job}: pod {pod} cannot be created, for there is one of that name that is not the job's; delete it");
    Some(Cause::new(Grade::Refused, "NameTaken", message, now))
}
