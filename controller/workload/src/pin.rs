//! A new pod goes where the one before it of its name was, where a PersistentPodState keeps that.

use berth_api::names::annotation::INJECTED_PERSISTENT_POD_STATE;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use serde_json::{Map, Value, json};

/// Adds to a new pod what its record says: required labels of nodes to its `nodeSelector`, preferred ones to its affinity, and
/// the annotations that the spec lists. What its template says of the same key stays, and so does what is no map or list where there should be one: the
/// apiserver refuses that. A pod without a record stays as it is.
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

/// The map at the end of a path, made where there is none. `None` where something else is in its place.
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
mod tests {
    use super::*;

    fn records(required: Value, preferred: Value, record: Value) -> PersistentPodState {
        serde_json::from_value(json!({
            "metadata": {"name": "db"},
            "spec": {
                "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"},
                "requiredPersistentTopology": {"keys": required}, "preferredPersistentTopology": preferred,
                "persistentPodAnnotations": [{"key": "x"}, {"key": "y"}],
            },
            "status": {"observedGeneration": 1, "podStates": {"db-0": record}},
        }))
        .unwrap()
    }

    fn preferred(weight: i32, key: &str) -> Value {
        json!({"weight": weight, "preference": {"keys": [key]}})
    }

    #[test]
    fn a_pod_gets_what_its_record_says_where_its_template_says_nothing_else() {
        let labels = json!({"zone": "a", "host": "n1", "rack": "r1"});
        let record = json!({"nodeName": "n1", "nodeTopologyLabels": labels, "annotations": {"x": "1", "y": "2", "unlisted": "3"}});
        let records = records(
            json!(["zone", "host", "gone"]),
            json!([preferred(7, "rack"), preferred(1, "gone")]),
            record,
        );
        let template = || json!({"metadata": {"annotations": {"y": "own"}}, "spec": {"nodeSelector": {"zone": "b"}}});
        let mut pod = template();
        pin(&mut pod, "db-0", &records);
        assert_eq!(
            pod["spec"]["nodeSelector"],
            json!({"zone": "b", "host": "n1"})
        );
        let affinity = &pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
        let expression = json!({"key": "rack", "operator": "In", "values": ["r1"]});
        assert_eq!(
            *affinity,
            json!([{"weight": 7, "preference": {"matchExpressions": [expression]}}])
        );
        let annotations =
            json!({"x": "1", "y": "own", "kruise.io/injected-persistent-pod-state": "db"});
        assert_eq!(pod["metadata"]["annotations"], annotations);
        let mut other = template();
        pin(&mut other, "db-1", &records);
        assert_eq!(other, template(), "one without a record");
    }

    #[test]
    fn what_is_no_map_or_list_where_there_should_be_one_stays_as_it_is() {
        let record = json!({"nodeName": "n1", "nodeTopologyLabels": {"host": "n1"}, "annotations": {"x": "1"}});
        let records = records(json!(["host"]), json!([preferred(7, "host")]), record);
        let list = "preferredDuringSchedulingIgnoredDuringExecution";
        for hostile in [
            json!({"metadata": [], "spec": "x"}),
            json!({"metadata": {"annotations": 7}, "spec": {"nodeSelector": [], "affinity": "x"}}),
            json!({"metadata": {"annotations": []}, "spec": {"nodeSelector": true, "affinity": {"nodeAffinity": [1]}}}),
            json!({"metadata": {"annotations": ""}, "spec": {"nodeSelector": 1, "affinity": {"nodeAffinity": {list: {}}}}}),
            json!("x"),
        ] {
            let mut pod = hostile.clone();
            pin(&mut pod, "db-0", &records);
            assert_eq!(pod, hostile);
        }
    }
}
