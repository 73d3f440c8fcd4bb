//! The pods that are deleted, and why.

use std::sync::Arc;

use berth_workload::objects::node::placement::Fit;
use berth_workload::objects::pod::lifecycle;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::plan::{Plan, Step};
use berth_workload::update::podset::ended::{self, has_ended};
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::podset::{Uids, hooks, update};
use jiff::{SignedDuration, Timestamp};

use super::Snapshot;
use super::choose::Turns;
use super::ended::rest;
use super::places::{Place, Places, is_updated, node_of};
use super::settings::Settings;

/// How long an old pod of a surge may be not ready before it is deleted for that. A restarted
/// kubelet reports every container as not ready until its first probe, which comes within a period
/// of 10 s by default.
const LAPSE: SignedDuration = SignedDuration::from_secs(15);

/// Pods that are deleted now, or as soon as their hooks let them go.
pub(super) struct Leaving {
    pub(super) steps: Vec<Step>,
    /// The pods of the steps, and those that a hook holds.
    pub(super) uids: Uids,
}

/// The pods to delete now, up to `burstReplicas`.
pub(super) fn leaving(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'_>,
    revisions: &Revisions,
    turns: &mut Turns<'_>,
    plan: &mut Plan,
    now: Timestamp,
) -> Leaving {
    let view = snapshot.view();
    let mut go: Vec<(&Arc<Pod>, String)> = Vec::new();
    let gone = places
        .of_gone_nodes
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    go.extend(gone.map(|pod| (*pod, "the only node that it may run on is gone".to_owned())));
    for (name, place) in &places.by_node {
        go.extend(surplus_of(
            snapshot,
            settings,
            revisions,
            (name, place),
            plan,
            now,
        ));
        for pod in place.pods.iter().filter(|pod| has_ended(pod)) {
            go.extend(why_ended(snapshot, place, pod, plan, now).map(|reason| (*pod, reason)));
        }
    }
    let known = go.iter().map(|(pod, _)| pod.metadata.uid.clone()).collect();
    go.extend(requested(
        snapshot, settings, places, &known, turns, plan, now,
    ));
    go.extend(going_back(
        snapshot, settings, places, revisions, turns, plan, now,
    ));
    let mut leaving = Leaving {
        steps: Vec::new(),
        uids: Uids::new(),
    };
    for (pod, reason) in go {
        leaving.uids.insert(pod.metadata.uid.clone());
        if leaving.steps.len() == settings.burst {
            plan.wait_for_pod(
                pod,
                format!("is to be deleted ({reason}), after others (burstReplicas)"),
            );
            plan.look_again_after(SignedDuration::from_secs(1));
        } else if has_ended(pod) {
            leaving.steps.extend(ended::delete(
                &view,
                pod,
                (&reason, "FailedDaemonPod"),
                plan,
                now,
            ));
        } else if hooks::holds_deletion(&view, pod) {
            plan.wait_for_pod(
                pod,
                format!("is to be deleted ({reason}), and hook preDelete holds it"),
            );
            leaving
                .steps
                .extend(hooks::hold_deletion(&view, pod, &reason, false, now));
        } else {
            leaving.steps.push(update::delete(&view, pod, &reason));
        }
    }
    leaving
}

/// The pods that return to the old revision, because the update's selector no longer matches their
/// node. There are none unless unselected nodes keep their revision (`holds_revision`). Pods stay
/// while most of these nodes have the update revision, because then a rollout was stopped and not
/// rolled back.
fn going_back<'a>(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'a>,
    revisions: &Revisions,
    turns: &mut Turns<'_>,
    plan: &mut Plan,
    now: Timestamp,
) -> Vec<(&'a Arc<Pod>, String)> {
    let prevails = turns.held.as_ref().is_some_and(|held| held.prevails);
    let Some(selector) = settings
        .selector
        .as_ref()
        .filter(|_| prevails && settings.updates)
    else {
        return Vec::new();
    };
    let mut go = Vec::new();
    for (name, place) in places.wanted() {
        let [pod] = place.pods[..] else { continue };
        let is_out = !selector.matches(|key| place.node.metadata.label(key));
        if !is_out
            || !pod.is_active()
            || !is_updated(snapshot, revisions, pod)
            || snapshot.view().is_to_delete(pod)
        {
            continue;
        }
        // A pod that a hook holds is being deleted already, and out of service: counting it again
        // would take another pod's turn.
        if lifecycle::state(pod) == lifecycle::PREPARING_DELETE {
            continue;
        }
        if availability(pod, settings.min_ready_seconds, now).is_ready()
            && !turns.take_for_deletion()
        {
            plan.wait_for_pod(
                pod,
                "goes back to the revision of before, and waits for maxUnavailable".to_owned(),
            );
        } else {
            go.push((
                pod,
                format!("node {name} is not selected for the update any more"),
            ));
        }
    }
    go
}

/// The pods whose deletion a user or another controller requests, as far as `maxUnavailable`
/// allows. `known` are pods that are deleted for another reason anyway.
fn requested<'a>(
    snapshot: &'a Snapshot,
    settings: &Settings,
    places: &Places<'a>,
    known: &Uids,
    turns: &mut Turns<'_>,
    plan: &mut Plan,
    now: Timestamp,
) -> Vec<(&'a Arc<Pod>, String)> {
    let view = snapshot.view();
    let mut go = Vec::new();
    let is_requested = |pod: &&Arc<Pod>| {
        pod.is_active() && view.is_to_delete(pod) && !known.contains(&pod.metadata.uid)
    };
    for pod in snapshot.pods.iter().filter(is_requested) {
        let is_of_wanted = places
            .by_node
            .get(node_of(pod))
            .is_some_and(Place::is_wanted);
        let costs = is_of_wanted && availability(pod, settings.min_ready_seconds, now).is_ready();
        if costs && !turns.take_for_deletion() {
            let reason =
                "is to be deleted (its deletion was asked for), and waits for maxUnavailable";
            plan.wait_for_pod(pod, reason.to_owned());
        } else {
            go.push((pod, "its deletion was asked for".to_owned()));
        }
    }
    go
}

/// The running pods of one node that must be deleted: all if none may run there, else those that a
/// hook held, that are too many, or that a surge has replaced.
fn surplus_of<'a>(
    snapshot: &Snapshot,
    settings: &Settings,
    revisions: &Revisions,
    (name, place): (&str, &Place<'a>),
    plan: &mut Plan,
    now: Timestamp,
) -> Vec<(&'a Arc<Pod>, String)> {
    if place.fit == Fit::Unwanted {
        return place
            .active()
            .map(|pod| (pod, format!("none may run on node {name}")))
            .collect();
    }
    let is_leaving = |pod: &Pod| lifecycle::state(pod) == lifecycle::PREPARING_DELETE;
    let (held, staying): (Vec<_>, Vec<_>) = place.active().partition(|pod| is_leaving(pod));
    let mut go: Vec<_> = held
        .into_iter()
        .map(|pod| (pod, "it was to be deleted before".to_owned()))
        .collect();
    let (new, mut old): (Vec<_>, Vec<_>) = staying
        .iter()
        .copied()
        .partition(|pod| is_updated(snapshot, revisions, pod));
    let is_ready = |pod: &Pod| availability(pod, 0, now).is_ready();
    let surplus = |pod: &'a Arc<Pod>| (pod, format!("node {name} has more than one"));
    if settings.max_surge == 0 {
        go.extend(staying.iter().skip(1).copied().map(surplus));
        return go;
    }
    old.sort_by_key(|pod| !is_ready(pod));
    go.extend(
        new.iter()
            .chain(&old)
            .skip(1)
            .filter(|_| new.is_empty() || old.is_empty())
            .copied()
            .map(surplus),
    );
    if let (Some((first_new, more_new)), Some((first_old, more_old))) =
        (new.split_first(), old.split_first())
    {
        go.extend(more_new.iter().chain(more_old).copied().map(surplus));
        if availability(first_new, settings.min_ready_seconds, now).is_available() {
            go.push((
                *first_old,
                format!("{} has taken its place", first_new.metadata.name),
            ));
        } else if place.node.ready && !is_ready(first_old) && !first_old.is_called_away() {
            let rest = rest_of_lapse(first_old, now);
            if rest.is_positive() {
                plan.look_again_after(rest);
                let seconds = rest.as_secs().saturating_add(1);
                let reason = format!("is not ready, and goes in {seconds} s unless it is again");
                plan.wait_for_pod(first_old, reason);
            } else {
                let name = &first_new.metadata.name;
                go.push((
                    *first_old,
                    format!("it is not ready, and {name} takes its place"),
                ));
            }
        }
    }
    go
}

/// How long the pod may still be not ready before it is deleted for that: only while its kubelet
/// reports its containers as not ready, and only for a short time. If they are ready, or nothing is
/// reported, something else keeps the pod from being ready, and the controller deletes it at once.
fn rest_of_lapse(pod: &Pod, now: Timestamp) -> SignedDuration {
    let condition = pod
        .condition("ContainersReady")
        .filter(|condition| &*condition.status == "False");
    let since = condition.and_then(|condition| condition.last_transition_time);
    since.map_or(SignedDuration::ZERO, |since| {
        LAPSE - now.duration_since(since)
    })
}

/// The reason why a pod that has ended is deleted now; `None` while it stays. It stays until the
/// backoff for the node is over. It also stays while its node is not ready, because such a node may
/// be about to end all its pods.
fn why_ended(
    snapshot: &Snapshot,
    place: &Place<'_>,
    pod: &Pod,
    plan: &mut Plan,
    now: Timestamp,
) -> Option<String> {
    let phase = &pod.status.phase;
    if place.is_wanted() && !place.node.ready {
        plan.wait_for_pod(
            pod,
            format!("has ended ({phase}), and is replaced when its node is Ready"),
        );
        return None;
    }
    let rest = rest(snapshot, pod, now);
    if rest.is_zero() {
        return Some(ended::reason(pod));
    }
    plan.look_again_after(rest);
    let seconds = rest.as_secs().saturating_add(1);
    plan.wait_for_pod(
        pod,
        format!("has ended ({phase}) as others before it, and is replaced in {seconds} s"),
    );
    None
}
