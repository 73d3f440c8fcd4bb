//! On which nodes a pod template's pods may run: by name, labels and taints.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Node, Taint};

/// Where a template's pods may run, read from its spec. What is not as the API has it asks for nothing: the apiserver refuses
/// such a template.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    node_name: String,
    node_selector: BTreeMap<String, String>,
    affinity: Option<Affinity>,
    tolerations: Vec<Toleration>,
    host_network: bool,
}

/// What a node is to pods of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// A pod of them belongs there.
    Wanted,
    /// None is created there, and one that is there may stay: a taint `NoSchedule` speaks against it.
    MayStay,
    /// None may be there.
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

/// A taint that pods bear.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

/// What the pods of a DaemonSet tolerate without asking: a key and an effect, with any value.
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
/// With the host's network, too: it needs none of the node's own.
const OF_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

impl Placement {
    /// Of a pod template, whose pods tolerate what they say and nothing else.
    pub fn of(template: &Value) -> Self {
        template
            .get("spec")
            .and_then(|spec| Self::deserialize(spec).ok())
            .unwrap_or_default()
    }

    /// Of a pod template of a DaemonSet.
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

    /// Do these pods belong on the node by its name and labels, whatever its taints?
    pub fn selects(&self, node: &Node) -> bool {
        let name = &*node.metadata.name;
        let is_named = self.node_name.is_empty() || self.node_name == name;
        let has_labels = self
            .node_selector
            .iter()
            .all(|(key, value)| node.metadata.label(key) == Some(value));
        is_named && has_labels && self.is_required(node)
    }

    /// Are these pods scheduled to a node that is cordoned?
    pub fn tolerates_cordon(&self) -> bool {
        let cordon = |text: &str| text.into();
        self.tolerates(&Taint {
            key: cordon("node.kubernetes.io/unschedulable"),
            effect: cordon("NoSchedule"),
            value: cordon(""),
            time_added: None,
        })
    }

    /// What the node is to these pods.
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

    /// Could these pods run on the node once it has started? What a new node is tainted with until then does not count.
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

    /// One of the terms must hold, where there are any. An empty one never does.
    fn is_required(&self, node: &Node) -> bool {
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
    /// Whether the operator accepts a taint's value. `Gt` and `Lt` compare integers, where the apiserver takes them (alpha in
    /// Kubernetes 1.37).
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

/// Is it a taint that goes by itself when the node has started, as Kubernetes' own, those of clouds and of autoscalers do? A
/// cordon goes in the end, too.
fn is_of_start(taint: &Taint) -> bool {
    taint.awaits_images() || OF_START.iter().any(|prefix| taint.key.starts_with(prefix))
}

fn daemon_tolerations(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    OF_DAEMONS
        .into_iter()
        .chain(host_network.then_some(OF_HOST_NETWORK))
}

/// Adds to a new pod of a DaemonSet what such pods tolerate without asking, in place of what the template says of the same taint for
/// any value: with a time of its own, a pod would be evicted when it is over.
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

/// Lets the scheduler bind a new pod to this node and to no other, in place of the terms that its template requires.
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
mod tests {
    use super::*;

    fn node(labels: Value, taints: Value) -> Node {
        let node =
            json!({"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints}});
        serde_json::from_value(node).unwrap()
    }

    fn taint(key: &str, effect: &str) -> Value {
        json!([{"key": key, "value": "v", "effect": effect}])
    }

    #[test]
    fn a_node_fits_by_name_and_labels() {
        let n1 = node(json!({"zone": "a", "size": "7"}), json!(null));
        let term = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let field = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        let required = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        for (spec, expected) in [
            (json!({}), Fit::Wanted),
            (json!({"nodeName": "n1"}), Fit::Wanted),
            (json!({"nodeName": "n2"}), Fit::Unwanted),
            (json!({"nodeSelector": {"zone": "a"}}), Fit::Wanted),
            (
                json!({"nodeSelector": {"zone": "a", "x": ""}}),
                Fit::Unwanted,
            ),
            (required(json!([])), Fit::Unwanted),
            (required(json!([{}])), Fit::Unwanted),
            (
                required(json!([
                    term("zone", "In", json!(["b"])),
                    term("zone", "In", json!(["a"]))
                ])),
                Fit::Wanted,
            ),
            (
                required(json!([term("zone", "NotIn", json!(["a"]))])),
                Fit::Unwanted,
            ),
            (
                required(json!([term("gone", "NotIn", json!(["a"]))])),
                Fit::Wanted,
            ),
            (
                required(json!([term("zone", "DoesNotExist", json!([]))])),
                Fit::Unwanted,
            ),
            (
                required(json!([term("size", "Gt", json!(["6"]))])),
                Fit::Wanted,
            ),
            (
                required(json!([term("size", "Lt", json!(["7"]))])),
                Fit::Unwanted,
            ),
            (
                required(json!([term("zone", "Gt", json!(["6"]))])),
                Fit::Unwanted,
            ),
            (required(json!([field("n1")])), Fit::Wanted),
            (required(json!([field("n2")])), Fit::Unwanted),
        ] {
            assert_eq!(
                Placement::of(&json!({"spec": spec})).fit(&n1),
                expected,
                "{spec}"
            );
        }
    }

    #[test]
    fn a_taint_that_is_not_tolerated_keeps_new_pods_away_and_one_of_no_execute_all() {
        let tolerate = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
        let none = json!({"spec": {}});
        let (schedule, execute) = (taint("k", "NoSchedule"), taint("k", "NoExecute"));
        for (template, taints, expected) in [
            (&none, &schedule, Fit::MayStay),
            (&none, &execute, Fit::Unwanted),
            (&none, &taint("k", "PreferNoSchedule"), Fit::Wanted),
            (
                &tolerate(json!({"operator": "Exists"})),
                &execute,
                Fit::Wanted,
            ),
            (
                &tolerate(json!({"key": "k", "value": "v"})),
                &execute,
                Fit::Wanted,
            ),
            (
                &tolerate(json!({"key": "k", "value": "w"})),
                &execute,
                Fit::Unwanted,
            ),
            (
                &tolerate(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})),
                &execute,
                Fit::Unwanted,
            ),
            (
                &tolerate(json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})),
                &schedule,
                Fit::Wanted,
            ),
        ] {
            let node = node(json!({}), taints.clone());
            assert_eq!(
                Placement::of(template).fit(&node),
                expected,
                "{template} {taints}"
            );
        }
    }

    #[test]
    fn a_pod_could_run_on_a_node_whatever_it_is_tainted_with_until_it_has_started() {
        let zone = || json!({"zone": "a"});
        for (spec, key, effect, expected) in [
            (
                json!({}),
                "apps.kruise.io/images-not-ready",
                "NoSchedule",
                true,
            ),
            (
                json!({}),
                "startup-taint.cluster-autoscaler.kubernetes.io/images-not-ready",
                "NoExecute",
                true,
            ),
            (
                json!({}),
                "startup-taint.cluster-autoscaler.kubernetes.io/gpu",
                "NoSchedule",
                true,
            ),
            (
                json!({}),
                "node.kubernetes.io/not-ready",
                "NoSchedule",
                true,
            ),
            (
                json!({}),
                "node.kubernetes.io/unschedulable",
                "NoSchedule",
                true,
            ),
            (json!({}), "dedicated", "NoSchedule", false),
            (json!({}), "dedicated", "NoExecute", false),
            (json!({}), "dedicated", "PreferNoSchedule", true),
            (
                json!({"tolerations": [{"key": "dedicated", "value": "v"}]}),
                "dedicated",
                "NoSchedule",
                true,
            ),
            (
                json!({"nodeSelector": {"zone": "b"}}),
                "apps.kruise.io/images-not-ready",
                "NoSchedule",
                false,
            ),
        ] {
            let fits = Placement::of(&json!({"spec": spec}))
                .fits_once_started(&node(zone(), taint(key, effect)));
            assert_eq!(fits, expected, "{spec} {key} {effect}");
        }
    }

    #[test]
    fn daemons_stay_on_nodes_that_are_away_and_run_on_cordoned_ones() {
        let of = |spec: Value, key: &str, effect: &str| {
            Placement::of_daemons(&json!({"spec": spec})).fit(&node(json!({}), taint(key, effect)))
        };
        for (key, effect) in OF_DAEMONS {
            assert_eq!(of(json!({}), key, effect), Fit::Wanted, "{key}");
        }
        assert_eq!(
            of(json!({}), "node.kubernetes.io/not-ready", "NoSchedule"),
            Fit::MayStay
        );
        assert_eq!(
            of(json!({}), OF_HOST_NETWORK.0, OF_HOST_NETWORK.1),
            Fit::MayStay
        );
        assert_eq!(
            of(
                json!({"hostNetwork": true}),
                OF_HOST_NETWORK.0,
                OF_HOST_NETWORK.1
            ),
            Fit::Wanted
        );
    }

    #[test]
    fn toleration_operator_decides_by_taint_value() {
        for (operator, value, taint, expected) in [
            ("", "950", "950", true),
            ("Equal", "950", "0950", false),
            ("Exists", "", "950", true),
            ("Gt", "950", "951", true),
            ("Gt", "950", "950", false),
            ("Lt", "950", "-1", true),
            ("Lt", "950", "950", false),
            ("Gt", "950", "many", false),
            ("Other", "950", "950", false),
        ] {
            let tolerations = json!([{"key": "sla", "operator": operator, "value": value}]);
            let placement = Placement::of(&json!({"spec": {"tolerations": tolerations}}));
            let node = node(
                json!({}),
                json!([{"key": "sla", "value": taint, "effect": "NoSchedule"}]),
            );
            let fit = if expected { Fit::Wanted } else { Fit::MayStay };
            assert_eq!(placement.fit(&node), fit, "{operator} {value} {taint}");
        }
    }

    #[test]
    fn a_new_daemon_tolerates_once_and_is_bound_to_its_node() {
        let mut pod = json!({"spec": {"tolerations": [{"key": "own"}], "affinity": {"podAffinity": {"x": 1}, "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]}, "preferred": []}}}});
        tolerate_as_daemon(&mut pod);
        tolerate_as_daemon(&mut pod);
        pin_to_node(&mut pod, "n1");
        assert_eq!(
            pod["spec"]["tolerations"].as_array().unwrap().len(),
            1 + OF_DAEMONS.len()
        );
        let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(
            terms["nodeSelectorTerms"][0]["matchFields"][0]["values"],
            json!(["n1"])
        );
        assert_eq!(terms["nodeSelectorTerms"][0].get("matchExpressions"), None);
        assert!(pod["spec"]["affinity"].get("podAffinity").is_some());
        let mut hostile = json!({"spec": {"tolerations": "x", "affinity": [1]}});
        tolerate_as_daemon(&mut hostile);
        pin_to_node(&mut hostile, "n1");
        assert_eq!(hostile["spec"]["tolerations"], "x");
    }

    /// Kubernetes' eviction goes by the shortest time that a pod tolerates a taint for.
    #[test]
    fn a_daemon_tolerates_that_its_node_is_away_for_longer_than_its_template_says() {
        let one = |key: &str, operator: &str, effect: &str| json!({"key": key, "operator": operator, "effect": effect});
        let own = one("node.kubernetes.io/not-ready", "Exists", "NoExecute");
        let with = |mut one: Value, field: &str, value: Value| {
            one[field] = value;
            one
        };
        for (said, stays) in [
            (own.clone(), false),
            (with(own.clone(), "tolerationSeconds", json!(300)), false),
            (
                with(
                    with(own.clone(), "value", json!("")),
                    "tolerationSeconds",
                    json!(0),
                ),
                false,
            ),
            (
                one("node.kubernetes.io/not-ready", "Exists", "NoSchedule"),
                true,
            ),
            (
                one("node.kubernetes.io/not-ready", "Equal", "NoExecute"),
                true,
            ),
            (with(own.clone(), "value", json!("v")), true),
            (
                with(
                    one("mine", "Exists", "NoExecute"),
                    "tolerationSeconds",
                    json!(300),
                ),
                true,
            ),
            (json!("x"), true),
        ] {
            let mut pod = json!({"spec": {"tolerations": [said, said]}});
            tolerate_as_daemon(&mut pod);
            let made = pod["spec"]["tolerations"].as_array().unwrap();
            assert_eq!(made.iter().filter(|one| **one == own).count(), 1, "{said}");
            assert_eq!(
                made.len(),
                OF_DAEMONS.len() + if stays { 2 } else { 0 },
                "{said}"
            );
            let first = if stays { &said } else { &own };
            assert_eq!(made[0], *first, "in the same place");
        }
    }
}
