//! Whether another node takes the replacement of a pod that a drain evicts.

use berth_api::names::annotation::DAEMONSET_IGNORE_UNSCHEDULABLE;
use berth_workload::objects::node::Node;
use berth_workload::objects::node::placement::{Fit, Placement};
use serde_json::{Value, json};

use crate::objects::{controller, items, name, namespace, text};

/// Most nodes that a message names.
const NAMED: usize = 3;

/// What decides where pods may run.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// All nodes; empty if they are not known.
    pub(super) nodes: Vec<Node>,
    /// PersistentVolumeClaims.
    pub(super) claims: Vec<Value>,
    /// PersistentVolumes.
    pub(super) volumes: Vec<Value>,
    /// Advanced DaemonSets.
    pub(super) daemons: Vec<Value>,
}

impl Places {
    /// Of the nodes, PersistentVolumeClaims and PersistentVolumes of a cluster.
    ///
    /// # Errors
    /// A node cannot be read.
    pub(super) fn of(
        nodes: &[Value],
        claims: Vec<Value>,
        volumes: Vec<Value>,
    ) -> anyhow::Result<Self> {
        let nodes: Result<_, _> = nodes
            .iter()
            .map(|node| serde_json::from_str(&node.to_string()))
            .collect();
        Ok(Self {
            nodes: nodes?,
            claims,
            volumes,
            daemons: Vec::new(),
        })
    }

    /// Why no pod of some has another node; `None` if one does, or if there is none.
    pub(super) fn all_pending(&self, pods: &[&Value]) -> Option<String> {
        let why: Option<Vec<_>> = pods.iter().map(|pod| self.pending(pod)).collect();
        why?.into_iter().next()
    }

    /// Why the replacement of a pod would be Pending: no node but the pod's own takes it by labels,
    /// affinity, taints and volumes. `None` if a node does, or if that is not known.
    pub(super) fn pending(&self, pod: &Value) -> Option<String> {
        if self.nodes.is_empty() {
            return None;
        }
        let own = text(pod, "/spec/nodeName");
        let others = || self.nodes.iter().filter(|one| &*one.metadata.name != own);
        if others().next().is_none() {
            return Some("the cluster has no other node".to_owned());
        }
        let placement = placement(pod);
        let mut selected: Vec<_> = others().filter(|one| placement.selects(one)).collect();
        if selected.is_empty() {
            return Some(format!("no other node matches {}", rules(pod)));
        }
        for volume in self.volumes_of(pod) {
            let reach = reach(volume);
            selected.retain(|one| reach.selects(one));
            if selected.is_empty() {
                let volume = name(volume);
                return Some(format!(
                    "no other node reaches its PersistentVolume {volume}"
                ));
            }
        }
        let refused = |node: &&Node| {
            let is_cordoned = node.cordoned && !placement.tolerates_cordon();
            is_cordoned || placement.fit(node) != Fit::Wanted
        };
        if !selected.iter().all(refused) {
            return None;
        }
        let mut named: Vec<_> = selected
            .iter()
            .take(NAMED)
            .map(|one| obstacle(one))
            .collect();
        if let more @ 1.. = selected.len().saturating_sub(NAMED) {
            named.push(format!("{more} more"));
        }
        Some(format!("no other node accepts it: {}", named.join(", ")))
    }

    /// Whether the DaemonSet of a pod makes no pods on cordoned nodes, as an Advanced one may.
    pub(super) fn waits_for_uncordon(&self, pod: &Value) -> bool {
        let is_owner = |one: &&Value| {
            let uid = &one["metadata"]["uid"];
            controller(pod).is_some_and(|owner| owner["uid"] == *uid)
        };
        let owner = self.daemons.iter().find(is_owner);
        owner.is_some_and(|owner| {
            owner["metadata"]["annotations"][DAEMONSET_IGNORE_UNSCHEDULABLE] == "true"
        })
    }

    /// The volumes of a pod's claims. A claim that the pod itself owns, as of an ephemeral volume,
    /// ends with the pod.
    fn volumes_of(&self, pod: &Value) -> impl Iterator<Item = &Value> {
        let claims = items(pod, "/spec/volumes")
            .map(|volume| text(volume, "/persistentVolumeClaim/claimName").to_owned());
        let namespace_of_pod = namespace(pod).to_owned();
        claims.filter_map(move |claimed| {
            let is_claimed =
                |one: &&Value| name(one) == claimed && namespace(one) == namespace_of_pod;
            let volume = text(self.claims.iter().find(is_claimed)?, "/spec/volumeName");
            self.volumes.iter().find(|one| name(one) == volume)
        })
    }
}

/// Whether an Advanced DaemonSet owns a pod.
pub(super) fn is_of_daemons(pod: &Value) -> bool {
    controller(pod).is_some_and(|owner| {
        owner["kind"] == "DaemonSet" && text(owner, "/apiVersion").starts_with("apps.kruise.io/")
    })
}

/// Whether a pod uses claims.
pub(crate) fn has_claims(pod: &Value) -> bool {
    items(pod, "/spec/volumes").any(|volume| volume.get("persistentVolumeClaim").is_some())
}

/// The placement of a pod's replacement, which names no node yet.
fn placement(pod: &Value) -> Placement {
    let mut spec = pod["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("nodeName");
    }
    Placement::of(&json!({"spec": spec}))
}

/// The nodes that reach a volume.
fn reach(volume: &Value) -> Placement {
    let required = &volume["spec"]["nodeAffinity"]["required"];
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
    Placement::of(&json!({"spec": {"affinity": {"nodeAffinity": affinity}}}))
}

/// The rules of a pod that select nodes.
fn rules(pod: &Value) -> String {
    let labels = pod["spec"]["nodeSelector"].as_object();
    let labels: Vec<_> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let affinity = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    match (labels.is_empty(), pod.pointer(affinity).is_some()) {
        (true, _) => "its required node affinity".to_owned(),
        (false, false) => format!("its nodeSelector {}", labels.join(",")),
        (false, true) => format!(
            "its nodeSelector {} and its required node affinity",
            labels.join(",")
        ),
    }
}

/// Why a node takes no pod that it matches.
fn obstacle(node: &Node) -> String {
    let name = &node.metadata.name;
    if node.cordoned {
        return format!("{name} is cordoned");
    }
    let mut taints = node.taints.iter();
    match taints.find(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute")) {
        Some(taint) => format!("{name} has taint {}:{}", taint.key, taint.effect),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests;
