use berth_api::names::annotation::{CONTAINER_LAUNCH_PRIORITY_COMPLETED, LAUNCHED_PRIORITY};
use berth_workload::plan::Action;
use serde_json::{Value, json};

use super::*;

/// A pod of a Deployment with containers of priority 1 and 0. The first `ready` ones are ready.
fn ordered(ready: usize) -> Value {
    let container = |(name, key): (&str, &str)| {
        let reference = json!({"name": "web-barrier", "key": key});
        let env = json!([{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": reference}}]);
        json!({"name": name, "image": "a:1", "env": env})
    };
    let containers = [("log", "p_1"), ("main", "p_0")];
    let status = |(name, _): &(&str, &str)| json!({"name": name, "ready": true});
    json!({
        "metadata": {
            "namespace": "default", "name": "web", "uid": "u", "resourceVersion": "7", "annotations": {SIDECARSET_HASH: "{}"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}],
        },
        "spec": {"containers": containers.map(container), "nodeName": "n"},
        "status": {"containerStatuses": containers[..ready].iter().map(status).collect::<Vec<_>>()},
    })
}

fn decided(pod: &Value) -> Plan {
    decide(&read(pod), (false, &[]), Timestamp::UNIX_EPOCH)
}

fn read(pod: &Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(pod.clone()).unwrap())
}

/// The keys that are written to the ConfigMap, and the pod's new annotations.
type Released = (Vec<String>, Vec<(String, String)>);

/// The writes that let the pod's containers start.
fn released(pod: &Value) -> Option<Released> {
    let plan = decided(pod);
    let actions: Vec<_> = plan.actions().collect();
    let keys = actions.iter().find_map(|action| match action {
        Action::OpenBarrier { pod, keys } => Some((&*pod.name == "web").then(|| keys.clone())?),
        _ => None,
    })?;
    let noted = actions.iter().find_map(|action| match action {
        Action::PatchPod { patch, .. } => Some(patch.annotations.clone()),
        _ => None,
    })?;
    Some((
        keys,
        noted
            .into_iter()
            .map(|(key, value)| (key, value.unwrap()))
            .collect(),
    ))
}

#[test]
fn injected_containers_start_by_priority() {
    let first = released(&ordered(0)).unwrap();
    assert_eq!(
        first,
        (
            vec!["p_1".to_owned()],
            vec![(LAUNCHED_PRIORITY.to_owned(), "1".to_owned())]
        )
    );
    let mut waiting = ordered(0);
    waiting["metadata"]["annotations"][LAUNCHED_PRIORITY] = json!("1");
    assert_eq!(released(&waiting), None, "the first is not ready");
    let mut next = ordered(1);
    next["metadata"]["annotations"][LAUNCHED_PRIORITY] = json!("1");
    let keys = ["p_0", "p_1"].map(str::to_owned).to_vec();
    let noted = vec![(
        CONTAINER_LAUNCH_PRIORITY_COMPLETED.to_owned(),
        "true".to_owned(),
    )];
    assert_eq!(released(&next), Some((keys, noted)));
    next["metadata"]["annotations"][CONTAINER_LAUNCH_PRIORITY_COMPLETED] = json!("true");
    assert_eq!(decided(&next), Plan::default());
}

#[test]
fn workload_uninjected_and_deleted_pods_are_ignored() {
    for (path, value) in [
        (
            "/metadata/ownerReferences/0",
            json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "c", "uid": "c", "controller": true}),
        ),
        ("/metadata/annotations", json!({})),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        (
            "/spec/containers",
            json!([{"name": "main", "image": "a:1"}]),
        ),
    ] {
        let mut pod = ordered(0);
        pod["metadata"]["deletionTimestamp"] = Value::Null;
        *pod.pointer_mut(path).unwrap() = value;
        assert_eq!(decided(&pod), Plan::default(), "{path}");
    }
}

/// A pod of a Deployment with the readiness gate.
fn gated() -> Value {
    let mut pod = ordered(0);
    pod["metadata"]["annotations"] = json!({});
    pod["spec"]["readinessGates"] = json!([{"conditionType": KRUISE_POD_READY}]);
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    pod
}

#[test]
fn unset_readiness_gate_is_opened_at_seen_version() {
    let plan = decided(&gated());
    let [
        Action::PatchPodStatus {
            target,
            conditions,
            patch,
        },
    ] = &plan.actions().collect::<Vec<_>>()[..]
    else {
        panic!("{plan:?}")
    };
    assert_eq!(target.resource_version.as_deref(), Some("7"));
    assert_eq!(
        conditions,
        &[gates::condition(
            KRUISE_POD_READY,
            true,
            Timestamp::UNIX_EPOCH
        )]
    );
    assert_eq!(patch, &PodPatch::default());
}

#[test]
fn gate_set_absent_or_of_workload_pod_is_ignored() {
    let ours = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "s", "uid": "s", "controller": true});
    for (path, value) in [
        (
            "/status/conditions/0",
            json!({"type": KRUISE_POD_READY, "status": "False"}),
        ),
        (
            "/status/conditions/0",
            json!({"type": KRUISE_POD_READY, "status": "True"}),
        ),
        ("/metadata/ownerReferences/0", ours),
        (
            "/spec/readinessGates",
            json!([{"conditionType": "InPlaceUpdateReady"}]),
        ),
        ("/spec/nodeName", json!("")),
    ] {
        let mut pod = gated();
        *pod.pointer_mut(path).unwrap() = value;
        assert_eq!(decided(&pod), Plan::default(), "{path}");
    }
}

#[test]
fn container_start_precedes_readiness_gate() {
    let mut pod = ordered(0);
    pod["spec"]["readinessGates"] = json!([{"conditionType": KRUISE_POD_READY}]);
    assert!(released(&pod).is_some());
    pod["metadata"]["annotations"][LAUNCHED_PRIORITY] = json!("1");
    assert!(matches!(
        &decided(&pod).actions().collect::<Vec<_>>()[..],
        [Action::PatchPodStatus { .. }]
    ));
}

#[test]
fn job_pod_gets_open_gate_but_no_container_start() {
    let mut pod = ordered(0);
    pod["metadata"]["ownerReferences"][0] = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "name": "j", "uid": "j", "controller": true});
    assert_eq!(decided(&pod), Plan::default());
    pod["spec"]["readinessGates"] = json!([{"conditionType": KRUISE_POD_READY}]);
    let plan = decided(&pod);
    assert!(
        matches!(
            plan.actions().collect::<Vec<_>>()[..],
            [Action::PatchPodStatus { .. }]
        ),
        "{plan:?}"
    );
}

#[test]
fn replaced_leftover_is_deleted_when_no_budget_waits() {
    let leftover = read(&json!({
        "metadata": {
            "namespace": "default", "name": "web-1", "uid": "0123456789",
            "labels": {"pod-template-hash": "released-01234567"},
            "annotations": {"apps.kruise.io/surge-on-eviction": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d"}],
        },
        "status": {"phase": "Running"},
    }));
    let other = |ready: &str| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-a", "uid": "r", "controller": true});
        let metadata = json!({"name": "web-a-1", "labels": {"pod-template-hash": "a"}, "ownerReferences": [owner]});
        let status =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        read(&json!({"metadata": metadata, "status": status}))
    };
    for (is_awaited, ready, goes) in [
        (false, "True", true),
        (true, "True", false),
        (false, "False", false),
    ] {
        let plan = decide(
            &leftover,
            (is_awaited, &[other(ready)]),
            Timestamp::UNIX_EPOCH,
        );
        let deletes = plan
            .actions()
            .any(|action| matches!(action, Action::DeletePod { .. }));
        assert_eq!(
            (deletes, plan.look_again.is_some()),
            (goes, !goes),
            "{is_awaited} {ready}"
        );
    }
}
