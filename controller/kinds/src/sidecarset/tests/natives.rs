//! Native sidecars: init containers that run beside the pod's containers, and are updated like
//! them.

use super::*;

/// The same pod with its containers of the SidecarSet as init containers, after one that has ended.
fn native(mut pod: Value) -> Value {
    let split = |list: &Value, once: Value| -> (Vec<Value>, Vec<Value>) {
        let (main, natives) = list
            .as_array()
            .unwrap()
            .iter()
            .cloned()
            .partition(|it| it["name"] == "main");
        (main, [vec![once], natives].concat())
    };
    let (main, mut init) = split(
        &pod["spec"]["containers"],
        json!({"name": "once", "image": "once:1"}),
    );
    init[1..]
        .iter_mut()
        .for_each(|container| container["restartPolicy"] = json!("Always"));
    (pod["spec"]["containers"], pod["spec"]["initContainers"]) = (json!(main), json!(init));
    let ended = json!({"name": "once", "ready": true, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let (main, init) = split(&pod["status"]["containerStatuses"], ended);
    (
        pod["status"]["containerStatuses"],
        pod["status"]["initContainerStatuses"],
    ) = (json!(main), json!(init));
    pod
}

/// A SidecarSet `log` with a native sidecar that has these fields, and an init container that ends,
/// of this image.
fn set(native: Value, once: &str, pods: &[Value]) -> Snapshot {
    let mut native = native;
    native["restartPolicy"] = json!("Always");
    let init = json!([{"name": "once", "image": once}, native]);
    snapshot(
        &json!({"/spec/containers": [], "/spec/initContainers": init}),
        pods,
    )
}

fn agent_set(pods: &[Value]) -> Snapshot {
    set(json!({"name": "agent", "image": "agent:2"}), "once:1", pods)
}

fn mesh_set(pods: &[Value]) -> Snapshot {
    let strategy = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    set(
        json!({"name": "mesh", "image": "mesh:2", "upgradeStrategy": strategy}),
        "once:1",
        pods,
    )
}

/// The patches of pods, without those of their status.
fn patches(plan: &Plan) -> Vec<PodPatch> {
    let patch = |action: &Action| match action {
        Action::PatchPod { patch, .. } => Some(patch.clone()),
        _ => None,
    };
    plan.actions().filter_map(patch).collect()
}

pub(super) fn one_patch(plan: &Plan) -> PodPatch {
    let patches = patches(plan);
    assert_eq!(patches.len(), 1, "{plan:#?}");
    patches[0].clone()
}

pub(super) fn images(name: &str, image: &str) -> BTreeMap<String, String> {
    [(name.to_owned(), image.to_owned())].into()
}

#[test]
fn native_sidecar_is_updated_and_counts_when_proven() {
    let mut pod = native(pod("a", "h1", true));
    let patch = one_patch(&decide(&agent_set(&[pod.clone()]), NOW));
    assert_eq!(
        (patch.images, patch.native_images),
        (BTreeMap::new(), images("agent", "agent:2"))
    );
    let written = |key: &str| -> Value {
        serde_json::from_str(patch.annotations[key].as_ref().unwrap()).unwrap()
    };
    let before =
        json!({"imageID": "id-agent:1", "berthContainerID": "c://1", "berthImage": "agent:1"});
    assert_eq!(
        written(INPLACE_UPDATE_STATE)["log"]["lastContainerStatuses"],
        json!({"agent": before})
    );
    assert_eq!(
        written(HASH)["log"]["sidecarList"],
        json!(["agent"]),
        "the one that ends is none that is updated"
    );

    for (key, value) in &patch.annotations {
        pod["metadata"]["annotations"][key] = json!(value);
    }
    pod["spec"]["initContainers"][1]["image"] = json!("agent:2");
    let counted = |pod: &Value| {
        let status = status(
            &agent_set(std::slice::from_ref(pod)),
            &Plan::default(),
            &Default::default(),
            NOW,
        );
        (
            status.matched_pods,
            status.updated_pods,
            status.updated_ready_pods,
        )
    };
    assert_eq!(
        counted(&pod),
        (1, 1, 0),
        "the kubelet still reports the previous container"
    );
    pod["status"]["initContainerStatuses"][1] = json!({"name": "agent", "ready": true, "imageID": "id-agent:2", "containerID": "c://2", "image": "agent:2"});
    assert_eq!(counted(&pod), (1, 1, 1));
}

#[test]
fn failing_native_sidecar_holds_back_unserving_pods() {
    let old = native(pod("b", "h1", false));
    let mut new = patched(native(pod("a", "h2", false)), 1, true);
    assert_eq!(
        updated(&decide(&agent_set(&[new.clone(), old.clone()]), NOW)),
        ["b"]
    );
    new["status"]["initContainerStatuses"][1]["state"] =
        json!({"waiting": {"reason": "ImagePullBackOff"}});
    assert_eq!(
        updated(&decide(&agent_set(&[new, old]), NOW)),
        [] as [&str; 0]
    );
}

#[test]
fn native_hot_pair_is_upgraded_in_two_steps() {
    let pod = native(hot_pod(["mesh:1", "empty:1"], "h1", "mesh-1", [true, true]));
    let begun = one_patch(&decide(&mesh_set(&[pod]), NOW));
    assert_eq!(
        (begun.images, begun.native_images),
        (BTreeMap::new(), images("mesh-2", "mesh:2"))
    );
    assert_eq!(
        begun.annotations[WORKING].as_deref(),
        Some(r#"{"mesh":"mesh-2"}"#)
    );
    assert_eq!(
        begun.annotations["version.sidecarset.kruise.io/mesh-2"].as_deref(),
        Some("77")
    );

    for ready in [[true, false], [true, true]] {
        let snapshot = mesh_set(&[native(hot_pod(["mesh:1", "mesh:2"], "h2", "mesh-2", ready))]);
        let plan = decide(&snapshot, NOW);
        if ready == [true, true] {
            let ended = one_patch(&plan);
            assert_eq!(
                (ended.images, ended.native_images),
                (BTreeMap::new(), images("mesh-1", "empty:1"))
            );
        } else {
            assert_eq!(patches(&plan), [], "the new one does not work yet");
        }
        assert_eq!(
            status(&snapshot, &plan, &Default::default(), NOW).ready_pods,
            0,
            "two containers work"
        );
    }
}

#[test]
fn init_container_image_changes_only_the_records() {
    let mut pod = native(pod("a", "h1", true));
    pod["spec"]["initContainers"][1]["image"] = json!("agent:2");
    let plan = decide(
        &set(
            json!({"name": "agent", "image": "agent:2"}),
            "once:2",
            &[pod],
        ),
        NOW,
    );
    let patch = one_patch(&plan);
    assert!(!patch.restarts(), "{patch:?}");
    assert_eq!(
        patch.annotations.keys().collect::<Vec<_>>(),
        [HASH, HASH_WITHOUT_IMAGE]
    );
    let hash: Value = serde_json::from_str(patch.annotations[HASH].as_ref().unwrap()).unwrap();
    assert_eq!(
        (&hash["log"]["hash"], &hash["log"]["controllerRevision"]),
        (&json!("h2"), &json!("log-1"))
    );
}

#[test]
fn pod_without_native_sidecar_is_not_updated() {
    let mut without = native(pod("a", "h1", true));
    without["spec"]["initContainers"] = json!([]);
    let of_its_own = pod("a", "h1", true);
    for (what, pod) in [
        ("it has none", without),
        ("it has a container by that name", of_its_own),
    ] {
        let plan = decide(&agent_set(&[pod]), NOW);
        assert_eq!(updated(&plan), [] as [&str; 0], "{what}");
        let Some(Action::PatchPodStatus { conditions, .. }) = plan.actions().next() else {
            panic!("{what}: {plan:#?}")
        };
        assert_eq!(
            (&*conditions[0].type_, &*conditions[0].status),
            (UPGRADABLE, "False"),
            "{what}"
        );
    }
    // Regardless of the annotations, an image for a container that does not exist would add a
    // container.
    let mut half = native(hot_pod(["mesh:1", "mesh:2"], "h2", "mesh-2", [true, true]));
    half["spec"]["initContainers"]
        .as_array_mut()
        .unwrap()
        .remove(1);
    let plan = decide(&mesh_set(&[half]), NOW);
    assert_eq!(patches(&plan), []);
}
