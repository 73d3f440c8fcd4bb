use serde_json::{Value, json};

use super::*;
use crate::objects::node::image::NodeFacts;
use crate::update::inplace::change::{Change, between};
use crate::update::inplace::exact::{UpdateDecision, judge};
use crate::update::inplace::state::State;

fn template(resources: Value) -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": "web:1", "resources": resources}]}})
}

fn burstable() -> Value {
    json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}})
}

/// The result of a change of resources, as text: the writes, or the fields that prevent it.
fn outcome(old: Value, new: Value, ability: Ability) -> String {
    match between(&template(old), &template(new), ability) {
        Change::Recreate { fields } => fields
            .join(", ")
            .replace("template.spec.containers[main].", ""),
        Change::InPlace(patch) => {
            let amounts = patch.resources.values().flat_map(Resize::amounts);
            let texts: Vec<_> = amounts
                .map(|(kind, resource, amount)| format!("{kind}.{resource}={amount}"))
                .collect();
            texts.join(" ")
        }
    }
}

#[test]
fn cpu_and_memory_resize_in_place_and_others_do_not() {
    let full = |cpu: &str| json!({"limits": {"cpu": cpu, "memory": "1Gi"}});
    let table = [
        (
            "more of everything",
            burstable(),
            json!({"requests": {"cpu": "200m", "memory": "65Mi"}, "limits": {"memory": "129Mi"}}),
            "limits.memory=129Mi requests.cpu=200m requests.memory=65Mi",
        ),
        (
            "the same in other words",
            burstable(),
            json!({"requests": {"cpu": 0.1, "memory": "65536Ki"}, "limits": {"memory": "128Mi"}}),
            "",
        ),
        (
            "a request that is not named is as high as the limit",
            full("1"),
            full("2"),
            "limits.cpu=2 requests.cpu=2",
        ),
        (
            "a request that is named no more",
            json!({"requests": {"cpu": "1", "memory": "1Ki"}, "limits": {"cpu": "2"}}),
            json!({"requests": {"memory": "1Ki"}, "limits": {"cpu": "2"}}),
            "requests.cpu=2",
        ),
        (
            "a limit is added",
            burstable(),
            json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi", "cpu": "1"}}),
            "limits.cpu=1",
        ),
        (
            "a limit is taken away",
            burstable(),
            json!({"requests": {"cpu": "100m", "memory": "64Mi"}}),
            "resources.limits.memory",
        ),
        (
            "another resource",
            burstable(),
            json!({"requests": {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Gi"}, "limits": {"memory": "128Mi"}}),
            "resources.requests.ephemeral-storage, ",
        ),
        (
            "a claim",
            burstable(),
            json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}, "claims": [{"name": "gpu"}]}),
            "resources",
        ),
        (
            "no quantity",
            burstable(),
            json!({"requests": {"cpu": "much", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}),
            "resources.requests.cpu",
        ),
        (
            "another quality of service",
            burstable(),
            json!({"requests": {"cpu": "1", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}}),
            "resources (its quality of service cannot change from Burstable to Guaranteed)",
        ),
        (
            "the first request",
            json!({}),
            json!({"requests": {"cpu": "1"}}),
            "resources (its quality of service cannot change from BestEffort to Burstable)",
        ),
    ];
    for (what, old, new, expected) in table {
        let outcome = outcome(old, new, Ability::On);
        assert!(
            outcome == expected
                || (expected.ends_with(", ")
                    && outcome.starts_with(expected.trim_end_matches(", "))),
            "{what}: {outcome}"
        );
    }
}

#[test]
fn without_gate_or_subresource_pods_are_recreated() {
    let more =
        json!({"requests": {"cpu": "200m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}});
    assert_eq!(
        outcome(burstable(), more.clone(), Ability::Off),
        "resources"
    );
    let missing = outcome(burstable(), more, Ability::Missing);
    assert_eq!(
        missing,
        "resources (this cluster has no pods/resize; Kubernetes 1.33 and later do)"
    );
}

#[test]
fn resize_policy_decides_whether_container_restarts() {
    let mut old = template(burstable());
    old["spec"]["containers"][0]["resizePolicy"] = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}, {"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    for (kind, resource, amount, expected) in [
        ("requests", "cpu", "1", false),
        ("requests", "memory", "65Mi", true),
        ("limits", "memory", "1Gi", true),
    ] {
        let mut new = old.clone();
        new["spec"]["containers"][0]["resources"][kind][resource] = json!(amount);
        let Change::InPlace(patch) = between(&old, &new, Ability::On) else {
            panic!("{kind}.{resource}")
        };
        assert_eq!(
            patch.resources["main"].restarts, expected,
            "{kind}.{resource}"
        );
    }
}

/// A container that restarts for memory, with these resources: requests of cpu and memory, then
/// limits.
fn restarting(name: &str, [cpu, memory, cpu_limit, memory_limit]: [&str; 4]) -> Value {
    let amounts = |cpu: &str, memory: &str| {
        let given = [("cpu", cpu), ("memory", memory)]
            .into_iter()
            .filter(|(_, amount)| !amount.is_empty());
        Value::Object(
            given
                .map(|(resource, amount)| (resource.to_owned(), json!(amount)))
                .collect(),
        )
    };
    json!({
        "name": name, "resources": {"requests": amounts(cpu, memory), "limits": amounts(cpu_limit, memory_limit)},
        "resizePolicy": [
            {"resourceName": "memory", "restartPolicy": "RestartContainer"}, {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        ],
    })
}

#[test]
fn only_resources_with_restart_policy_restart() {
    const USUAL: [&str; 4] = ["1", "1Gi", "2", "2Gi"];
    let of = |all: [&str; 4]| json!({"spec": {"containers": [restarting("main", all), restarting("other", USUAL)]}});
    for (old, new, expected) in [
        (USUAL, USUAL, false),
        (USUAL, ["1500m", "1Gi", "3", "2Gi"], false),
        (USUAL, ["1", "1Gi", "", "2Gi"], false),
        (USUAL, ["1", "1024Mi", "2", "2147483648"], false),
        (USUAL, ["1", "1100Mi", "2", "2Gi"], true),
        (USUAL, ["1", "1Gi", "2", "3Gi"], true),
        (USUAL, ["1", "1Gi", "2", ""], true),
        (["1", "1Gi", "2", ""], USUAL, true),
        (["1", "", "2", ""], ["1", "1Gi", "2", ""], true),
        (["1", "1Gi", "2", ""], ["1", "", "2", ""], true),
        (["1", "1Gi", "2", "9Pi"], ["1", "1Gi", "2", "10Pi"], true),
        (["1", "1Gi", "2", "some"], ["1", "1Gi", "2", "more"], true),
    ] {
        let expected = if expected { vec!["main"] } else { Vec::new() };
        assert_eq!(restarted(&of(old), &of(new)), expected, "{old:?} {new:?}");
    }
    assert_eq!(
        restarted(&Value::Null, &of(USUAL)),
        ["main", "other"],
        "the old resources are unknown"
    );
}

#[test]
fn restart_covers_sidecars_and_postponed_resizes() {
    let small = ["1", "1Gi", "1", "1Gi"];
    let (more_cpu, more_memory) = (["2", "1Gi", "2", "1Gi"], ["1", "2Gi", "1", "2Gi"]);
    let sidecar = |resources, policy: Value| {
        let mut container = restarting("main", resources);
        container["restartPolicy"] = policy;
        json!({"spec": {"initContainers": [container]}})
    };
    let has = |resources, given: Value| {
        let given = json!([{"name": "main", "resources": given}]);
        json!({"spec": {"containers": [restarting("main", resources)]}, "status": {"containerStatuses": given}})
    };
    let given = |resources| restarting("main", resources)["resources"].clone();
    let of_pod = |memory: &str| {
        let mut pod = has(small, Value::Null);
        pod["spec"]["resources"] = json!({"limits": {"memory": memory}});
        pod
    };
    for (what, old, new, expected) in [
        (
            "a sidecar",
            sidecar(small, json!("Always")),
            sidecar(more_memory, json!("Always")),
            true,
        ),
        (
            "its cpu",
            sidecar(small, json!("Always")),
            sidecar(more_cpu, json!("Always")),
            false,
        ),
        (
            "one that has ended",
            sidecar(small, Value::Null),
            sidecar(more_memory, Value::Null),
            false,
        ),
        (
            "it has what it had",
            has(small, given(small)),
            has(more_cpu, given(small)),
            false,
        ),
        (
            "its status shows no resources",
            has(small, Value::Null),
            has(more_cpu, Value::Null),
            false,
        ),
        (
            "memory was put off",
            has(more_memory, given(small)),
            has(["2", "2Gi", "2", "2Gi"], given(small)),
            true,
        ),
        ("of the pod as a whole", of_pod("4Gi"), of_pod("5Gi"), true),
        (
            "which stays as it is",
            of_pod("4Gi"),
            of_pod("4096Mi"),
            false,
        ),
    ] {
        let expected = if expected { vec!["main"] } else { Vec::new() };
        assert_eq!(restarted(&old, &new), expected, "{what}");
    }
}

#[test]
fn next_resize_keeps_amounts_of_unproven_one() {
    let resize = |kind: &str, resource: &str, amount: &str| {
        let mut resize = Resize::default();
        resize
            .of_kind(kind)
            .insert(resource.to_owned(), amount.to_owned());
        Resizes::from([("main".to_owned(), resize)])
    };
    let all = joined(
        Some(&resize("limits", "memory", "1Gi")),
        &resize("requests", "cpu", "1"),
    );
    let texts: Vec<_> = all["main"].amounts().collect();
    assert_eq!(
        texts,
        [("limits", "memory", "1Gi"), ("requests", "cpu", "1")]
    );
    let back = joined(
        Some(&resize("requests", "cpu", "9")),
        &resize("requests", "cpu", "1"),
    );
    assert_eq!(back, resize("requests", "cpu", "1"));
    assert_eq!(joined(None, &back), back);
}

/// A pod with these cpu requests in its spec and its status, and this condition.
fn pod(spec: &str, status: &str, observed: i64, condition: Value) -> Pod {
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "1Mi"}});
    let pod = json!({
        "metadata": {"name": "web-1", "generation": 2},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "web:1", "resources": requests(spec)}]},
        "status": {
            "observedGeneration": observed, "conditions": [condition],
            "containerStatuses": [{"name": "main", "containerID": "c://1", "resources": requests(status)}],
        },
    });
    serde_json::from_value(pod).unwrap()
}

#[test]
fn resize_is_exact_when_the_kubelet_reports_it() {
    let none = json!({"type": "Ready", "status": "True"});
    let resizing = |kind: &str, reason: &str| json!({"type": format!("PodResize{kind}"), "status": "True", "reason": reason, "message": "no room"});
    let requests = [("cpu".to_owned(), "2".to_owned())].into();
    let state = State {
        update_resources: true,
        resources: [(
            "main".to_owned(),
            Resize {
                requests,
                ..Resize::default()
            },
        )]
        .into(),
        ..State::default()
    };
    let table = [
        ("not written", pod("1", "1", 2, none.clone()), "write"),
        ("not seen", pod("2", "1", 1, none.clone()), "has not seen"),
        (
            "not seen, and a word of before",
            pod("2", "1", 1, resizing("Pending", "Infeasible")),
            "has not seen",
        ),
        (
            "seen",
            pod("2", "1", 2, none.clone()),
            "does not have its new resources yet",
        ),
        (
            "in progress",
            pod("2", "1", 2, resizing("InProgress", "")),
            "is being resized on node n1: no room",
        ),
        (
            "had, but in progress",
            pod("2", "2", 2, resizing("InProgress", "")),
            "is being resized on node n1",
        ),
        (
            "put off",
            pod("2", "1", 2, resizing("Pending", "Deferred")),
            "until node n1 has room (container main, requests.cpu from 1 to 2): no room;",
        ),
        (
            "refused",
            pod("2", "500m", 2, resizing("Pending", "Infeasible")),
            "cannot be resized on node n1 (container main, requests.cpu from 500m to 2); the kubelet says: no room; ask",
        ),
        ("done", pod("2", "2", 2, none), "exact"),
    ];
    for (what, pod, expected) in table {
        let said = match judge(&pod, &state, &NodeFacts::default()) {
            UpdateDecision::Proven { verified_by, .. } => format!("exact, says the {verified_by}"),
            UpdateDecision::Resize(missing) => format!("write {missing:?}"),
            UpdateDecision::Wait(why) | UpdateDecision::NeedsDaemon(why) => why,
        };
        assert!(said.contains(expected), "{what}: {said}");
    }
    assert_eq!(
        refused(&pod("2", "1", 2, resizing("Pending", "Deferred")))
            .unwrap()
            .0,
        "ResizeDeferred"
    );
}

#[test]
fn only_sidecar_init_containers_are_resized() {
    let container = |cpu: &str, policy: &str| {
        let mut container = restarting("mesh", [cpu, "1Gi", "", ""]);
        container["restartPolicy"] = json!(policy);
        container["image"] = json!("mesh:1");
        container
    };
    let template = |init: Value| {
        let mut template = template(burstable());
        template["spec"]["initContainers"] = json!([init]);
        template
    };
    let with = |mut container: Value, key: &str, value: Value| {
        container[key] = value;
        container
    };
    let sidecar = |cpu: &str| container(cpu, "Always");
    let field = "template.spec.initContainers[mesh]";
    for (what, old, new, ability, expected) in [
        ("cpu", sidecar("1"), sidecar("2"), Ability::On, Ok(false)),
        (
            "memory, which restarts it",
            sidecar("1"),
            with(
                sidecar("1"),
                "resources",
                json!({"requests": {"cpu": "1", "memory": "2Gi"}}),
            ),
            Ability::On,
            Ok(true),
        ),
        (
            "one that ends",
            container("1", "Never"),
            container("2", "Never"),
            Ability::On,
            Err(format!("{field}.resources")),
        ),
        (
            "one that becomes a sidecar",
            container("1", "Never"),
            sidecar("2"),
            Ability::On,
            Err(format!("{field}.resources")),
        ),
        (
            "its image",
            sidecar("1"),
            with(sidecar("1"), "image", json!("mesh:2")),
            Ability::On,
            Err(format!("{field}.image")),
        ),
        (
            "the gate is off",
            sidecar("1"),
            sidecar("2"),
            Ability::Off,
            Err(format!("{field}.resources")),
        ),
        (
            "no subresource",
            sidecar("1"),
            sidecar("2"),
            Ability::Missing,
            Err(format!("{field}.resources (this cluster has no")),
        ),
        (
            "a claim",
            sidecar("1"),
            with(
                sidecar("1"),
                "resources",
                json!({"claims": [{"name": "gpu"}]}),
            ),
            Ability::On,
            Err(format!("{field}.resources")),
        ),
    ] {
        match (between(&template(old), &template(new), ability), expected) {
            (Change::InPlace(patch), Ok(restarts)) => {
                let resize = &patch.resources["mesh"];
                assert_eq!(
                    (patch.resources.len(), resize.sidecar, resize.restarts),
                    (1, true, restarts),
                    "{what}"
                );
            }
            (Change::Recreate { fields }, Err(field)) => {
                assert!(fields[0].starts_with(&field), "{what}: {fields:?}")
            }
            (change, _) => panic!("{what}: {change:?}"),
        }
    }
}

#[test]
fn sidecar_resize_is_exact_when_its_status_shows_it() {
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let pod = |spec: &str, status: &str| -> Pod {
        let of = |name: &str, resources: Value| json!({"name": name, "containerID": "c://1", "resources": resources});
        let mut mesh = of("mesh", requests(spec));
        mesh["restartPolicy"] = json!("Always");
        serde_json::from_value(json!({
            "metadata": {"name": "web-1"},
            "spec": {"nodeName": "n1", "initContainers": [mesh], "containers": [of("main", requests("1"))]},
            "status": {
                "initContainerStatuses": [of("mesh", requests(status))], "containerStatuses": [of("main", requests("1"))],
            },
        }))
        .unwrap()
    };
    let resize = Resize {
        requests: [("cpu".to_owned(), "2".to_owned())].into(),
        ..Resize::default()
    };
    let resources: Resizes = [("mesh".to_owned(), resize)].into();
    let state = State {
        update_resources: true,
        resources: resources.clone(),
        ..State::default()
    };
    let UpdateDecision::Resize(missing) = judge(&pod("1", "1"), &state, &NodeFacts::default())
    else {
        panic!("it is written")
    };
    assert_eq!(missing["mesh"].list(), "initContainers");
    let decision = judge(&pod("2", "1"), &state, &NodeFacts::default());
    assert_eq!(
        decision,
        UpdateDecision::Wait("container mesh does not have its new resources yet".to_owned())
    );
    assert!(matches!(
        judge(&pod("2", "2"), &state, &NodeFacts::default()),
        UpdateDecision::Proven { .. }
    ));
    let said = refused_by_server(&pod("1", "1"), &resources, "no room");
    let words = "cannot be resized on node n1 (container mesh, requests.cpu from 1 to 2); the apiserver says: no room; ask";
    assert!(said.starts_with(words), "{said}");
}

#[test]
fn record_holds_wanted_resources() {
    let requests = [("cpu".to_owned(), "2".to_owned())].into();
    let resources = [(
        "main".to_owned(),
        Resize {
            requests,
            restarts: true,
            ..Resize::default()
        },
    )]
    .into();
    let state = State {
        update_resources: true,
        resources,
        ..State::default()
    };
    let json: Value = serde_json::from_str(&state.to_annotation()).unwrap();
    assert_eq!(json["updateResources"], true);
    assert_eq!(
        json["berthResources"],
        json!({"main": {"requests": {"cpu": "2"}}})
    );
    let none: Value = serde_json::from_str(&State::default().to_annotation()).unwrap();
    assert!(none["updateResources"].is_null() && none["berthResources"].is_null());
}

#[test]
fn resource_amounts_are_written_readably() {
    let mi = 1000 << 20;
    for (resource, thousandths, told) in [
        ("cpu", 0, "none"),
        ("memory", 0, "none"),
        ("cpu", 250, "250m"),
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 64 * mi, "64Mi"),
        ("memory", 3 * mi / 2, "1572864"),
        ("memory", 1000, "1"),
    ] {
        assert_eq!(
            progress::in_words(resource, thousandths),
            told,
            "{resource} {thousandths}"
        );
    }
}
