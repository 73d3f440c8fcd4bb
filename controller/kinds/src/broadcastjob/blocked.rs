//! The condition `Blocked` of a job.

use berth_api::commands::{self, Named};
use berth_api::kinds::broadcastjob::names::label::BROADCASTJOB_NAME;
use berth_api::v1beta1::broadcastjob::{BroadcastJobStatus, FailurePolicyType};
use berth_workload::blocked::{self, Cause, Grade};
use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Outcome, Plan, Verb, Write};
use jiff::{SignedDuration, Timestamp};

use super::mark::PodResult;
use super::round::{Place, Round, without_nodes};
use super::settings::Settings;
use super::{Snapshot, is_finished};

/// How long a job must be without nodes before its condition says so: a node may be about to join.
pub(super) const LASTING: SignedDuration = SignedDuration::from_secs(60);
/// Nodes that a message names at most.
const MOST: usize = 3;
/// The reason of [`paused`].
const POD_FAILED: &str = "PodFailed";
/// The reason of a cause that is dropped: a pod that runs and does not serve does not block a job.
const NO_CAUSE: &str = "PodNotReady";

/// Brings the condition in the list of `new` up to date. A job that has ended is not blocked.
pub(super) fn set(
    snapshot: &Snapshot,
    stand: Option<(&Settings, &Round<'_>)>,
    plan: &Plan,
    outcome: &Outcome,
    new: &mut BroadcastJobStatus,
    now: Timestamp,
) {
    let view = snapshot.view();
    let mut causes = blocked::of_writes(&view, plan, outcome, now);
    causes.extend(taken(snapshot, outcome, now));
    if let Some(stand) = stand {
        causes.extend(nowhere(snapshot, stand, new, now));
        causes.extend(paused(snapshot, stand, outcome, now));
    }
    causes.extend(blocked::of_pods(&view, plan, now));
    causes.retain(|cause| cause.reason != NO_CAUSE);
    if is_finished(new) {
        causes.clear();
    }
    blocked::set_blocked(&mut new.conditions, &view.workload, causes, now);
}

/// The cause if the job has no node, and cannot complete without one.
fn nowhere(
    snapshot: &Snapshot,
    (settings, round): (&Settings, &Round<'_>),
    new: &BroadcastJobStatus,
    now: Timestamp,
) -> Option<Cause> {
    if !settings.ends || new.desired > 0 {
        return None;
    }
    let why = without_nodes(snapshot, settings, round)?;
    let from = new
        .start_time
        .as_ref()
        .and_then(|start| start.0.checked_add(LASTING).ok())
        .unwrap_or(now);
    let message = format!(
        "{}: {why}; correct spec.template.spec, or add a node that fits",
        snapshot.view().workload
    );
    Some(Cause::new(Grade::Lasting, "NoNode", message, from))
}

/// The cause if a pod has failed and the job waits for a user. A job that its author paused is not
/// blocked.
fn paused(
    snapshot: &Snapshot,
    (settings, round): (&Settings, &Round<'_>),
    outcome: &Outcome,
    now: Timestamp,
) -> Option<Cause> {
    let (job, workload) = (&snapshot.job, snapshot.view().workload);
    if settings.failure != FailurePolicyType::Pause
        || !(job.spec.paused || outcome.failures.is_empty())
    {
        return None;
    }
    let has_failed = |place: &&Place<'_>| {
        place
            .result()
            .is_some_and(|result| result != PodResult::Succeeded)
    };
    let mut failed: Vec<_> = round.places.iter().filter(has_failed).collect();
    let is_open = failed
        .iter()
        .any(|place| place.result() == Some(PodResult::Failed));
    let reported = workload
        .blocked
        .filter(|reported| reported.reason == POD_FAILED && job.spec.paused);
    let message = if is_open {
        failed.sort_by_key(|place| place.result() != Some(PodResult::Failed));
        let more = if failed.len() > MOST {
            " and others"
        } else {
            ""
        };
        let nodes: Vec<_> = failed
            .iter()
            .take(MOST)
            .map(|place| &*place.node.metadata.name)
            .collect();
        let (namespace, name) = (workload.namespace(), workload.name());
        let logs = commands::logs(namespace, &format!("{BROADCASTJOB_NAME}={name}"));
        let job = Named {
            resource: "bcj",
            namespace,
            name,
        };
        let go_on = commands::patch(job, r#"{"spec":{"paused":false}}"#);
        format!(
            "{workload}: spec.paused is set, for pods have failed on {}{more}; see {logs}, and go on with {go_on}, which accepts what \
             has failed",
            nodes.join(", ")
        )
    } else {
        reported?.message.to_owned()
    };
    Some(Cause::new(Grade::Failing, POD_FAILED, message, now))
}

/// The cause if another object has the name of a node's pod.
fn taken(snapshot: &Snapshot, outcome: &Outcome, now: Timestamp) -> Option<Cause> {
    let create = Write::of(Verb::Create, PODS);
    let failure = outcome
        .failures
        .iter()
        .find(|failure| failure.taken && failure.write == create)?;
    let (job, pod) = (snapshot.view().workload, &failure.object);
    let message = format!(
        "{job}: pod {pod} cannot be created, for there is one of that name that is not the job's; delete it"
    );
    Some(Cause::new(Grade::Refused, "NameTaken", message, now))
}
