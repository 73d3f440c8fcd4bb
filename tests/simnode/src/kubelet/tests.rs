use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";
const GATE: &str = "InPlaceUpdateReady";

fn pod(change: impl Fn(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": "a", "name": "web-1", "uid": "u1", "generation": 1},
        "spec": {
            "nodeName": "sim-3",
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "web:1"}, {"name": "side", "image": "side:1"}],
            "readinessGates": [{"conditionType": GATE}],
        },
        "status": {"phase": "Pending"},
    });
    change(&mut pod);
    pod
}

fn look(pod: &Value, seen: u64, habits: &Habits) -> Action {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    next(&pod, Duration::from_secs(seen), habits, NOW)
}

fn set_condition(pod: &mut Value, type_: &str, status: &str) {
    let conditions = &mut pod["status"]["conditions"];
    let mut all = conditions.as_array().cloned().unwrap_or_default();
    all.retain(|condition| condition["type"] != type_);
    all.push(json!({"type": type_, "status": status}));
    *conditions = all.into();
}

/// Carries reports out, as the server does, until there are no more; returns their number.
fn settle(pod: &mut Value, habits: &Habits) -> usize {
    for reports in 0..9 {
        match look(pod, 60, habits) {
            Action::Rest => return reports,
            Action::Report(patch) => {
                assert_eq!(patch["metadata"]["uid"], pod["metadata"]["uid"]);
                let mut status = patch["status"].as_object().unwrap().clone();
                for condition in status
                    .remove("conditions")
                    .iter()
                    .flat_map(|all| all.as_array().unwrap())
                {
                    set_condition(
                        pod,
                        condition["type"].as_str().unwrap(),
                        condition["status"].as_str().unwrap(),
                    );
                }
                status
                    .into_iter()
                    .for_each(|(key, value)| pod["status"][&key] = value);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it never rests: {pod}")
}

fn condition(pod: &Value, type_: &str) -> String {
    let all = pod["status"]["conditions"].as_array().unwrap();
    all.iter()
        .find(|condition| condition["type"] == type_)
        .map(|c| c["status"].as_str().unwrap().to_owned())
        .unwrap()
}

fn running() -> Value {
    let mut pod = pod(|_| {});
    set_condition(&mut pod, GATE, "True");
    assert_eq!(settle(&mut pod, &Habits::default()), 1);
    assert_eq!(condition(&pod, "Ready"), "True");
    pod
}

#[test]
fn a_pod_that_names_its_node_waits_for_no_other() {
    for (node, wanted) in [("sim-7", Action::Bind), ("node-1", Action::Rest)] {
        let by_name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let terms = json!({"nodeSelectorTerms": [{"matchFields": [by_name]}]});
        let pod = pod(|pod| {
            pod["spec"]["nodeName"] = json!("");
            pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                terms.clone();
        });
        assert_eq!(look(&pod, 0, &Habits::default()), wanted, "{node}");
    }
}

#[test]
fn pods_without_a_node_are_bound() {
    for (node, scheduler, deleted, wanted) in [
        ("", "default-scheduler", false, Action::Bind),
        ("", "", false, Action::Bind),
        ("", "other", false, Action::Rest),
        ("", "default-scheduler", true, Action::Rest),
        ("node-1", "default-scheduler", false, Action::Rest),
        ("node-1", "default-scheduler", true, Action::Rest),
        ("sim-3", "default-scheduler", true, Action::Remove),
    ] {
        let pod = pod(|pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["spec"]["schedulerName"] = json!(scheduler);
            if deleted {
                pod["metadata"]["deletionTimestamp"] = json!(NOW);
            }
        });
        assert_eq!(
            look(&pod, 0, &Habits::default()),
            wanted,
            "{node:?} {scheduler:?} {deleted}"
        );
    }
}

#[test]
fn a_pod_that_names_its_node_is_bound_if_the_node_is_simulated() {
    for (node, wanted) in [("sim-7", Action::Bind), ("node-1", Action::Rest)] {
        let pod = pod(|pod| {
            let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
            let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
            pod["spec"]["nodeName"] = json!("");
            pod["spec"]["affinity"] =
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        });
        assert_eq!(look(&pod, 0, &Habits::default()), wanted, "{node}");
    }
}

#[test]
fn a_new_pod_runs_and_is_ready_with_its_gates() {
    let mut pod = pod(|_| {});
    assert_eq!(settle(&mut pod, &Habits::default()), 1);
    assert_eq!(
        (condition(&pod, "ContainersReady"), condition(&pod, "Ready")),
        ("True".into(), "False".into())
    );
    assert_eq!(
        (
            &pod["status"]["phase"],
            &pod["status"]["observedGeneration"]
        ),
        (&json!("Running"), &json!(1))
    );
    set_condition(&mut pod, GATE, "True");
    assert_eq!(settle(&mut pod, &Habits::default()), 1);
    assert_eq!(condition(&pod, "Ready"), "True");
    // The writer that opens or closes the gate may set the readiness as well: then there is nothing
    // left to report.
    set_condition(&mut pod, GATE, "False");
    set_condition(&mut pod, "Ready", "False");
    assert_eq!(settle(&mut pod, &Habits::default()), 0);
}

#[test]
fn another_image_is_another_container() {
    let mut pod = running();
    let before = pod["status"]["containerStatuses"].clone();
    pod["spec"]["containers"][0]["image"] = json!("web:2");
    pod["metadata"]["generation"] = json!(2);
    assert_eq!(settle(&mut pod, &Habits::default()), 1);
    let after = &pod["status"]["containerStatuses"];
    for id in ["containerID", "imageID", "image"] {
        assert_ne!(before[0][id], after[0][id], "{id}");
    }
    assert_eq!(after[0]["restartCount"], 1);
    assert_eq!(before[1], after[1], "the other container runs on");
    assert_eq!(pod["status"]["observedGeneration"], 2);
    // And back: the image is the earlier one, the container is not.
    pod["spec"]["containers"][0]["image"] = json!("web:1");
    settle(&mut pod, &Habits::default());
    let back = &pod["status"]["containerStatuses"][0];
    assert_eq!(back["imageID"], before[0]["imageID"]);
    assert_ne!(back["containerID"], before[0]["containerID"]);
}

#[test]
fn only_native_sidecars_get_a_container_status() {
    let mut pod = pod(|pod| {
        pod["spec"]["readinessGates"] = json!([]);
        pod["spec"]["initContainers"] = json!([
            {"name": "once", "image": "once:1"},
            {"name": "native", "image": "native:1", "restartPolicy": "Always"},
        ]);
    });
    assert_eq!(settle(&mut pod, &Habits::default()), 1);
    let before = pod["status"].clone();
    assert_eq!(condition(&pod, "Ready"), "True");
    assert_eq!(
        before["initContainerStatuses"].as_array().unwrap().len(),
        1,
        "{before}"
    );
    pod["spec"]["initContainers"][1]["image"] = json!("native:2");
    pod["metadata"]["generation"] = json!(2);
    assert_eq!(settle(&mut pod, &Habits::default()), 1);
    let after = &pod["status"];
    assert_eq!(after["initContainerStatuses"][0]["restartCount"], 1);
    assert_ne!(
        before["initContainerStatuses"][0]["imageID"],
        after["initContainerStatuses"][0]["imageID"]
    );
    assert_eq!(before["containerStatuses"], after["containerStatuses"]);
    pod["spec"]["initContainers"][1]["image"] = json!("native:3");
    settle(
        &mut pod,
        &Habits {
            missing_images: vec!["native:3".into()],
            ..Habits::default()
        },
    );
    assert_eq!(condition(&pod, "Ready"), "False");
}

#[test]
fn a_change_without_an_image_restarts_nothing() {
    let mut pod = running();
    let before = pod["status"]["containerStatuses"].clone();
    pod["metadata"]["generation"] = json!(2);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(settle(&mut pod, &Habits::default()), 1);
    let after = &pod["status"]["containerStatuses"];
    assert_eq!(after[0]["containerID"], before[0]["containerID"]);
    assert_eq!(after[0]["resources"], json!({"requests": {"cpu": "1"}}));
    assert_eq!(pod["status"]["observedGeneration"], 2);
}

#[test]
fn failures_on_request() {
    let habits = Habits {
        missing_images: vec!["web:2".into()],
        crashing_images: vec!["web:3".into()],
        ..Habits::default()
    };
    for (image, by_annotation, reason) in [
        ("web:2", None, "ImagePullBackOff"),
        ("web:3", None, "CrashLoopBackOff"),
        ("web:4", Some("simnode/missing-images"), "ImagePullBackOff"),
        ("web:4", Some("simnode/crashing-images"), "CrashLoopBackOff"),
    ] {
        let mut pod = running();
        let before = pod["status"]["containerStatuses"][0].clone();
        pod["spec"]["containers"][0]["image"] = json!(image);
        if let Some(annotation) = by_annotation {
            pod["metadata"]["annotations"] = json!({annotation: "other:1, web:4"});
        }
        settle(&mut pod, &habits);
        let main = &pod["status"]["containerStatuses"][0];
        assert_eq!(
            (&main["state"]["waiting"]["reason"], &main["ready"]),
            (&json!(reason), &json!(false))
        );
        assert_ne!(main["containerID"], before["containerID"]);
        assert_eq!(condition(&pod, "Ready"), "False");
        // Another image fixes it.
        pod["spec"]["containers"][0]["image"] = json!("web:5");
        settle(&mut pod, &habits);
        assert_eq!(condition(&pod, "Ready"), "True");
    }
}

#[test]
fn delays() {
    let seconds = Duration::from_secs;
    let habits = Habits {
        start_delay: seconds(3),
        stop_delay: seconds(2),
        ..Habits::default()
    };
    let mut pod = pod(|_| {});
    assert_eq!(look(&pod, 1, &habits), Action::Wait(seconds(2)));
    assert!(matches!(look(&pod, 3, &habits), Action::Report(_)));
    pod["metadata"]["annotations"] =
        json!({"simnode/start-delay": "10s", "simnode/stop-delay": "500ms", "other": "x"});
    assert_eq!(look(&pod, 3, &habits), Action::Wait(seconds(7)));
    pod["metadata"]["deletionTimestamp"] = json!(NOW);
    assert_eq!(
        look(&pod, 0, &habits),
        Action::Wait(Duration::from_millis(500))
    );
    assert_eq!(look(&pod, 1, &habits), Action::Remove);
    // The start does not depend on readiness: nothing starts.
    let mut pod = running();
    set_condition(&mut pod, GATE, "False");
    assert!(matches!(look(&pod, 0, &habits), Action::Report(_)));
}

#[test]
fn pod_with_zero_grace_period_is_left_alone() {
    let mut pod = running();
    pod["metadata"]["deletionTimestamp"] = json!(NOW);
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    assert_eq!(look(&pod, 60, &Habits::default()), Action::Rest);
}

#[test]
fn ids_look_like_a_runtime_s() {
    assert!(image_id("registry:5000/a/web:1").starts_with("simnode/registry:5000/a/web@sha256:"));
    assert!(image_id("registry:5000/web").starts_with("simnode/registry:5000/web@sha256:"));
    assert_ne!(image_id("web:1"), image_id("web:2"));
}
