//! The answers for budgets: limits that let no pod go, and Kubernetes' own budgets.

use std::collections::BTreeMap;

use anyhow::Context as _;
use berth_workload::budget::drain::{Remainder, drainable};
use berth_workload::budget::native::NativeBudget;
use berth_workload::objects::resource::{CLONE_SETS, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS};
use serde_json::Value;

use crate::budget_limit::{self, surges};
use crate::commands::drain::natively;
use crate::kinds::NamedKind;
use crate::objects::{controller, name, namespace, text};
use crate::session::Session;

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
    let mut surging = Vec::new();
    for resource in [CLONE_SETS, DEPLOYMENTS] {
        let listed = session.list_if_allowed(resource, &session.namespace, "");
        let listed = listed.await?.unwrap_or_default();
        surging.extend(listed.into_iter().filter(surges));
    }
    Ok(budget_limit::never(kind.resource, &budget, &surging))
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
    lines.push(numbers(&typed));
    let never = budget_limit::never(POD_DISRUPTION_BUDGETS, budget, &[]);
    lines.extend(never.map(|why| format!("‼ {why}")));
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
    lines.extend(drains(&by_node, &natives, node.is_some()));
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
    if let Some(uncounted) = budget.uncounted() {
        return format!("Blocked: it {uncounted}");
    }
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
