//! The order of deletion by crowding: pods leave first where many are, so that the others stay
//! spread.
//!
//! If the template has `topologySpreadConstraints`, their domains count; otherwise nodes do.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::fields::template::PodTemplate;

use super::{Ranks, least_lost, standing};
use crate::objects::node::Node;
use crate::objects::pod::Pod;

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

/// Whether the pod template says how its pods are spread. Otherwise nodes need not be known.
pub fn is_constrained(template: &PodTemplate) -> bool {
    template.topology_keys().next().is_some()
}

impl Spread {
    /// The spread constraints of the template, on these nodes.
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

/// Sorts pods for deletion: first unscheduled, then pending, then unavailable or not ready, then
/// cheap ones by deletion cost. Then pods in crowded places, and at last pods that are ready for a
/// shorter time, restarted more often, or newer.
pub fn for_deletion(pods: &mut [Arc<Pod>], spread: &Spread, available: impl Fn(&Pod) -> bool) {
    let ranks = ranks(pods, spread);
    pods.sort_by(|a, b| {
        standing(a)
            .cmp(&standing(b))
            .then_with(|| available(a).cmp(&available(b)))
            .then_with(|| least_lost(a, b, Some(&ranks)))
    });
}

/// Ranks pods among each other. In each domain, the pods that would be deleted last get the lowest
/// ranks, so that a pod's rank is the number of pods that stay next to it. The ranks of several
/// constraints are added: a constraint with more domains weighs more, as it does for the scheduler.
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
mod tests;
