//! The annotations by which a pod records its SidecarSets, and those that SidecarSets put on it.

use serde_json::json;

use super::*;

const HASH: &str = "kruise.io/sidecarset-hash";
const WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
const LIST: &str = "kruise.io/sidecarset-injected-list";

fn sidecar(name: &str) -> Set {
    set(
        name,
        json!({"containers": [{"name": format!("{name}-x"), "image": "x:1"}, {"name": format!("{name}-a")}], "initContainers": [{"name": format!("{name}-i")}]}),
    )
}

fn annotated(annotations: Value) -> Value {
    let mut pod = pod(json!([{"name": "main"}]));
    pod["metadata"]["annotations"] = annotations;
    pod
}

fn patching(name: &str, policy: &str, annotations: Value) -> Set {
    let patch = json!([{"patchPolicy": policy, "annotations": annotations}]);
    set(
        name,
        json!({"containers": [{"name": format!("{name}-x")}], "patchPodMetadata": patch}),
    )
}

#[test]
fn a_pod_says_what_it_has() {
    let sets = [sidecar("b"), sidecar("a")];
    let new = injected(&pod(json!([{"name": "main"}])), &sets);
    let record = |set: &Set, hash: &str, revision: &str| {
        let name = &set.name;
        format!(
            r#""{name}":{{"updateTimestamp":"{NOW}","hash":"{hash}","sidecarSetName":"{name}","sidecarList":["{name}-a","{name}-x"]{revision}}}"#
        )
    };
    let [b, a] = &sets;
    let of = |set: &Set| {
        record(
            set,
            &set.hashes.hash,
            &format!(r#","controllerRevision":"{}-1""#, set.name),
        )
    };
    let without = |set: &Set| record(set, &set.hashes.without_image, "");
    let annotations = &new["metadata"]["annotations"];
    assert_eq!(annotations[HASH], format!("{{{},{}}}", of(a), of(b)));
    assert_eq!(
        annotations[WITHOUT_IMAGE],
        format!("{{{},{}}}", without(a), without(b))
    );
    assert_eq!(annotations[LIST], "a,b");
    assert_eq!(annotations.as_object().unwrap().len(), 3);
}

#[test]
fn entries_of_others_stay() {
    let other = r#""z":{"updateTimestamp":null,"hash":"h","sidecarSetName":"z","sidecarList":["q"],"later":true}"#;
    let old = annotated(json!({
        HASH: format!("{{{other}}}"), WITHOUT_IMAGE: r#"{"z":"old"}"#, LIST: "z",
        "kruise.io/sidecarset-working-hotupgrade-container": r#"{"q":"q-2"}"#, "other": "x",
    }));
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let new = injected(
        &old,
        &[set(
            "a",
            json!({"containers": [{"name": "mesh", "upgradeStrategy": hot}]}),
        )],
    );
    let annotations = &new["metadata"]["annotations"];
    assert!(
        annotations[HASH]
            .as_str()
            .unwrap()
            .ends_with(&format!("{other}}}"))
    );
    let expected =
        r#""z":{"updateTimestamp":null,"hash":"old","sidecarSetName":"z","sidecarList":null}}"#;
    assert!(
        annotations[WITHOUT_IMAGE]
            .as_str()
            .unwrap()
            .ends_with(expected)
    );
    assert_eq!(
        (&annotations[LIST], &annotations["other"]),
        (&json!("a,z"), &json!("x"))
    );
    let working = &annotations["kruise.io/sidecarset-working-hotupgrade-container"];
    assert_eq!(working, r#"{"mesh":"mesh-1","q":"q-2"}"#);
}

#[test]
fn unreadable_record_is_overwritten() {
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let sets = || {
        [
            sidecar("a"),
            set(
                "b",
                json!({"containers": [{"name": "mesh", "upgradeStrategy": hot}]}),
            ),
        ]
    };
    let expected = injected(&pod(json!([{"name": "main"}])), &sets());
    for key in [
        HASH,
        WITHOUT_IMAGE,
        "kruise.io/sidecarset-working-hotupgrade-container",
    ] {
        for text in ["no JSON", "{", "[1", "[]", "null", "\u{0}"] {
            assert_eq!(
                injected(&annotated(json!({key: text})), &sets()),
                expected,
                "{key}: {text}"
            );
        }
    }
}

#[test]
fn second_call_injects_the_newer_sidecarset() {
    let first = injected(
        &pod(json!([{"name": "main"}])),
        &[sidecar("a"), sidecar("b")],
    );
    let newer = set(
        "a",
        json!({"containers": [{"name": "a-x", "image": "x:2"}, {"name": "a-a"}], "initContainers": [{"name": "a-i"}]}),
    );
    let second = run(&first, &[newer, sidecar("b")], false, LATER);
    assert_eq!(container(&second.pod, "a-x")["image"], "x:2");
    assert_eq!(
        names(&second.pod, "containers"),
        names(&first, "containers")
    );
    let time = |set: &str| {
        let text = second.pod["metadata"]["annotations"][HASH]
            .as_str()
            .unwrap();
        serde_json::from_str::<Value>(text).unwrap()[set]["updateTimestamp"].clone()
    };
    assert_eq!((time("a"), time("b")), (json!(LATER), json!(NOW)));
}

#[test]
fn lacking_container_comes_in_spite_of_a_record() {
    let sets = [sidecar("a")];
    let first = injected(&pod(json!([{"name": "main"}])), &sets);
    let mut lacking = first.clone();
    lacking["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    lacking["spec"]["containers"][0] = json!({"name": "a-a", "image": "someone's"});
    let second = run(&lacking, &sets, false, LATER);
    assert_eq!(names(&second.pod, "containers"), ["a-x", "a-a", "main"]);
    assert_eq!(container(&second.pod, "a-a"), container(&first, "a-a"));
    assert_eq!(
        second.pod["metadata"]["annotations"][HASH],
        first["metadata"]["annotations"][HASH]
    );
}

#[test]
fn containers_that_came_since_are_shared_too() {
    let policy =
        json!({"targetContainersMode": "max", "resourcesExpr": {"limits": {"cpu": "cpu"}}});
    let agent = json!({
        "name": "agent", "image": "agent:1", "shareVolumePolicy": {"type": "enabled"}, "resourcesPolicy": policy,
        "transferEnv": [{"sourceContainerName": "main", "envName": "A"}],
    });
    let sets = [set("a", json!({"containers": [agent]}))];
    let mut pod = injected(
        &pod(json!([{"name": "main", "resources": {"limits": {"cpu": "1"}}}])),
        &sets,
    );
    pod["spec"]["containers"][1]["env"] = json!([{"name": "A", "value": "1"}]);
    pod["spec"]["containers"][1]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let second = injected(&pod, &sets);
    let agent = container(&second, "agent");
    assert_eq!(variables(agent), ["IS_INJECTED=true", "A=1"]);
    assert_eq!(
        agent["volumeMounts"],
        json!([{"name": "v", "mountPath": "/v"}])
    );
}

#[test]
fn annotations_of_sidecarsets_come_by_their_policies() {
    let table = [
        (
            "Retain",
            json!({"new": "1", "old": "1"}),
            json!({"new": "1", "old": "0"}),
        ),
        (
            "Overwrite",
            json!({"new": "1", "old": "1"}),
            json!({"new": "1", "old": "1"}),
        ),
        (
            "MergePatchJson",
            json!({"json": r#"{"a":1}"#}),
            json!({"json": r#"{"a":1,"z":0}"#, "old": "0"}),
        ),
    ];
    for (policy, wanted, expected) in table {
        let new = injected(
            &annotated(json!({"old": "0", "json": r#"{"z":0}"#})),
            &[patching("a", policy, wanted)],
        );
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(
                new["metadata"]["annotations"][key], *value,
                "{policy} {key}"
            );
        }
    }
}

#[test]
fn sidecarsets_patch_annotations_in_order_of_name() {
    let sets = [
        patching("b", "MergePatchJson", json!({"json": r#"{"b":2}"#})),
        patching("a", "MergePatchJson", json!({"json": r#"{"a":1,"b":1}"#})),
        patching("c", "Retain", json!({"json": "none"})),
    ];
    let new = injected(&pod(json!([{"name": "main"}])), &sets);
    assert_eq!(new["metadata"]["annotations"]["json"], r#"{"a":1,"b":2}"#);
}

#[test]
fn annotations_alone_make_no_record() {
    let only = set(
        "a",
        json!({"patchPodMetadata": [{"annotations": {"key": "value"}}]}),
    );
    let new = injected(&pod(json!([{"name": "main"}])), &[only]);
    assert_eq!(new["metadata"]["annotations"], json!({"key": "value"}));
}

#[test]
fn texts_that_cannot_be_merged_are_refused() {
    let old = annotated(json!({"json": "none"}));
    let merging = patching(
        "a",
        "MergePatchJson",
        json!({"json": r#"{"a":1}"#, "first": "{}"}),
    );
    let other = || patching("b", "Retain", json!({"key": "value"}));
    let found = run(&old, &[merging, other()], false, NOW);
    assert_eq!(
        found.pod,
        injected(&old, &[other()]),
        "the whole set is left out"
    );
    let reason = "annotation \"json\": \"none\" is no JSON object, and cannot be merged".to_owned();
    assert_eq!(
        found.refusals,
        [Refusal {
            sidecar_set: "a".to_owned(),
            reason,
            is_of_pod: true
        }]
    );
}

#[test]
fn text_of_another_set_denies_no_pod() {
    let sets = [
        patching("a", "Overwrite", json!({"json": "none"})),
        patching("b", "MergePatchJson", json!({"json": "{}"})),
    ];
    for (old, is_of_pod) in [
        (json!({}), false),
        (json!({"json": "{}"}), false),
        (json!({"json": "none"}), true),
    ] {
        let found = run(&annotated(old.clone()), &sets, false, NOW);
        assert!(
            matches!(&*found.refusals, [one] if one.sidecar_set == "b" && one.is_of_pod == is_of_pod),
            "{old}: {found:?}"
        );
        assert_eq!(names(&found.pod, "containers"), ["a-x", "main"], "{old}");
    }
}

#[test]
fn annotation_repaired_by_later_set_is_merged() {
    let merging = || patching("a", "MergePatchJson", json!({"json": r#"{"a":1}"#}));
    let replacing = || patching("b", "Overwrite", json!({"json": "{}", "forbidden": "1"}));
    let once = run(
        &annotated(json!({"json": "none"})),
        &[merging(), replacing()],
        false,
        NOW,
    );
    assert_eq!((once.refusals.len(), once.warnings.len()), (0, 1));
    assert_eq!(names(&once.pod, "containers"), ["a-x", "b-x", "main"]);
    assert_eq!(
        run(&once.pod, &[merging(), replacing()], false, LATER),
        once
    );
}

#[test]
fn annotations_that_are_not_allowed_are_left_out() {
    let keys = json!({"forbidden/x": "1", "kruise.io/sidecarset-hash": "{}", "version.sidecarset.kruise.io/mesh-1": "7", "allowed": "1"});
    let old = pod(json!([{"name": "main"}]));
    let found = run(&old, &[patching("a", "Overwrite", keys)], false, NOW);
    let annotations = found.pod["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(
        annotations.keys().collect::<Vec<_>>(),
        ["allowed", HASH, WITHOUT_IMAGE, LIST]
    );
    assert_eq!(found.warnings.len(), 3);
    assert_eq!(
        found.warnings[0],
        "SidecarSet \"a\" may not set the annotation \"forbidden/x\": the pod does not get it"
    );
    assert_eq!(found.refusals, []);
}
