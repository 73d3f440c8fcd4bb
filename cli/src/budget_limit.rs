//! Budgets whose limit can never let a pod go.

use berth_api::names::annotation::SURGE_ON_EVICTION;
use berth_workload::objects::intstr::{Round, resolve};
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS, Resource,
};
use berth_workload::objects::selector::Selector;
use serde_json::Value;

use crate::objects::{name, namespace, number, text};

/// The kinds of budgets, each with its short name, and the fields of its status that count all pods
/// and those that must stay.
const KINDS: [(Resource, &str, &str, &str); 3] = [
    (
        POD_UNAVAILABLE_BUDGETS,
        "pub",
        "totalReplicas",
        "desiredAvailable",
    ),
    (
        DISTRIBUTED_POD_DISRUPTION_BUDGETS,
        "dpdb",
        "expectedPods",
        "desiredHealthy",
    ),
    (
        POD_DISRUPTION_BUDGETS,
        "pdb",
        "expectedPods",
        "desiredHealthy",
    ),
];

/// The kinds of budgets, with the short names of commands.
pub fn kinds() -> impl Iterator<Item = (Resource, &'static str)> {
    KINDS
        .into_iter()
        .map(|(resource, short, ..)| (resource, short))
}

/// Whether a CloneSet or a Deployment makes a replacement before one of its pods goes.
pub fn surges(workload: &Value) -> bool {
    workload["metadata"]["annotations"][SURGE_ON_EVICTION] == "true"
}

/// Why a budget can never let a pod go, and the remedy; `None` if it can. Berth's budgets can if
/// the workload of their pods is one of `surging`.
pub fn never(resource: Resource, budget: &Value, surging: &[Value]) -> Option<String> {
    let (.., total, least) = KINDS.into_iter().find(|(kind, ..)| *kind == resource)?;
    let is_native = resource == POD_DISRUPTION_BUDGETS;
    let status = |field: &str| number(budget, &format!("/status/{field}"));
    let is_counted = status("observedGeneration") >= number(budget, "/metadata/generation");
    let total = if is_counted { status(total) } else { 0 };
    let fields = ["maxUnavailable", "minAvailable"];
    let (field, value) = fields
        .into_iter()
        .find_map(|field| Some((field, budget["spec"].get(field)?)))?;
    let is_full = if total > 0 {
        status(least) >= total
    } else {
        is_full_of_any(field, value)
    };
    if !is_full || (!is_native && surging.iter().any(|one| holds(budget, one))) {
        return None;
    }
    let value = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    let has = match total {
        0 => String::new(),
        1 => ", and it has 1 pod".to_owned(),
        _ => format!(", and it has {total} pods"),
    };
    let instead = match field {
        "minAvailable" => ", in place of spec.minAvailable",
        _ => "",
    };
    let surge = if is_native {
        String::new()
    } else {
        format!(
            "; or set annotation {SURGE_ON_EVICTION}: \"true\" on the CloneSet or Deployment, so \
             that a replacement comes first"
        )
    };
    Some(format!(
        "it can never let a pod go: spec.{field} is {value}{has}; set spec.maxUnavailable to 1 or \
         more{instead}{surge}"
    ))
}

/// Whether the limit lets no pod go, of any number of pods.
fn is_full_of_any(field: &str, value: &Value) -> bool {
    let Ok(limit) = serde_json::from_value(value.clone()) else {
        return false;
    };
    match field {
        "maxUnavailable" => resolve(&limit, 1, Round::Up) == Ok(0),
        _ => value.is_string() && resolve(&limit, 1000, Round::Down).is_ok_and(|of| of >= 1000),
    }
}

/// Whether a budget holds the pods of a workload.
fn holds(budget: &Value, workload: &Value) -> bool {
    if namespace(budget) != namespace(workload) {
        return false;
    }
    let target = &budget["spec"]["targetRef"];
    if target.is_object() {
        return text(target, "/name") == name(workload);
    }
    let selector = serde_json::from_value(budget["spec"]["selector"].clone());
    let selector = selector.ok().and_then(|one| Selector::new(&one).ok());
    let labels = &workload["spec"]["template"]["metadata"]["labels"];
    selector.is_some_and(|selector| selector.matches(|key| labels[key].as_str()))
}

#[cfg(test)]
mod tests;
