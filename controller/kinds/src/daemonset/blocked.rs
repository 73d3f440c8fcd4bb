//! The condition `Blocked` of a DaemonSet.

use berth_api::names::annotation::{DAEMONSET_IGNORE_NOT_READY, UPDATE_TOPOLOGY_KEY};
use berth_workload::blocked::{self, Cause, Grade};
use berth_workload::images::prepull;
use berth_workload::objects::node::placement::Fit;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Outcome, Plan};
use berth_workload::update::podset::ended::{OFTEN, PODS_FAIL, cause, has_failed, has_not_begun};
use berth_workload::update::podset::history::{self, Revisions};
use berth_workload::update::podset::{Uids, overlap};
use berth_workload::update::revision::Recognised;
use jiff::Timestamp;
use serde_json::Value;

use super::Snapshot;
use super::choose::{Turns, ignores_not_ready};
use super::ended::times;
use super::places::{Place, Places, is_available, is_updated};
use super::settings::settings;

/// Most nodes that a message names.
const MOST: usize = 3;
/// The reason of [`host_ports`].
const HOST_PORT_WITH_SURGE: &str = "HostPortWithSurge";

/// All causes that block the DaemonSet.
pub(super) fn causes(
    snapshot: &Snapshot,
    places: &Places<'_>,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> Vec<Cause> {
    let view = snapshot.view();
    let mut causes = blocked::of_writes(&view, plan, outcome, now);
    let hazard = overlap::message(&view.workload, &snapshot.overlapping);
    causes.extend(hazard.map(|message| Cause::new(Grade::Hazard, overlap::REASON, message, now)));
    causes.extend(not_ready(snapshot, places, plan, now));
    causes.extend(failing(snapshot, places, now));
    causes.extend(prepull::unserved(&view.workload, snapshot.gates, now));
    // A node where the pod may stay without being wanted is no cause, and neither is its pod.
    let borne = places
        .by_node
        .values()
        .filter(|place| place.fit == Fit::MayStay)
        .flat_map(|place| &place.pods);
    let borne: Uids = borne.map(|pod| pod.metadata.uid.clone()).collect();
    causes.extend(blocked::of_pods_without(&view, &borne, plan, now));
    // The remedy of this cause does not help a pod that has another fault.
    causes.extend(host_ports(snapshot, places, now));
    causes
}

/// Whether a pod waits for this limit.
fn waits_for(plan: &Plan, limit: &str) -> bool {
    plan.waiting
        .iter()
        .any(|waiting| waiting.reason.contains(limit))
}

/// The cause if nodes that are not Ready use up the limit, or keep the next zone from its turn.
fn not_ready(
    snapshot: &Snapshot,
    places: &Places<'_>,
    plan: &Plan,
    now: Timestamp,
) -> Option<Cause> {
    let not_ready: Vec<_> = places
        .wanted()
        .filter(|(_, place)| !place.node.ready)
        .map(|(name, _)| name)
        .collect();
    if not_ready.is_empty() || ignores_not_ready(snapshot) {
        return None;
    }
    let (what, mut nodes) = if waits_for(plan, "maxUnavailable") {
        let limit = "spec.updateStrategy.rollingUpdate.maxUnavailable";
        (
            format!("{limit}, which nodes that are not Ready use up"),
            not_ready,
        )
    } else {
        let key = snapshot.view().workload.annotation(UPDATE_TOPOLOGY_KEY)?;
        (
            format!("the turn of their {key}, which nodes that are not Ready hold up"),
            holding_up(snapshot, places, now)?,
        )
    };
    let more = if nodes.len() > MOST {
        " and others"
    } else {
        ""
    };
    nodes.truncate(MOST);
    let message = format!(
        "{}: pods wait for {what}: {}{more}; bring them back, delete them, or set annotation {DAEMONSET_IGNORE_NOT_READY}: \"true\"",
        snapshot.view().workload,
        nodes.join(", ")
    );
    Some(Cause::new(Grade::Failing, "NodesNotReady", message, now))
}

/// The nodes that are not Ready and that all nodes of later zones wait for, if nodes are updated
/// zone by zone.
fn holding_up<'a>(
    snapshot: &Snapshot,
    places: &Places<'a>,
    now: Timestamp,
) -> Option<Vec<&'a str>> {
    let template = snapshot.set.spec.template.value();
    let settings = settings(snapshot, &template, places.wanted().count())
        .ok()
        .filter(|settings| settings.updates)?;
    let revisions = revisions(snapshot, &template)?;
    let turns = Turns::new(snapshot, &settings, places, &revisions, now);
    let is_new = |place: &Place<'_>| {
        place
            .active()
            .all(|pod| is_updated(snapshot, &revisions, pod))
    };
    let is_done =
        |place: &Place<'_>| is_new(place) && is_available(place, settings.min_ready_seconds, now);
    let allowed = places.wanted().filter(|(name, _)| turns.is_allowed(name));
    let (in_turn, later): (Vec<_>, Vec<_>) = allowed.partition(|(name, _)| turns.is_in_turn(name));
    let open: Vec<_> = in_turn
        .into_iter()
        .filter(|(_, place)| !is_done(place))
        .collect();
    let are_away = !open.is_empty() && open.iter().all(|(_, place)| !place.node.ready);
    let holds_up = are_away && later.iter().any(|(_, place)| !is_new(place));
    holds_up.then(|| open.into_iter().map(|(name, _)| name).collect())
}

/// The revisions, once that of the template exists.
fn revisions(snapshot: &Snapshot, template: &Value) -> Option<Revisions> {
    let view = snapshot.view();
    match history::recognise(&view, template) {
        Recognised::Newest(updated) | Recognised::Older(updated, _) => {
            Some(Revisions::new(&view, updated))
        }
        Recognised::New(_) => None,
    }
}

/// The cause if pods of a node fail one after the other: the node refuses or evicts them.
fn failing(snapshot: &Snapshot, places: &Places<'_>, now: Timestamp) -> Option<Cause> {
    let workload = snapshot.view().workload;
    let reported = workload
        .blocked
        .filter(|reported| reported.reason == PODS_FAIL)
        .map(|reported| reported.message);
    let head = |node: &str| {
        format!("{workload}: pods on node {node} fail one after the other; the node says: ")
    };
    let is_reported =
        |node: &str| reported.is_some_and(|reported| reported.starts_with(&head(node)));
    let mut of_node = places.wanted().filter_map(|(name, place)| {
        // If the set's own pod has the port, that is another cause.
        let is_second = |pod: &Pod| is_refused_port(pod) && place.active().next().is_some();
        let failed = place
            .pods
            .iter()
            .find(|pod| has_failed(pod) && !is_second(pod));
        let message = match failed {
            Some(pod)
                if place.node.ready && (times(snapshot, name) >= OFTEN || is_reported(name)) =>
            {
                format!("{}{}", head(name), cause(pod))
            }
            // Between two of them the problem is not solved yet.
            None if is_reported(name) && place.pods.iter().all(|pod| has_not_begun(pod, now)) => {
                reported?.to_owned()
            }
            _ => return None,
        };
        Some((!is_reported(name), message))
    });
    let first = of_node.next()?;
    let (_, message) = of_node.fold(
        first,
        |best, other| if best.0 && !other.0 { other } else { best },
    );
    Some(Cause::new(Grade::Failing, PODS_FAIL, message, now))
}

/// The cause if two pods of one node need the same host port.
fn host_ports(snapshot: &Snapshot, places: &Places<'_>, now: Timestamp) -> Option<Cause> {
    let workload = snapshot.view().workload;
    let is_reported = workload
        .blocked
        .is_some_and(|reported| reported.reason == HOST_PORT_WITH_SURGE);
    let is_kept_out = places.wanted().any(|(_, place)| keeps_second_out(place));
    if !is_kept_out && !is_reported {
        return None;
    }
    let template = snapshot.set.spec.template.value();
    let settings = settings(snapshot, &template, places.wanted().count()).ok()?;
    if settings.max_surge == 0
        || !settings.updates
        || !(is_kept_out || is_between(snapshot, places, &template, now))
    {
        return None;
    }
    let has_host_network = template["spec"]["hostNetwork"] == Value::Bool(true);
    let containers = template["spec"]["containers"].as_array()?;
    let mut ports = containers
        .iter()
        .flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let is_of_host =
        |port: &&Value| port["hostPort"].as_i64().is_some_and(|port| port > 0) || has_host_network;
    let port = ports.find(is_of_host)?;
    let number = port["hostPort"]
        .as_i64()
        .filter(|port| *port > 0)
        .or_else(|| port["containerPort"].as_i64())?;
    let message = format!(
        "{workload}: spec.updateStrategy.rollingUpdate.maxSurge lets a second pod run on a node, and spec.template has port {number} of the \
         host, which only one can have; use maxUnavailable in place of maxSurge"
    );
    Some(Cause::new(
        Grade::Failing,
        HOST_PORT_WITH_SURGE,
        message,
        now,
    ))
}

/// Whether a second pod cannot run on the node of the first. The scheduler reports that, or, if the
/// pod bypasses it, the kubelet.
fn keeps_second_out(place: &Place<'_>) -> bool {
    let is_unbound = |pod: &Pod| {
        let scheduled = pod.condition("PodScheduled");
        pod.spec.node_name.is_empty() && scheduled.is_some_and(|said| &*said.status == "False")
    };
    let is_kept_out = |pod: &Pod| is_unbound(pod) || is_refused_port(pod);
    place.pods.iter().any(|pod| is_kept_out(pod)) && place.active().any(|pod| !is_kept_out(pod))
}

/// Whether the kubelet refused the pod because another pod has its host port.
fn is_refused_port(pod: &Pod) -> bool {
    &*pod.status.reason == "NodePorts"
}

/// Whether a refused second pod is gone, and the next one is not created or not on its node yet.
/// The problem stays as long as the first pod exists. A change of the spec ends this state, because
/// no pod of the new spec was refused yet.
fn is_between(snapshot: &Snapshot, places: &Places<'_>, template: &Value, now: Timestamp) -> bool {
    let Some(revisions) = revisions(snapshot, template) else {
        return false;
    };
    places.wanted().any(|(name, place)| {
        let mut active = place.active();
        let is_old = active
            .next()
            .is_some_and(|first| !is_updated(snapshot, &revisions, first));
        is_old && times(snapshot, name) > 0 && active.all(|pod| has_not_begun(pod, now))
    })
}
