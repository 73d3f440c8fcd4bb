//! Tables of decisions about SidecarSets.

mod natives;
mod shared;
mod taken_back;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_workload::feature_gates::Gates;
use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Action, Failure, Outcome, Plan, PodPatch, Verb, Write};
use berth_workload::update::revision::Revision;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::history::hash::Hashes;
use super::names::{
    HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST, INPLACE_UPDATE_STATE, IS_INJECTED, UPGRADABLE,
    WORKING_HOT_CONTAINER as WORKING,
};
use super::{
    InjectionCalls, Reach, Snapshot, Turns, annotations_to_read, decide, pod_events, status,
};

pub(super) const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A SidecarSet `log` with one container `agent`, with these fields changed.
pub(super) fn snapshot(fields: &Value, pods: &[Value]) -> Snapshot {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "log", "uid": "s", "annotations": {HASH: "h2", HASH_WITHOUT_IMAGE: "w"}, "resourceVersion": "77", "generation": 2, "creationTimestamp": "2026-01-02T00:00:00Z"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent", "image": "agent:2"}],
            "updateStrategy": {"type": "RollingUpdate", "maxUnavailable": 1},
        },
    });
    for (path, value) in fields.as_object().into_iter().flatten() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    let set = Arc::new(serde_json::from_value(set).unwrap());
    let pods = pods
        .iter()
        .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
        .collect();
    let mut snapshot = Snapshot {
        set,
        hashes: Hashes {
            hash: "h2".to_owned(),
            without_image: "w".to_owned(),
        },
        pods,
        taken: [].into(),
        labelled: [].into(),
        strangers: Vec::new(),
        repaired: None,
        revisions: Vec::new(),
        node_images: [].into(),
        jobs: None,
        gates: Gates::default(),
        allowed: [].into(),
        annotations: [].into(),
        own_namespace: "kruise-system".to_owned(),
        reach: Reach {
            is_any: true,
            left_out: Vec::new(),
        },
        injection_calls: InjectionCalls::Yes,
        fruitless: None,
        turns: Arc::default(),
        unreadable: BTreeMap::new(),
    };
    let data = super::history::revisions::data(&snapshot.set.spec);
    let latest = json!({"metadata": {"name": "log-1", "namespace": "kruise-system", "uid": "r"}, "revision": 1, "data": data});
    snapshot.revisions.push(Arc::new(
        serde_json::from_value::<Revision>(latest).unwrap(),
    ));
    snapshot
}

/// The variables of a container that the webhook added.
pub(super) fn mark() -> Value {
    json!([{"name": IS_INJECTED, "value": "true"}])
}

/// A pod with the containers of hash `h1` or `h2`.
pub(super) fn pod(name: &str, hash: &str, ready: bool) -> Value {
    let image = if hash == "h2" { "agent:2" } else { "agent:1" };
    let record = |hash: &str| {
        json!({"log": {"hash": hash, "sidecarSetName": "log", "controllerRevision": "log-0"}})
            .to_string()
    };
    let ready_word = if ready { "True" } else { "False" };
    let status = |name: &str| json!({"name": name, "ready": ready, "imageID": format!("id-{image}"), "containerID": "c://1", "image": image});
    json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "resourceVersion": "5", "labels": {"app": "web"},
            "creationTimestamp": "2026-01-03T00:00:00Z",
            "annotations": {HASH: record(hash), HASH_WITHOUT_IMAGE: record("w"), INJECTED_LIST: "log"},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "web:1"}, {"name": "agent", "image": image, "env": mark()}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": ready_word}],
            "containerStatuses": [status("main"), status("agent")],
        },
    })
}

/// The pod after an update patched it so many seconds ago. `was_ready` is whether it was Ready
/// until then.
pub(super) fn patched(mut pod: Value, seconds_ago: i64, was_ready: bool) -> Value {
    let at = Timestamp::from_second(NOW.as_second() - seconds_ago).unwrap();
    let state = json!({"log": {"revision": "h2", "updateTimestamp": at, "berthWasReady": was_ready, "berthVerifiedBy": "pod"}});
    pod["metadata"]["annotations"][INPLACE_UPDATE_STATE] = json!(state.to_string());
    pod
}

/// The pods that get new images.
pub(super) fn updated(plan: &Plan) -> Vec<String> {
    let stage = plan.stages.iter().find(|stage| stage.name == "update");
    let steps = stage
        .into_iter()
        .flat_map(|stage| &stage.steps)
        .flat_map(|step| &step.actions);
    steps
        .map(|action| match action {
            Action::PatchPod { target, .. } => target.name.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn updates_keep_partition_and_max_unavailable() {
    let old = |names: &[&str]| {
        names
            .iter()
            .map(|name| pod(name, "h1", true))
            .collect::<Vec<_>>()
    };
    let strategy = |value: Value| json!({"/spec/updateStrategy": value});
    let out = patched(pod("z", "h2", false), 600, true);
    for (what, fields, pods, expected) in [
        ("one at a time", json!({}), old(&["a", "b", "c"]), 1),
        (
            "a number",
            strategy(json!({"maxUnavailable": 2})),
            old(&["a", "b", "c"]),
            2,
        ),
        (
            "a percentage rounds up",
            strategy(json!({"maxUnavailable": "40%"})),
            old(&["a", "b", "c"]),
            2,
        ),
        (
            "a partition keeps back",
            strategy(json!({"maxUnavailable": 3, "partition": 2})),
            old(&["a", "b", "c"]),
            1,
        ),
        (
            "so does a percentage",
            strategy(json!({"maxUnavailable": 3, "partition": "99%"})),
            old(&["a", "b", "c"]),
            1,
        ),
        (
            "100 percent keeps all",
            strategy(json!({"maxUnavailable": 3, "partition": "100%"})),
            old(&["a", "b", "c"]),
            0,
        ),
        ("paused", strategy(json!({"paused": true})), old(&["a"]), 0),
        (
            "NotUpdate",
            strategy(json!({"type": "NotUpdate"})),
            old(&["a"]),
            0,
        ),
        (
            "0 may be away",
            strategy(json!({"maxUnavailable": 0})),
            old(&["a"]),
            0,
        ),
        (
            "selected ones",
            strategy(json!({"selector": {"matchLabels": {"app": "other"}}})),
            old(&["a"]),
            0,
        ),
        (
            "an updated pod is out",
            json!({}),
            [old(&["a", "b"]), vec![out]].concat(),
            0,
        ),
        (
            "pods that do not serve cost nothing",
            json!({}),
            vec![pod("a", "h1", false), pod("b", "h1", false)],
            2,
        ),
    ] {
        let plan = decide(&snapshot(&fields, &pods), NOW);
        assert_eq!(updated(&plan).len(), expected, "{what}: {plan:#?}");
    }
}

#[test]
fn an_update_is_one_patch_of_the_pod_as_it_was_seen() {
    let plan = decide(&snapshot(&json!({}), &[pod("a", "h1", true)]), NOW);
    let Some(Action::PatchPod { target, patch }) = plan.actions().next() else {
        panic!("{plan:#?}")
    };
    assert_eq!(target.resource_version.as_deref(), Some("5"));
    assert_eq!(
        patch.images,
        [("agent".to_owned(), "agent:2".to_owned())].into()
    );
    let hash: Value = serde_json::from_str(patch.annotations[HASH].as_ref().unwrap()).unwrap();
    assert_eq!(
        (&hash["log"]["hash"], &hash["log"]["controllerRevision"]),
        (&json!("h2"), &json!("log-1"))
    );
    let state = patch.annotations[INPLACE_UPDATE_STATE].as_ref().unwrap();
    let state: Value = serde_json::from_str(state).unwrap();
    assert_eq!(
        state["log"]["lastContainerStatuses"]["agent"]["imageID"],
        "id-agent:1"
    );
}

#[test]
fn image_update_patches_annotations_by_policy() {
    let key = "example.org/a";
    for (what, policy, value, had, expected) in [
        (
            "Retain, where it is absent",
            "Retain",
            "new",
            Some(json!({})),
            Some(Some("new")),
        ),
        (
            "Retain, where it is there",
            "Retain",
            "new",
            Some(json!({key: "old"})),
            Some(None),
        ),
        (
            "Retain, where the annotation was not read",
            "Retain",
            "new",
            None,
            None,
        ),
        ("Overwrite", "Overwrite", "new", None, Some(Some("new"))),
        (
            "MergePatchJson",
            "MergePatchJson",
            r#"{"b":2}"#,
            Some(json!({key: r#"{"a":1}"#})),
            Some(Some(r#"{"a":1,"b":2}"#)),
        ),
        (
            "MergePatchJson, where the annotation was not read",
            "MergePatchJson",
            "{}",
            None,
            None,
        ),
    ] {
        let patches = json!([{"annotations": {key: value, "example.org/not-allowed": "x"}, "patchPolicy": policy}]);
        let mut snapshot = snapshot(
            &json!({"/spec/patchPodMetadata": patches}),
            &[pod("a", "h1", true)],
        );
        snapshot.allowed = [key.to_owned()].into();
        assert_eq!(
            annotations_to_read(&snapshot, NOW).len(),
            usize::from(policy != "Overwrite"),
            "{what}"
        );
        snapshot
            .annotations
            .extend(had.map(|had| ("a".into(), serde_json::from_value(had).unwrap())));
        let plan = decide(&snapshot, NOW);
        let patch = plan.actions().find_map(|action| match action {
            Action::PatchPod { patch, .. } => Some(patch),
            _ => None,
        });
        let got = patch.map(|patch| {
            patch
                .annotations
                .get(key)
                .and_then(|value| value.as_deref())
        });
        assert_eq!(got, expected, "{what}");
        assert!(patch.is_none_or(|patch| patch.changes_images()
            && !patch.annotations.contains_key("example.org/not-allowed")));
    }
}

#[test]
fn not_upgradable_pod_is_reported_and_not_updated() {
    let mut other = pod("a", "h1", true);
    other["metadata"]["annotations"][HASH_WITHOUT_IMAGE] =
        json!(json!({"log": {"hash": "x"}, "other": {"hash": "y"}}).to_string());
    let snapshot = snapshot(&json!({}), &[other.clone()]);
    let plan = decide(&snapshot, NOW);
    assert!(updated(&plan).is_empty());
    let Some(Action::PatchPodStatus { conditions, .. }) = plan.actions().next() else {
        panic!("{plan:#?}")
    };
    let said = (
        &*conditions[0].type_,
        &*conditions[0].status,
        &*conditions[0].reason,
        &*conditions[0].message,
    );
    assert_eq!(
        said,
        (
            UPGRADABLE,
            "False",
            "UpdateImmutableField",
            r#"{"log":false}"#
        )
    );
    assert_eq!(plan.events[0].reason, "NotUpgradablePods");
    assert_eq!(
        status(&snapshot, &plan, &Default::default(), NOW)
            .injection
            .unwrap()
            .not_upgradable,
        1
    );
    // A condition that is already true is not written again, and is written anew once it changes.
    other["status"]["conditions"] =
        json!([{"type": UPGRADABLE, "status": "False", "message": r#"{"log":false}"#}]);
    assert!(decide(&super::tests::snapshot(&json!({}), &[other.clone()]), NOW).is_idle());
    other["metadata"]["annotations"][HASH] = json!(json!({"log": {"hash": "h2"}}).to_string());
    let plan = decide(&super::tests::snapshot(&json!({}), &[other]), NOW);
    let Some(Action::PatchPodStatus { conditions, .. }) = plan.actions().next() else {
        panic!("{plan:#?}")
    };
    assert_eq!(
        (&*conditions[0].status, &*conditions[0].reason),
        ("True", "AllSidecarsetUpgradable")
    );
}

#[test]
fn pod_without_the_mark_is_no_member() {
    let of = |value: &str| json!([{"name": IS_INJECTED, "value": value}]);
    for (env, is_member) in [
        (mark(), 1),
        (json!([]), 0),
        (Value::Null, 0),
        (of("false"), 0),
        (of(""), 0),
    ] {
        for hash in ["h1", "h2"] {
            let mut pod = pod("a", hash, true);
            pod["spec"]["containers"][1]["env"] = env.clone();
            let snapshot = snapshot(&json!({}), &[pod]);
            let says = status(&snapshot, &Plan::default(), &Outcome::default(), NOW);
            let counts = [says.matched_pods, says.ready_pods];
            assert_eq!(counts, [is_member; 2], "{hash}: {env}");
            assert_eq!(
                says.updated_pods,
                if hash == "h2" { is_member } else { 0 },
                "{hash}: {env}"
            );
            // The controller writes nothing to a pod without the SidecarSet's containers.
            let is_updated = is_member == 1 && hash == "h1";
            assert_eq!(
                !updated(&decide(&snapshot, NOW)).is_empty(),
                is_updated,
                "{hash}: {env}"
            );
            assert_eq!(
                super::has_container(&snapshot.pods[0], &snapshot.set.spec),
                is_member == 1,
                "{hash}: {env}"
            );
        }
    }
}

/// A pod whose `mesh` is a pair of containers with these images. The first one works.
pub(super) fn hot_pod(images: [&str; 2], hash: &str, working: &str, ready: [bool; 2]) -> Value {
    let mut pod = pod("a", hash, ready == [true, true]);
    let container =
        |at: usize| json!({"name": format!("mesh-{}", at + 1), "image": images[at], "env": mark()});
    pod["spec"]["containers"] =
        json!([{"name": "main", "image": "web:1"}, container(0), container(1)]);
    let status = |name: &str, ready: bool, image: &str| json!({"name": name, "ready": ready, "imageID": format!("id-{image}"), "containerID": format!("c://{name}"), "image": image});
    pod["status"]["containerStatuses"] = json!([
        status("main", true, "web:1"),
        status("mesh-1", ready[0], images[0]),
        status("mesh-2", ready[1], images[1])
    ]);
    let annotations = &mut pod["metadata"]["annotations"];
    annotations[WORKING] = json!(json!({"mesh": working}).to_string());
    annotations["version.sidecarset.kruise.io/mesh-1"] = json!("50");
    // The version of the other container, as long as both work.
    let other = if working == "mesh-2" { "50" } else { "0" };
    annotations[format!("versionalt.sidecarset.kruise.io/{working}")] = json!(other);
    pod
}

pub(super) fn hot_snapshot(pods: &[Value], strategy: Value) -> Snapshot {
    let container = json!({"name": "mesh", "image": "mesh:2",
                           "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}});
    snapshot(
        &json!({"/spec/containers": [container], "/spec/updateStrategy": strategy}),
        pods,
    )
}

#[test]
fn hot_upgrade_fills_spare_then_empties_old_container() {
    let begun = decide(
        &hot_snapshot(
            &[hot_pod(["mesh:1", "empty:1"], "h1", "mesh-1", [true, true])],
            json!({}),
        ),
        NOW,
    );
    let Some(Action::PatchPod { patch, .. }) = begun.actions().next() else {
        panic!("{begun:#?}")
    };
    assert_eq!(
        patch.images,
        [("mesh-2".to_owned(), "mesh:2".to_owned())].into()
    );
    let annotation = |key: &str| patch.annotations[key].as_deref();
    assert_eq!(annotation(WORKING), Some(r#"{"mesh":"mesh-2"}"#));
    assert_eq!(
        annotation("version.sidecarset.kruise.io/mesh-2"),
        Some("77")
    );
    assert_eq!(
        annotation("versionalt.sidecarset.kruise.io/mesh-2"),
        Some("50")
    );
    assert_eq!(
        annotation("versionalt.sidecarset.kruise.io/mesh-1"),
        Some("77")
    );

    // At first the new container is not ready. Then it is, and the old one gets the empty image,
    // even if updates are paused by then.
    for (ready, strategy, resets) in [
        ([true, false], json!({}), false),
        ([true, true], json!({}), true),
        ([true, true], json!({"paused": true}), true),
        ([true, true], json!({"type": "NotUpdate"}), true),
    ] {
        let pod = hot_pod(["mesh:1", "mesh:2"], "h2", "mesh-2", ready);
        let snapshot = hot_snapshot(&[pod], strategy.clone());
        let plan = decide(&snapshot, NOW);
        let images = plan.actions().find_map(|action| match action {
            Action::PatchPod { patch, .. } => Some(patch.images.clone()),
            _ => None,
        });
        let expected = resets.then(|| [("mesh-1".to_owned(), "empty:1".to_owned())].into());
        assert_eq!(images, expected, "{ready:?} {strategy}");
        assert_eq!(
            status(&snapshot, &plan, &Default::default(), NOW).ready_pods,
            0,
            "two containers work"
        );
        let told = |outcome: &Outcome| {
            let events = pod_events(&Turns::default(), &plan, outcome)
                .into_iter()
                .map(|(pod, event)| (pod.name, event.reason));
            events.collect::<Vec<_>>()
        };
        let failure = Failure::of_budget(
            Write::of(Verb::Patch, PODS),
            ("default", "pod"),
            "no".to_owned(),
        );
        let outdated = Failure {
            outdated: true,
            ..failure.clone()
        };
        let pod = |reason| {
            if resets {
                vec![("pod".to_owned(), reason)]
            } else {
                vec![]
            }
        };
        let name = plan.actions().find_map(|action| match action {
            Action::PatchPod { target, .. } => Some(target.name.clone()),
            _ => None,
        });
        let of_pod = |failure: &Failure| Outcome {
            failures: vec![Failure {
                object: name.clone().unwrap_or_default(),
                ..failure.clone()
            }],
        };
        let named = |all: Vec<(String, &'static str)>| {
            all.into_iter()
                .map(|(_, reason)| ("pod".to_owned(), reason))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            named(told(&Outcome::default())),
            pod("ResetContainerSucceed")
        );
        assert_eq!(named(told(&of_pod(&failure))), pod("ResetContainerFailed"));
        assert_eq!(told(&of_pod(&outdated)), []);
    }
}

#[test]
fn changed_empty_image_updates_no_pod() {
    let writes = |pod: Value| {
        let plan = decide(&hot_snapshot(&[pod], json!({})), NOW);
        plan.actions()
            .filter(|action| matches!(action, Action::PatchPod { .. }))
            .count()
    };
    let mut idle = hot_pod(["mesh:2", "empty:0"], "h2", "mesh-1", [true, true]);
    assert_eq!(
        writes(idle.clone()),
        0,
        "its empty container has the empty image of before"
    );
    // Removing the annotation takes no container out of service.
    idle["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(WORKING);
    assert_eq!(writes(idle), 0);
    let mut second = hot_pod(["empty:1", "mesh:2"], "h2", "mesh-1", [true, true]);
    second["metadata"]["annotations"]["versionalt.sidecarset.kruise.io/mesh-1"] = json!("60");
    assert_eq!(writes(second), 0, "the one that is said to work is empty");
}

#[test]
fn new_leader_keeps_injection_ready_while_unknown() {
    let ready = |injection_calls, said: Option<&str>| {
        let mut snapshot = Snapshot {
            injection_calls,
            ..snapshot(&json!({}), &[])
        };
        if let Some(said) = said {
            let condition = json!({"type": "InjectionReady", "status": said});
            let mut set = (*snapshot.set).clone();
            set.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
            snapshot.set = Arc::new(set);
        }
        status(&snapshot, &Plan::default(), &Default::default(), NOW).conditions[0]
            .status
            .clone()
    };
    assert_eq!(ready(InjectionCalls::Unknown, None), "False");
    assert_eq!(ready(InjectionCalls::Unknown, Some("True")), "True");
    assert_eq!(ready(InjectionCalls::NotYet, Some("True")), "False");
    assert_eq!(ready(InjectionCalls::Yes, Some("False")), "True");
    assert_eq!(ready(InjectionCalls::Never, Some("True")), "False");
}

#[test]
fn rollback_halfway_updates_the_unproven_container() {
    // mesh-2 got mesh:9, which never ran; now mesh:2 is wanted.
    let pod = hot_pod(["mesh:1", "mesh:9"], "h9", "mesh-2", [true, false]);
    let mut pod = pod;
    pod["status"]["containerStatuses"][2]["state"] =
        json!({"waiting": {"reason": "ImagePullBackOff"}});
    let plan = decide(&hot_snapshot(&[pod], json!({})), NOW);
    let Some(Action::PatchPod { patch, .. }) = plan.actions().next() else {
        panic!("{plan:#?}")
    };
    assert_eq!(
        patch.images,
        [("mesh-2".to_owned(), "mesh:2".to_owned())].into()
    );
}

#[test]
fn image_changed_halfway_updates_unserving_container() {
    let unproven = || {
        let before = json!({"imageID": "id-mesh:9", "berthContainerID": "c://mesh-2", "berthImage": "empty:1"});
        json!({"log": {"revision": "h9", "updateImages": true, "lastContainerStatuses": {"mesh-2": before}}})
            .to_string()
    };
    let crash = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    // mesh-2 got mesh:9, and mesh-1 does not have the empty image yet, because the pod's own
    // container is not ready; now mesh:2 is wanted.
    for (what, images, ready, is_proven, expected) in [
        (
            "the new one serves",
            ["mesh:1", "mesh:9"],
            [true, true],
            true,
            "mesh-1",
        ),
        (
            "it does, and the older one fails",
            ["mesh:1", "mesh:9"],
            [false, true],
            true,
            "mesh-1",
        ),
        (
            "the new one is not ready",
            ["mesh:1", "mesh:9"],
            [true, false],
            true,
            "mesh-2",
        ),
        (
            "it may be that of before",
            ["mesh:1", "mesh:9"],
            [false, true],
            false,
            "mesh-2",
        ),
    ] {
        let mut pod = hot_pod(images, "h9", "mesh-2", ready);
        pod["status"]["containerStatuses"][0]["ready"] = json!(false);
        if !ready[0] {
            pod["status"]["containerStatuses"][1]["state"] = crash.clone();
        }
        pod["metadata"]["annotations"]["version.sidecarset.kruise.io/mesh-2"] = json!("60");
        if !is_proven {
            pod["metadata"]["annotations"][INPLACE_UPDATE_STATE] = json!(unproven());
        }
        let plan = decide(&hot_snapshot(&[pod], json!({})), NOW);
        let Some(Action::PatchPod { patch, .. }) = plan.actions().next() else {
            panic!("{what}: {plan:#?}")
        };
        assert_eq!(
            patch.images,
            [(expected.to_owned(), "mesh:2".to_owned())].into(),
            "{what}"
        );
        let (other, of_other) = if expected == "mesh-1" {
            ("mesh-2", "60")
        } else {
            ("mesh-1", "50")
        };
        let says = |key: String| patch.annotations.get(&key).cloned().flatten();
        for (key, value) in [
            (WORKING.to_owned(), json!({"mesh": expected}).to_string()),
            (
                format!("version.sidecarset.kruise.io/{expected}"),
                "77".to_owned(),
            ),
            (
                format!("versionalt.sidecarset.kruise.io/{expected}"),
                of_other.to_owned(),
            ),
            (
                format!("versionalt.sidecarset.kruise.io/{other}"),
                "77".to_owned(),
            ),
        ] {
            assert_eq!(says(key), Some(value), "{what}");
        }
    }
}

#[test]
fn pod_with_its_previous_container_is_not_ready() {
    let mut pod = pod("a", "h2", true);
    let before =
        json!({"imageID": "id-agent:2", "berthContainerID": "c://1", "berthImage": "agent:1"});
    let state = json!({"log": {"revision": "h2", "updateImages": true, "lastContainerStatuses": {"agent": before}, "berthFromSettled": true}});
    pod["metadata"]["annotations"][INPLACE_UPDATE_STATE] = json!(state.to_string());
    let snapshot = snapshot(&json!({}), &[pod]);
    let status = status(&snapshot, &Plan::default(), &Default::default(), NOW);
    assert_eq!(
        (
            status.updated_pods,
            status.ready_pods,
            status.updated_ready_pods
        ),
        (1, 0, 0)
    );
}

#[test]
fn pods_are_counted_by_what_they_have() {
    let without = |name: &str, made: &str| {
        let mut pod = pod(name, "h2", true);
        pod["metadata"]["annotations"] = json!({});
        pod["metadata"]["creationTimestamp"] = json!(made);
        pod
    };
    let pods = [
        pod("a", "h2", true),
        pod("c", "h2", false),
        without("d", "2026-01-01T00:00:00Z"),
        without("e", "2026-01-05T00:00:00Z"),
    ];
    let mut drifted = pod("b", "h2", true);
    drifted["spec"]["containers"][1]["image"] = json!("evil:1");
    let pods = [pods.as_slice(), &[drifted]].concat();
    let snapshot = snapshot(&json!({}), &pods);
    let status = status(&snapshot, &Plan::default(), &Default::default(), NOW);
    let counted = (
        status.matched_pods,
        status.updated_pods,
        status.ready_pods,
        status.updated_ready_pods,
    );
    assert_eq!((counted, &*status.latest_revision), ((3, 3, 2, 2), "log-1"));
    let injection = status.injection.unwrap();
    assert_eq!(
        (
            injection.selected,
            injection.injected,
            injection.missed,
            injection.older
        ),
        (5, 3, 1, 1)
    );
    assert_eq!(injection.drifted, 1);
    let told = decide(&snapshot, NOW).waiting;
    assert!(
        told.iter()
            .any(|waiting| waiting.pod == "default/b" && waiting.reason.contains("evil:1")),
        "{told:#?}"
    );
    assert_eq!(status.conditions[0].status, "True");
}

#[test]
fn pods_older_than_the_selectors_are_not_missed() {
    let now: Timestamp = "2026-01-10T00:00:00.5Z".parse().unwrap();
    // The SidecarSet was created on 2026-01-02.
    let bare = |name: &str, made: &str| {
        let mut pod = pod(name, "h2", true);
        pod["metadata"]["annotations"] = json!({});
        pod["metadata"]["creationTimestamp"] = json!(made);
        pod
    };
    let pods = [
        bare("a", "2026-01-01T00:00:00Z"),
        bare("b", "2026-01-03T00:00:00Z"),
        bare("c", "2026-01-06T00:00:00Z"),
        bare("d", "2026-01-10T00:00:00Z"),
    ];
    let (selector, other) = (
        json!({"matchLabels": {"app": "web"}}),
        json!({"matchLabels": {"app": "db"}}),
    );
    let of = |selector: &Value, namespaces: &Value, said: Value| {
        let fields = json!({"/spec/selector": selector, "/spec/namespaceSelector": namespaces});
        let mut snapshot = snapshot(&fields, &pods);
        Arc::make_mut(&mut snapshot.set).status = serde_json::from_value(said).unwrap();
        status(&snapshot, &decide(&snapshot, now), &Outcome::default(), now)
            .injection
            .unwrap()
    };
    let hash = of(&selector, &Value::Null, Value::Null).selector_hash;
    let said =
        |hash: &str, since: &str| json!({"injection": {"selectorHash": hash, "since": since}});
    let before = || said(&hash, "2026-01-05T00:00:00Z");
    for (what, selector, namespaces, said, missed, since) in [
        (
            "no status",
            &selector,
            Value::Null,
            Value::Null,
            3,
            "2026-01-02T00:00:00Z",
        ),
        (
            "a status without a hash",
            &selector,
            Value::Null,
            json!({"injection": {"missed": 1}}),
            3,
            "2026-01-02T00:00:00Z",
        ),
        (
            "the same selectors",
            &selector,
            Value::Null,
            before(),
            2,
            "2026-01-05T00:00:00Z",
        ),
        (
            "a time before the SidecarSet's",
            &selector,
            Value::Null,
            said(&hash, "2025-01-01T00:00:00Z"),
            3,
            "2026-01-02T00:00:00Z",
        ),
        (
            "another selector",
            &other,
            Value::Null,
            before(),
            0,
            "2026-01-10T00:00:01Z",
        ),
        (
            "another namespaceSelector",
            &selector,
            json!({"matchLabels": {"team": "a"}}),
            before(),
            0,
            "2026-01-10T00:00:01Z",
        ),
    ] {
        let injection = of(selector, &namespaces, said);
        assert_eq!(
            (injection.missed, injection.older),
            (missed, 4 - missed),
            "{what}"
        );
        assert_eq!(injection.since.unwrap().0, since.parse().unwrap(), "{what}");
        assert_eq!(
            injection.selector_hash == hash,
            since < "2026-01-10",
            "{what}"
        );
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Decisions keep the limits in every state of the pods.
        #[test]
        fn an_update_keeps_to_max_unavailable_and_partition(
            states in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 0..12),
            max_unavailable in 0..5_usize,
            partition in 0..8_usize,
        ) {
            let pods: Vec<_> = states.iter().enumerate().map(|(n, (updated, ready, upgradable))| {
                let mut pod = pod(&format!("p{n}"), if *updated { "h2" } else { "h1" }, *ready);
                if *updated {
                    pod = patched(pod, 600, true);
                }
                if !upgradable {
                    pod["metadata"]["annotations"][HASH_WITHOUT_IMAGE] = json!(json!({"log": {"hash": "x"}}).to_string());
                }
                pod
            }).collect();
            let strategy = json!({"/spec/updateStrategy": {"maxUnavailable": max_unavailable, "partition": partition}});
            let plan = decide(&snapshot(&strategy, &pods), NOW);
            let chosen = updated(&plan);
            let of = |name: &String| states[name[1..].parse::<usize>().unwrap()];
            prop_assert!(chosen.iter().all(|name| !of(name).0 && of(name).2), "only old ones that differ in images");
            let waiting = states.iter().filter(|(updated, _, upgradable)| !updated && *upgradable).count();
            prop_assert!(waiting - chosen.len() >= partition.min(waiting), "the partition is kept");
            let out = states.iter().filter(|(updated, ready, _)| *updated && !ready).count();
            let serving = chosen.iter().filter(|name| of(name).1).count();
            prop_assert!(serving == 0 || out + serving <= max_unavailable, "{out} are out, {serving} more go");
            // Pods that do not serve come before those that do.
            let left = states.iter().enumerate().filter(|(n, (updated, ready, upgradable))| {
                !updated && !ready && *upgradable && !chosen.contains(&format!("p{n}"))
            });
            prop_assert!(serving == 0 || left.count() <= partition, "one that does not serve waits behind one that does");
        }
    }
}

#[test]
fn blocked_updates_send_one_event() {
    let fields = json!({"/spec/updateStrategy/maxUnavailable": 0});
    let pods = [pod("a", "h1", true)];
    let first = snapshot(&fields, &pods);
    let plan = decide(&first, NOW);
    let told = |plan: &Plan| {
        plan.events
            .iter()
            .map(|event| (event.warning, event.reason))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&plan), [(true, "NoBudget")]);
    let mut next = snapshot(&fields, &pods);
    Arc::make_mut(&mut next.set).status = Some(status(&first, &plan, &Outcome::default(), NOW));
    assert_eq!(told(&decide(&next, NOW)), []);
}
