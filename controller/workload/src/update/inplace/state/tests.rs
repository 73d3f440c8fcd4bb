use serde_json::json;

use super::*;

/// A pod of image `web:1` whose container has this id, with the record of an update before.
fn pod(id: &str, record: Value) -> Pod {
    let pod = json!({
        "metadata": {"name": "web-a", "annotations": record},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        "status": {"containerStatuses": [{"name": "main", "imageID": "sha256:1", "containerID": id}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn recorded(id: &str, image: &str) -> Value {
    let before = json!({"imageID": "sha256:0", "berthContainerID": id, "berthImage": image});
    json!({ANNOTATION: json!({"revision": "web-1", "lastContainerStatuses": {"main": before}}).to_string()})
}

fn begun(pod: &Pod, containers: &[&str], settled: bool) -> State {
    let containers: Vec<_> = containers.iter().map(ToString::to_string).collect();
    State::begin(
        pod,
        "web-2",
        containers.iter(),
        settled,
        Timestamp::UNIX_EPOCH,
    )
}

#[test]
fn image_before_update_comes_from_record_or_pod() {
    let table = [
        (
            "nothing is recorded, and the pod is settled",
            json!({}),
            "c://1",
            true,
            "web:1",
        ),
        (
            "nothing is recorded, and an update is under way",
            json!({}),
            "c://1",
            false,
            "",
        ),
        // The container is the one from before the update under way, so that its recorded facts
        // stay true.
        (
            "this very container is recorded",
            recorded("c://1", "web:0"),
            "c://1",
            false,
            "web:0",
        ),
        (
            "it is, and the pod is settled",
            recorded("c://1", "web:0"),
            "c://1",
            true,
            "web:0",
        ),
        (
            "it is, and was not known before",
            recorded("c://1", ""),
            "c://1",
            false,
            "",
        ),
        (
            "another container is recorded",
            recorded("c://0", "web:0"),
            "c://1",
            true,
            "web:1",
        ),
        (
            "another is, and an update is under way",
            recorded("c://0", "web:0"),
            "c://1",
            false,
            "",
        ),
        (
            "none of them has an id",
            recorded("", "web:0"),
            "",
            true,
            "web:1",
        ),
        (
            "none has, and an update is under way",
            recorded("", "web:0"),
            "",
            false,
            "",
        ),
    ];
    for (what, record, id, settled, image) in table {
        let state = begun(&pod(id, record), &["main"], settled);
        let before = Before {
            image_id: "sha256:1".into(),
            container_id: id.into(),
            image: image.into(),
        };
        assert_eq!(
            state.last_container_statuses,
            [("main".to_owned(), before)].into(),
            "{what}"
        );
        assert_eq!(state.from_settled, settled, "{what}");
    }
}

#[test]
fn a_native_sidecar_is_recorded_as_a_container_is() {
    let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-a"},
            "spec": {"initContainers": [{"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"}]},
            "status": {"initContainerStatuses": [{"name": "mesh", "imageID": "sha256:1", "containerID": "c://1"}]},
        }))
        .unwrap();
    let before = Before {
        image_id: "sha256:1".into(),
        container_id: "c://1".into(),
        image: "mesh:1".into(),
    };
    let state = begun(&pod, &["mesh"], true);
    assert_eq!(
        state.last_container_statuses,
        [("mesh".to_owned(), before)].into()
    );
}

#[test]
fn the_record_says_whether_images_change() {
    let pod = pod("c://1", json!({}));
    for (containers, changes) in [
        (&["main"][..], true),
        (&[], false),
        (&["unheard-of"], false),
    ] {
        let state = begun(&pod, containers, true);
        let written: Value = serde_json::from_str(&state.to_annotation()).unwrap();
        assert_eq!(
            written["updateImages"],
            if changes { json!(true) } else { Value::Null },
            "{containers:?}"
        );
        assert_eq!(state.restarts_containers(), changes, "{containers:?}");
    }
}

#[test]
fn record_of_openkruise_before_1_0_is_read() {
    let (old, new) = (
        json!({"revision": "old"}).to_string(),
        json!({"revision": "new"}).to_string(),
    );
    let of = |annotations| State::of(&pod("c://1", annotations)).map(|state| state.revision);
    assert_eq!(of(json!({OLD_ANNOTATION: old})).as_deref(), Some("old"));
    assert_eq!(
        of(json!({OLD_ANNOTATION: old, ANNOTATION: new})).as_deref(),
        Some("new")
    );
    assert_eq!(
        of(json!({ANNOTATION: "{"})),
        None,
        "what cannot be read is none"
    );
}
