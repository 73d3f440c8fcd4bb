//! Values that sidecars share with the pod's own containers: variables, volumes, resources,
//! secrets.

use serde_json::json;

use super::*;

fn main_with(fields: Value) -> Value {
    let mut main = json!({"name": "main", "image": "main:1"});
    main.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    pod(json!([main]))
}

fn sidecar(fields: Value) -> Set {
    let mut agent = json!({"name": "agent", "image": "agent:1"});
    agent
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    set("a", json!({"containers": [agent]}))
}

fn env(variables: &[&str]) -> Value {
    let one = |text: &&str| {
        text.split_once('=')
            .map(|(name, value)| json!({"name": name, "value": value}))
    };
    variables.iter().filter_map(one).collect()
}

#[test]
fn variables_are_transferred_and_never_override() {
    let old = main_with(json!({"env": env(&["A=1", "B=2", "C=3", "A=4", "IS_INJECTED=no"])}));
    let from_main = |fields: Value| {
        let mut from = json!({"sourceContainerName": "main"});
        from.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        from
    };
    let table = [
        (
            json!([from_main(json!({"envName": "B"}))]),
            vec!["IS_INJECTED=true", "B=2"],
        ),
        (
            json!([from_main(json!({"envNames": ["C", "B"], "envName": "A"}))]),
            vec!["IS_INJECTED=true", "A=4", "B=2", "C=3"],
        ),
        (
            json!([from_main(json!({"envNames": ["missing", "IS_INJECTED"]}))]),
            vec!["IS_INJECTED=true"],
        ),
        (
            json!([{"sourceContainerName": "other", "envName": "A"}, {"envName": "A"}]),
            vec!["IS_INJECTED=true"],
        ),
        (
            json!([
                from_main(json!({})),
                from_main(json!({"envName": "C"})),
                from_main(json!({"envName": "B"}))
            ]),
            vec!["IS_INJECTED=true", "C=3", "B=2"],
        ),
    ];
    for (transfer, expected) in table {
        let new = injected(&old, &[sidecar(json!({"transferEnv": transfer}))]);
        assert_eq!(variables(container(&new, "agent")), expected, "{transfer}");
    }
    let own = json!({"env": env(&["A=own", "IS_INJECTED=false"]), "transferEnv": [from_main(json!({"envNames": ["A", "B"]}))]});
    let new = injected(&old, &[sidecar(own)]);
    assert_eq!(
        variables(container(&new, "agent")),
        ["A=own", "IS_INJECTED=true", "B=2"]
    );
}

#[test]
fn the_pod_names_the_container_of_a_variable() {
    let mut old = main_with(json!({"env": env(&["A=1"])}));
    old["metadata"]["labels"] = json!({"app": "main", "other": "absent"});
    old["metadata"]["annotations"] = json!({"example.com/Main": "main"});
    for (path, is_found) in [
        ("metadata.labels['app']", true),
        ("metadata.annotations['example.com/Main']", true),
        ("metadata.labels['other']", false),
        ("metadata.labels['none']", false),
        ("metadata.labels", false),
        ("metadata.name", false),
        ("spec.labels['app']", false),
        ("['app']", false),
        ("", false),
    ] {
        // If the name comes from a field of the pod, the fixed name beside it does not count.
        let from = json!({"sourceContainerName": "main", "sourceContainerNameFrom": {"fieldRef": {"fieldPath": path}}, "envName": "A"});
        let new = injected(&old, &[sidecar(json!({"transferEnv": [from]}))]);
        let expected = if is_found {
            vec!["IS_INJECTED=true", "A=1"]
        } else {
            vec!["IS_INJECTED=true"]
        };
        assert_eq!(variables(container(&new, "agent")), expected, "{path}");
    }
}

#[test]
fn containers_of_sidecarsets_lend_nothing() {
    let main = json!({"name": "main", "env": env(&["A=1"]), "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
    // A mark that the creator gives to a container of its own hides nothing.
    let marked = json!({"name": "marked", "env": env(&["B=1", "IS_INJECTED=true"]), "volumeMounts": [{"name": "f", "mountPath": "/f"}]});
    // The container is replaced: none of it will run.
    let log = json!({"name": "log", "env": env(&["C=1"]), "volumeMounts": [{"name": "l", "mountPath": "/log"}]});
    let from =
        |name: &str, variable: &str| json!({"sourceContainerName": name, "envName": variable});
    let transfer = json!([from("main", "A"), from("marked", "B"), from("log", "C")]);
    let agent = sidecar(json!({"transferEnv": transfer, "shareVolumePolicy": {"type": "enabled"}}));
    let ours = json!({"name": "log", "volumeMounts": [{"name": "m", "mountPath": "/m"}]});
    let sets = [
        agent,
        set(
            "b",
            json!({"containers": [ours], "volumes": [{"name": "m"}]}),
        ),
    ];
    let once = run(&pod(json!([main, marked, log])), &sets, false, NOW);
    let agent = container(&once.pod, "agent");
    assert_eq!(variables(agent), ["IS_INJECTED=true", "A=1", "B=1"]);
    let mounts = json!([{"name": "data", "mountPath": "/data"}, {"name": "f", "mountPath": "/f"}]);
    assert_eq!(agent["volumeMounts"], mounts);
    assert_eq!(run(&once.pod, &sets, false, LATER).pod, once.pod);
}

#[test]
fn mounts_and_devices_are_shared_at_free_paths() {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let device = |name: &str, path: &str| json!({"name": name, "devicePath": path});
    let mut old = main_with(json!({
        "volumeMounts": [mount("a", "/a"), mount("b", "/b"), mount("c", "/c"), mount("dup", "/a")],
        "volumeDevices": [device("d", "/d"), device("e", "/e"), device("f", "/c")],
    }));
    old["spec"]["volumes"] = json!([{"name": "own"}]);
    let own = json!({"volumeMounts": [mount("own", "/b"), mount("own", "/d")], "volumeDevices": [device("own", "/a")]});
    let on = json!({"type": "enabled"});
    let off = json!({"type": "disabled"});
    let table = [
        (&off, &off, json!(["/b", "/d"]), json!(["/a"])),
        (&on, &off, json!(["/b", "/d", "/c"]), json!(["/a"])),
        (&off, &on, json!(["/b", "/d"]), json!(["/a", "/e", "/c"])),
        (&on, &on, json!(["/b", "/d", "/c"]), json!(["/a", "/e"])),
    ];
    for (volumes, devices, mounts, device_paths) in table {
        let mut fields = own.clone();
        fields["shareVolumePolicy"] = volumes.clone();
        fields["shareVolumeDevicePolicy"] = devices.clone();
        let new = injected(&old, &[sidecar(fields)]);
        let paths = |list: &str, key: &str| {
            container(&new, "agent")[list]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item[key].clone())
                .collect::<Value>()
        };
        assert_eq!(
            paths("volumeMounts", "mountPath"),
            mounts,
            "{volumes} {devices}"
        );
        assert_eq!(
            paths("volumeDevices", "devicePath"),
            device_paths,
            "{volumes} {devices}"
        );
    }
    let new = injected(&old, &[sidecar(json!({}))]);
    assert_eq!(container(&new, "agent").get("volumeMounts"), None);
}

#[test]
fn mount_at_below_or_above_a_sidecars_is_not_shared() {
    let mount = |path: &str| json!({"name": "v", "mountPath": path});
    let paths = [
        "/etc/agent/",
        "//etc/./agent",
        "/etc/agent/tls",
        "/etc",
        "/",
        "/dev/x/",
        "/etc/agents",
        "/etc/b",
    ];
    let mut old = main_with(json!({"volumeMounts": paths.map(mount)}));
    old["spec"]["volumes"] = json!([{"name": "v"}]);
    let fields = json!({
        "shareVolumePolicy": {"type": "enabled"}, "volumeMounts": [mount("/etc/agent")],
        "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}],
    });
    let new = injected(&old, &[sidecar(fields)]);
    let expected = json!([mount("/etc/agent"), mount("/etc/agents"), mount("/etc/b")]);
    assert_eq!(container(&new, "agent")["volumeMounts"], expected);
}

#[test]
fn sharing_takes_steps_by_the_size_of_the_pod() {
    // One step for each pair would be 10^11 steps, which take minutes.
    let mount = |at: usize, expression: &str| json!({"name": "v", "mountPath": format!("/v/{at}"), "subPathExpr": expression});
    let variables: Vec<Value> = (0..4_500)
        .map(|at| json!({"name": format!("V{at}"), "value": "x"}))
        .collect();
    let used: String = (0..4_500).map(|at| format!("$(V{at})")).collect();
    let mounts = [
        mount(0, &"$(".repeat(650_000)),
        mount(1, &"$(b)".repeat(300_000)),
        mount(2, &used),
    ];
    let mut old = main_with(json!({"env": variables, "volumeMounts": mounts}));
    old["spec"]["volumes"] = json!([{"name": "v"}]);
    let new = run(
        &old,
        &[sidecar(json!({"shareVolumePolicy": {"type": "enabled"}}))],
        false,
        NOW,
    );
    // The sidecar has IS_INJECTED beside the shared variables.
    assert_eq!(
        container(&new.pod, "agent")["env"]
            .as_array()
            .unwrap()
            .len(),
        4_501
    );
}

#[test]
fn shared_sub_path_adds_its_variables() {
    let mut old = main_with(json!({
        "env": env(&["POD=web-0", "ODD=1", "OTHER=2", "USED=3"]),
        "volumeMounts": [
            {"name": "logs", "mountPath": "/logs", "subPathExpr": "foo/$(ODD)/$(POD)/$(MISSING)/$$(OTHER)"},
            {"name": "data", "mountPath": "/taken", "subPathExpr": "$(USED)"},
        ],
    }));
    old["spec"]["volumes"] = json!([{"name": "x"}]);
    let fields = json!({
        "shareVolumePolicy": {"type": "enabled"}, "env": env(&["ODD=own"]), "volumeMounts": [{"name": "x", "mountPath": "/taken"}],
        "transferEnv": [{"sourceContainerName": "main", "envName": "OTHER"}],
    });
    let new = injected(&old, &[sidecar(fields)]);
    assert_eq!(
        variables(container(&new, "agent")),
        ["ODD=own", "IS_INJECTED=true", "OTHER=2", "POD=web-0"]
    );
}

#[test]
fn only_used_volumes_come_and_the_pods_own_wins() {
    let volume = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path}});
    let mount = |name: &str| json!([{"name": name, "mountPath": format!("/{name}")}]);
    let first = json!({
        "volumes": [volume("a", "/1"), volume("b", "/1"), volume("c", "/1"), volume("unused", "/1"), volume("d", "/1")],
        "containers": [{"name": "x", "volumeMounts": mount("b")}, {"name": "y", "volumeDevices": [{"name": "d", "devicePath": "/d"}]}],
        "initContainers": [{"name": "i", "volumeMounts": mount("a")}],
    });
    let second = json!({"volumes": [volume("b", "/2"), volume("c", "/2")], "containers": [{"name": "z", "volumeMounts": [mount("b")[0], mount("c")[0]]}]});
    let mut old = pod(json!([{"name": "main"}]));
    old["spec"]["volumes"] = json!([volume("a", "/own"), {"name": "later", "laterSource": {}}]);
    let new = injected(&old, &[set("a", first), set("b", second)]);
    let expected = json!([volume("a", "/own"), {"name": "later", "laterSource": {}}, volume("b", "/1"), volume("d", "/1"), volume("c", "/2")]);
    assert_eq!(new["spec"]["volumes"], expected);
}

#[test]
fn missing_volume_keeps_no_container_away() {
    let file = json!({"fileKeyRef": {"volumeName": "data", "path": "a", "key": "A"}});
    let lists = [
        (
            "volumeMounts",
            json!([{"name": "data", "mountPath": "/data"}]),
        ),
        (
            "volumeDevices",
            json!([{"name": "data", "devicePath": "/data"}]),
        ),
        ("env", json!([{"name": "A", "valueFrom": file}])),
    ];
    let volumes = |names: &[&str]| {
        names
            .iter()
            .map(|name| json!({"name": name}))
            .collect::<Value>()
    };
    for (what, of_pod, of_set, of_other, is_there) in [
        ("the pod has it", &["data"][..], &[][..], &[][..], true),
        ("the set has it", &[], &["data"], &[], true),
        (
            "another set brings it, which comes later",
            &[],
            &[],
            &["data"],
            true,
        ),
        (
            "no volume has its name",
            &["other"],
            &["other"],
            &["other"],
            false,
        ),
    ] {
        for (list, mounts) in &lists {
            let agent = json!({"name": "agent", (*list): mounts});
            let one = set(
                "a",
                json!({"containers": [{"name": "first"}, agent], "volumes": volumes(of_set)}),
            );
            let of_log = if of_other.contains(&"data") {
                mounts.clone()
            } else {
                json!([])
            };
            let log = json!([{"name": "log", (*list): of_log}]);
            let other = set(
                "b",
                json!({"containers": log, "volumes": volumes(of_other)}),
            );
            let mut old = pod(json!([{"name": "main"}]));
            old["spec"]["volumes"] = volumes(of_pod);
            let found = run(&old, &[one, other], false, NOW);
            assert_eq!(found.refusals, [], "{what}, {list}");
            assert_eq!(
                names(&found.pod, "containers"),
                ["first", "agent", "log", "main"],
                "{what}, {list}"
            );
            assert_eq!(
                names(&found.pod, "volumes").contains(&"data".to_owned()),
                is_there,
                "{what}, {list}"
            );
            let warning = "container \"agent\" of SidecarSet \"a\": the pod has no volume \"data\", which it uses; add it to spec.volumes";
            assert_eq!(
                found.warnings,
                (!is_there)
                    .then_some(warning)
                    .into_iter()
                    .collect::<Vec<_>>(),
                "{what}, {list}"
            );
        }
    }
}

#[test]
fn pull_secrets_are_joined_by_name() {
    let secrets = |names: &[&str]| {
        names
            .iter()
            .map(|name| json!({"name": name}))
            .collect::<Value>()
    };
    let spec = |container: &str, of: &[&str]| json!({"containers": [{"name": container}], "imagePullSecrets": secrets(of)});
    let mut old = pod(json!([{"name": "main"}]));
    old["spec"]["imagePullSecrets"] = secrets(&["own", "a"]);
    let new = injected(
        &old,
        &[
            set("a", spec("x", &["a", "b"])),
            set("b", spec("y", &["c", "b"])),
        ],
    );
    assert_eq!(
        new["spec"]["imagePullSecrets"],
        secrets(&["own", "a", "b", "c"])
    );
}

#[test]
fn resources_derive_from_own_and_native_containers() {
    let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}, "requests": {"cpu": "cpu"}}});
    let limit = |name: &str, cpu: &str| json!({"name": name, "restartPolicy": "Always", "resources": {"limits": {"cpu": cpu}}});
    let mut old = pod(json!([limit("main", "1"), limit("mesh-1", "16")]));
    old["spec"]["initContainers"] =
        json!([limit("native", "2"), {"name": "once", "resources": {"limits": {"cpu": "8"}}}]);
    let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
    let spec = json!({
        "containers": [{"name": "mesh", "resourcesPolicy": policy, "upgradeStrategy": hot}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resourcesPolicy": policy, "resources": {"limits": {"memory": "1Gi"}}}],
    });
    let sets = [set("a", spec)];
    let once = run(&old, &sets, false, NOW);
    for name in ["mesh-1", "mesh-2", "i"] {
        let expected = json!({"limits": {"cpu": "1500m"}, "requests": {"cpu": "1500m"}});
        assert_eq!(container(&once.pod, name)["resources"], expected, "{name}");
    }
    assert_eq!(run(&once.pod, &sets, false, LATER).pod, once.pod);
}

#[test]
fn policy_without_result_keeps_no_container_away() {
    let policy = |cpu: &str, regex: &str| json!({"targetContainersMode": "sum", "targetContainersNameRegex": regex, "resourcesExpr": {"requests": {"cpu": cpu}}});
    let own = json!({"requests": {"cpu": "1"}});
    for (what, policy, amount, expected) in [
        (
            "below zero",
            policy("cpu - 1", ""),
            "0",
            "resourcesExpr.requests.cpu, with cpu = 0: the result is below zero",
        ),
        (
            "no amount",
            policy("cpu*cpu", ""),
            "1",
            "two amounts cannot be multiplied",
        ),
        (
            "no such container",
            policy("cpu", "^x$"),
            "1",
            "no container of the pod's own has a name with \"^x$\"",
        ),
        (
            "no quantity",
            policy("cpu", ""),
            "1e400",
            "resources.requests.cpu: \"1e400\" is no quantity",
        ),
    ] {
        let old = main_with(json!({"resources": {"requests": {"cpu": amount}}}));
        let sets = [sidecar(
            json!({"resourcesPolicy": policy, "resources": own}),
        )];
        let once = run(&old, &sets, false, NOW);
        assert_eq!(
            (
                once.refusals.len(),
                &container(&once.pod, "agent")["resources"]
            ),
            (0, &own),
            "{what}"
        );
        assert!(
            matches!(&*once.warnings, [one] if one.contains(expected)),
            "{what}: {:?}",
            once.warnings
        );
        assert_eq!(
            run(&once.pod, &sets, false, LATER),
            once,
            "{what}: twice is once"
        );
    }
}
