//! Where pods crowd: which of several go first so that those that stay are spread.
//!
//! Where the template has `topologySpreadConstraints`, the domains of each of them count; else nodes do.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::template::PodTemplate;

use super::Pod;
use super::order::{Ranks, least_lost, standing};
use crate::node::Node;

/// The label of a node with its own name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// How a template asks for its pods to be spread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread {
    /// The node labels whose values are domains, by the template's constraints.
    keys: Vec<String>,
    /// Nodes by name.
    nodes: BTreeMap<Box<str>, Arc<Node>>,
}

/// Does the pod template say how its pods are spread? Nodes need not be known otherwise.
pub fn is_constrained(template: &PodTemplate) -> bool {
    template.topology_keys().next().is_some()
}

impl Spread {
    /// What the template asks for, on these nodes.
    pub fn new(template: &PodTemplate, nodes: &BTreeMap<Box<str>, Arc<Node>>) -> Self {
        Self {
            keys: template.topology_keys().map(str::to_owned).collect(),
            nodes: nodes.clone(),
        }
    }

    fn domain(&self, pod: &Pod, key: &str) -> Option<&str> {
        self.nodes.get(&pod.spec.node_name)?.metadata.label(key)
    }
}

/// Sorts pods for deletion, the first to go first: not scheduled, then pending, then not available or not ready, then cheap
/// ones by deletion cost, then those that crowd where they are, then those ready for less long, restarted more often, or
/// newer.
pub fn for_deletion(pods: &mut [Arc<Pod>], spread: &Spread, available: impl Fn(&Pod) -> bool) {
    let ranks = ranks(pods, spread);
    pods.sort_by(|a, b| {
        standing(a)
            .cmp(&standing(b))
            .then_with(|| available(a).cmp(&available(b)))
            .then_with(|| least_lost(a, b, Some(&ranks)))
    });
}

/// Ranks pods among each other. In each domain, the pods that would be deleted last get the lowest ranks, so that a pod's
/// rank says how many stay beside it. The ranks by several constraints are added: a constraint with more domains weighs
/// more, as it does for the scheduler.
fn ranks(pods: &[Arc<Pod>], spread: &Spread) -> Ranks {
    let by_node = by_node(pods);
    if spread.keys.is_empty() {
        return by_node;
    }
    let mut ranks = Ranks::default();
    for key in &spread.keys {
        let mut domains: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in pods {
            if let Some(domain) = spread.domain(pod, key) {
                domains.entry(domain).or_default().push(pod);
            }
        }
        let weight = number(domains.len() + 2).ln();
        let within = (key != HOSTNAME).then_some(&by_node);
        for mut domain in domains.into_values() {
            domain.sort_by(|a, b| least_lost(b, a, within));
            for (stay, pod) in domain.into_iter().enumerate() {
                *ranks.0.entry(pod.metadata.uid.clone()).or_default() += number(stay + 1) * weight;
            }
        }
    }
    ranks
}

/// How many pods share the pod's node and would be deleted after it.
fn by_node(pods: &[Arc<Pod>]) -> Ranks {
    let mut nodes: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.spec.node_name.is_empty()) {
        nodes.entry(&pod.spec.node_name).or_default().push(pod);
    }
    let mut ranks = Ranks::default();
    for mut node in nodes.into_values() {
        node.sort_by(|a, b| least_lost(b, a, None));
        ranks.0.extend(
            node.into_iter()
                .enumerate()
                .map(|(stay, pod)| (pod.metadata.uid.clone(), number(stay))),
        );
    }
    ranks
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Ready pods, all alike but for their node; the first is the oldest.
    fn pods(nodes: &[&str]) -> Vec<Arc<Pod>> {
        let pod = |(at, node): (usize, &&str)| {
            let name = ["a", "b", "c", "d", "e", "f", "g"][at];
            let pod = json!({
                "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:00:0{at}Z")},
                "spec": {"nodeName": node},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            });
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        nodes.iter().enumerate().map(pod).collect()
    }

    /// Nodes `n1` and `n2` in zone `z1`, `n3` in zone `z2`, `n4` without a zone.
    fn spread(keys: &[&str]) -> Spread {
        let node = |(name, zone): (&str, &str)| {
            let mut labels = json!({"kubernetes.io/hostname": name});
            if !zone.is_empty() {
                labels["zone"] = json!(zone);
            }
            (
                name.into(),
                Arc::new(
                    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))
                        .unwrap(),
                ),
            )
        };
        let nodes = [("n1", "z1"), ("n2", "z1"), ("n3", "z2"), ("n4", "")]
            .map(node)
            .into();
        let constraints: Vec<_> = keys
            .iter()
            .map(|key| json!({"topologyKey": key, "maxSkew": 1}))
            .collect();
        let template = json!({"spec": {"topologySpreadConstraints": constraints}});
        Spread::new(&PodTemplate::from(&template), &nodes)
    }

    #[test]
    fn crowded_domains_give_first() {
        // Constraints; the pods' nodes; the order of deletion.
        let table: [(&[&str], &[&str], &str); 7] = [
            (&[], &["n1", "n1", "n2", "n1"], "dbca"),
            (
                &["kubernetes.io/hostname"],
                &["n1", "n1", "n2", "n1"],
                "dbca",
            ),
            // Three in zone z1, one in z2: the zone gives two before its last and the other's are equal.
            (&["zone"], &["n1", "n2", "n1", "n3"], "cbda"),
            // Within a zone the doubled-up node gives first, even the older pod.
            (&["zone"], &["n1", "n1", "n2"], "bca"),
            // A node without the label is in no domain: its pods go last.
            (&["zone"], &["n4", "n3"], "ba"),
            (&["zone"], &["n3", "n4"], "ab"),
            // Both count: the zone first, as in either the pod is one of several.
            (
                &["zone", "kubernetes.io/hostname"],
                &["n1", "n1", "n3", "n2"],
                "bdca",
            ),
        ];
        for (keys, nodes, expected) in table {
            let mut pods = pods(nodes);
            for_deletion(&mut pods, &spread(keys), |_| true);
            let names: String = pods.iter().map(|pod| &*pod.metadata.name).collect();
            assert_eq!(names, expected, "{keys:?} on {nodes:?}");
        }
    }

    #[test]
    fn a_template_without_constraints_needs_no_nodes() {
        let is = |template| is_constrained(&PodTemplate::from(&template));
        assert!(!is(json!({"spec": {"containers": []}})));
        assert!(is(
            json!({"spec": {"topologySpreadConstraints": [{"topologyKey": "zone"}]}})
        ));
    }

    #[test]
    fn pods_that_are_not_scheduled_crowd_nothing() {
        let mut pods = pods(&["", "", "n1"]);
        for_deletion(&mut pods, &Spread::default(), |_| true);
        let names: String = pods.iter().map(|pod| &*pod.metadata.name).collect();
        assert_eq!(names, "bac", "the newer of those first");
    }
}
