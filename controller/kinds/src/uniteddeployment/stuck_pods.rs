//! Pods of Kubernetes' own StatefulSets that block a rollout.
//!
//! The StatefulSet controller waits for a pod that is not ready before it updates the next one,
//! even if that pod has the old template and can never be ready (kubernetes#67250). After its
//! deletion, the pod comes back with the new template.

use berth_api::names::label::KRUISE_CONTROLLER_REVISION_HASH;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Event, Plan, Step, Target};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::round::Round;
use super::{Snapshot, SubsetKind, SubsetWorkload};

/// A pod that was not ready for less time is only starting.
const AT_LEAST: SignedDuration = SignedDuration::from_secs(60);

/// The pods to delete now. For a pod that is too young, the plan asks for another decision.
pub(super) fn delete(
    snapshot: &Snapshot,
    round: &Round<'_>,
    plan: &mut Plan,
    now: Timestamp,
) -> Vec<Step> {
    let mut steps = Vec::new();
    if round.kind != SubsetKind::StatefulSet {
        return steps;
    }
    for (subset, _, partition) in round.sized(snapshot) {
        let Some(workload) = subset.workload else {
            continue;
        };
        let Some(patience) = patience(workload) else {
            continue;
        };
        for pod in subset
            .pods
            .iter()
            .filter(|pod| holds_up(pod, workload, &round.revision, partition))
        {
            let left = patience
                - not_ready_since(pod)
                    .map_or(SignedDuration::ZERO, |since| now.duration_since(since));
            if left.is_positive() {
                plan.look_again_after(left);
                continue;
            }
            let name = &pod.metadata.name;
            let why = format!(
                "pod {name} of subset {} has the old template and was not ready for {} s, so that its StatefulSet waits",
                subset.spec.name,
                patience.as_secs()
            );
            let mut step = Step::new(
                Action::DeletePod {
                    target: Target::from(&pod.metadata),
                },
                why.clone(),
            );
            step.done = Some(Event::normal(
                "SuccessfulUpdateSubset",
                format!("deleted {why}"),
            ));
            steps.push(step);
        }
    }
    steps
}

/// Whether the StatefulSet waits for this pod: it has the old template, should have the new one,
/// and is not ready.
fn holds_up(pod: &Pod, workload: &SubsetWorkload, revision: &str, partition: i32) -> bool {
    let ordinal = pod
        .metadata
        .name
        .strip_prefix(workload.name())
        .and_then(|rest| rest.strip_prefix('-'));
    let ordinal: Option<i32> = ordinal.and_then(|ordinal| ordinal.parse().ok());
    ordinal.is_some_and(|ordinal| ordinal >= partition)
        && pod.metadata.label(KRUISE_CONTROLLER_REVISION_HASH) != Some(revision)
        && !pod.is_true("Ready")
}

fn not_ready_since(pod: &Pod) -> Option<Timestamp> {
    let reported = pod
        .condition("Ready")
        .and_then(|ready| ready.last_transition_time);
    reported.or(pod.metadata.creation_timestamp)
}

/// How long a pod may take to be ready: as long as its startup and readiness probes allow, at least
/// a minute. `None` for a StatefulSet that does not update pods by itself.
fn patience(workload: &SubsetWorkload) -> Option<SignedDuration> {
    let spec = workload.object.spec.value();
    if spec.pointer("/updateStrategy/type").and_then(Value::as_str) == Some("OnDelete") {
        return None;
    }
    let containers = spec
        .pointer("/template/spec/containers")
        .and_then(Value::as_array);
    let seconds = containers.into_iter().flatten().map(|container| {
        let probes = ["startupProbe", "readinessProbe"]
            .into_iter()
            .filter_map(|probe| container.get(probe));
        probes.map(seconds).fold(0_i64, i64::saturating_add)
    });
    let seconds = seconds.max().unwrap_or(0).min(i64::from(i32::MAX));
    Some(AT_LEAST.max(SignedDuration::from_secs(seconds)))
}

/// Seconds until a probe has failed for good.
fn seconds(probe: &Value) -> i64 {
    let number = |field: &str, default: i64| {
        probe
            .get(field)
            .and_then(Value::as_i64)
            .unwrap_or(default)
            .max(0)
    };
    let tries = number("periodSeconds", 10).saturating_mul(number("failureThreshold", 3));
    number("initialDelaySeconds", 0).saturating_add(tries)
}
