//! Makes a plan from a snapshot.

use std::borrow::Cow;

use berth_api::names::finalizer::RECREATE_UNREADY_ACQUIRED;
use berth_api::names::label::RECREATE_ACTIVE;
use berth_api::v1beta1::ContainerRecreateRequest;
use berth_api::v1beta1::containerrecreaterequest::RecreatePhase;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::gates::{KRUISE_POD_READY, not_ready};
use berth_workload::objects::pod::unready::{self, Reason};
use berth_workload::objects::resource::CONTAINER_RECREATE_REQUESTS;
use berth_workload::plan::{Action, Event, Plan, PodPatch, Step, Target};
use berth_workload::update::recreate::{Next, grace_left, is_virtual, phase, time_left};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::blocked::{due, lacks_gate};
use super::decision::{Decision, decision};
use super::left::USER_AGENT;
use super::silence::{noted_in, silence_left};
use super::{Snapshot, pod};

/// The longest time until a refused request tries its budgets again. A budget with free capacity
/// triggers the request earlier.
const HELD: SignedDuration = SignedDuration::from_secs(5);

/// Decides about a request.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let request = &*snapshot.request;
    let left = [time_left(request, now), silence_left(snapshot, now)];
    match decision(snapshot, now) {
        Decision::Over => {
            let_go(snapshot, &mut plan, now);
            return plan;
        }
        Decision::Complete { message, .. } => {
            tell_end(snapshot, message, &mut plan);
            return plan;
        }
        Decision::Fill(patch) => {
            let reason = "the webhook did not fill it in at its creation".to_owned();
            let step = Step::new(patched(request, patch.clone()), reason);
            plan.add_stage("fill in", vec![step]);
        }
        Decision::Queued(other) => plan.wait(format!(
            "ContainerRecreateRequest {other} of the same pod comes first"
        )),
        Decision::Held(why) => {
            plan.wait(why.to_owned());
            plan.look_again_after(HELD);
        }
        Decision::External(pod) => {
            if grace_left(request, now).is_none() {
                take_out_of_service(snapshot, pod, &mut plan, now);
            }
            plan.wait("the provider of its node restarts the containers".to_owned());
        }
        Decision::Restart(pod) => {
            work(snapshot, pod, &mut plan, now);
            let due = [due(snapshot, pod, now), noted_in(snapshot, pod, now)];
            due.into_iter()
                .flatten()
                .for_each(|due| plan.look_again_after(due));
        }
    }
    left.into_iter()
        .flatten()
        .filter(SignedDuration::is_positive)
        .for_each(|left| plan.look_again_after(left));
    plan
}

/// Says in the plan that the request ends, and why.
fn tell_end(snapshot: &Snapshot, message: String, plan: &mut Plan) {
    plan.wait(if message.is_empty() {
        "it is completed".to_owned()
    } else {
        message.clone()
    });
    if snapshot.filled.is_some() {
        plan.events.push(Event::warning("Refused", message));
    }
}

/// A merge patch of the request in the version of the snapshot.
fn patched(request: &ContainerRecreateRequest, patch: Value) -> Action {
    Action::Patch {
        resource: CONTAINER_RECREATE_REQUESTS,
        target: as_seen(request),
        patch,
    }
}

fn work(snapshot: &Snapshot, pod: &Pod, plan: &mut Plan, now: Timestamp) {
    let request = &*snapshot.request;
    match grace_left(request, now) {
        None => take_out_of_service(snapshot, pod, plan, now),
        Some(left) if left.is_positive() => plan.wait(format!(
            "the pod is not ready for {} s more",
            left.as_secs()
        )),
        Some(_) => match snapshot.course(pod).next() {
            Next::Stop(stop) => plan.wait(format!(
                "the controller asks its node's daemon to stop container {}",
                stop.container
            )),
            Next::Answer(name) => plan.wait(format!(
                "the daemon of node {} stops container {name}",
                pod.spec.node_name
            )),
            Next::Restart(name) => plan.wait(format!(
                "container {name} has stopped; the next one is to serve"
            )),
            Next::Over => {}
        },
    }
}

/// Whether the request may begin. For another service, that service writes the phase that begins
/// it.
pub(super) fn may_begin(request: &ContainerRecreateRequest) -> bool {
    !is_virtual(request) || phase(request) == RecreatePhase::Recreating
}

fn take_out_of_service(snapshot: &Snapshot, pod: &Pod, plan: &mut Plan, now: Timestamp) {
    let request = &*snapshot.request;
    if lacks_gate(request, pod) {
        return plan.wait(format!("the pod has no readiness gate {KRUISE_POD_READY}"));
    }
    if !may_begin(request) {
        return;
    }
    let mut finalizers = request.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers
        .iter()
        .any(|finalizer| finalizer == RECREATE_UNREADY_ACQUIRED)
    {
        finalizers.push(RECREATE_UNREADY_ACQUIRED.to_owned());
        let patch = json!({"metadata": {"finalizers": finalizers}});
        let reason = "the pod is let go before the request goes".to_owned();
        let step = Step::new(patched(request, patch), reason);
        plan.add_required_stage("finalizer", vec![step]);
    }
    if let Some(closed) = unready::with(pod, &reason(request), now) {
        let conditions = vec![closed, not_ready(pod, KRUISE_POD_READY, now)];
        let target = Target::as_seen(&pod.metadata);
        let action = Action::PatchPodStatus {
            target,
            conditions,
            patch: PodPatch::default(),
        };
        let why = format!(
            "pod {} goes out of service before its containers are stopped",
            pod.metadata.name
        );
        plan.add_required_stage("out of service", vec![Step::new(action, why)]);
    }
}

/// The entry of a request in the pod's readiness gate.
pub(super) fn reason(request: &ContainerRecreateRequest) -> Reason {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let key = format!(
        "{}/{}",
        part(&request.metadata.namespace),
        part(&request.metadata.name)
    );
    Reason {
        user_agent: Cow::Borrowed(USER_AGENT),
        key: Cow::Owned(key),
    }
}

/// Ends a request that is over: releases its pod, then removes its finalizer and label, and deletes
/// it when its time is over.
fn let_go(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    let request = &*snapshot.request;
    let is_going = request.metadata.deletion_timestamp.is_some();
    let finalizers = request.metadata.finalizers.clone().unwrap_or_default();
    let holds = finalizers
        .iter()
        .any(|finalizer| finalizer == RECREATE_UNREADY_ACQUIRED);
    // The entry is removed even without the finalizer, because a user may have removed that.
    if let Some(pod) = pod(snapshot)
        && let Some(open) = unready::without(pod, &reason(request), now)
    {
        let target = Target::as_seen(&pod.metadata);
        let action = Action::PatchPodStatus {
            target,
            conditions: vec![open],
            patch: PodPatch::default(),
        };
        let why = format!(
            "pod {} is out of service for the request no more",
            pod.metadata.name
        );
        plan.add_required_stage("back in service", vec![Step::new(action, why)]);
    }
    let mut metadata = Map::new();
    if holds {
        let rest: Vec<_> = finalizers
            .iter()
            .filter(|finalizer| *finalizer != RECREATE_UNREADY_ACQUIRED)
            .collect();
        metadata.insert("finalizers".to_owned(), json!(rest));
    }
    let labels = request.metadata.labels.as_ref();
    if !is_going && labels.is_some_and(|labels| labels.contains_key(RECREATE_ACTIVE)) {
        metadata.insert("labels".to_owned(), json!({RECREATE_ACTIVE: Value::Null}));
    }
    if !metadata.is_empty() {
        let target = if holds {
            as_seen(request)
        } else {
            Target::from(&request.metadata)
        };
        let patch = json!({"metadata": metadata});
        let action = Action::Patch {
            resource: CONTAINER_RECREATE_REQUESTS,
            target,
            patch,
        };
        plan.add_stage(
            "let go",
            vec![Step::new(action, "the request is over".to_owned())],
        );
        // The change of the request triggers a new decision.
        return;
    }
    if !is_going {
        expire(request, plan, now);
    }
}

fn expire(request: &ContainerRecreateRequest, plan: &mut Plan, now: Timestamp) {
    let completed = request
        .status
        .as_ref()
        .and_then(|status| status.completion_time.as_ref());
    let Some((ttl, completed)) = request.spec.ttl_seconds_after_finished.zip(completed) else {
        return;
    };
    let left =
        SignedDuration::from_secs(i64::from(ttl)).saturating_sub(now.duration_since(completed.0));
    if left.is_positive() {
        return plan.look_again_after(left);
    }
    let action = Action::Delete {
        resource: CONTAINER_RECREATE_REQUESTS,
        target: Target::from(&request.metadata),
    };
    plan.add_stage(
        "expire",
        vec![Step::new(
            action,
            format!("ttlSecondsAfterFinished {ttl} has passed"),
        )],
    );
}

fn as_seen(request: &ContainerRecreateRequest) -> Target {
    Target {
        resource_version: request.metadata.resource_version.clone(),
        ..Target::from(&request.metadata)
    }
}
