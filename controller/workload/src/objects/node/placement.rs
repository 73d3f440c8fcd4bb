//! The nodes on which a pod template's pods may run: by name, labels and taints.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Node, Taint};

/// The placement rules in a template's spec. Invalid fields count as missing, because the apiserver
/// refuses such a template.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    node_name: String,
    node_selector: BTreeMap<String, String>,
    affinity: Option<Affinity>,
    tolerations: Vec<Toleration>,
    host_network: bool,
}

/// How a node fits the pods of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// A pod of the template belongs on the node.
    Wanted,
    /// No pod is created on the node, but an existing pod may stay, because the node has a taint
    /// `NoSchedule`.
    MayStay,
    /// No pod of the template may run on the node.
    Unwanted,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<Terms>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terms {
    node_selector_terms: Vec<Term>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// A toleration of a taint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

/// The tolerations that every DaemonSet pod has: a key and an effect, with any value.
const OF_DAEMONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Prefixes of taints that a node has until it has started.
const OF_START: [&str; 4] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
];
/// The additional toleration of DaemonSet pods in the host's network, because these pods do not
/// need the pod network of the node.
const OF_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

impl Placement {
    /// The placement of a pod template, with the tolerations of the template only.
    pub fn of(template: &Value) -> Self {
        template
            .get("spec")
            .and_then(|spec| Self::deserialize(spec).ok())
            .unwrap_or_default()
    }

    /// The placement of a DaemonSet's pod template.
    pub fn of_daemons(template: &Value) -> Self {
        let mut placement = Self::of(template);
        let own = daemon_tolerations(placement.host_network);
        placement
            .tolerations
            .extend(own.map(|(key, effect)| Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                effect: effect.to_owned(),
                value: String::new(),
            }));
        placement
    }

    /// Whether the pods belong on the node by its name and labels. Taints do not count.
    pub fn selects(&self, node: &Node) -> bool {
        let name = &*node.metadata.name;
        let is_named = self.node_name.is_empty() || self.node_name == name;
        let has_labels = self
            .node_selector
            .iter()
            .all(|(key, value)| node.metadata.label(key) == Some(value));
        is_named && has_labels && self.matches_affinity(node)
    }

    /// Whether the pods tolerate a cordoned node.
    pub fn tolerates_cordon(&self) -> bool {
        let cordon = |text: &str| text.into();
        self.tolerates(&Taint {
            key: cordon("node.kubernetes.io/unschedulable"),
            effect: cordon("NoSchedule"),
            value: cordon(""),
            time_added: None,
        })
    }

    /// How the node fits these pods.
    pub fn fit(&self, node: &Node) -> Fit {
        if !self.selects(node) {
            return Fit::Unwanted;
        }
        let untolerated = |effect: &str| {
            node.taints
                .iter()
                .any(|taint| &*taint.effect == effect && !self.tolerates(taint))
        };
        match (untolerated("NoExecute"), untolerated("NoSchedule")) {
            (true, _) => Fit::Unwanted,
            (false, true) => Fit::MayStay,
            (false, false) => Fit::Wanted,
        }
    }

    /// Whether the pods could run on the node once it has started. Taints that a new node has until
    /// then do not count.
    pub fn fits_once_started(&self, node: &Node) -> bool {
        let keeps_away = |taint: &&Taint| {
            matches!(&*taint.effect, "NoSchedule" | "NoExecute") && !is_of_start(taint)
        };
        self.selects(node)
            && node
                .taints
                .iter()
                .filter(keeps_away)
                .all(|taint| self.tolerates(taint))
    }

    /// Whether the node matches one of the terms that the node affinity requires, if there are any.
    /// An empty term matches no node.
    fn matches_affinity(&self, node: &Node) -> bool {
        let affinity = self
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref());
        let Some(required) = affinity.and_then(|affinity| affinity.required.as_ref()) else {
            return true;
        };
        required.node_selector_terms.iter().any(|term| {
            let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
            let name = |key: &str| (key == "metadata.name").then_some(&*node.metadata.name);
            !is_empty
                && term
                    .match_expressions
                    .iter()
                    .all(|one| one.holds(node.metadata.label(&one.key)))
                && term
                    .match_fields
                    .iter()
                    .all(|one| one.holds(name(&one.key)))
        })
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| {
            let is_key = toleration.key.is_empty() && toleration.operator == "Exists"
                || *toleration.key == *taint.key;
            is_key
                && toleration.accepts(&taint.value)
                && (toleration.effect.is_empty() || *toleration.effect == *taint.effect)
        })
    }
}

impl Toleration {
    /// Whether the operator accepts a taint's value. `Gt` and `Lt` compare integers, if the
    /// apiserver accepts them (alpha in Kubernetes 1.37).
    fn accepts(&self, value: &str) -> bool {
        let numbers = || {
            value
                .parse::<i64>()
                .ok()
                .zip(self.value.parse::<i64>().ok())
        };
        match self.operator.as_str() {
            "" | "Equal" => value == self.value,
            "Exists" => true,
            "Gt" => numbers().is_some_and(|(taint, bound)| taint > bound),
            "Lt" => numbers().is_some_and(|(taint, bound)| taint < bound),
            _ => false,
        }
    }
}

impl Requirement {
    /// Whether the requirement accepts the value of the node's label or field; `None` if the node
    /// has none.
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.iter().any(|own| own == value));
        let number = || value?.parse::<i64>().ok();
        let bound = || self.values.first()?.parse::<i64>().ok();
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => number()
                .zip(bound())
                .is_some_and(|(number, bound)| number > bound),
            "Lt" => number()
                .zip(bound())
                .is_some_and(|(number, bound)| number < bound),
            _ => false,
        }
    }
}

/// Whether the taint disappears by itself once the node has started, as the taints of Kubernetes,
/// clouds and autoscalers do. A cordon counts, too, because it is removed in the end.
fn is_of_start(taint: &Taint) -> bool {
    taint.awaits_images() || OF_START.iter().any(|prefix| taint.key.starts_with(prefix))
}

fn daemon_tolerations(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    OF_DAEMONS
        .into_iter()
        .chain(host_network.then_some(OF_HOST_NETWORK))
}

/// Adds the default tolerations of DaemonSet pods to a new pod. They replace the template's
/// tolerations of the same taint for any value, because a `tolerationSeconds` would evict the pod.
pub fn tolerate_as_daemon(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let host_network = spec
        .get("hostNetwork")
        .and_then(Value::as_bool)
        .unwrap_or_default();
    let Some(list) = spec
        .entry("tolerations")
        .or_insert_with(|| json!([]))
        .as_array_mut()
    else {
        return;
    };
    for (key, effect) in daemon_tolerations(host_network) {
        let own = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |one: &Value| {
            let has_value = one["value"].as_str().is_some_and(|value| !value.is_empty());
            !has_value
                && ["key", "operator", "effect"]
                    .into_iter()
                    .all(|field| one[field] == own[field])
        };
        let place = list.iter().position(is_same).unwrap_or(list.len());
        list.retain(|one| !is_same(one));
        list.insert(place, own);
    }
}

/// Makes the scheduler bind a new pod to this node only. This replaces the terms that the template
/// requires.
pub fn pin_to_node(pod: &mut Value, node: &str) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let affinity = spec.entry("affinity").or_insert_with(|| json!({}));
    if !affinity.is_object() {
        *affinity = json!({});
    }
    if !affinity["nodeAffinity"].is_object() {
        affinity["nodeAffinity"] = json!({});
    }
    let by_name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [by_name]}]});
}

#[cfg(test)]
mod tests;
