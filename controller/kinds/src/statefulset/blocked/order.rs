//! In order, a pod that does not serve holds up those behind it.

use berth_api::commands::{self, Named};
use berth_workload::blocked::{self, Cause};
use berth_workload::objects::pod::lifecycle;
use berth_workload::objects::pod::{Availability, Pod, availability};
use berth_workload::plan::Plan;
use jiff::Timestamp;

use super::super::Snapshot;
use super::super::places::Places;
use super::lasting::lasting;

/// The pod that those behind it wait for, where no cause of its own says why it does not serve.
pub(super) fn waited_for(
    snapshot: &Snapshot,
    places: &Places<'_>,
    now: Timestamp,
) -> Option<Cause> {
    let pod = places.gap?.pod?;
    let scene = snapshot.scene();
    if pod.metadata.deletion_timestamp.is_some() || blocked::holds_pod(&scene, pod, now) {
        return None;
    }
    let (what, remedy, since) = why(snapshot, places, pod, now)?;
    let message = format!(
        "{}: the others wait for pod {}, for spec.podManagementPolicy is OrderedReady: {what}; {remedy}",
        scene.workload, pod.metadata.name
    );
    Some(lasting("PredecessorNotReady", message, Some(since)))
}

/// Of those beyond what is wanted one that has ended, and that a higher one waits for, which goes first: that passes by no means.
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
        snapshot.scene().workload,
        pod.metadata.name,
        lower.status.phase
    );
    Some(lasting("PredecessorNotReady", message, None))
}

/// Does anything wait for it? A plan knows.
pub(super) fn is_waited_for(places: &Places<'_>, plan: &Plan) -> bool {
    let words = [
        "waits for pod",
        "waits for maxUnavailable",
        "waits until it is available",
    ];
    let is_told = |reason: &str| words.iter().any(|words| reason.contains(words));
    places.empty().next().is_some() || plan.waiting.iter().any(|waiting| is_told(&waiting.reason))
}

/// Why it does not serve, what helps, and since when it is so. What passes at a known time is not told, nor what the plan
/// itself is about to mend.
fn why(
    snapshot: &Snapshot,
    places: &Places<'_>,
    pod: &Pod,
    now: Timestamp,
) -> Option<(String, String, Timestamp)> {
    if !pod.is_active() {
        return None; // it goes, or a hook holds it, which is a cause of its own
    }
    match availability(pod, snapshot.scene().workload.min_ready_seconds, now) {
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
                namespace: snapshot.scene().workload.namespace(),
                name,
            };
            let remedy = format!(
                "see {}: whoever resizes its volume says there what is wrong",
                commands::describe(object)
            );
            let what = format!("its claim {name} has less than it asks for by now");
            Some((what, remedy, claim.resizes_since()?))
        }
        Availability::After(_) | Availability::NotReady => None,
    }
}
