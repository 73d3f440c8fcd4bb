//! The status of a SidecarSet.

use berth_api::v1beta1::sidecarset::{SidecarSetCondition, SidecarSetInjection, SidecarSetStatus};
use berth_workload::plan::{Outcome, Plan};
use berth_workload::podset::history::collisions;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::names::INJECTION_READY;
use super::pods::Member;
use super::revisions::History;
use super::{Asked, Snapshot, drift, on_pod};

/// The status after a plan was carried out.
pub fn status(snapshot: &Snapshot, _plan: &Plan, outcome: &Outcome, now: Timestamp) -> SidecarSetStatus {
    let old = snapshot.set.status.clone().unwrap_or_default();
    let members: Vec<_> = snapshot.pods.iter().filter_map(|pod| Member::of(snapshot, pod)).collect();
    let count = |is_so: &dyn Fn(&Member<'_>) -> bool| number(members.iter().filter(|member| is_so(member)).count());
    let history = History::of(snapshot);
    let mut conditions = old.conditions.clone();
    set_injection_ready(snapshot, &mut conditions, now);
    SidecarSetStatus {
        observed_generation: snapshot.set.metadata.generation.unwrap_or(0),
        matched_pods: number(members.len()),
        updated_pods: count(&|member| member.is_updated),
        // One whose containers may be those of before is not ready with what it is counted for.
        ready_pods: count(&|member| member.is_ready && member.unproven.is_none()),
        updated_ready_pods: count(&|member| member.is_updated && member.is_ready && member.unproven.is_none()),
        latest_revision: history.latest,
        collision_count: Some(collisions(history.collisions, outcome)),
        conditions,
        injection: Some(injection(snapshot, &members)),
    }
}

/// What the pods have that the selectors match.
fn injection(snapshot: &Snapshot, members: &[Member<'_>]) -> SidecarSetInjection {
    let name = snapshot.name();
    let active: Vec<_> = snapshot.pods.iter().filter(|pod| pod.is_active()).collect();
    let injected = active.iter().filter(|pod| on_pod::is_injected(pod, name)).count();
    let made = snapshot.set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let without = active.iter().filter(|pod| !on_pod::is_injected(pod, name));
    let older = without.filter(|pod| pod.metadata.creation_timestamp < made).count();
    SidecarSetInjection {
        selected: number(active.len()),
        injected: number(injected),
        missed: number(active.len() - injected - older),
        older: number(older),
        not_upgradable: number(members.iter().filter(|m| !m.is_updated && !m.is_upgradable).count()),
        drifted: number(drift::drifted(snapshot).len()),
        ..SidecarSetInjection::default()
    }
}

fn set_injection_ready(snapshot: &Snapshot, conditions: &mut Vec<SidecarSetCondition>, now: Timestamp) {
    let is_told = conditions.iter().any(|condition| condition.type_ == INJECTION_READY);
    let is_paused = snapshot.set.spec.injection_strategy.paused;
    if snapshot.asked == Asked::Unknown && is_told && !is_paused {
        return;
    }
    let (status, reason, message) = if is_paused {
        ("False", "Paused", "spec.injectionStrategy.paused: no pod gets the containers")
    } else {
        match snapshot.asked {
            Asked::Yes => {
                ("True", "Asked", "the apiserver asks for the containers of each pod that is created and selected")
            }
            Asked::NotYet | Asked::Unknown => {
                ("False", "NotAskedYet", "the apiserver was not told yet to ask for pods that are created")
            }
            Asked::Never => ("False", "NoWebhook", "no pod webhook is served: turn on the feature gate PodWebhook"),
        }
    };
    let old = conditions.iter().find(|condition| condition.type_ == INJECTION_READY);
    let since = old.filter(|old| old.status == status).and_then(|old| old.last_transition_time.clone());
    let new = SidecarSetCondition {
        type_: INJECTION_READY.to_owned(),
        status: status.to_owned(),
        last_transition_time: since.or(Some(Time(now))),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == INJECTION_READY) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
