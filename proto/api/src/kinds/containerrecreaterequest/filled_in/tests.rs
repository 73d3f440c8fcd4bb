use super::*;

fn pod() -> Value {
    json!({
        "metadata": {"name": "web", "uid": "u"},
        "spec": {
            "nodeName": "n1", "terminationGracePeriodSeconds": 30,
            "containers": [
                {"name": "app", "lifecycle": {"preStop": {"httpGet": {"port": "web", "later": 1}}}, "ports": [{"name": "web", "containerPort": 80, "later": {}}]},
                {"name": "side", "lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}, "ports": [{"containerPort": 1}]},
                {"name": "new"},
            ],
            "initContainers": [{"name": "mesh", "restartPolicy": "Always"}, {"name": "once"}],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "app", "containerID": "c://a", "restartCount": 2}, {"name": "side", "containerID": "c://s"}],
            "initContainerStatuses": [{"name": "mesh", "containerID": "c://m"}, {"name": "once", "containerID": "c://o"}],
        },
    })
}

fn request(containers: &Value) -> Value {
    json!({"metadata": {"name": "demo"}, "spec": {"podName": "web", "containers": containers}})
}

#[test]
fn hooks_ids_labels_and_grace_are_the_pods() {
    let mut filled = request(&json!([{"name": "app"}, {"name": "side"}, {"name": "mesh"}]));
    let node = json!({"metadata": {"labels": {"type": "virtual-kubelet"}}});
    fill(&mut filled, &pod(), &node).unwrap();
    let context = |id: &str, restarts: i32| json!({"containerID": id, "restartCount": restarts});
    assert_eq!(
        filled["spec"]["containers"],
        json!([
            {"name": "app", "preStop": {"httpGet": {"port": "web", "later": 1}}, "ports": [{"name": "web", "containerPort": 80, "later": {}}], "statusContext": context("c://a", 2)},
            {"name": "side", "preStop": {"exec": {"command": ["bye"]}}, "statusContext": context("c://s", 0)},
            {"name": "mesh", "statusContext": context("c://m", 0)},
        ])
    );
    assert_eq!(
        filled["spec"]["strategy"],
        json!({"terminationGracePeriodSeconds": 30})
    );
    let labels = json!({"crr.apps.kruise.io/pod-uid": "u", "crr.apps.kruise.io/node-name": "n1", "crr.apps.kruise.io/active": "true",
                        "type": "virtual-kubelet"});
    assert_eq!(filled["metadata"]["labels"], labels);
    let mut own = request(&json!([{"name": "app"}]));
    own["spec"]["strategy"] = json!({"terminationGracePeriodSeconds": 0});
    fill(&mut own, &pod(), &json!({})).unwrap();
    assert_eq!(own["spec"]["strategy"]["terminationGracePeriodSeconds"], 0);
    assert_eq!(own["metadata"]["labels"].get("type"), None);
}

#[test]
fn request_with_unready_grace_gets_finalizer() {
    let unready = json!({"unreadyGracePeriodSeconds": 3});
    for (strategy, before, after) in [
        (json!({}), json!(["x"]), json!(["x"])),
        (
            unready.clone(),
            Value::Null,
            json!([RECREATE_UNREADY_ACQUIRED]),
        ),
        (
            unready.clone(),
            json!(["x"]),
            json!(["x", RECREATE_UNREADY_ACQUIRED]),
        ),
        (
            unready,
            json!([RECREATE_UNREADY_ACQUIRED]),
            json!([RECREATE_UNREADY_ACQUIRED]),
        ),
    ] {
        let mut filled = request(&json!([{"name": "app"}]));
        (filled["spec"]["strategy"], filled["metadata"]["finalizers"]) = (strategy, before);
        fill(&mut filled, &pod(), &json!({})).unwrap();
        assert_eq!(filled["metadata"]["finalizers"], after, "{filled}");
    }
}

#[test]
fn virtual_node_label_needs_a_virtual_node() {
    let virtual_node = json!({"metadata": {"labels": {NODE_TYPE: VIRTUAL_KUBELET}}});
    let mut forged = request(&json!([{"name": "app"}]));
    forged["metadata"]["labels"] = json!({NODE_TYPE: VIRTUAL_KUBELET});
    for (node, label, patched) in [
        (json!({}), None, Some(&Value::Null)),
        (
            virtual_node,
            Some(&json!(VIRTUAL_KUBELET)),
            Some(&json!(VIRTUAL_KUBELET)),
        ),
    ] {
        let mut filled = forged.clone();
        fill(&mut filled, &pod(), &node).unwrap();
        assert_eq!(filled["metadata"]["labels"].get(NODE_TYPE), label, "{node}");
        assert_eq!(
            patch(&forged, &filled)["metadata"]["labels"].get(NODE_TYPE),
            patched,
            "{node}"
        );
    }
}

#[test]
fn a_refusal_names_the_field_and_the_remedy() {
    let with = |pointer: &str, value: Value| {
        let mut pod = pod();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[field] = value;
        Some(pod)
    };
    let app = json!([{"name": "app"}]);
    let terminated = json!([{"type": "SidecarTerminated", "status": "True"}]);
    for (containers, pod, expected) in [
        (&app, None, "spec.podName: pod web does not exist"),
        (
            &app,
            with("/spec/nodeName", json!("")),
            "spec.podName: pod web is not scheduled yet",
        ),
        (
            &app,
            with("/status/phase", json!("Failed")),
            "spec.podName: pod web has ended",
        ),
        (
            &app,
            with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            "spec.podName: pod web has ended or is being deleted",
        ),
        (
            &app,
            with(
                "/metadata/annotations",
                json!({"kubernetes.io/config.mirror": "c"}),
            ),
            "spec.podName: pod web is a static pod",
        ),
        (
            &json!([{"name": "none"}]),
            Some(self::pod()),
            "spec.containers[none]: is none of pod web",
        ),
        (
            &json!([{"name": "once"}]),
            Some(self::pod()),
            "spec.containers[once]: is none of pod web, or one that runs before",
        ),
        (
            &json!([{"name": "new"}]),
            Some(self::pod()),
            "spec.containers[new]: has no containerID",
        ),
        (
            &json!([{"name": "app"}, {"name": "app"}]),
            Some(self::pod()),
            "spec.containers: names app twice",
        ),
        (
            &json!([{"name": "app", "preStop": {}}]),
            Some(self::pod()),
            "spec.containers[app]: has preStop, which is filled in by itself",
        ),
        (
            &json!([{"name": "app", "ports": []}]),
            Some(self::pod()),
            "spec.containers[app]: has ports",
        ),
        (
            &json!([{"name": "app", "statusContext": {}}]),
            Some(self::pod()),
            "spec.containers[app]: has statusContext",
        ),
    ] {
        let mut request = request(containers);
        let refused = node_of(&request.clone(), pod.as_ref()).map(str::to_owned);
        let refused = refused.and_then(|_| fill(&mut request, pod.as_ref().unwrap(), &json!({})));
        let why = refused.unwrap_err();
        assert!(why.starts_with(expected), "{why}");
    }
    let mut ended = with("/status/conditions", terminated).unwrap();
    ended["status"]["phase"] = json!("Succeeded");
    assert_eq!(
        fill(&mut request(&app), &ended, &json!({})),
        Ok(()),
        "SidecarTerminator ends what is left of it"
    );
}

#[test]
fn read_keeps_what_is_copied_and_refuses_a_bomb() {
    let mut whole = pod();
    whole["metadata"]["annotations"] = json!({MIRROR_POD: "x", "other": "x"});
    whole["spec"]["tolerations"] = json!([{"key": "a"}]);
    let read_pod = read(&whole.to_string()).unwrap();
    assert_eq!(
        read_pod["metadata"]["annotations"],
        json!({MIRROR_POD: "x"})
    );
    assert!(read_pod["spec"].get("tolerations").is_none());
    let (mut filled, mut expected) = (
        request(&json!([{"name": "app"}, {"name": "side"}, {"name": "mesh"}])),
        Value::Null,
    );
    expected.clone_from(&filled);
    fill(&mut expected, &pod(), &json!({})).unwrap();
    let slim = Value::Object(Map::from_iter([
        (
            "metadata".to_owned(),
            json!({"name": "web", "uid": "u", "annotations": {}}),
        ),
        ("spec".to_owned(), read_pod["spec"].clone()),
        ("status".to_owned(), read_pod["status"].clone()),
    ]));
    fill(&mut filled, &slim, &json!({})).unwrap();
    assert_eq!(filled, expected);
    whole["spec"]["tolerations"] = vec![json!({"key": "a"}); 105_000].into();
    assert!(
        read(&whole.to_string())
            .unwrap_err()
            .starts_with("spec: has ")
    );
    let node =
        json!({"metadata": {"name": "n1", "labels": {NODE_TYPE: VIRTUAL_KUBELET, "a": "b"}}});
    assert_eq!(
        read(&node.to_string()).unwrap()["metadata"]["labels"],
        json!({NODE_TYPE: VIRTUAL_KUBELET})
    );
}
