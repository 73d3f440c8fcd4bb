//! Budgets whose limit can never let a pod go.

use berth_api::names::annotation::SURGE_ON_EVICTION;
use berth_workload::budget::native::NativeBudget;
use berth_workload::objects::intstr::{Round, resolve};
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS, Resource,
};
use berth_workload::objects::selector::Selector;
use serde_json::Value;

use crate::objects::{condition, controller, name, namespace, number, text};

/// Most pods that a message names.
const NAMED: usize = 3;

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

/// Why a budget can never let a pod go by its limit, and the remedy; `None` if it can, or if
/// Kubernetes cannot count its pods. Berth's budgets can if the workload of their pods is one of
/// `surging`, unless replacements would be `pending` for this reason.
pub fn never(
    resource: Resource,
    budget: &Value,
    surging: &[Value],
    pending: Option<&str>,
) -> Option<String> {
    let (.., total, least) = KINDS.into_iter().find(|(kind, ..)| *kind == resource)?;
    let is_native = resource == POD_DISRUPTION_BUDGETS;
    let has_failed =
        condition(budget, "DisruptionAllowed").is_some_and(|one| one["reason"] == "SyncFailed");
    let status = |field: &str| number(budget, &format!("/status/{field}"));
    let is_counted = status("observedGeneration") >= number(budget, "/metadata/generation");
    let total = if is_counted { status(total) } else { 0 };
    let fields = ["maxUnavailable", "minAvailable"];
    let (field, limit) = fields
        .into_iter()
        .find_map(|field| Some((field, budget["spec"].get(field)?)))?;
    let is_full = if total > 0 {
        status(least) >= total
    } else {
        is_full_of_any(field, limit)
    };
    let is_surging = !is_native && surging.iter().any(|one| holds(budget, one));
    if !is_full || (is_native && has_failed) || (is_surging && pending.is_none()) {
        return None;
    }
    let value = limit
        .as_str()
        .map_or_else(|| limit.to_string(), str::to_owned);
    let has = match total {
        0 => String::new(),
        1 => ", and it has 1 pod".to_owned(),
        _ => format!(", and it has {total} pods"),
    };
    let remedy = match field {
        // For maxUnavailable, Kubernetes needs workloads with the subresource scale.
        "minAvailable" if is_native && limit.is_number() => {
            format!("set spec.minAvailable to {}", total - 1)
        }
        "minAvailable" => {
            "set spec.maxUnavailable to 1 or more, in place of spec.minAvailable".to_owned()
        }
        _ => "set spec.maxUnavailable to 1 or more".to_owned(),
    };
    let surge = match pending {
        _ if is_native => String::new(),
        Some(why) if is_surging => format!(
            "; annotation {SURGE_ON_EVICTION} brings no replacement, which would be Pending: {why}"
        ),
        Some(_) => String::new(),
        None => format!(
            "; or set annotation {SURGE_ON_EVICTION}: \"true\" on the CloneSet or Deployment, so \
             that a replacement comes first"
        ),
    };
    Some(format!(
        "it can never let a pod go: spec.{field} is {value}{has}; {remedy}{surge}"
    ))
}

/// Why Kubernetes cannot count the pods of one of its own budgets, and the remedy for its number of
/// pods now; `None` if it can.
pub fn uncounted(budget: &NativeBudget, pods: usize) -> Option<String> {
    let sentence = budget.uncounted()?;
    let is_number = budget.spec.max_unavailable.is_none()
        && budget
            .spec
            .min_available
            .as_ref()
            .is_some_and(Value::is_number);
    // The remedy follows the last semicolon.
    Some(match sentence.rsplit_once("; ") {
        Some((why, _)) if pods > 0 && !is_number => {
            let field = match budget.spec.max_unavailable {
                Some(_) => " in place of spec.maxUnavailable",
                None => "",
            };
            format!("{why}; set spec.minAvailable to {}{field}", pods - 1)
        }
        _ => sentence,
    })
}

/// How many of these pods one of Kubernetes' own budgets has. Pods that have ended do not count.
pub fn number_of_pods(budget: &NativeBudget, pods: &[Value]) -> usize {
    let has_ended = |pod: &Value| ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
    let pods = pods.iter().filter(|pod| selects_natively(budget, pod));
    pods.filter(|pod| !has_ended(pod)).count()
}

/// Why one of Kubernetes' own budgets never lets some of these pods go, and the remedy: another one
/// holds them, too.
pub fn doubled(budget: &NativeBudget, all: &[NativeBudget], pods: &[Value]) -> Option<String> {
    let own = &budget.metadata;
    let others = all.iter().filter(|other| {
        other.metadata.namespace == own.namespace && other.metadata.name != own.name
    });
    let of_both = |other: &NativeBudget| {
        let pods = pods.iter().filter(|pod| selects_natively(budget, pod));
        let pods = pods.filter(|pod| selects_natively(other, pod));
        pods.map(name).collect::<Vec<_>>()
    };
    let mut found = others.map(|other| (other, of_both(other)));
    let (other, pods) = found.find(|(_, pods)| !pods.is_empty())?;
    let mut named: Vec<_> = pods
        .iter()
        .take(NAMED)
        .map(|pod| (*pod).to_owned())
        .collect();
    if let more @ 1.. = pods.len().saturating_sub(NAMED) {
        named.push(format!("{more} more"));
    }
    let (held, other) = (named.join(", "), &other.metadata.name);
    Some(format!(
        "it can never let these pods go: {held}, because PodDisruptionBudget {other} holds them, \
         too; delete one of the two, or give their selectors the same label with different values"
    ))
}

fn selects_natively(budget: &NativeBudget, pod: &Value) -> bool {
    namespace(pod) == &*budget.metadata.namespace
        && serde_json::from_value(pod["metadata"].clone()).is_ok_and(|pod| budget.selects(&pod))
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
    let labels = &workload["spec"]["template"]["metadata"]["labels"];
    match text(budget, "/spec/targetRef/name") {
        _ if namespace(budget) != namespace(workload) => false,
        "" => selects(budget, labels),
        target => target == name(workload),
    }
}

/// Whether a budget of Berth has a pod.
pub fn has(budget: &Value, pod: &Value) -> bool {
    let owner = controller(pod).map_or("", |owner| text(owner, "/name"));
    match text(budget, "/spec/targetRef/name") {
        _ if namespace(budget) != namespace(pod) => false,
        "" => selects(budget, &pod["metadata"]["labels"]),
        // A ReplicaSet has the name of its Deployment, and a hash.
        target => owner == target || owner.rsplit_once('-').is_some_and(|(of, _)| of == target),
    }
}

fn selects(budget: &Value, labels: &Value) -> bool {
    let selector = serde_json::from_value(budget["spec"]["selector"].clone());
    let selector = selector.ok().and_then(|one| Selector::new(&one).ok());
    selector.is_some_and(|selector| selector.matches(|key| labels[key].as_str()))
}

#[cfg(test)]
mod tests;
