//! The order in which containers start, from the pod's containers and those of SidecarSets.

use berth_api::names::annotation::{
    CONTAINER_LAUNCH_ORDERED, CONTAINER_LAUNCH_PRIORITY, CONTAINER_LAUNCH_PRIORITY_COMPLETED,
    LAUNCHED_PRIORITY,
};

use super::*;

/// A container with a priority, if it has one.
fn of(name: &str, priority: Option<&str>) -> Value {
    let variable = |value: &str| json!({"name": "KRUISE_CONTAINER_PRIORITY", "value": value});
    json!({"name": name, "image": "a:1", "env": priority.into_iter().map(variable).collect::<Vec<_>>()})
}

/// A container that its workload has ordered.
fn ordered(name: &str, priority: &str) -> Value {
    let mut container = of(name, Some(priority));
    container["env"]
        .as_array_mut()
        .unwrap()
        .push(barrier("web", &format!("p_{priority}")));
    container
}

fn barrier(pod: &str, key: &str) -> Value {
    let reference = json!({"name": format!("{pod}-barrier"), "key": key});
    json!({"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": reference}})
}

/// The keys that the containers of a pod wait for, as `container=ConfigMap/key`.
fn waits(pod: &Value) -> Vec<String> {
    let mut waits = Vec::new();
    for container in pod["spec"]["containers"].as_array().unwrap() {
        let env = container["env"].as_array().into_iter().flatten();
        for variable in env.filter(|variable| variable["name"] == "KRUISE_CONTAINER_BARRIER") {
            let of = &variable["valueFrom"]["configMapKeyRef"];
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            waits.push(format!(
                "{}={}/{}",
                text(&container["name"]),
                text(&of["name"]),
                text(&of["key"])
            ));
        }
    }
    waits
}

#[test]
fn launch_order_follows_priorities_after_injection() {
    let after = |priority| {
        let mut sidecar = of("log", priority);
        sidecar["podInjectPolicy"] = json!("AfterAppContainer");
        sidecar
    };
    let transferred = json!({
        "name": "log", "image": "a:1", "podInjectPolicy": "AfterAppContainer",
        "transferEnv": [{"sourceContainerName": "main", "envName": "KRUISE_CONTAINER_PRIORITY"}],
    });
    let two = || json!([of("main", None), of("help", None)]);
    for (what, containers, sidecar, expected) in [
        ("no container has a priority", two(), after(None), &[][..]),
        (
            "the same of all",
            json!([of("main", Some("3"))]),
            after(Some("3")),
            &[],
        ),
        (
            "a sidecar goes first",
            json!([of("main", None)]),
            after(Some("1")),
            &["main=web-barrier/p_0", "log=web-barrier/p_1"],
        ),
        (
            "a sidecar goes last",
            json!([of("main", None)]),
            after(Some("-2")),
            &["main=web-barrier/p_0", "log=web-barrier/p_-2"],
        ),
        (
            "the pod's own",
            json!([of("main", Some("5")), of("help", None)]),
            after(None),
            &["main=web-barrier/p_5", "help=web-barrier/p_0"],
        ),
        (
            "one of the pod's own",
            json!([of("main", Some("5"))]),
            after(None),
            &["main=web-barrier/p_5"],
        ),
        (
            "the pod's own goes behind",
            json!([of("main", Some("-5"))]),
            after(None),
            &["main=web-barrier/p_-5", "log=web-barrier/p_0"],
        ),
        (
            "its workload has ordered them",
            json!([ordered("main", "5"), ordered("help", "1")]),
            after(Some("9")),
            &[
                "main=web-barrier/p_5",
                "help=web-barrier/p_1",
                "log=web-barrier/p_9",
            ],
        ),
        (
            "a copy of another pod",
            json!([{"name": "main", "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "2"}, barrier("other", "p_7")]}]),
            after(None),
            &["main=web-barrier/p_2"],
        ),
        (
            "a transferred priority",
            json!([of("main", Some("4")), of("help", None)]),
            transferred,
            &[
                "main=web-barrier/p_4",
                "help=web-barrier/p_0",
                "log=web-barrier/p_4",
            ],
        ),
    ] {
        let set = set("log", json!({"containers": [sidecar]}));
        assert_eq!(
            waits(&injected(&pod(containers), &[set])),
            expected,
            "{what}"
        );
    }
}

#[test]
fn annotation_of_pod_or_set_orders_all_containers() {
    let of_pod = {
        let mut pod = pod(json!([of("main", None)]));
        pod["metadata"]["annotations"] =
            json!({CONTAINER_LAUNCH_PRIORITY: CONTAINER_LAUNCH_ORDERED});
        (pod, json!([]))
    };
    let of_set = json!([{"annotations": {CONTAINER_LAUNCH_PRIORITY: CONTAINER_LAUNCH_ORDERED}, "patchPolicy": "Retain"}]);
    for (pod, patches) in [of_pod, (pod(json!([of("main", None)])), of_set)] {
        let set = set(
            "log",
            json!({"containers": [of("log", None)], "patchPodMetadata": patches}),
        );
        let expected = ["log=web-barrier/p_0", "main=web-barrier/p_-1"];
        assert_eq!(waits(&injected(&pod, &[set])), expected, "{patches}");
    }
}

#[test]
fn sidecar_without_a_priority_waits_for_no_own_one() {
    let sidecar = |place: &str| {
        json!({
            "name": "log", "image": "a:1", "podInjectPolicy": place, "shareVolumePolicy": {"type": "enabled"},
        })
    };
    // The path would put the variable, and so the last position, into the sidecar.
    let mut main = of("main", Some("-9"));
    main["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/v", "subPathExpr": "$(KRUISE_CONTAINER_PRIORITY)"}]);
    let ready_never = || json!([of("help", Some("10")), main.clone()]);
    let ordered = json!({CONTAINER_LAUNCH_PRIORITY: CONTAINER_LAUNCH_ORDERED});
    for (what, place, annotations, expected) in [
        (
            "by a number",
            "AfterAppContainer",
            json!({}),
            &["help=web-barrier/p_10", "main=web-barrier/p_-9"][..],
        ),
        (
            "behind, as listed",
            "AfterAppContainer",
            ordered.clone(),
            &["help=web-barrier/p_0", "main=web-barrier/p_-1"],
        ),
        (
            "before, as listed",
            "BeforeAppContainer",
            ordered,
            &[
                "log=web-barrier/p_0",
                "help=web-barrier/p_-1",
                "main=web-barrier/p_-2",
            ],
        ),
    ] {
        let mut pod = pod(ready_never());
        pod["metadata"]["annotations"] = annotations;
        let set = set("log", json!({"containers": [sidecar(place)]}));
        assert_eq!(waits(&injected(&pod, &[set])), expected, "{what}");
    }
}

#[test]
fn generated_name_is_set_only_for_a_launch_order() {
    let long = "x".repeat(70);
    for (base, priority, name) in [
        (
            "web-",
            Some("1"),
            Some(format!("web-{}", &NOW[NOW.len() - 5..])),
        ),
        (
            &*long,
            Some("1"),
            Some(format!("{}{}", "x".repeat(58), &NOW[NOW.len() - 5..])),
        ),
        ("web-", None, None),
    ] {
        let mut pod = pod(json!([of("main", None)]));
        pod["metadata"] = json!({"generateName": base});
        let new = injected(
            &pod,
            &[set("log", json!({"containers": [of("log", priority)]}))],
        );
        assert_eq!(new["metadata"]["name"].as_str(), name.as_deref(), "{base}");
        let barrier = name.map(|name| format!("log={name}-barrier/p_1"));
        assert_eq!(waits(&new).first(), barrier.as_ref(), "{base}");
    }
}

#[test]
fn no_container_waits_for_an_impossible_barrier() {
    let sidecars = || [set("log", json!({"containers": [of("log", Some("1"))]}))];
    let mut long = pod(json!([of("main", None)]));
    long["metadata"]["name"] = json!("x".repeat(246));
    let mut nameless = pod(json!([of("main", None)]));
    nameless["metadata"] = json!({});
    let odd = pod(json!([of("main", Some("first"))]));
    for (pod, warning) in [
        (long, Some("name is too long")),
        (odd, Some("\"first\"")),
        (nameless, None),
    ] {
        let new = run(&pod, &sidecars(), false, NOW);
        assert!(waits(&new.pod).is_empty(), "{:?}", new.pod);
        let said = new.warnings.concat();
        assert!(
            warning.map_or(said.is_empty(), |warning| said.contains(warning)),
            "{said}"
        );
    }
}

#[test]
fn invalid_priority_keeps_the_workloads_launch_order() {
    let sidecar = set("log", json!({"containers": [of("log", Some("last"))]}));
    let new = run(
        &pod(json!([ordered("main", "5"), ordered("help", "1")])),
        &[sidecar],
        false,
        NOW,
    );
    assert_eq!(
        waits(&new.pod),
        ["main=web-barrier/p_5", "help=web-barrier/p_1"]
    );
}

#[test]
fn launch_progress_is_not_copied() {
    let mut pod = pod(json!([of("main", Some("1"))]));
    pod["metadata"]["annotations"] = json!({CONTAINER_LAUNCH_PRIORITY_COMPLETED: "true", LAUNCHED_PRIORITY: "0", "of": "others"});
    let new = injected(
        &pod,
        &[set("log", json!({"containers": [of("log", None)]}))],
    );
    let annotations = new["metadata"]["annotations"].as_object().unwrap();
    assert!(
        !annotations.contains_key(CONTAINER_LAUNCH_PRIORITY_COMPLETED)
            && !annotations.contains_key(LAUNCHED_PRIORITY)
    );
    assert_eq!(annotations["of"], "others");
}
