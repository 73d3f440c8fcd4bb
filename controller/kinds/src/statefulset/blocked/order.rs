//! With ordered pods, a pod that does not serve blocks those after it.

use berth_api::commands::{self, Named};
use berth_workload::blocked::{self, Cause};
use berth_workload::objects::pod::lifecycle;
use berth_workload::objects::pod::{Availability, Pod, availability};
use berth_workload::plan::Plan;
use jiff::Timestamp;

use super::super::Snapshot;
use super::super::places::Places;
use super::lasting::lasting;

/// The pod that those after it wait for, if no other cause says why it does not serve.
pub(super) fn waited_for(
    snapshot: &Snapshot,
    places: &Places<'_>,
    now: Timestamp,
) -> Option<Cause> {
    let pod = places.gap?.pod?;
    let view = snapshot.view();
    if pod.metadata.deletion_timestamp.is_some() || blocked::holds_pod(&view, pod, now) {
        return None;
    }
    let (what, remedy, since) = why(snapshot, places, pod, now)?;
    let message = format!(
        "{}: the others wait for pod {}, for spec.podManagementPolicy is OrderedReady: {what}; {remedy}",
        view.workload, pod.metadata.name
    );
    Some(lasting("PredecessorNotReady", message, Some(since)))
}

/// The cause for a surplus pod that has ended, and that a higher one waits for. The higher one must
/// be deleted first, so this never passes by itself.
pub(super) fn ended(snapshot: &Snapshot, places: &Places<'_>) -> Option<Cause> {
    let (ordinal, pod) = places
        .condemned
        .last_key_value()
        .filter(|_| places.gap.is_none())?;
    let (_, lower) = places.lower(*ordinal, pod)?;
    if lower.is_active() || lower.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let name = &lower.metadata.name;
    let message = format!(
        "{}: pod {} is beyond what is wanted, and waits for pod {name}, for spec.podManagementPolicy is OrderedReady: it has ended ({}); \
         delete pod {name}",
        snapshot.view().workload,
        pod.metadata.name,
        lower.status.phase
    );
    Some(lasting("PredecessorNotReady", message, None))
}

/// Whether any pod waits: a place is empty, or the plan says that a pod waits.
pub(super) fn is_waited_for(places: &Places<'_>, plan: &Plan) -> bool {
    let words = [
        "waits for pod",
        "waits for maxUnavailable",
        "waits until it is available",
    ];
    let is_wait = |reason: &str| words.iter().any(|words| reason.contains(words));
    places.empty().next().is_some() || plan.waiting.iter().any(|waiting| is_wait(&waiting.reason))
}

/// The reason why the pod does not serve, the remedy, and the time since then. A state that passes
/// at a known time is no cause, nor is one that the plan itself is about to repair.
fn why(
    snapshot: &Snapshot,
    places: &Places<'_>,
    pod: &Pod,
    now: Timestamp,
) -> Option<(String, String, Timestamp)> {
    if !pod.is_active() {
        return None; // being deleted, or held by a hook, which is a cause of its own
    }
    match availability(pod, snapshot.view().workload.min_ready_seconds, now) {
        Availability::Held => {
            let state = lifecycle::state(pod);
            let remedy = format!(
                "take it out of this state, or the label {} off the pod",
                lifecycle::STATE_LABEL
            );
            Some((
                format!("it is in lifecycle state {state}"),
                remedy,
                lifecycle::since(pod)?,
            ))
        }
        Availability::Available => {
            let claim = places
                .growth
                .lacking(snapshot, pod)
                .find(|claim| !claim.waits_for_its_file_system())?;
            let name = &claim.metadata.name;
            let object = Named {
                resource: "pvc",
                namespace: snapshot.view().workload.namespace(),
                name,
            };
            let remedy = format!(
                "see {}: the claim's events say why its volume does not grow",
                commands::describe(object)
            );
            let what = format!("its claim {name} has less than it asks for by now");
            Some((what, remedy, claim.resizes_since()?))
        }
        Availability::After(_) | Availability::NotReady => None,
    }
}
