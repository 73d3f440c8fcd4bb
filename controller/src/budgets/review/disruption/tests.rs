use serde_json::json;

use super::*;

#[test]
fn review_counts_only_for_the_pod_of_its_uid() {
    let found: Metadata =
        serde_json::from_value(json!({"name": "web", "uid": "u", "resourceVersion": "7"})).unwrap();
    let read = |pod: serde_json::Value| Some(Pod::read(&pod.to_string()));
    let shown = |uid: &str, version: &str| {
        read(json!({"metadata": {"uid": uid, "resourceVersion": version}}))
    };
    use Change::{Delete, Evict, Update};
    for (change, object, uid, of_store, of_apiserver) in [
        (Delete, shown("u", "7"), None, true, true),
        (Delete, shown("u", "6"), None, false, true),
        (Delete, shown("other", "7"), None, false, false),
        (Delete, shown("", "7"), None, false, false),
        (
            Delete,
            read(json!({"metadata": {"resourceVersion": "7"}})),
            None,
            false,
            false,
        ),
        (
            Delete,
            read(json!({"metadata": {"resourceVersion": "7"}})),
            Some("u"),
            false,
            false,
        ),
        (Delete, None, None, false, false),
        (Update, shown("u", "7"), None, true, true),
        (Update, None, None, false, false),
        (Evict, None, Some("u"), false, true),
        (Evict, None, Some("other"), false, false),
        // Refused for the missing uid, so it is neither counted nor reported.
        (Evict, None, None, false, true),
    ] {
        let disruption = Disruption {
            change,
            object,
            uid: uid.map(str::to_owned),
            ..Disruption::default()
        };
        let decided = (
            is_as_shown(&found, &disruption),
            is_meant(&found, &disruption),
        );
        assert_eq!(decided, (of_store, of_apiserver), "{disruption:?}");
    }
}

#[test]
fn ready_pod_on_unknown_node_has_unknown_availability() {
    for (ready, knows_node, expected) in [
        ("True", true, Some(true)),
        ("True", false, None),
        ("False", true, Some(false)),
        ("False", false, Some(false)),
    ] {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let pod = json!({"metadata": {"name": "web"}, "status": {"phase": "Running", "conditions": conditions}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(
            serves(&pod, knows_node, Timestamp::now()),
            expected,
            "{ready} {knows_node}"
        );
    }
}

#[test]
fn a_resize_that_restarts_a_container_is_an_update() {
    use ProtectedOperation::{Resize, Update};
    let pod = |policy: &str, memory: &str, cpu: &str| {
        let resources =
            json!({"limits": {"memory": memory}, "requests": {"cpu": cpu, "memory": memory}});
        let policies = json!([{"resourceName": "memory", "restartPolicy": policy}]);
        json!({"spec": {"containers": [{"name": "main", "resources": resources, "resizePolicy": policies}]}})
    };
    let old = |policy: &str| pod(policy, "1Gi", "1");
    for (old, new, expected) in [
        (old("NotRequired"), pod("NotRequired", "2Gi", "1"), Resize),
        (
            old("RestartContainer"),
            pod("RestartContainer", "2Gi", "1"),
            Update,
        ),
        (
            old("RestartContainer"),
            pod("RestartContainer", "1Gi", "2"),
            Resize,
        ),
        (json!(null), pod("RestartContainer", "1Gi", "1"), Update),
    ] {
        let new = Some(Changed::of(&old, &new));
        let disruption = Disruption {
            change: Change::Resize,
            new,
            ..Disruption::default()
        };
        assert_eq!(operation(&disruption), expected, "{disruption:?}");
    }
}

// Otherwise a resize would be settled after the kubelet has seen it, but before the container
// stops.
#[test]
fn change_replaces_new_image_and_restart_containers() {
    let pod = |image: &str, memory: [&str; 2], policy: &str| {
        let container = |name: &str, image: &str, memory: &str| {
            let policies = json!([{"resourceName": "memory", "restartPolicy": policy}]);
            json!({"name": name, "image": image, "resources": {"limits": {"memory": memory}}, "resizePolicy": policies})
        };
        let mut sidecar = container("side", "side:1", memory[1]);
        sidecar["restartPolicy"] = json!("Always");
        let status =
            |name: &str| json!([{"name": name, "containerID": format!("containerd://{name}")}]);
        json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [container("main", image, memory[0])], "initContainers": [sidecar]},
            "status": {"containerStatuses": status("main"), "initContainerStatuses": status("side")},
        })
    };
    let (main, side) = ("containerd://main", "containerd://side");
    for (change, image, memory, policy, expected) in [
        (
            Change::Update,
            "web:1",
            ["1Gi", "1Gi"],
            "RestartContainer",
            vec![],
        ),
        (
            Change::Update,
            "web:2",
            ["1Gi", "1Gi"],
            "RestartContainer",
            vec![main],
        ),
        (
            Change::Resize,
            "web:1",
            ["2Gi", "1Gi"],
            "RestartContainer",
            vec![main],
        ),
        (
            Change::Resize,
            "web:1",
            ["1Gi", "2Gi"],
            "RestartContainer",
            vec![side],
        ),
        (
            Change::Resize,
            "web:1",
            ["2Gi", "2Gi"],
            "RestartContainer",
            vec![main, side],
        ),
        (
            Change::Resize,
            "web:1",
            ["2Gi", "2Gi"],
            "NotRequired",
            vec![],
        ),
    ] {
        let old = pod("web:1", ["1Gi", "1Gi"], policy);
        let now: Pod = serde_json::from_value(old.clone()).unwrap();
        let new = Some(Changed::of(&old, &pod(image, memory, policy)));
        let disruption = Disruption {
            change,
            new,
            ..Disruption::default()
        };
        let resizes = matches!(change, Change::Resize) && !expected.is_empty();
        let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
        assert_eq!(
            replaced(&now, &disruption),
            (expected, resizes),
            "{disruption:?}"
        );
    }
    let gone = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
    assert_eq!(
        replaced(&gone, &Disruption::default()),
        (Vec::new(), false),
        "it does not change"
    );
}
