//! Which containers a pod gets, and where.

use serde_json::json;

use super::*;

fn of(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| json!({"name": name, "image": format!("{name}:1")}))
        .collect()
}

#[test]
fn a_pod_gets_a_container_as_it_is_written() {
    let sidecar =
        json!({"name": "agent", "image": "agent:1", "later": {"field": 1}, "command": ["run"]});
    let new = injected(
        &pod(of(&["main"])),
        &[set("a", json!({"containers": [sidecar]}))],
    );
    let expected = json!({
        "name": "agent", "image": "agent:1", "later": {"field": 1}, "command": ["run"],
        "env": [{"name": "IS_INJECTED", "value": "true"}],
    });
    assert_eq!(
        new["spec"]["containers"],
        json!([expected, {"name": "main", "image": "main:1"}])
    );
}

#[test]
fn unknown_fields_reach_pods_from_each_list() {
    use crate::model::unknown;
    let template = unknown::template("agent:1", &unknown::value(1));
    let spec = &template["spec"];
    let mut brings = json!({
        "containers": spec["containers"], "initContainers": spec["initContainers"], "volumes": spec["volumes"],
    });
    brings["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/v", "isNew": unknown::value(1)}]);
    brings["containers"][0]["name"] = json!("agent");
    brings["initContainers"][0]["name"] = json!("agent-init");
    // The parts of the pod itself stay, too.
    let mut old = unknown::template("main:1", &unknown::value(1));
    old["spec"]["volumes"] = json!([]);
    let mut new = injected(&old, &[set("a", brings)]);
    assert_eq!(
        new["spec"]["containers"][0]["volumeMounts"][0]["isNew"],
        unknown::value(1)
    );
    assert_eq!(
        unknown::lacking(&new, &unknown::value(1)),
        [""; 0],
        "of the SidecarSet"
    );
    new["spec"]["containers"].as_array_mut().unwrap().remove(0);
    new["spec"]["initContainers"]
        .as_array_mut()
        .unwrap()
        .reverse();
    assert_eq!(
        unknown::lacking(&new, &unknown::value(1)),
        [""; 0],
        "of the pod"
    );
}

#[test]
fn containers_are_injected_by_set_name_and_list_order() {
    let sets = || {
        [
            set("b", json!({"containers": of(&["z", "a"])})),
            set("a", json!({"containers": of(&["y", "b"])})),
        ]
    };
    let new = injected(&pod(of(&["main"])), &sets());
    assert_eq!(names(&new, "containers"), ["y", "b", "z", "a", "main"]);
    let sorted = run(&pod(of(&["main"])), &sets(), true, NOW);
    assert_eq!(
        names(&sorted.pod, "containers"),
        ["a", "b", "y", "z", "main"]
    );
    assert_eq!(run(&sorted.pod, &sets(), true, LATER), sorted);
}

#[test]
fn containers_are_placed_by_their_inject_policy() {
    let sidecar = |name: &str, policy: &str| json!({"name": name, "podInjectPolicy": policy});
    let spec = json!({
        "containers": [{"name": "c0"}, sidecar("c1", "AfterAppContainer"), sidecar("c2", "BeforeAppContainer")],
        "initContainers": [sidecar("i3", "BeforeAppContainer"), {"name": "i2"}, sidecar("i1", "AfterAppContainer"), sidecar("i0", "BeforeAppContainer")],
    });
    let mut old = pod(of(&["main", "other"]));
    old["spec"]["initContainers"] = of(&["prepare"]);
    let new = injected(&old, &[set("a", spec.clone())]);
    assert_eq!(
        names(&new, "containers"),
        ["c0", "c2", "main", "other", "c1"]
    );
    assert_eq!(
        names(&new, "initContainers"),
        ["i0", "i3", "prepare", "i1", "i2"]
    );
    let new = injected(&pod(of(&["main"])), &[set("a", spec)]);
    assert_eq!(names(&new, "initContainers"), ["i0", "i3", "i1", "i2"]);
}

#[test]
fn init_containers_of_all_are_sorted() {
    let sets = [
        set("a", json!({"initContainers": of(&["c", "a"])})),
        set("b", json!({"initContainers": of(&["b"])})),
    ];
    assert_eq!(
        names(&injected(&pod(of(&["main"])), &sets), "initContainers"),
        ["a", "b", "c"]
    );
}

#[test]
fn container_of_the_same_name_is_replaced_in_place() {
    let sets = [set("a", json!({"containers": of(&["agent", "new"])}))];
    let old = pod(
        json!([{"name": "main"}, {"name": "agent", "image": "old", "env": [{"name": "A", "value": "1"}]}]),
    );
    let once = run(&old, &sets, false, NOW);
    assert_eq!(names(&once.pod, "containers"), ["new", "main", "agent"]);
    assert_eq!(container(&once.pod, "agent")["image"], "agent:1");
    assert_eq!(
        variables(container(&once.pod, "agent")),
        ["IS_INJECTED=true"]
    );
    assert_eq!(
        once.warnings,
        ["container \"agent\" of the pod is replaced by that of SidecarSet \"a\""]
    );
    let twice = run(&once.pod, &sets, false, LATER);
    assert_eq!((twice.pod, twice.warnings), (once.pod, Vec::new()));
}

#[test]
fn counterfeit_beside_copied_records_is_replaced() {
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let agent = json!({
        "name": "agent", "image": "agent:1", "env": [{"name": "PORT", "value": "1"}], "securityContext": {"runAsUser": 1},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}], "livenessProbe": {"tcpSocket": {"port": 1}},
    });
    let sets = [set(
        "a",
        json!({"containers": [agent, {"name": "mesh", "image": "mesh:1", "upgradeStrategy": hot}], "volumes": [{"name": "v"}]}),
    )];
    let first = injected(&pod(of(&["main"])), &sets);
    let marked = |value: Value| json!([{"name": "IS_INJECTED", "value": "true"}, {"name": "PORT", "value": value}]);
    for (field, value) in [
        ("command", json!(["sleep", "inf"])),
        ("args", json!(["x"])),
        ("image", json!("evil:1")),
        ("env", marked(json!("9999"))),
        ("env", json!([])),
        ("envFrom", json!([{"secretRef": {"name": "s"}}])),
        ("securityContext", json!({"runAsUser": 0})),
        ("volumeMounts", json!([])),
        ("resources", json!({"limits": {"cpu": "1m"}})),
        ("livenessProbe", Value::Null),
        ("lifecycle", json!({"postStart": {"sleep": {"seconds": 9}}})),
        ("ports", json!([{"containerPort": 81}])),
        ("workingDir", json!("/tmp")),
        ("imagePullPolicy", json!("Never")),
    ] {
        for (at, name) in [(0, "agent"), (1, "mesh-1"), (2, "mesh-2")] {
            let mut forged = first.clone();
            assert_eq!(forged["spec"]["containers"][at]["name"], name);
            forged["spec"]["containers"][at][field] = value.clone();
            let found = run(&forged, &sets, false, LATER);
            assert_eq!(
                (&found.pod["spec"], found.refusals.len()),
                (&first["spec"], 0),
                "{name}: {field}"
            );
            let is_told = field == "image" || (field == "env" && value == json!([]));
            assert_eq!(
                found.warnings.len(),
                usize::from(is_told),
                "{name}: {field}"
            );
        }
    }
}

#[test]
fn second_call_refuses_for_the_same_reason() {
    let container = |name: &str| json!([{"name": name, "image": "i"}]);
    let pod = json!({
        "metadata": {"name": "web"}, "spec": {"containers": container("main"), "initContainers": container("mesh")},
    });
    let first = set(
        "a",
        json!({"containers": container("mesh"), "initContainers": container("sync")}),
    );
    for (what, brings, reason) in [
        (
            "another brings nothing of it",
            json!({"containers": container("log")}),
            "the pod has one of that name in spec.init",
        ),
        (
            "another brings one of its names",
            json!({"containers": container("sync")}),
            "the pod has one of that name in spec.cont",
        ),
    ] {
        let sets = [
            set("a", serde_json::to_value(&first.spec).unwrap()),
            set("b", brings),
        ];
        let once = run(&pod, &sets, false, NOW);
        assert!(
            matches!(&*once.refusals, [one] if one.sidecar_set == "a" && one.is_of_pod && one.reason.contains(reason)),
            "{what}: {once:?}"
        );
        let twice = run(&once.pod, &sets, false, LATER);
        assert_eq!(
            (twice.pod, twice.refusals),
            (once.pod, once.refusals),
            "{what}"
        );
    }
}

#[test]
fn two_containers_of_one_name_are_refused() {
    let twice = |spec: Value| set("b", spec);
    let table = [
        (
            twice(json!({"containers": of(&["agent"])})),
            "container \"agent\": SidecarSet \"a\" brings one of that name",
        ),
        (
            twice(json!({"initContainers": of(&["agent"])})),
            "container \"agent\": SidecarSet \"a\" brings one of that name",
        ),
        (
            twice(json!({"initContainers": of(&["main"])})),
            "container \"main\": the pod has one of that name in spec.containers",
        ),
        (
            twice(json!({"containers": of(&["prepare"])})),
            "container \"prepare\": the pod has one of that name in spec.initContainers",
        ),
        (
            twice(json!({"containers": of(&["x", "x"])})),
            "container \"x\": SidecarSet \"b\" brings one of that name",
        ),
    ];
    let mut old = pod(of(&["main"]));
    old["spec"]["initContainers"] = of(&["prepare"]);
    let first = || set("a", json!({"containers": of(&["agent"])}));
    let alone = injected(&old, &[first()]);
    for (second, expected) in table {
        let is_of_pod = expected.contains("the pod has");
        let found = run(&old, &[second, first()], false, NOW);
        assert_eq!(found.refusals[0].is_of_pod, is_of_pod, "{expected}");
        assert_eq!(found.pod, alone, "the other is injected");
        assert_eq!(found.refusals[0].sidecar_set, "b");
        assert!(
            found.refusals[0].reason.contains(expected),
            "{:?}",
            found.refusals
        );
    }
}

#[test]
fn a_hot_container_comes_as_a_pair() {
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let sidecar = json!({"name": "mesh", "image": "mesh:1", "upgradeStrategy": hot, "args": ["x"], "env": [{"name": "SIDECARSET_VERSION", "value": "mine"}]});
    let new = injected(
        &pod(of(&["main"])),
        &[set("a", json!({"containers": [sidecar, {"name": "log"}]}))],
    );
    assert_eq!(
        names(&new, "containers"),
        ["mesh-1", "mesh-2", "log", "main"]
    );
    for (name, image) in [("mesh-1", "mesh:1"), ("mesh-2", "empty:1")] {
        let container = container(&new, name);
        assert_eq!(
            (&container["image"], &container["args"]),
            (&json!(image), &json!(["x"]))
        );
        let expected = [
            "IS_INJECTED=true".to_owned(),
            format!(
                "SIDECARSET_VERSION=metadata.annotations['version.sidecarset.kruise.io/{name}']"
            ),
            format!(
                "SIDECARSET_VERSION_ALT=metadata.annotations['versionalt.sidecarset.kruise.io/{name}']"
            ),
        ];
        assert_eq!(variables(container), expected);
    }
    let annotations = &new["metadata"]["annotations"];
    for (key, value) in [
        ("version.sidecarset.kruise.io/mesh-1", "1"),
        ("version.sidecarset.kruise.io/mesh-2", "0"),
        ("versionalt.sidecarset.kruise.io/mesh-1", "0"),
        ("versionalt.sidecarset.kruise.io/mesh-2", "1"),
        (
            "kruise.io/sidecarset-working-hotupgrade-container",
            "{\"mesh\":\"mesh-1\"}",
        ),
    ] {
        assert_eq!(annotations[key], value, "{key}");
    }
    let record: Value =
        serde_json::from_str(annotations["kruise.io/sidecarset-hash"].as_str().unwrap()).unwrap();
    assert_eq!(record["a"]["sidecarList"], json!(["log", "mesh"]));
}

#[test]
fn hot_upgrade_pairs_native_but_not_init_containers() {
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let spec = json!({"initContainers": [
        {"name": "mesh", "image": "mesh:1", "restartPolicy": "Always", "upgradeStrategy": hot},
        {"name": "once", "image": "once:1", "upgradeStrategy": hot},
    ]});
    let other = set(
        "b",
        json!({"containers": [{"name": "envoy", "upgradeStrategy": hot}]}),
    );
    let new = injected(&pod(of(&["main"])), &[set("a", spec), other]);
    assert_eq!(names(&new, "initContainers"), ["mesh-1", "mesh-2", "once"]);
    let annotations = &new["metadata"]["annotations"];
    let working = &annotations["kruise.io/sidecarset-working-hotupgrade-container"];
    assert_eq!(working, "{\"envoy\":\"envoy-1\",\"mesh\":\"mesh-1\"}");
    let record: Value =
        serde_json::from_str(annotations["kruise.io/sidecarset-hash"].as_str().unwrap()).unwrap();
    assert_eq!(
        record["a"]["sidecarList"],
        json!(["mesh"]),
        "those that an update changes"
    );
}

#[test]
fn incomplete_hot_pair_is_replaced_as_a_whole() {
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let sets = [set(
        "a",
        json!({"containers": [{"name": "mesh", "image": "mesh:1", "upgradeStrategy": hot}]}),
    )];
    let new = injected(&pod(of(&["main"])), &sets);
    let mut half = new.clone();
    half["spec"]["containers"].as_array_mut().unwrap().remove(1);
    half["spec"]["containers"][0]["image"] = json!("empty:1");
    let found = run(&half, &sets, false, NOW);
    assert_eq!(
        found.pod["spec"]["containers"],
        json!([
            new["spec"]["containers"][1],
            new["spec"]["containers"][0],
            new["spec"]["containers"][2]
        ])
    );
}

#[test]
fn malformed_pod_is_refused_unchanged() {
    let sets = || [set("a", json!({"containers": of(&["agent"])}))];
    for no_pod in [
        json!(null),
        json!(1),
        json!([]),
        json!({}),
        json!({"metadata": {}, "spec": 1}),
        json!({"metadata": {}, "spec": {"containers": {}}}),
        json!({"metadata": {"annotations": []}, "spec": {}}),
        json!({"metadata": {}, "spec": {"volumes": "x"}}),
    ] {
        let found = run(&no_pod, &sets(), false, NOW);
        assert_eq!((&found.pod, found.refusals.len()), (&no_pod, 1));
    }
    let odd = json!({"metadata": {"annotations": null}, "spec": {"containers": [1, null, {"env": 1}, {"name": 2, "volumeMounts": [3]}]}});
    let found = run(&odd, &sets(), false, NOW);
    assert_eq!(found.refusals, []);
    assert_eq!(run(&found.pod, &sets(), false, LATER), found);
}

#[test]
fn nothing_comes_of_nothing() {
    let old = pod(of(&["main"]));
    assert_eq!(injected(&old, &[]), old);
    let empty = json!({"volumes": [{"name": "v"}], "imagePullSecrets": [{"name": "s"}], "patchPodMetadata": [{"annotations": {}}]});
    assert_eq!(injected(&old, &[set("a", empty)]), old);
}
