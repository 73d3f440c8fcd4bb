//! The pods that the daemon must inspect.

use super::*;

/// A pod that was patched from `same:1` to `same:2`, both of one digest.
#[derive(Clone, Copy)]
pub(super) struct Given {
    uid: &'static str,
    state: &'static str,
    container: &'static str,
    settled: bool,
    leaving: bool,
}

pub(super) const ASKS: Given = Given {
    uid: "p",
    state: "Updating",
    container: "containerd://b",
    settled: false,
    leaving: false,
};

pub(super) fn pod(given: &Given) -> Arc<Pod> {
    let mut record = json!({
        "revision": "web-2", "updateImages": true,
        "lastContainerStatuses": {
            "main": {"imageID": "same@sha256:aa", "berthContainerID": "containerd://a", "berthImage": "same:1"},
        },
    });
    if given.settled {
        record["berthVerifiedBy"] = json!("node");
    }
    let mut pod = json!({
        "metadata": {
            "namespace": "default", "name": format!("pod-{}", given.uid), "uid": given.uid, "generation": 2,
            "labels": {"controller-revision-hash": "web-2", "lifecycle.apps.kruise.io/state": given.state},
            "annotations": {"apps.kruise.io/inplace-update-state": record.to_string()},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "same:2"}]},
        "status": {
            "phase": "Running", "observedGeneration": 2,
            "containerStatuses": [
                {"name": "main", "image": "same:1", "imageID": "same@sha256:aa", "containerID": given.container},
            ],
        },
    });
    if given.leaving {
        pod["metadata"]["deletionTimestamp"] = ago(1);
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub(super) fn listed(uid: &str) -> Value {
    json!({"namespace": "default", "name": format!("pod-{uid}"), "uid": uid})
}

#[test]
fn pods_are_listed_until_their_update_is_settled() {
    let seen = json!({"inspectedPods": [{"uid": "p", "containers": [
        {"name": "main", "containerID": "containerd://b", "image": "same:2"},
    ]}]});
    let nothing = json!(null);
    let table = [
        ("asks", ASKS, &nothing, [true, true]),
        (
            "answered: stays until it is used",
            ASKS,
            &seen,
            [false, true],
        ),
        (
            "waits for the kubelet",
            Given {
                container: "containerd://a",
                ..ASKS
            },
            &nothing,
            [false, true],
        ),
        (
            "settled",
            Given {
                settled: true,
                ..ASKS
            },
            &nothing,
            [false, false],
        ),
        (
            "in service again",
            Given {
                state: "Normal",
                ..ASKS
            },
            &nothing,
            [false, false],
        ),
        (
            "being deleted",
            Given {
                leaving: true,
                ..ASKS
            },
            &nothing,
            [false, false],
        ),
    ];
    for (what, given, status, stays) in table {
        for (was_listed, stays) in [false, true].into_iter().zip(stays) {
            let spec = if was_listed {
                json!({"inspectPods": [listed("p")]})
            } else {
                json!({})
            };
            let mut snapshot = snapshot(None, Some(image(&fake(), &spec, status)));
            snapshot.pods = vec![pod(&given)];
            let expected = match (was_listed, stays) {
                (false, true) => json!([listed("p")]),
                (true, false) => json!([]),
                _ => Value::Null,
            };
            assert_eq!(
                patch(&snapshot)["spec"]["inspectPods"],
                expected,
                "{what}, listed before: {was_listed}"
            );
            let bears = snapshot
                .image
                .as_deref()
                .is_some_and(|image| bears_on(&snapshot.pods[0], image));
            assert_eq!(
                bears,
                was_listed || stays,
                "{what}, listed before: {was_listed}"
            );
        }
    }
}

#[test]
fn the_list_of_pods_is_sorted_and_bounded() {
    let uids: Vec<&'static str> = (0..MAX_INSPECTED_PODS + 5)
        .map(|n| &*format!("{n:03}").leak())
        .collect();
    let last = uids[uids.len() - 1];
    let spec = json!({"inspectPods": [listed(last), listed("gone")]});
    let mut snapshot = snapshot(None, Some(image(&fake(), &spec, &json!(null))));
    snapshot.pods = uids
        .iter()
        .rev()
        .map(|uid| pod(&Given { uid, ..ASKS }))
        .collect();
    let patch = patch(&snapshot);
    let pods = patch["spec"]["inspectPods"].as_array().unwrap();
    assert_eq!(
        pods.len(),
        MAX_INSPECTED_PODS / 2,
        "one namespace gets half"
    );
    assert!(pods.is_sorted_by_key(|pod| pod["name"].as_str().unwrap().to_owned()));
    assert_eq!(
        pods[pods.len() - 1],
        listed(last),
        "who was asked about stays"
    );
    assert!(pods.iter().all(|pod| *pod != listed("gone")));
}

/// The same pod in another namespace.
fn moved(namespace: &str, pod: &Pod) -> Arc<Pod> {
    let mut pod = pod.clone();
    pod.metadata.namespace = namespace.into();
    Arc::new(pod)
}

#[test]
fn each_namespace_has_its_share_of_inspect_pods() {
    let uids: Vec<&'static str> = (0..40).map(|n| &*format!("{n:03}").leak()).collect();
    let mut snapshot = snapshot(None, Some(image(&fake(), &json!({}), &json!(null))));
    snapshot.pods = uids
        .iter()
        .map(|uid| moved("a-tenant", &with_variables(uid, 64, 200)))
        .collect();
    snapshot.pods.push(moved("victim", &pod(&ASKS)));
    let plan = decide(&snapshot, now());
    let Action::Patch {
        resource: NODE_IMAGES,
        patch,
        ..
    } = &plan.stages[0].steps[0].actions[0]
    else {
        panic!("{plan:?}")
    };
    let pods = patch["spec"]["inspectPods"].as_array().unwrap();
    assert!(
        pods.iter().any(|pod| pod["namespace"] == "victim"),
        "{} pods",
        pods.len()
    );
    assert!(
        plan.events[0].message.contains("a-tenant has its share"),
        "{:?}",
        plan.events
    );
}

/// A pod whose record names this many variables, of this many bytes each.
fn with_variables(uid: &'static str, variables: usize, bytes: usize) -> Arc<Pod> {
    let variable = |n: usize| (format!("V{n:0bytes$}"), json!("0123456789abcdef"));
    let values: serde_json::Map<_, _> = (0..variables).map(variable).collect();
    with_record(
        uid,
        &json!({"revision": "web-2", "berthEnv": {"main": values}, "lastContainerStatuses": {}}),
    )
}

/// A pod whose record says that this container must end.
fn with_restart(uid: &'static str, id: &str) -> Arc<Pod> {
    let mut pod = with_record(
        uid,
        &json!({"revision": "web-2", "berthRestarts": {"main": id}}),
    );
    Arc::make_mut(&mut pod).status.container_statuses[0].container_id =
        format!("containerd://{id}").into();
    pod
}

fn with_record(uid: &'static str, record: &Value) -> Arc<Pod> {
    let mut pod = (*pod(&Given { uid, ..ASKS })).clone();
    let (key, _) = pod.metadata.annotations[0].clone();
    pod.metadata.annotations = Box::new([(key, record.to_string().into())]);
    Arc::new(pod)
}

#[test]
fn pod_with_too_many_variables_is_left_out_with_event() {
    let mut snapshot = snapshot(None, Some(image(&fake(), &json!({}), &json!(null))));
    snapshot.pods = vec![with_variables("bounded", 64, 10), pod(&ASKS)];
    let asked = |plan: &Plan| -> Vec<String> {
        let Some(Action::Patch {
            resource: NODE_IMAGES,
            patch,
            ..
        }) = plan.stages.first().map(|stage| &stage.steps[0].actions[0])
        else {
            return Vec::new();
        };
        let pods = patch["spec"]["inspectPods"].as_array().unwrap();
        pods.iter()
            .map(|pod| pod["uid"].as_str().unwrap().to_owned())
            .collect()
    };
    let plan = decide(&snapshot, now());
    assert_eq!(
        (asked(&plan), plan.events.len()),
        (vec!["bounded".to_owned(), "p".to_owned()], 0)
    );
    for (pod, words) in [
        (with_variables("many", 65, 10), "65 variables"),
        (with_variables("long", 1, 254), "255 bytes"),
        (with_restart("id", &"x".repeat(254)), "254 bytes"),
    ] {
        snapshot.pods[0] = pod;
        let plan = decide(&snapshot, now());
        assert_eq!(asked(&plan), ["p"], "{words}");
        assert!(plan.events[0].message.contains(words), "{:?}", plan.events);
    }
}

#[test]
fn restart_names_container_id_until_next_one_runs() {
    let mut snapshot = snapshot(None, Some(image(&fake(), &json!({}), &json!(null))));
    snapshot.pods = vec![with_restart("p", "c1")];
    let asked = &patch(&snapshot)["spec"]["inspectPods"][0]["env"];
    assert_eq!(
        (
            asked[0]["container"].as_str(),
            asked[0]["containerID"].as_str()
        ),
        (Some("main"), Some("c1")),
        "{asked}"
    );
    let mut next = with_restart("p", "c1");
    Arc::make_mut(&mut next).status.container_statuses[0].container_id = "containerd://c2".into();
    snapshot.pods = vec![next];
    assert!(decide(&snapshot, now()).is_idle(), "its own status tells");
}

#[test]
fn nodeimage_is_bounded_and_keeps_listed_pods() {
    let uids: Vec<&'static str> = (0..100).map(|n| &*format!("{n:03}").leak()).collect();
    let spec = json!({"inspectPods": [listed("099")]});
    let mut snapshot = snapshot(None, Some(image(&fake(), &spec, &json!(null))));
    let namespaces = ["default", "b", "c", "d", "e"].iter().cycle();
    snapshot.pods = uids
        .iter()
        .zip(namespaces)
        .map(|(uid, of)| moved(of, &with_variables(uid, 64, 80)))
        .collect();
    snapshot.pods[99] = with_variables("099", 64, 80);
    let plan = decide(&snapshot, now());
    let Action::Patch {
        resource: NODE_IMAGES,
        patch,
        ..
    } = &plan.stages[0].steps[0].actions[0]
    else {
        panic!("{plan:?}")
    };
    let pods = patch["spec"]["inspectPods"].as_array().unwrap();
    assert!(
        (200 * 1024..256 * 1024).contains(&patch.to_string().len()),
        "{}",
        patch.to_string().len()
    );
    assert!(
        pods.iter().any(|pod| pod["uid"] == "099"),
        "who was asked about stays"
    );
    let left_out = format!("leaves out {} pods", 100 - pods.len());
    assert!(
        plan.events[0].message.contains(&left_out),
        "{:?}",
        plan.events
    );
}
