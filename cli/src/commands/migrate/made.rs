//! The CloneSet that a Deployment becomes.

use serde_json::{Map, Value, json};

/// Annotations of a Deployment that mean nothing on a CloneSet.
const OWN: [&str; 2] = [
    "deployment.kubernetes.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// Fields of the spec that both kinds have.
const SHARED: [&str; 5] = [
    "selector",
    "template",
    "minReadySeconds",
    "revisionHistoryLimit",
    "progressDeadlineSeconds",
];

/// A CloneSet with the template and the strategy of a Deployment, with 0 replicas or as many as the
/// Deployment has.
pub(super) fn cloneset(deployment: &Value, name: &str, copy: bool) -> Value {
    let of = &deployment["spec"];
    let mut spec = Map::new();
    for field in SHARED {
        let value = of.get(field).filter(|value| !value.is_null());
        spec.extend(value.map(|value| (field.to_owned(), value.clone())));
    }
    if let Some(Value::Object(metadata)) =
        spec.get_mut("template").and_then(|t| t.get_mut("metadata"))
    {
        metadata.remove("creationTimestamp");
    }
    let replicas = match copy {
        true => of.get("replicas").cloned().unwrap_or(json!(1)),
        false => json!(0),
    };
    spec.insert("replicas".to_owned(), replicas);
    spec.insert("updateStrategy".to_owned(), strategy(of));
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    for field in ["labels", "annotations"] {
        let Some(Value::Object(entries)) = deployment["metadata"].get(field) else {
            continue;
        };
        let mut entries = entries.clone();
        entries.retain(|key, _| !OWN.iter().any(|own| key.starts_with(own)));
        if !entries.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(entries));
        }
    }
    json!({"metadata": metadata, "spec": spec})
}

/// The update strategy: `Recreate` stops all pods at once.
fn strategy(deployment: &Value) -> Value {
    let mut rolling = Map::new();
    if deployment["strategy"]["type"] == "Recreate" {
        rolling.insert("maxUnavailable".to_owned(), json!("100%"));
    }
    for field in ["maxUnavailable", "maxSurge"] {
        let value = deployment["strategy"]["rollingUpdate"].get(field);
        rolling.extend(value.map(|value| (field.to_owned(), value.clone())));
    }
    if deployment["paused"] == true {
        rolling.insert("paused".to_owned(), json!(true));
    }
    json!({"rollingUpdate": rolling})
}

#[cfg(test)]
mod tests;
