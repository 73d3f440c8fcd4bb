//! Pins a new pod to the place of the earlier pod of its name, if a PersistentPodState has recorded
//! that.

use berth_api::names::annotation::INJECTED_PERSISTENT_POD_STATE;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use serde_json::{Map, Value, json};

/// Adds the pod's record to a new pod: required node labels to its `nodeSelector`, preferred ones
/// to its affinity, and the annotations that the spec lists. The template's values of the same keys
/// stay. So do values of a wrong type, which the apiserver refuses. A pod without a record stays as
/// it is.
pub fn pin(pod: &mut Value, name: &str, records: &PersistentPodState) {
    let Some(record) = records
        .status
        .as_ref()
        .and_then(|status| status.pod_states.get(name))
    else {
        return;
    };
    let spec = &records.spec;
    for key in spec
        .required_persistent_topology
        .iter()
        .flat_map(|term| &term.keys)
    {
        if let Some(value) = record.node_topology_labels.get(key) {
            insert(pod, ["spec", "nodeSelector"], key, value);
        }
    }
    for term in &spec.preferred_persistent_topology {
        let labels = term
            .preference
            .keys
            .iter()
            .filter_map(|key| Some((key, record.node_topology_labels.get(key)?)));
        let expressions: Vec<_> = labels
            .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}))
            .collect();
        if !expressions.is_empty() {
            prefer(
                pod,
                json!({"weight": term.weight, "preference": {"matchExpressions": expressions}}),
            );
        }
    }
    for key in spec
        .persistent_pod_annotations
        .iter()
        .map(|annotation| &annotation.key)
    {
        if let Some(value) = record.annotations.get(key) {
            insert(pod, ["metadata", "annotations"], key, value);
        }
    }
    let injected = records.metadata.name.as_deref().unwrap_or_default();
    insert(
        pod,
        ["metadata", "annotations"],
        INJECTED_PERSISTENT_POD_STATE,
        injected,
    );
}

/// The map at the end of a path, created if it is missing. `None` if another value is in its place.
fn map<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let map = value.as_object_mut()?;
    let Some((first, rest)) = path.split_first() else {
        return Some(map);
    };
    let next = map.entry(*first).or_insert(Value::Null);
    if next.is_null() {
        *next = Value::Object(Map::new());
    }
    self::map(next, rest)
}

fn prefer(pod: &mut Value, term: Value) {
    let Some(affinity) = map(pod, &["spec", "affinity", "nodeAffinity"]) else {
        return;
    };
    let terms = affinity
        .entry("preferredDuringSchedulingIgnoredDuringExecution")
        .or_insert(Value::Null);
    if terms.is_null() {
        *terms = json!([]);
    }
    if let Some(terms) = terms.as_array_mut() {
        terms.push(term);
    }
}

fn insert(pod: &mut Value, path: [&str; 2], key: &str, value: &str) {
    if let Some(map) = map(pod, &path) {
        map.entry(key).or_insert_with(|| json!(value));
    }
}

#[cfg(test)]
mod tests;
