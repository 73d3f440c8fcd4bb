use super::*;

#[test]
fn an_image_patch_keeps_the_rest_of_the_container() {
    let set = clone_set("web", 3, "hello:1", &json!({}));
    let patch = image_patch(&set, "hello:2");
    let container = &patch["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "hello:2");
    assert_eq!(
        container["readinessProbe"],
        set["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    );
}

#[test]
fn done_is_said_of_this_generation_by_every_count() {
    let done = json!({
        "metadata": {"generation": 2},
        "spec": {"replicas": 2},
        "status": {
            "observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "updatedReadyReplicas": 2,
            "updatedAvailableReplicas": 2,
        },
    });
    assert!(is_done(&done));
    for (count, value) in [
        ("observedGeneration", 1),
        ("replicas", 3),
        ("readyReplicas", 1),
        ("updatedReadyReplicas", 0),
        ("updatedAvailableReplicas", 1),
    ] {
        let mut not_yet = done.clone();
        not_yet["status"][count] = value.into();
        assert!(!is_done(&not_yet), "{count}");
    }
    assert!(!is_done(&clone_set("web", 3, "hello:1", &json!({}))));
}
