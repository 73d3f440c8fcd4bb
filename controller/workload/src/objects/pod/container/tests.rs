use serde_json::{Value, json};

use crate::objects::pod::Pod;

fn pod(init: &Value) -> Pod {
    let spec = json!({"containers": [{"name": "main", "image": "web:1"}], "initContainers": init});
    let statuses =
        json!([{"name": "once", "imageID": "id-once"}, {"name": "mesh", "imageID": "id-mesh"}]);
    let status = json!({"containerStatuses": [{"name": "main", "imageID": "id-main"}], "initContainerStatuses": statuses});
    serde_json::from_value(json!({"metadata": {"name": "web-a"}, "spec": spec, "status": status}))
        .unwrap()
}

#[test]
fn only_restartable_init_containers_are_kept() {
    let limits = json!({"limits": {"cpu": "250m", "memory": 1024}});
    let mesh = json!({"name": "mesh", "image": "mesh:1", "restartPolicy": "Always", "resources": limits,
                          "env": [{"name": "A", "value": "1"}], "args": ["x"], "startupProbe": {"periodSeconds": 1}});
    let once = json!({"name": "once", "image": "once:1"});
    let bare = json!({"name": "bare", "image": "bare:1", "restartPolicy": null, "resources": null, "env": null});
    let on_failure = json!({"name": "rules", "image": "rules:1", "restartPolicy": "OnFailure"});
    for (init, expected) in [
        (Value::Null, &[][..]),
        (json!([]), &[]),
        (json!([once, on_failure, bare]), &[]),
        (json!([once, mesh]), &[("mesh", "mesh:1")]),
    ] {
        let pod = pod(&init);
        let natives: Vec<_> = pod
            .spec
            .native_sidecars
            .iter()
            .map(|c| (&*c.name, &*c.image))
            .collect();
        assert_eq!(natives, expected, "{init}");
    }
    let pod = pod(&json!([mesh]));
    let resources = pod.spec.native_sidecars[0].resources.as_deref().unwrap();
    assert_eq!(
        (resources.limits.cpu, resources.limits.memory),
        (250, 1_024_000)
    );
    let without: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {}})).unwrap();
    assert!(without.spec.native_sidecars.is_empty());
}

#[test]
fn a_container_is_found_in_both_lists_by_its_name() {
    let pod = pod(&json!([{"name": "once"}, {"name": "mesh", "restartPolicy": "Always"}]));
    for (name, is_there, image_id) in [
        ("main", true, Some("id-main")),
        ("mesh", true, Some("id-mesh")),
        ("once", false, Some("id-once")),
        ("other", false, None),
    ] {
        assert_eq!(pod.container(name).is_some(), is_there, "{name}");
        assert_eq!(
            pod.container_status(name).map(|status| &*status.image_id),
            image_id,
            "{name}"
        );
    }
    assert_eq!(
        pod.containers()
            .map(|container| &*container.name)
            .collect::<Vec<_>>(),
        ["main", "mesh"]
    );
}
