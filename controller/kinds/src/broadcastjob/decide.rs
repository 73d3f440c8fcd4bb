//! Makes a plan from a snapshot.

mod steps;

use crate::broadcastjob::BROADCAST_JOBS;
use berth_api::v1beta1::broadcastjob::{BroadcastJobStatus, phase};
use berth_workload::blocked;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Event, Plan, Step, Target};
use berth_workload::update::launch;
use berth_workload::update::podset::unreadable;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::blocked::LASTING;
use super::mark::PodResult;
use super::place::Answer;
use super::round::{End, Round, left, without_nodes};
use super::settings::{Settings, settings};
use super::{Snapshot, is_finished};

use steps::{MOST_CREATIONS, REFUSED, begin, delete, may_begin, pause_after_node, validate};

/// The stage that creates pods.
pub(super) const CREATE: &str = "create pods";
/// Most nodes that the plan names one by one as those that the job waits for.
const NAMED: usize = 20;

/// Decides about a job.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let job = &snapshot.job;
    let status = job.status.clone().unwrap_or_default();
    if job.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    if is_finished(&status) {
        stop_all(snapshot, &mut plan);
        expire(snapshot, &status, &mut plan, now);
        return plan;
    }
    let view = snapshot.view();
    blocked::watch(&view, &mut plan, now);
    launch::release(&snapshot.pods, &mut plan);
    // A pod that cannot be read may be on any node.
    if let Some(refusal) = unreadable::refusal(&view) {
        view.refuse(&mut plan, refusal);
        return plan;
    }
    match settings(job) {
        Ok(settings) => go_on(snapshot, &settings, &status, &mut plan, now),
        Err(refusal) => view.refuse(&mut plan, refusal),
    }
    plan.join_steps_by_object(|step| {
        step.actions
            .iter()
            .any(|action| matches!(action, Action::DeletePod { .. }))
    });
    plan
}

fn go_on(
    snapshot: &Snapshot,
    settings: &Settings,
    status: &BroadcastJobStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    let (job, round) = (&snapshot.job, Round::of(snapshot, settings, now));
    let steps = doomed(&round);
    plan.add_stage("delete pods", steps);
    if let Some(grace) = round.grace {
        plan.look_again_after(grace.duration_since(now));
    }
    if let Some(end) = round.end(job, settings, now) {
        tell_end(snapshot, end, &round, plan);
        if end == End::Pause {
            pause(snapshot, plan);
        }
        // Running pods are stopped once the status has the ends of their nodes' pods.
        return;
    }
    if job.spec.paused {
        plan.wait("spec.paused is set: no pod is created".to_owned());
        return;
    }
    if status.phase == phase::PAUSED {
        let message = "the job goes on, it is not paused any more".to_owned();
        plan.events.push(Event::normal("Continue", message));
    }
    create(snapshot, settings, status, &round, plan, now);
    if let Some(left) = left(settings, status.start_time.as_ref(), now) {
        plan.look_again_after(left);
    }
}

/// Deletes pods that have no place, or lost their place.
fn doomed(round: &Round<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for place in &round.places {
        let node = &place.node.metadata.name;
        let (from, why) = if place.recorded.is_some() {
            (0, "has had its turn")
        } else if place.answer == Answer::Unwanted && place.result().is_none() {
            (0, "is not one of the job's any more, by its name or labels")
        } else {
            (1, "has another pod of the job")
        };
        // A pod that has not begun would wait for as long as the node accepts no pods.
        let waits = |pod: &Pod| place.answer == Answer::MayStay && pod.spec.node_name.is_empty();
        for (at, pod) in place.active.iter().enumerate() {
            if at >= from {
                steps.push(delete(pod, format!("node {node} {why}")));
            } else if waits(pod) {
                steps.push(delete(
                    pod,
                    format!("it has not begun, and node {node} takes no pods of the job now"),
                ));
            }
        }
    }
    steps.extend(
        round
            .strays
            .iter()
            .map(|pod| delete(pod, "its node is gone".to_owned())),
    );
    steps
}

fn create(
    snapshot: &Snapshot,
    settings: &Settings,
    status: &BroadcastJobStatus,
    round: &Round<'_>,
    plan: &mut Plan,
    now: Timestamp,
) {
    let limit = settings.parallelism(round.desired());
    plan.events.extend(too_many(round.running, limit));
    let open: Vec<_> = round.open().collect();
    if let Some(why) = without_nodes(snapshot, settings, round) {
        plan.wait(why);
        let left = status
            .start_time
            .as_ref()
            .map(|start| LASTING.saturating_sub(now.duration_since(start.0)));
        left.filter(SignedDuration::is_positive)
            .into_iter()
            .for_each(|left| plan.look_again_after(left));
    }
    if let Some(wait) = pause_after_node(settings, status, round, now) {
        if !open.is_empty() {
            let seconds = wait.as_secs();
            plan.wait(format!(
                "{} nodes wait for {seconds} s more since the last pod ended",
                open.len()
            ));
            plan.look_again_after(wait);
        }
        return;
    }
    // If the apiserver refuses creations, one attempt is enough to see whether it still does.
    let probes = snapshot
        .view()
        .workload
        .blocked
        .is_some_and(|blocked| REFUSED.contains(&blocked.reason));
    let most = if probes { 1 } else { MOST_CREATIONS };
    let next: Vec<_> = open
        .into_iter()
        .filter(|place| may_begin(place, plan))
        .collect();
    let begun = begin(
        snapshot,
        settings,
        &next,
        limit.saturating_sub(round.running).min(most),
    );
    let later = next.len() - begun.nodes;
    if later > 0 {
        if begun.nodes == most && !probes {
            plan.look_again_after(SignedDuration::from_secs(1));
        }
        plan.wait(format!(
            "{later} more nodes get a pod {}",
            until(limit, probes)
        ));
    }
    let is_first = round.running == 0 && round.ended(|_| true) == 0;
    if !begun.creates.is_empty() && (is_first || probes) {
        plan.add_required_stage("check the template", vec![validate(snapshot, settings)]);
    }
    plan.add_stage("replace pods", begun.replaces);
    plan.add_stage(CREATE, begun.creates);
    name_active(round, plan);
}

/// The event if more pods run than `spec.parallelism` allows.
fn too_many(running: usize, limit: usize) -> Option<Event> {
    (running > limit).then(|| {
        Event::warning(
            "TooManyActivePods",
            format!("{running} pods run, and spec.parallelism lets {limit}"),
        )
    })
}

/// The message about the wait of nodes without a pod.
fn until(limit: usize, probes: bool) -> String {
    match (limit, probes) {
        (0, _) => "when spec.parallelism, which lets none run, is raised".to_owned(),
        (_, true) => "when the apiserver refuses none any more".to_owned(),
        _ => format!("as others end: spec.parallelism lets {limit} run at a time"),
    }
}

fn name_active(round: &Round<'_>, plan: &mut Plan) {
    let active: Vec<_> = round
        .places
        .iter()
        .filter(|place| place.is_active())
        .collect();
    for place in active.iter().take(NAMED) {
        let phase = place.active.first().map_or("", |pod| &*pod.status.phase);
        plan.wait(format!(
            "the pod of node {} has not ended, it is {phase}",
            place.node.metadata.name
        ));
    }
    if active.len() > NAMED {
        plan.wait(format!(
            "the pods of {} more nodes have not ended",
            active.len() - NAMED
        ));
    }
}

/// The message for the end of a job, in events and in its condition.
pub(super) fn words(snapshot: &Snapshot, end: End, round: &Round<'_>) -> String {
    let failed = round.ended(|result| result != PodResult::Succeeded);
    let counts = format!(
        "{} pods succeeded, {failed} pods failed",
        round.ended(|result| result == PodResult::Succeeded)
    );
    let job = snapshot.view().workload;
    match end {
        End::Complete => format!(
            "Job {}/{} is completed, {counts}",
            job.namespace(),
            job.name()
        ),
        End::FailedPod => format!("failure policy is FailFast and a failed pod is found: {counts}"),
        End::Deadline => {
            let (namespace, name) = (job.namespace(), job.name());
            format!("Job {namespace}/{name} was active longer than activeDeadlineSeconds: {counts}")
        }
        End::Pause => {
            format!(
                "the job is paused, for a pod has failed: {counts}; take spec.paused back to accept that"
            )
        }
    }
}

fn tell_end(snapshot: &Snapshot, end: End, round: &Round<'_>, plan: &mut Plan) {
    let (warning, reason) = match end {
        End::Complete => (false, "JobComplete"),
        End::FailedPod => (true, "FailedPodFound"),
        End::Deadline => (true, "DeadlineExceeded"),
        End::Pause => (true, "Paused"),
    };
    plan.events.push(Event {
        warning,
        reason,
        message: words(snapshot, end, round),
    });
}

/// Sets `spec.paused`. A user can unset the same field, and it survives a restart of the
/// controller.
fn pause(snapshot: &Snapshot, plan: &mut Plan) {
    let metadata = &snapshot.job.metadata;
    // The write fails if the spec has changed since the snapshot, because the change may set
    // another policy.
    let target = Target {
        resource_version: metadata.resource_version.clone(),
        ..Target::from(metadata)
    };
    let action = Action::Patch {
        resource: BROADCAST_JOBS,
        target,
        patch: json!({"spec": {"paused": true}}),
    };
    plan.add_stage(
        "pause",
        vec![Step::new(
            action,
            "a pod has failed, and failurePolicy is Pause".to_owned(),
        )],
    );
}

/// Ends the job: deletes running pods, and keeps ended ones for their logs.
fn stop_all(snapshot: &Snapshot, plan: &mut Plan) {
    let active = snapshot.pods.iter().filter(|pod| pod.is_active());
    plan.add_stage(
        "delete pods",
        active
            .map(|pod| delete(pod, "the job has ended".to_owned()))
            .collect(),
    );
}

fn expire(snapshot: &Snapshot, status: &BroadcastJobStatus, plan: &mut Plan, now: Timestamp) {
    let completion = &snapshot.job.spec.completion_policy;
    let (Some(ttl), Some(completed)) = (
        completion.ttl_seconds_after_finished,
        &status.completion_time,
    ) else {
        return;
    };
    let left = SignedDuration::from_secs(i64::from(ttl)) - now.duration_since(completed.0);
    if left.is_positive() {
        plan.look_again_after(left);
        return;
    }
    let action = Action::Delete {
        resource: BROADCAST_JOBS,
        target: Target::from(&snapshot.job.metadata),
    };
    plan.add_required_stage(
        "expire",
        vec![Step::new(
            action,
            format!("ttlSecondsAfterFinished {ttl} has passed"),
        )],
    );
}
