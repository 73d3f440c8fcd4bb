//! The resources that a pod requests, compared with those of an empty node.

use std::collections::BTreeMap;

use berth_workload::objects::node::Node;
use berth_workload::objects::quantity::thousandths;
use serde_json::{Map, Value};

/// The requests of a pod of a template, by resource, in thousandths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Requests(BTreeMap<String, i128>);

type Amounts = BTreeMap<String, i128>;

impl Requests {
    /// Counts as the scheduler does: all containers together, or, if that is more, an init
    /// container with the sidecars that run beside it then. Requests of the pod itself replace
    /// both. The overhead is added.
    pub(super) fn of(template: &Value) -> Self {
        let spec = &template["spec"];
        let list = |field: &str| spec[field].as_array().map_or(&[][..], Vec::as_slice);
        let (mut together, mut beside, mut most) = (Amounts::new(), Amounts::new(), Amounts::new());
        for container in list("containers") {
            add(&mut together, &of_resources(&container["resources"]));
        }
        for init in list("initContainers") {
            let own = of_resources(&init["resources"]);
            if init["restartPolicy"] == "Always" {
                add(&mut beside, &own);
                at_least(&mut most, &beside);
            } else {
                let mut now = beside.clone();
                add(&mut now, &own);
                at_least(&mut most, &now);
            }
        }
        add(&mut together, &beside);
        at_least(&mut together, &most);
        together.extend(of_resources(&spec["resources"]));
        add(&mut together, &amounts(&spec["overhead"]));
        together.insert("pods".to_owned(), 1000);
        Self(together)
    }

    /// Whether the node has so much if nothing else runs there.
    pub(super) fn fit(&self, node: &Node) -> bool {
        self.lacking(node).is_none()
    }

    /// The first resource of which the node has too little even if nothing else runs there.
    pub(super) fn lacking(&self, node: &Node) -> Option<&str> {
        let is_lacking = |(resource, wanted): &(&String, &i128)| {
            let has = node
                .allocatable
                .iter()
                .find(|(name, _)| **name == ***resource);
            **wanted > has.and_then(|(_, amount)| thousandths(amount)).unwrap_or(0)
        };
        self.0
            .iter()
            .find(is_lacking)
            .map(|(resource, _)| resource.as_str())
    }
}

/// The requested resources; a limit without a request counts as a request.
fn of_resources(resources: &Value) -> Amounts {
    let mut all = amounts(&resources["limits"]);
    all.extend(amounts(&resources["requests"]));
    all
}

/// Reads quantities. The apiserver refuses values that are no quantities.
fn amounts(list: &Value) -> Amounts {
    let read = |(name, amount): (&String, &Value)| {
        let text = amount
            .as_str()
            .map_or_else(|| amount.to_string(), str::to_owned);
        Some((name.clone(), thousandths(&text)?))
    };
    list.as_object()
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(read)
        .collect()
}

fn add(all: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = all.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn at_least(all: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let most = all.entry(name.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

#[cfg(test)]
mod tests;
