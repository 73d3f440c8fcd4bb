use serde_json::{Value, json};

use super::{bytes, places};
use crate::commands::get::world::World;

fn world(pods: Vec<Value>) -> World {
    let template = json!({"spec": {"containers": [{"image": "web:2"}], "initContainers": [{"image": "init"}]}});
    World {
        plural: "clonesets",
        object: json!({"metadata": {"uid": "u"}, "spec": {"template": template}}),
        pods,
        ..World::default()
    }
}

fn pod(name: &str, node: &str, image: &str, id: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node},
        "status": {"containerStatuses": [{"image": image, "imageID": id}]},
    })
}

fn node_image(name: &str, pull: Value) -> Value {
    json!({"metadata": {"name": name}, "status": {"imageStatuses": {"web": {"tags": [pull]}}}})
}

#[test]
fn place_of_an_image_on_a_node() {
    let used = ("docker.io/library/web:2", "sha256:aa");
    let other = ("web:1", "sha256:bb");
    let pull = |phase: &str| {
        json!({"tag": "2", "phase": phase, "progress": 40, "message": "m",
        "bytesDone": 4 << 20, "bytesTotal": 10 << 20, "imageIDs": ["sha256:cc"]})
    };
    let table = [
        (used, None, true, "present", "pod a runs it"),
        (other, None, true, "unknown", "the node has no NodeImage"),
        (other, None, false, "unknown", ""),
        (other, Some(pull("Succeeded")), true, "present", "10.0 MiB"),
        (
            other,
            Some(pull("Pulling")),
            true,
            "pulling",
            "40%, 4.0 MiB of 10.0 MiB",
        ),
        (other, Some(pull("Failed")), true, "failed", "m"),
        (other, Some(pull("Waiting")), true, "waiting", "m"),
        (
            other,
            Some(json!({"tag": "9"})),
            true,
            "missing",
            "no pod runs it, and no pull is listed",
        ),
        (
            ("sha256:cc", "sha256:cc"),
            Some(pull("Waiting")),
            true,
            "present",
            "pod a runs it",
        ),
        (
            ("web:2", ""),
            None,
            true,
            "unknown",
            "the node has no NodeImage",
        ),
    ];
    for ((image, id), pull, may_read, state, detail) in table {
        let world = world(vec![pod("a", "n", image, id)]);
        let nodes: Vec<_> = pull
            .iter()
            .map(|pull| node_image("n", pull.clone()))
            .collect();
        let all = places(&world, may_read.then_some(&*nodes));
        let web = all.iter().find(|place| place.image == "web:2").unwrap();
        assert_eq!(
            (&*web.state, &*web.detail),
            (state, detail),
            "{image} {pull:?}"
        );
        assert_eq!(all.len(), 2, "init containers have images, too");
    }
}

#[test]
fn pods_without_a_node_have_no_place() {
    let mut pending = pod("a", "n", "web:2", "");
    pending["spec"] = json!({});
    assert!(places(&world(vec![pending]), Some(&[])).is_empty());
}

#[test]
fn bytes_in_mib() {
    for (number, text) in [
        (-1, "0 KiB"),
        (0, "0 KiB"),
        (1, "1 KiB"),
        (1 << 20, "1.0 MiB"),
        (1_600_000, "1.5 MiB"),
    ] {
        assert_eq!(bytes(number), text);
    }
    assert!(bytes(i64::MAX).ends_with("MiB"));
}
