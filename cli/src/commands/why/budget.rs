//! The answers for budgets: limits that let no pod go, and Kubernetes' own budgets.

use std::collections::BTreeMap;

use anyhow::Context as _;
use berth_workload::budget::drain::{Remainder, drainable};
use berth_workload::budget::native::NativeBudget;
use berth_workload::objects::resource::{
    CLAIMS, CLONE_SETS, DEPLOYMENTS, NODES, POD_DISRUPTION_BUDGETS, PODS, Resource,
};
use serde_json::Value;

use crate::budget_limit::{self, has, number_of_pods, surges};
use crate::commands::drain::{VOLUMES, has_claims, natively, no_other_node};
use crate::kinds::NamedKind;
use crate::objects::{controller, name, namespace, text};
use crate::session::Session;

/// The words on nodes of which a drain waits.
const WAITS: &str = "a drain would have to wait for some of its pods";
/// The words on the same nodes if the budget can never let a pod go.
const NEVER: &str = "a drain would never end, because some of its pods can never go";

/// The sentence on a budget that can never let a pod go; `None` for all other objects.
///
/// # Errors
/// The apiserver's answer.
pub(super) async fn never(
    session: &Session,
    kind: &NamedKind,
    name: &str,
) -> anyhow::Result<Option<String>> {
    let mut kinds = budget_limit::kinds();
    if !kinds.any(|(resource, _)| resource == kind.resource) {
        return Ok(None);
    }
    let budget = session.get(kind, name).await?;
    let of =
        |surging: &[Value], pending| budget_limit::never(kind.resource, &budget, surging, pending);
    if of(&[], None).is_none() {
        return Ok(None);
    }
    let mut surging = Vec::new();
    for resource in [CLONE_SETS, DEPLOYMENTS] {
        let listed = known(session, resource).await?;
        surging.extend(listed.into_iter().filter(surges));
    }
    let pods = known(session, PODS).await?;
    let pods: Vec<_> = pods.iter().filter(|pod| has(&budget, pod)).collect();
    let nodes = known(session, NODES).await?;
    let (mut claims, mut volumes) = (Vec::new(), Vec::new());
    if pods.iter().any(|pod| has_claims(pod)) {
        claims = known(session, CLAIMS).await?;
        volumes = known(session, VOLUMES).await?;
    }
    let pending = no_other_node(&pods, &nodes, &claims, &volumes);
    Ok(of(&surging, pending.as_deref()))
}

/// The objects of a kind in the command's namespace, or of the cluster; none without the right.
async fn known(session: &Session, resource: Resource) -> anyhow::Result<Vec<Value>> {
    let listed = session.list_if_allowed(resource, &session.namespace, "");
    Ok(listed.await?.unwrap_or_default())
}

/// What the sentence on drains says of a budget that can never let a pod go.
pub(super) fn without_waiting(sentence: &str) -> String {
    sentence.replace(WAITS, NEVER)
}

/// The answer for one of Kubernetes' own budgets, line by line.
///
/// # Errors
/// The budget does not exist, or the apiserver did not answer.
pub(super) async fn native(
    session: &Session,
    (kind, name): (&NamedKind, &str),
    node: Option<&str>,
) -> anyhow::Result<Vec<String>> {
    let budget = session.get(kind, name).await?;
    let of = session.namespace.as_str();
    let (mut pods, mut all, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for (resource, found) in [(PODS, &mut pods), (POD_DISRUPTION_BUDGETS, &mut all)] {
        match session.list_if_allowed(resource, of, "").await? {
            Ok(listed) => *found = listed,
            Err(why) => unread.push(format!("Not known: {why}")),
        }
    }
    // Without the right to list budgets, this one alone.
    if all.is_empty() {
        all.push(budget.clone());
    }
    let mut lines = native_lines(&budget, &pods, &all, node)?;
    lines.extend(unread);
    Ok(lines)
}

/// The lines on a budget, of all pods and budgets of its namespace.
pub(super) fn native_lines(
    budget: &Value,
    pods: &[Value],
    all: &[Value],
    node: Option<&str>,
) -> anyhow::Result<Vec<String>> {
    let typed = typed(budget)?;
    let natives: Result<Vec<_>, _> = all.iter().map(self::typed).collect();
    let natives = natives?;
    let mut lines = vec![format!(
        "PodDisruptionBudget {}/{}",
        namespace(budget),
        name(budget)
    )];
    let uncounted = budget_limit::uncounted(&typed, number_of_pods(&typed, pods));
    let is_uncounted = uncounted.is_some();
    lines.push(uncounted.map_or_else(|| numbers(&typed), |why| format!("Blocked: it {why}")));
    let limit = budget_limit::never(POD_DISRUPTION_BUDGETS, budget, &[], None);
    let doubled = budget_limit::doubled(&typed, &natives, pods);
    let never: Vec<_> = limit.into_iter().chain(doubled).collect();
    let is_never = is_uncounted || !never.is_empty();
    lines.extend(never.into_iter().map(|why| format!("‼ {why}")));
    lines.extend(controller(budget).map(|owner| {
        let (kind, name) = (text(owner, "/kind"), text(owner, "/name"));
        format!(
            "Owner: {kind} {name}; see `kubectl berth why {}/{name}`",
            kind.to_lowercase()
        )
    }));
    let mut by_node: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for pod in pods {
        let metadata = serde_json::from_value(pod["metadata"].clone());
        if metadata.is_ok_and(|metadata| typed.selects(&metadata)) {
            by_node
                .entry(text(pod, "/spec/nodeName"))
                .or_default()
                .push(pod.clone());
        }
    }
    if by_node.is_empty() {
        lines.push("Pods: its selector selects none".to_owned());
    }
    if let Some(node) = node {
        by_node.retain(|of, _| *of == node);
        lines.push(format!(
            "A drain of node {node} now, by Kubernetes' own budgets:"
        ));
        if by_node.is_empty() {
            lines.push("  no pod of the budget is on the node".to_owned());
        }
    }
    let drains = drains(&by_node, &natives, node.is_some()).into_iter();
    lines.extend(drains.map(|line| match is_never {
        true => without_waiting(&line),
        false => line,
    }));
    lines.push("All budgets together: `kubectl berth drain NODE --dry-run`".to_owned());
    Ok(lines)
}

/// The pods with their answers, or which nodes could be drained.
fn drains(
    by_node: &BTreeMap<&str, Vec<Value>>,
    natives: &[NativeBudget],
    is_one: bool,
) -> Vec<String> {
    let (mut lines, mut nodes) = (Vec::new(), Vec::new());
    for (node, pods) in by_node {
        if node.is_empty() {
            let names: Vec<_> = pods.iter().map(name).collect();
            lines.push(format!("Pods without a node: {}", names.join(", ")));
            continue;
        }
        let answers = natively(pods, natives);
        if is_one {
            let each = answers
                .iter()
                .map(|(_, pod, sentence)| format!("  {pod}: {sentence}"));
            lines.extend(each);
            continue;
        }
        let names: Vec<_> = answers.iter().map(|(_, pod, _)| pod.as_str()).collect();
        lines.push(format!("Pods on {node}: {}", names.join(", ")));
        nodes.push(Remainder {
            node: (*node).to_owned(),
            pods: answers.len(),
            refused: answers
                .iter()
                .filter(|(is_refused, ..)| *is_refused)
                .count(),
        });
    }
    lines.extend(
        drainable(&nodes)
            .into_iter()
            .map(|line| format!("Drains: {line}")),
    );
    lines
}

fn numbers(budget: &NativeBudget) -> String {
    let (spec, status) = (&budget.spec, &budget.status);
    if status.observed_generation < budget.metadata.generation {
        return "Now: Kubernetes has not counted its pods yet since its last change".to_owned();
    }
    let limits = [
        ("maxUnavailable", &spec.max_unavailable),
        ("minAvailable", &spec.min_available),
    ];
    let limit = limits.iter().find_map(|(field, value)| {
        let value = value.as_ref()?;
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some(format!(" ({field} {value})"))
    });
    format!(
        "Now: {} of {} pods are healthy, {} must be{}: {} may go",
        status.current_healthy,
        status.expected_pods,
        status.desired_healthy,
        limit.unwrap_or_default(),
        status.disruptions_allowed
    )
}

/// Why Kubernetes cannot count the pods of a budget; `None` if it can.
pub(super) fn uncounted(budget: &Value) -> Option<String> {
    typed(budget).ok()?.uncounted()
}

fn typed(budget: &Value) -> anyhow::Result<NativeBudget> {
    serde_json::from_str(&budget.to_string())
        .with_context(|| format!("PodDisruptionBudget {} cannot be read", name(budget)))
}

#[cfg(test)]
mod tests;
