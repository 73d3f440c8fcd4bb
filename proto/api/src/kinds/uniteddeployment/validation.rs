//! The faults of UnitedDeployments that need no other object, and fields of their templates without
//! effect.

use serde_json::Value;

use crate::kinds::uniteddeployment::v1beta1::{
    MAX_RENDERED, UnitedDeployment, UnitedDeploymentSpec, rendered,
};
use crate::names::label::{KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME};
use crate::validation::violations::{Violation, Violations, at, list, text};

/// The faults of a UnitedDeployment.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    found.selector("spec.selector", at(object, "spec.selector"));
    let own = at(object, "spec.selector.matchLabels");
    let subsets = list(at(object, "spec.topology.subsets")).count();
    let bytes = at(object, "spec.template").map_or(0, |template| rendered(template, subsets));
    if bytes > MAX_RENDERED {
        let problem = format!(
            "is what it comes to in all subsets, and {MAX_RENDERED} are the most: make the template smaller, or another \
             UnitedDeployment of some subsets"
        );
        found.add("spec.template", &format!("{bytes} bytes"), &problem);
    }
    for (index, subset) in list(at(object, "spec.topology.subsets")) {
        let path = format!("spec.topology.subsets[{index}]");
        labels(subset, own, &path, &mut found);
        let term = |field: &str| at(subset, &format!("nodeSelectorTerm.{field}"));
        for (at, expression) in list(term("matchExpressions")) {
            let path = format!("{path}.nodeSelectorTerm.matchExpressions[{at}]");
            found.key(&format!("{path}.key"), text(expression, "key"));
            values(expression, &path, &mut found);
        }
        for (at, expression) in list(term("matchFields")) {
            let path = format!("{path}.nodeSelectorTerm.matchFields[{at}]");
            field(expression, &path, &mut found);
        }
        for (at, toleration) in list(subset.get("tolerations")) {
            tolerates(toleration, &format!("{path}.tolerations[{at}]"), &mut found);
        }
    }
    found.0
}

/// The controller and the workload find a subset's pods by labels, which its patch cannot change.
fn labels(subset: &Value, own: Option<&Value>, path: &str, found: &mut Violations) {
    let patch = at(subset, "patch.metadata.labels").and_then(Value::as_object);
    for (key, value) in patch.into_iter().flatten() {
        let is_own = [SUBSET_NAME, KRUISE_CONTROLLER_REVISION_HASH].contains(&key.as_str());
        let wanted = own.and_then(|own| own.get(key));
        if is_own || wanted.is_some_and(|wanted| wanted != value) {
            let problem =
                "would hide the pods from the controller: remove the label from the patch";
            found.add(
                &format!("{path}.patch.metadata.labels[{key}]"),
                value.as_str().unwrap_or_default(),
                problem,
            );
        }
    }
}

/// How many values an operator takes, and that they are values of labels or numbers.
fn values(expression: &Value, path: &str, found: &mut Violations) {
    let given: Vec<_> = list(expression.get("values"))
        .map(|(_, value)| value.as_str().unwrap_or_default())
        .collect();
    let operator = text(expression, "operator");
    let field = format!("{path}.values");
    let problem = match operator {
        "In" | "NotIn" if given.is_empty() => "is empty: add at least one value",
        "Exists" | "DoesNotExist" if !given.is_empty() => {
            "operator Exists or DoesNotExist takes no values: remove them"
        }
        "Gt" | "Lt"
            if given.len() != 1 || given.iter().any(|value| value.parse::<i64>().is_err()) =>
        {
            "operator Gt or Lt takes one whole number: correct it"
        }
        _ => "",
    };
    if !problem.is_empty() {
        found.add(&field, &given.join(","), problem);
    } else if matches!(operator, "In" | "NotIn") {
        for (at, value) in given.iter().enumerate() {
            found.value(&format!("{field}[{at}]"), value);
        }
    }
}

/// Nodes have one field that a term may name.
fn field(expression: &Value, path: &str, found: &mut Violations) {
    let key = text(expression, "key");
    if key != "metadata.name" {
        found.add(
            &format!("{path}.key"),
            key,
            "is no field that nodes are selected by: use metadata.name",
        );
    }
    let operator = text(expression, "operator");
    if !matches!(operator, "In" | "NotIn") {
        found.add(
            &format!("{path}.operator"),
            operator,
            "does not compare a field: use In or NotIn",
        );
    }
    let count = list(expression.get("values")).count();
    if count != 1 {
        found.add(
            &format!("{path}.values"),
            &count.to_string(),
            "must be one name of a node: correct it",
        );
    }
}

fn tolerates(toleration: &Value, path: &str, found: &mut Violations) {
    let (key, operator, value) = (
        text(toleration, "key"),
        text(toleration, "operator"),
        text(toleration, "value"),
    );
    if key.is_empty() {
        if operator != "Exists" {
            found.add(
                &format!("{path}.operator"),
                operator,
                "must be Exists where key is empty: set it, or name a key",
            );
        }
    } else {
        found.key(&format!("{path}.key"), key);
    }
    if operator == "Exists" && !value.is_empty() {
        found.add(
            &format!("{path}.value"),
            value,
            "operator Exists takes no value: remove it",
        );
    } else if matches!(operator, "" | "Equal") {
        found.value(&format!("{path}.value"), value);
    }
    let effect = text(toleration, "effect");
    if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        found.add(
            &format!("{path}.effect"),
            effect,
            "is no effect: use NoSchedule, PreferNoSchedule or NoExecute",
        );
    }
    if effect != "NoExecute"
        && toleration
            .get("tolerationSeconds")
            .is_some_and(|seconds| !seconds.is_null())
    {
        found.add(
            &format!("{path}.effect"),
            effect,
            "must be NoExecute where tolerationSeconds is set: set it, or remove the seconds",
        );
    }
}

/// Fields of the template that do not count, each with its value, why, and what counts instead.
pub(crate) fn ignored_fields(object: &str) -> Vec<String> {
    let read = serde_json::from_str::<UnitedDeployment>(object);
    read.map(|united| ignored(&united.spec)).unwrap_or_default()
}

fn ignored(spec: &UnitedDeploymentSpec) -> Vec<String> {
    let template = &spec.template;
    let templates = [
        ("statefulSetTemplate", &template.stateful_set_template),
        (
            "advancedStatefulSetTemplate",
            &template.advanced_stateful_set_template,
        ),
        ("cloneSetTemplate", &template.clone_set_template),
        ("deploymentTemplate", &template.deployment_template),
    ];
    let own = serde_json::to_value(&spec.selector).unwrap_or_default();
    let mut ignored = Vec::new();
    for (name, workload) in templates {
        let Some(workload) = workload else { continue };
        let path = format!("spec.template.{name}.spec");
        let mut tell = |field: &str, value: &Value, instead: &str| {
            let text: String = value.to_string().chars().take(LONGEST_VALUE).collect();
            ignored.push(format!(
                "{path}.{field}: {text} is ignored: remove it; {instead}"
            ));
        };
        if let Some(replicas) = workload.spec.get("replicas") {
            tell(
                "replicas",
                replicas,
                "spec.replicas is divided among the subsets",
            );
        }
        if let Some(selector) = workload
            .spec
            .get("selector")
            .filter(|selector| **selector != own)
        {
            tell(
                "selector",
                selector,
                "each subset has spec.selector and its own name",
            );
        }
        let update = workload.spec.get("updateStrategy");
        let rolling = update.and_then(|update| update.get("rollingUpdate"));
        for (place, part) in [
            ("updateStrategy", update),
            ("updateStrategy.rollingUpdate", rolling),
        ] {
            let partition = part.and_then(|part| part.get("partition"));
            if let Some(partition) = partition.filter(|partition| **partition != 0) {
                let instead =
                    "spec.updateStrategy.manualUpdate.partitions has those of the subsets";
                tell(&format!("{place}.partition"), partition, instead);
            }
        }
    }
    ignored
}

/// The longest text of a value, in characters.
const LONGEST_VALUE: usize = 80;

#[cfg(test)]
mod tests;
