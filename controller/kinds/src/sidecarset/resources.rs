//! The resources of a sidecar that are made from those of the pod's own containers.

use berth_api::v1beta1::sidecarset::{ResourceExpressions, ResourcesPolicy, TargetContainersMode};
use berth_workload::revision::quantity;
use serde_json::{Map, Value, json};

use super::expression::{Expression, Variable};
use super::pattern::Pattern;

const VARIABLES: [Variable; 2] = [Variable::Cpu, Variable::Memory];

/// What is wrong with a policy, by its field: for who admits it.
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

/// The resources for a sidecar. `targets` are the pod's own containers, those beside them that run all the time among
/// them.
///
/// # Errors
/// No container is looked at, or an expression has no result.
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
        // Where one of them has no limit all of them together have none, and neither has the sidecar.
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

/// What the containers have together, in thousandths; `None` where one of them has no limit.
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
            // The apiserver fills in a limit for it, which for a pod that we are about to create it has not done yet.
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
mod tests {
    use super::*;

    fn policy(mode: &str, regex: &str, limits: [&str; 2], requests: [&str; 2]) -> ResourcesPolicy {
        let section = |[cpu, memory]: [&str; 2]| json!({"cpu": cpu, "memory": memory});
        serde_json::from_value(json!({
            "targetContainersMode": mode, "targetContainersNameRegex": regex,
            "resourcesExpr": {"limits": section(limits), "requests": section(requests)},
        }))
        .unwrap()
    }

    /// A container by what it may use and what it asks for, CPU and memory each; an empty text is none.
    fn container(name: &str, limits: [&str; 2], requests: [&str; 2]) -> Value {
        let section = |amounts: [&str; 2]| {
            let amounts = ["cpu", "memory"]
                .into_iter()
                .zip(amounts)
                .filter(|(_, amount)| !amount.is_empty());
            amounts
                .map(|(name, amount)| (name.to_owned(), json!(amount)))
                .collect::<Map<_, _>>()
        };
        json!({"name": name, "resources": {"limits": section(limits), "requests": section(requests)}})
    }

    #[test]
    fn resources_come_from_those_of_the_containers() {
        let main = container("main", ["200m", "200Mi"], ["50m", "100Mi"]);
        let helper = container("helper", ["400m", "400Mi"], ["100m", "200Mi"]);
        let free = container("free", ["", "1Gi"], ["", "1Gi"]);
        let limited = container("limited", ["1", "512Mi"], ["", ""]);
        let half = |mode, regex| {
            policy(
                mode,
                regex,
                ["cpu*50%", "memory*50%"],
                ["cpu*50%", "memory/2"],
            )
        };
        let constants = policy("sum", "", ["1", "200Mi"], ["max(cpu*50%, 50m)", "100Mi"]);
        let table = [
            (
                half("sum", ".*"),
                vec![&main, &helper],
                json!({"limits": {"cpu": "300m", "memory": "300Mi"}, "requests": {"cpu": "75m", "memory": "150Mi"}}),
            ),
            (
                half("max", ".*"),
                vec![&main, &helper],
                json!({"limits": {"cpu": "200m", "memory": "200Mi"}, "requests": {"cpu": "50m", "memory": "100Mi"}}),
            ),
            (
                half("sum", "^main$"),
                vec![&main, &helper],
                json!({"limits": {"cpu": "100m", "memory": "100Mi"}, "requests": {"cpu": "25m", "memory": "50Mi"}}),
            ),
            (
                half("sum", ""),
                vec![&main, &free],
                json!({"limits": {"memory": "612Mi"}, "requests": {"cpu": "25m", "memory": "562Mi"}}),
            ),
            (
                half("max", ""),
                vec![&main, &free],
                json!({"limits": {"memory": "512Mi"}, "requests": {"cpu": "25m", "memory": "512Mi"}}),
            ),
            // A limit that is a constant is none either where a container has none.
            (
                constants.clone(),
                vec![&free],
                json!({"limits": {"memory": "200Mi"}, "requests": {"cpu": "50m", "memory": "100Mi"}}),
            ),
            (
                constants,
                vec![&main],
                json!({"limits": {"cpu": "1", "memory": "200Mi"}, "requests": {"cpu": "50m", "memory": "100Mi"}}),
            ),
            // A request is never above its limit.
            (
                policy("sum", "", ["cpu*10%", ""], ["1", "1Gi"]),
                vec![&main],
                json!({"limits": {"cpu": "20m"}, "requests": {"cpu": "20m", "memory": "1Gi"}}),
            ),
            (
                policy("sum", "", ["", "memory*33.3%"], ["", ""]),
                vec![&main],
                json!({"limits": {"memory": "69835161"}}),
            ),
            (
                policy("sum", "", ["", ""], ["cpu", "memory"]),
                vec![&free],
                json!({"requests": {"cpu": "0", "memory": "1Gi"}}),
            ),
            // The apiserver gives a container that has a limit alone a request for it.
            (
                policy("sum", "", ["", ""], ["cpu*50%", "memory"]),
                vec![&main, &limited, &free],
                json!({"requests": {"cpu": "525m", "memory": "1636Mi"}}),
            ),
            (
                policy("sum", "", ["", ""], ["", ""]),
                vec![&free],
                json!({}),
            ),
        ];
        for (policy, targets, expected) in table {
            assert_eq!(
                resources(&policy, &targets).map(Value::Object),
                Ok(expected),
                "{policy:?}"
            );
        }
    }

    #[test]
    fn what_has_no_result_says_why() {
        let main = container("main", ["200m", "200Mi"], ["50m", "100Mi"]);
        let odd = container("odd", ["much", ""], ["", ""]);
        let table = [
            (
                policy("sum", "^other$", ["cpu", ""], ["", ""]),
                &main,
                "no container of the pod's own has a name with \"^other$\"",
            ),
            (
                policy("sum", "(", ["cpu", ""], ["", ""]),
                &main,
                "targetContainersNameRegex: \"(\" is no regular expression",
            ),
            (
                policy("sum", "", ["cpu - 1", ""], ["", ""]),
                &main,
                "resourcesExpr.limits.cpu, with cpu = 200m: the result is below zero",
            ),
            (
                policy("sum", "", ["", ""], ["", "memory*memory"]),
                &main,
                "resourcesExpr.requests.memory: \"memory*memory\": two amounts",
            ),
            (
                policy("sum", "", ["cpu", ""], ["", ""]),
                &odd,
                "container \"odd\": resources.limits.cpu: \"much\" is no quantity",
            ),
        ];
        for (policy, target, expected) in table {
            let error = resources(&policy, &[target]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(resources(&policy("sum", "", ["cpu", ""], ["", ""]), &[]).is_err());
    }

    #[test]
    fn what_is_wrong_is_named_by_its_field() {
        let fields = |policy: &ResourcesPolicy| {
            problems(policy)
                .into_iter()
                .map(|(field, _)| field)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            fields(&policy("sum", ".*", ["cpu", "memory*50%"], ["", ""])),
            [""; 0]
        );
        assert_eq!(
            fields(&policy("sum", "(", ["cpu*cpu", "cpu"], ["", "memory+"])),
            [
                "targetContainersNameRegex",
                "resourcesExpr.limits.cpu",
                "resourcesExpr.limits.memory",
                "resourcesExpr.requests.memory"
            ]
        );
        assert_eq!(fields(&ResourcesPolicy::default()), ["resourcesExpr"]);
    }
}
