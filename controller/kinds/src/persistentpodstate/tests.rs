//! Records, and what asks for them.

use serde_json::{Value, json};

use super::*;

fn state(fields: Value, records: Value) -> Arc<PersistentPodState> {
    let mut state = json!({
        "metadata": {"name": "db", "namespace": "default", "uid": "state", "generation": 2},
        "spec": {
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"},
            "requiredPersistentTopology": {"keys": ["host"]},
        },
        "status": {"observedGeneration": 1, "podStates": records},
    });
    for (path, value) in fields.as_object().into_iter().flatten() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        state.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    Arc::new(serde_json::from_value(state).unwrap())
}

fn pod(name: &str, node: &str, ready: &str) -> Arc<Pod> {
    let conditions = json!([{"type": "Ready", "status": ready}]);
    let pod = json!({
        "metadata": {"name": name, "annotations": {"kruise.io/kept": "yes"}}, "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": conditions},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn nodes() -> BTreeMap<Box<str>, Arc<Node>> {
    let node =
        |name: &str| serde_json::from_value(json!({"metadata": {"name": name, "labels": {"host": name, "x": "y"}}}));
    ["n1", "n2"].into_iter().map(|name| (name.into(), Arc::new(node(name).unwrap()))).collect()
}

fn on(node: &str) -> Value {
    json!({"nodeName": node, "nodeTopologyLabels": {"host": node}})
}

#[test]
fn a_record_is_taken_when_a_pod_is_ready_and_dropped_when_nothing_takes_its_place() {
    let set = |replicas| Target::Set(Some(Ordinals::new(0, replicas, [])));
    let ready = || vec![pod("db-0", "n1", "True")];
    let old = || json!({"db-0": on("n2"), "db-5": on("n2")});
    let kept = json!({"/spec/persistentPodStateRetentionPolicy": "WhenDeleted"});
    let forgets = |names: &str| json!({"/metadata/annotations": {"kruise.io/forget-pod-states": names}});
    let table = [
        ("anew", json!({}), set(1), ready(), json!({"db-0": on("n1")})),
        ("not ready", json!({}), set(1), vec![pod("db-0", "n1", "False")], json!({"db-0": on("n2")})),
        ("an unknown node", json!({}), set(1), vec![pod("db-0", "n9", "True")], json!({"db-0": on("n2")})),
        ("between two pods", json!({}), set(1), vec![], json!({"db-0": on("n2")})),
        ("out of range and there", json!({}), set(0), ready(), json!({"db-0": on("n1")})),
        ("out of range and gone", json!({}), set(0), vec![], json!({})),
        ("in range", json!({}), set(6), vec![], old()),
        ("kept until it is deleted", kept.clone(), set(0), vec![], old()),
        ("a spec that cannot be read", json!({}), Target::Set(None), vec![], old()),
        ("the set is gone", kept, Target::Gone, vec![], json!({})),
        ("one is forgotten", forgets("db-0"), set(6), ready(), json!({"db-5": on("n2")})),
        ("all are forgotten", forgets("*"), set(6), ready(), json!({})),
    ];
    for (what, fields, target, pods, expected) in table {
        let snapshot =
            Snapshot { state: Some(state(fields, old())), target, pods, nodes: nodes(), ..Snapshot::default() };
        let status = status(&snapshot).unwrap();
        assert_eq!((json!(status.pod_states), status.observed_generation), (expected, 2), "{what}");
    }
}

#[test]
fn annotations_of_the_pod_are_kept_as_the_spec_names_them() {
    let fields = json!({"/spec/persistentPodAnnotations": [{"key": "kruise.io/kept"}, {"key": "kruise.io/other"}]});
    let snapshot = Snapshot {
        state: Some(state(fields, json!({}))),
        target: Target::Set(Some(Ordinals::new(0, 1, []))),
        pods: vec![pod("db-0", "n1", "True")],
        nodes: nodes(),
        generator: None,
    };
    assert_eq!(json!(status(&snapshot).unwrap().pod_states["db-0"].annotations), json!({"kruise.io/kept": "yes"}));
}

fn set(annotations: Value) -> Option<Arc<StatefulSet>> {
    let set = json!({
        "metadata": {"name": "db", "namespace": "default", "uid": "set", "annotations": annotations},
        "spec": {"selector": {}, "template": {}},
    });
    Some(Arc::new(serde_json::from_value(set).unwrap()))
}

fn planned(state: Option<Arc<PersistentPodState>>, generator: Option<Arc<StatefulSet>>) -> Vec<String> {
    let snapshot = Snapshot { state, generator, ..Snapshot::default() };
    decide(&snapshot, Timestamp::UNIX_EPOCH).actions().map(|action| json!(action).to_string()).collect()
}

#[test]
fn annotations_make_change_and_delete_what_the_workload_owns_and_nothing_else() {
    let asks = |topology: &str| {
        set(json!({
            "kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": topology, "kruise.io/preferred-persistent-topology": "a, b",
        }))
    };
    let made = planned(None, asks("host"));
    assert!(made.len() == 1 && made[0].contains("Create") && made[0].contains(r#""weight":100"#), "{made:?}");
    let owner = json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": true}]);
    let preferred: Vec<_> = ["a", "b"].map(|key| json!({"weight": 100, "preference": {"keys": [key]}})).into();
    let fields = json!({"/metadata/ownerReferences": owner, "/spec/preferredPersistentTopology": preferred});
    let owned = || Some(state(fields.clone(), json!({})));
    assert_eq!(planned(owned(), asks("host")), Vec::<String>::new(), "nothing to change");
    let changed = planned(owned(), asks("host,zone"));
    assert!(changed.len() == 1 && changed[0].contains("Patch") && changed[0].contains("zone"), "{changed:?}");
    let deleted = planned(owned(), set(json!({})));
    assert!(deleted.len() == 1 && deleted[0].contains("Delete"), "{deleted:?}");
    let by_hand = || Some(state(json!({}), json!({})));
    for generator in [asks("zone"), set(json!({})), None] {
        assert!(planned(by_hand(), generator).is_empty(), "what somebody made is left alone");
    }
    assert!(planned(None, set(json!({"kruise.io/auto-generate-persistent-pod-state": "true"}))).is_empty());
}
