//! The nodes, and the DaemonSet's pods on each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::names::annotation::{DAEMONSET_IGNORE_UNSCHEDULABLE, DAEMONSET_TEMPLATE_GENERATION};
use berth_api::names::label::POD_TEMPLATE_GENERATION;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_workload::objects::node::Node;
use berth_workload::objects::node::placement::{Fit, Placement};
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::update::podset::history::Revisions;
use jiff::Timestamp;
use serde_json::Value;

use super::Snapshot;

/// A node, and its pods.
pub(super) struct Place<'a> {
    pub(super) node: &'a Node,
    /// The relation of the node to the DaemonSet's pods.
    pub(super) fit: Fit,
    /// Its pods, including those that are being deleted: bound ones first, then the oldest, then by
    /// name. The first one counts.
    pub(super) pods: Vec<&'a Arc<Pod>>,
}

impl<'a> Place<'a> {
    /// Whether the node must have a pod.
    pub(super) fn is_wanted(&self) -> bool {
        self.fit == Fit::Wanted
    }

    /// Its pods that run or will run.
    pub(super) fn active(&self) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods.iter().copied().filter(|pod| pod.is_active())
    }
}

/// All nodes.
pub struct Places<'a> {
    /// By name.
    pub(super) by_node: BTreeMap<&'a str, Place<'a>>,
    /// Pods that are bound to no node, and may be scheduled only to a node that is gone.
    pub(super) of_gone_nodes: Vec<&'a Arc<Pod>>,
}

impl<'a> Places<'a> {
    /// The nodes as the template sees them.
    pub(super) fn new(snapshot: &'a Snapshot, template: &Value) -> Self {
        let fits = Fits::new(&snapshot.set, template);
        let place = |node: &'a Arc<Node>| Place {
            node,
            fit: fits.of(node),
            pods: Vec::new(),
        };
        let mut by_node: BTreeMap<&str, Place<'_>> = snapshot
            .nodes
            .iter()
            .map(|(name, node)| (&**name, place(node)))
            .collect();
        let mut of_gone_nodes = Vec::new();
        for pod in &snapshot.pods {
            match by_node.get_mut(node_of(pod)) {
                Some(place) => place.pods.push(pod),
                None if pod.spec.node_name.is_empty() && pod.spec.pinned_to.is_some() => {
                    of_gone_nodes.push(pod)
                }
                // The garbage collector of pods deletes pods that are bound to a node that is gone.
                None => {}
            }
        }
        for place in by_node.values_mut() {
            place.pods.sort_by(|a, b| order(a).cmp(&order(b)));
        }
        Self {
            by_node,
            of_gone_nodes,
        }
    }

    /// Nodes that must have a pod.
    pub(super) fn wanted(&self) -> impl DoubleEndedIterator<Item = (&'a str, &Place<'a>)> {
        self.by_node
            .iter()
            .filter(|(_, place)| place.is_wanted())
            .map(|(name, place)| (*name, place))
    }
}

/// The reason why no node must have a pod, if so.
pub(super) fn without_nodes(places: &Places<'_>) -> Option<String> {
    if places.wanted().next().is_some() {
        return None;
    }
    let count = places.by_node.len();
    let kept_away = places
        .by_node
        .values()
        .filter(|place| place.fit == Fit::MayStay)
        .count();
    Some(format!(
        "no node is to have a pod: of {count}, {kept_away} are kept out by a taint, or by their cordon, and {} by nodeName, \
         nodeSelector or the required node affinity of spec.template, or by a taint NoExecute",
        count - kept_away
    ))
}

fn order(pod: &Pod) -> (bool, Option<Timestamp>, &str) {
    (
        pod.spec.node_name.is_empty(),
        pod.metadata.creation_timestamp,
        &pod.metadata.name,
    )
}

/// The node that a pod is on, or may be scheduled to; empty if there is none.
pub fn node_of(pod: &Pod) -> &str {
    match (&*pod.spec.node_name, &pod.spec.pinned_to) {
        ("", Some(pinned)) => pinned,
        (bound, _) => bound,
    }
}

/// The nodes that a DaemonSet's pods belong to.
#[derive(Debug, Clone)]
pub(super) struct Fits {
    placement: Placement,
    leaves_cordoned: bool,
}

impl Fits {
    /// From the set's template, as the controller read it.
    pub(super) fn new(set: &DaemonSet, template: &Value) -> Self {
        let annotations = set.metadata.annotations.as_ref();
        let annotation = annotations.and_then(|all| all.get(DAEMONSET_IGNORE_UNSCHEDULABLE));
        Self {
            placement: Placement::of_daemons(template),
            leaves_cordoned: annotation.is_some_and(|value| value == "true"),
        }
    }

    /// The relation of a node to the pods of the DaemonSet.
    pub(super) fn of(&self, node: &Node) -> Fit {
        match self.placement.fit(node) {
            Fit::Wanted if node.cordoned && self.leaves_cordoned => Fit::MayStay,
            fit => fit,
        }
    }
}

/// Whether the pod has the present template. Its revision shows that, or, if the DaemonSet was one
/// of Kubernetes' own, its template generation.
pub(super) fn is_updated(snapshot: &Snapshot, revisions: &Revisions, pod: &Pod) -> bool {
    revisions.is_updated(pod) || has_generation(snapshot, pod)
}

pub(super) fn has_generation(snapshot: &Snapshot, pod: &Pod) -> bool {
    let generation = template_generation(snapshot);
    generation.is_some() && pod.metadata.label(POD_TEMPLATE_GENERATION) == generation
}

/// The template generation that the DaemonSet had as one of Kubernetes' own.
pub(super) fn template_generation(snapshot: &Snapshot) -> Option<&str> {
    snapshot
        .view()
        .workload
        .annotation(DAEMONSET_TEMPLATE_GENERATION)
        .filter(|text| text.parse::<i64>().is_ok())
}

/// Whether the node has an available pod.
pub(super) fn is_available(place: &Place<'_>, min_ready_seconds: i32, now: Timestamp) -> bool {
    place
        .pods
        .iter()
        .any(|pod| availability(pod, min_ready_seconds, now).is_available())
}
