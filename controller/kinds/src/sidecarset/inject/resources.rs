//! The resources of a sidecar that depend on those of the pod's own containers.

use berth_api::v1beta1::sidecarset::{ResourceExpressions, ResourcesPolicy, TargetContainersMode};
use berth_workload::objects::quantity;
use serde_json::{Map, Value, json};

use super::expression::{Expression, Variable};
use super::pattern::Pattern;

const VARIABLES: [Variable; 2] = [Variable::Cpu, Variable::Memory];

/// The problems of a policy, by field, for the admission of a SidecarSet.
pub fn problems(policy: &ResourcesPolicy) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    if let Err(problem) = Pattern::new(&policy.target_containers_name_regex) {
        problems.push(("targetContainersNameRegex".to_owned(), problem));
    }
    let expressions = &policy.resources_expr;
    if expressions.limits.is_none() && expressions.requests.is_none() {
        problems.push((
            "resourcesExpr".to_owned(),
            "it is empty; it must have limits or requests".to_owned(),
        ));
    }
    for (section, expressions) in [
        ("limits", &expressions.limits),
        ("requests", &expressions.requests),
    ] {
        for variable in VARIABLES {
            let text = expressions
                .as_ref()
                .map_or("", |expressions| text(expressions, variable));
            if !text.is_empty()
                && let Err(problem) = read(text, variable)
            {
                problems.push((
                    format!("resourcesExpr.{section}.{}", variable.name()),
                    problem,
                ));
            }
        }
    }
    problems
}

/// The resources for a sidecar. `targets` are the pod's own containers, including those beside them
/// that run all the time.
///
/// # Errors
/// No container matches the policy, or an expression has no result.
pub fn resources(
    policy: &ResourcesPolicy,
    targets: &[&Value],
) -> Result<Map<String, Value>, String> {
    let pattern = Pattern::new(&policy.target_containers_name_regex)
        .map_err(|problem| format!("targetContainersNameRegex: {problem}"))?;
    let name = |container: &Value| {
        container["name"]
            .as_str()
            .is_some_and(|name| pattern.is_in(name))
    };
    let targets: Vec<&Value> = targets
        .iter()
        .copied()
        .filter(|container| name(container))
        .collect();
    if targets.is_empty() {
        let pattern = &policy.target_containers_name_regex;
        return Err(format!(
            "targetContainersNameRegex: no container of the pod's own has a name with {pattern:?}"
        ));
    }
    let mode = policy.target_containers_mode;
    let mut sections = [Map::new(), Map::new()];
    for variable in VARIABLES {
        let mut limit = None;
        // If one container has no limit, all containers together have none, and neither has the
        // sidecar.
        if let Some(expression) =
            expression(policy.resources_expr.limits.as_ref(), "limits", variable)?
            && let Some(of) = together(&targets, "limits", variable, mode)?
        {
            limit = Some(evaluate(&expression, of, "limits", variable)?);
        }
        let mut request = None;
        if let Some(expression) = expression(
            policy.resources_expr.requests.as_ref(),
            "requests",
            variable,
        )? {
            let of = together(&targets, "requests", variable, mode)?.unwrap_or(0);
            let result = evaluate(&expression, of, "requests", variable)?;
            // The apiserver refuses a request above its limit.
            request = Some(limit.map_or(result, |limit| result.min(limit)));
        }
        for (section, amount) in sections.iter_mut().zip([limit, request]) {
            section.extend(
                amount.map(|amount| (variable.name().to_owned(), json!(variable.written(amount)))),
            );
        }
    }
    let sections = ["limits", "requests"]
        .into_iter()
        .zip(sections)
        .filter(|(_, amounts)| !amounts.is_empty());
    Ok(sections
        .map(|(name, amounts)| (name.to_owned(), Value::Object(amounts)))
        .collect())
}

fn text(expressions: &ResourceExpressions, variable: Variable) -> &str {
    match variable {
        Variable::Cpu => &expressions.cpu,
        Variable::Memory => &expressions.memory,
    }
}

fn read(text: &str, variable: Variable) -> Result<Expression, String> {
    Expression::parse(text, variable).map_err(|problem| format!("{text:?}: {problem}"))
}

fn expression(
    expressions: Option<&ResourceExpressions>,
    section: &str,
    variable: Variable,
) -> Result<Option<Expression>, String> {
    let Some(text) = expressions
        .map(|expressions| text(expressions, variable))
        .filter(|text| !text.is_empty())
    else {
        return Ok(None);
    };
    read(text, variable)
        .map(Some)
        .map_err(|problem| format!("resourcesExpr.{section}.{}: {problem}", variable.name()))
}

fn evaluate(
    expression: &Expression,
    of: i128,
    section: &str,
    variable: Variable,
) -> Result<i128, String> {
    let name = variable.name();
    expression.evaluate(of).map_err(|problem| {
        format!(
            "resourcesExpr.{section}.{name}, with {name} = {}: {problem}",
            variable.written(of)
        )
    })
}

/// The sum over the containers, in thousandths; `None` if one of them has no limit.
fn together(
    containers: &[&Value],
    section: &str,
    variable: Variable,
    mode: TargetContainersMode,
) -> Result<Option<i128>, String> {
    let mut all = 0_i128;
    for container in containers {
        let resources = &container["resources"];
        let (of, amount) = match &resources[section][variable.name()] {
            // The apiserver sets a missing request to the limit. In the pod that is being created
            // it has not done so yet.
            Value::Null if section == "requests" => {
                ("limits", &resources["limits"][variable.name()])
            }
            amount => (section, amount),
        };
        let amount = match amount {
            Value::Null if section == "limits" => return Ok(None),
            Value::Null => 0,
            amount => thousandths(amount).ok_or_else(|| {
                let name = &container["name"];
                format!(
                    "container {name}: resources.{of}.{}: {amount} is no quantity",
                    variable.name()
                )
            })?,
        };
        all = match mode {
            TargetContainersMode::Sum => all.saturating_add(amount),
            TargetContainersMode::Max => all.max(amount),
        };
    }
    Ok(Some(all))
}

fn thousandths(amount: &Value) -> Option<i128> {
    match amount {
        Value::String(text) => quantity::thousandths(text),
        Value::Number(number) => quantity::thousandths(&number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
