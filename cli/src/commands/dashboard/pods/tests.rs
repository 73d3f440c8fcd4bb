use super::*;

fn pod(name: &str, revision: &str, changes: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"controller-revision-hash": revision}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "web"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    pod
}

#[test]
fn state_names_what_keeps_a_pod_from_service() {
    let unready = json!([{"type": "Ready", "status": "False"}]);
    let waiting =
        |reason: &str| json!([{"state": {"waiting": {"reason": reason, "message": "back-off"}}}]);
    let cases = [
        (json!({}), "Ready"),
        (
            json!({"/metadata/deletionTimestamp": "2026-11-30T12:00:00Z"}),
            "Terminating",
        ),
        (json!({"/status/conditions": unready}), "NotReady"),
        (
            json!({"/status/conditions": unready, "/status/phase": "Pending"}),
            "Starting",
        ),
        (
            json!({"/status/conditions": [], "/spec/nodeName": ""}),
            "Unscheduled",
        ),
        (json!({"/status/phase": "Succeeded"}), "Succeeded"),
        (
            json!({"/metadata/labels": {label::LIFECYCLE_STATE: "PreparingUpdate"}}),
            "PreparingUpdate",
        ),
        (
            json!({"/metadata/labels": {label::LIFECYCLE_STATE: "Normal"}}),
            "Ready",
        ),
        (
            json!({"/status/containerStatuses": waiting("ImagePullBackOff")}),
            "ImagePullBackOff",
        ),
        (
            json!({"/status/initContainerStatuses": waiting("CrashLoopBackOff")}),
            "CrashLoopBackOff",
        ),
        (
            json!({"/status/containerStatuses": waiting("ContainerCreating")}),
            "Ready",
        ),
    ];
    for (changes, expected) in cases {
        assert_eq!(
            state(&pod("web-a", "1", changes.clone())),
            expected,
            "{changes}"
        );
    }
}

#[test]
fn pods_are_grouped_with_the_unready_first() {
    let unready = json!({"/status/conditions": []});
    let pods = [
        pod("a", "web-5b6f1", json!({})),
        pod("b", "5b6f1", unready),
        pod("c", "web-7d9c4", json!({})),
        json!({}),
    ];
    let waits = BTreeMap::from([("b", "waits for maxUnavailable")]);
    let groups = by_revision(&pods, &waits);
    let keys: Vec<_> = groups.keys().map(String::as_str).collect();
    assert_eq!(keys, ["", "5b6f1", "7d9c4"]);
    let old = &groups["5b6f1"];
    assert_eq!((old.count, old.ready), (2, 1));
    assert_eq!(old.shown[0]["name"], "b");
    assert_eq!(old.shown[0]["waits"], "waits for maxUnavailable");
}

#[test]
fn only_some_of_many_pods_are_shown() {
    let pods: Vec<_> = (0..MOST + 5)
        .map(|n| pod(&format!("web-{n}"), "1", json!({})))
        .collect();
    let groups = by_revision(&pods, &BTreeMap::new());
    assert_eq!(
        (groups["1"].count, groups["1"].shown.len()),
        (MOST + 5, MOST)
    );
}
