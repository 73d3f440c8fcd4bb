use serde_json::json;

use super::*;

fn facts(pod: Value) -> Facts {
    Facts {
        pod,
        owner: None,
        budgets: Vec::new(),
        natives: Ok(Vec::new()),
        nodes: None,
        unread: Vec::new(),
    }
}

fn pod() -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": "web-0", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
                "name": "web", "controller": true}],
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

#[test]
fn ready_pod_has_place_controller_and_no_budget() {
    let mut facts = facts(pod());
    facts.owner = Some(("CloneSet web".to_owned(), Err("it is away".to_owned())));
    let expected = [
        "Pod default/web-0: Running and ready",
        "Place: node node-1, chosen by the scheduler",
        "Controller: CloneSet web; its plan is not known: it is away",
        "Budgets: none holds it",
    ];
    assert_eq!(lines(&facts), expected);
}

#[test]
fn native_budget_holds_pods_that_it_selects() {
    let budget = |app: &str| {
        json!({"metadata": {"name": app}, "status": {"disruptionsAllowed": 1},
            "spec": {"selector": {"matchLabels": {"app": app}}}})
    };
    let mut facts = facts(pod());
    facts.natives = Ok(vec![budget("web"), budget("db")]);
    let expected = ["Budget PodDisruptionBudget web: allows 1 more pods to go"];
    assert_eq!(budgets(&facts), expected);
    facts.natives = Err("pods is forbidden".to_owned());
    assert_eq!(budgets(&facts), ["Not known: pods is forbidden"]);
}

#[test]
fn stuck_pod_names_node_container_and_sidecars() {
    let mut pod = pod();
    pod["spec"]["nodeName"] = json!("");
    pod["status"] = json!({"phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}],
        "containerStatuses": [{"name": "main", "restartCount": 2,
            "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no disk\n"}},
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]});
    pod["metadata"]["annotations"] = json!({annotation::SIDECARSET_INJECTED_LIST: "a,b"});
    let lines = lines(&facts(pod));
    for expected in [
        "Place: no node yet: 0/3 nodes",
        "Container main: ImagePullBackOff, restarts 2: not found",
        "Container main ended with exit code 3 (Error): no disk",
        "Sidecars: of SidecarSets a, b",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    }
}

#[test]
fn owner_of_another_group_is_not_of_berth() {
    let owner =
        |api_version: &str| json!({"apiVersion": api_version, "kind": "StatefulSet", "name": "db"});
    assert!(of_berth(&owner("apps/v1")).is_none());
    assert!(of_berth(&owner("apps.kruise.io/v1beta1")).is_some());
    assert!(of_berth(&owner("v1")).is_none());
}

#[test]
fn missing_image_comes_before_a_crash() {
    let waiting = |name: &str, reason: &str| json!({"name": name, "restartCount": 0, "state": {"waiting": {"reason": reason}}});
    let mut pod = pod();
    pod["status"]["containerStatuses"] = json!([
        waiting("app", "CrashLoopBackOff"),
        waiting("img", "ErrImagePull"),
    ]);
    let expected = [
        "Container img: ErrImagePull",
        "Container app: CrashLoopBackOff",
    ];
    assert_eq!(containers(&pod), expected);
}
