//! What leaves the cluster: objects without values that may be secret.

use serde_json::{Map, Value, json};

/// Stands for a value.
pub(super) const MASK: &str = "<masked>";
/// Annotations of others whose values are no secrets. Not one of them: the manifest that kubectl
/// applied, and `kubernetes.io/change-cause`, which contain values of variables.
const HARMLESS: [&str; 15] = [
    "batch.kubernetes.io/job-completion-index",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "controller.kubernetes.io/pod-deletion-cost",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "kubectl.kubernetes.io/default-container",
    "kubectl.kubernetes.io/restartedAt",
    "kubernetes.io/config.hash",
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.seen",
    "kubernetes.io/config.source",
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
];
/// Lists of names and values.
const NAMED_VALUES: [&str; 2] = ["env", "httpHeaders"];

/// The object without `managedFields`, values of variables and of HTTP headers, content of Secrets,
/// and annotations of others.
pub(super) fn masked(object: &Value) -> Value {
    match object {
        Value::Object(fields) => {
            let is_secret = fields.get("kind").is_some_and(|kind| kind == "Secret");
            let fields = fields
                .iter()
                .filter(|(name, _)| *name != "managedFields")
                .map(|(name, value)| {
                    let value = match name.as_str() {
                        "data" | "stringData" if is_secret => json!(MASK),
                        "annotations" => annotations(value),
                        list if NAMED_VALUES.contains(&list) => without_values(value),
                        _ => masked(value),
                    };
                    (name.clone(), value)
                });
            Value::Object(fields.collect())
        }
        Value::Array(all) => Value::Array(all.iter().map(masked).collect()),
        other => other.clone(),
    }
}

/// Whether an annotation is of OpenKruise or Berth, or harmless.
fn is_known(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map_or("", |(domain, _)| domain);
    let is_kruise = domain == "kruise.io" || domain.ends_with(".kruise.io");
    is_kruise || HARMLESS.contains(&annotation)
}

/// Annotations. Some contain JSON with variables, such as the patch of a UnitedDeployment's subset.
fn annotations(value: &Value) -> Value {
    let Some(all) = value.as_object() else {
        return masked(value);
    };
    let all = all.iter().map(|(name, value)| {
        if !is_known(name) {
            return (name.clone(), json!(MASK));
        }
        let inner: Option<Value> = value
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        let value = match inner {
            Some(inner @ (Value::Object(_) | Value::Array(_))) if masked(&inner) != inner => {
                json!(masked(&inner).to_string())
            }
            _ => masked(value),
        };
        (name.clone(), value)
    });
    Value::Object(all.collect::<Map<_, _>>())
}

/// A list of `{name, value}` without its values.
fn without_values(list: &Value) -> Value {
    let Some(all) = list.as_array() else {
        return json!(MASK);
    };
    let all = all.iter().map(|one| {
        let mut one = masked(one);
        if let Some(value) = one.get_mut("value") {
            *value = json!(MASK);
        }
        one
    });
    Value::Array(all.collect())
}
