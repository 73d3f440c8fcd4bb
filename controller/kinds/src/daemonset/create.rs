//! Creates the pods of a DaemonSet: which, and on which nodes.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::names::label::POD_TEMPLATE_GENERATION;
use berth_workload::objects::node::placement::{pin_to_node, tolerate_as_daemon};
use berth_workload::objects::pod::availability;
use berth_workload::plan::{Action, Body, Plan, Step};
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::podset::new_pod::fresh_ids;
use berth_workload::update::podset::new_pod::{creation, new_pod};
use berth_workload::update::revision::Revision;
use berth_workload::update::rollout::repair;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Snapshot;
use super::choose::{Turns, candidate};
use super::places::{Place, Places, node_of, template_generation};
use super::settings::Settings;

/// Creates a pod on each node that must have one and has none, and a second one if a surge allows
/// it.
pub(super) fn create(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'_>,
    revisions: &Revisions,
    turns: &Turns<'_>,
    plan: &mut Plan,
    now: Timestamp,
) {
    let mut nodes = without_pod(places, turns, plan);
    nodes.extend(to_surge(
        snapshot, settings, places, revisions, turns, plan, now,
    ));
    // The next round sees pods that this round adopts.
    let taken_over: BTreeSet<_> = snapshot
        .orphans
        .pods
        .iter()
        .map(|pod| node_of(pod))
        .collect();
    let of_others: BTreeMap<_, _> = snapshot
        .own
        .namesakes
        .iter()
        .map(|pod| (node_of(pod), pod))
        .collect();
    nodes.retain(|node| {
        if let Some(pod) = of_others.get(node) {
            let what =
                "is there, of another DaemonSet of this name: delete that with --cascade=orphan";
            plan.wait(format!(
                "node {node} gets no pod as long as pod {} {what}",
                pod.metadata.name
            ));
        }
        !taken_over.contains(node) && !of_others.contains_key(node)
    });
    let later = nodes.split_off(nodes.len().min(settings.burst));
    let taken = snapshot
        .pods
        .iter()
        .filter_map(|pod| Some(pod.metadata.name.rsplit_once('-')?.1.to_owned()));
    let ids = fresh_ids(snapshot.seed, taken.collect());
    let steps = nodes.iter().zip(ids).map(|(node, id)| {
        let held = turns.held.as_ref().filter(|_| !turns.is_allowed(node));
        let revision = held.map_or(&revisions.updated, |held| &held.revision);
        step(snapshot, revisions, revision, node, &id)
    });
    plan.add_stage("create", steps.collect());
    if !later.is_empty() {
        plan.wait(format!(
            "{} more pods are created as soon as {} are (burstReplicas)",
            later.len(),
            nodes.len()
        ));
        plan.look_again_after(SignedDuration::from_secs(1));
    }
}

/// Nodes that must have a pod now and have none, by name. The plan waits for a pod that is being
/// deleted.
fn without_pod<'a>(places: &Places<'a>, turns: &Turns<'_>, plan: &mut Plan) -> Vec<&'a str> {
    let is_due =
        |name: &str, place: &Place<'_>| place.pods.is_empty() && !turns.empty.contains(name);
    let due = places.wanted().filter(|(name, place)| is_due(name, place));
    let nodes: Vec<_> = due.map(|(name, _)| name).collect();
    if !turns.empty.is_empty() {
        let count = turns.empty.len();
        plan.wait(turns.held.as_ref().map_or_else(
            || format!("{count} nodes get no pod: partitionedScaling, and partition"),
            |held| {
                let revision = &held.revision.metadata.name;
                let why = format!(
                    "the revision of the others that it leaves out, {revision}, may not run there"
                );
                format!("{count} nodes get no pod before the update reaches them: {why}")
            },
        ));
    }
    nodes
}

/// Nodes whose old pod gets a new one beside it. A node whose pod is not ready gets it at once, as
/// long as no pod of the new revision fails.
fn to_surge<'a>(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'a>,
    revisions: &Revisions,
    turns: &Turns<'_>,
    plan: &mut Plan,
    now: Timestamp,
) -> Vec<&'a str> {
    if settings.max_surge == 0 || !settings.updates {
        return Vec::new();
    }
    let of = |(name, place): (&'a str, &Place<'a>)| {
        Some((name, candidate(snapshot, revisions, None, place)?))
    };
    let mut old: Vec<_> = places
        .wanted()
        .rev()
        .filter_map(of)
        .filter(|(name, _)| turns.is_in_turn(name))
        .collect();
    let is_ready = |pod| availability(pod, 0, now).is_ready();
    old.sort_by_key(|(_, pod)| is_ready(pod));
    let mut surge = turns.surge;
    let mut nodes = Vec::new();
    for (name, pod) in old {
        let is_free = !is_ready(pod) && (turns.repair.free > 0 || !repair::is_broken(pod));
        if !is_free && surge == 0 {
            plan.wait_for_pod(pod, "is to be updated, and waits for maxSurge".to_owned());
            continue;
        }
        surge -= usize::from(!is_free);
        nodes.push(name);
    }
    nodes
}

fn step(
    snapshot: &Snapshot,
    revisions: &Revisions,
    revision: &Revision,
    node: &str,
    id: &str,
) -> Step {
    let view = snapshot.view();
    let name = format!("{}-{id}", view.workload.name());
    let mut body = new_pod(&view, revision, &revisions.template_of(revision), &name);
    tolerate_as_daemon(&mut body);
    if snapshot.own.assigns_by_scheduler {
        pin_to_node(&mut body, node);
    } else {
        body["spec"]["nodeName"] = json!(node);
    }
    if let Some(generation) = template_generation(snapshot) {
        let is_updated = revision.metadata.name == revisions.updated.metadata.name;
        number(
            &mut body["metadata"]["labels"],
            is_updated.then_some(generation),
        );
    }
    let actions = vec![Action::CreatePod {
        body: Body::from(&body),
    }];
    let reason = format!(
        "node {node} shall have a pod: creates {name} at {}",
        revision.metadata.name
    );
    creation(actions, reason, &name)
}

/// Writes the template generation, by which a pod counts as updated. A pod of another revision must
/// have none, even if its template has one.
fn number(labels: &mut Value, generation: Option<&str>) {
    match generation {
        Some(generation) => labels[POD_TEMPLATE_GENERATION] = json!(generation),
        None => labels
            .as_object_mut()
            .into_iter()
            .for_each(|labels| drop(labels.remove(POD_TEMPLATE_GENERATION))),
    }
}
