mod containers;
mod words;

use std::sync::Arc;

use berth_api::names::annotation::PREPULL_ON_JOIN;
use berth_api::names::condition;
use berth_api::v1beta1::cloneset::CloneSetCondition;
use berth_workload::blocked;
use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Failure, Outcome, Plan, Refusal, Verb, Write};
use berth_workload::update::revision::REVISION_LABEL;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::simulation::{World, template};
use super::super::{Snapshot, decide, status};

/// The time when the pods of these tests were created and their states began.
const BEGAN: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    BEGAN.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// A CloneSet with one pod, which is like a new pod on its node except for the given fields.
fn snapshot(pod: &Value, spec: &Value) -> Snapshot {
    let world = World::settled(
        1,
        template("web:1"),
        json!({"rollingUpdate": {"maxUnavailable": 1}}),
    );
    let mut snapshot = world.snapshot();
    let mut whole = json!({
        "metadata": {
            "name": "web-a", "namespace": "default", "uid": "a", "creationTimestamp": BEGAN, "generation": 1,
            "labels": {REVISION_LABEL: snapshot.revisions[0].metadata.name},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "web:1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": BEGAN}]},
    });
    merge(&mut whole, pod);
    snapshot.pods = vec![Arc::new(serde_json::from_value(whole).unwrap())];
    let mut set = serde_json::to_value(&*snapshot.set).unwrap();
    merge(&mut set["spec"], spec);
    set["status"]["conditions"] = json!([]);
    snapshot.set = Arc::new(serde_json::from_value(set).unwrap());
    snapshot
}

fn merge(object: &mut Value, patch: &Value) {
    match patch {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| merge(&mut object[key], value)),
        value => *object = value.clone(),
    }
}

fn container(state: Value) -> Value {
    let mut status = json!({"name": "main", "containerID": "containerd://1", "ready": false});
    merge(&mut status, &state);
    json!({"status": {"containerStatuses": [status]}})
}

/// A native sidecar that must have the image `mesh:2`, beside a container that is ready.
fn native(state: Value) -> Value {
    let mut status = json!({"name": "mesh", "containerID": "containerd://2", "ready": false});
    merge(&mut status, &state);
    let mut pod = container(json!({"ready": true}));
    pod["spec"]["initContainers"] =
        json!([{"name": "mesh", "image": "mesh:2", "restartPolicy": "Always"}]);
    pod["status"]["initContainerStatuses"] = json!([status]);
    pod
}

/// The condition after one more round.
fn told(snapshot: &mut Snapshot, outcome: &Outcome, seconds: i64) -> Option<CloneSetCondition> {
    let plan = decide(snapshot, at(seconds));
    let status = status(snapshot, &plan, outcome, at(seconds)).unwrap();
    let told = status
        .conditions
        .iter()
        .find(|c| c.type_ == condition::BLOCKED)
        .cloned();
    Arc::make_mut(&mut snapshot.set).status = Some(status);
    told
}

/// The case, the pod, the spec, the seconds until the condition reports the cause, the reason, and
/// words of the message.
type Case = (
    &'static str,
    Value,
    Value,
    i64,
    &'static str,
    &'static [&'static str],
);

fn cases() -> Vec<Case> {
    let waiting = |reason: &str, message: &str| {
        container(json!({"state": {"waiting": {"reason": reason, "message": message}}}))
    };
    // A second container starts after the first.
    let ordered = |reason: &str, message: &str| {
        let of = |name: &str, key: &str| {
            let reference = json!({"configMapKeyRef": {"name": "web-a-barrier", "key": key}});
            json!({"name": name, "image": "web:1", "env": [{"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": reference}]})
        };
        let status = |name: &str, reason: &str, message: &str| json!({"name": name, "ready": false, "state": {"waiting": {"reason": reason, "message": message}}});
        let held = "couldn't find key p_-1 in ConfigMap default/web-a-barrier";
        json!({
            "spec": {"containers": [of("side", "p_-1"), of("main", "p_0")]},
            "status": {"containerStatuses": [
                status("side", "CreateContainerConfigError", held), status("main", reason, message),
            ]},
        })
    };
    let refused =
        "rpc error: code = NotFound desc = failed to pull: docker.io/library/web:1: not found";
    let resize = |type_: &str, reason: &str| {
        json!({"status": {"observedGeneration": 9, "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": BEGAN},
            {"type": type_, "status": "True", "reason": reason, "message": "needs 9 CPU", "lastTransitionTime": BEGAN},
        ]}})
    };
    let lifecycle = json!({"lifecycle": {"preNormal": {"labelsHandler": {"lb": "in"}}}});
    let preparing = json!({"metadata": {"labels": {
        "app": "web", "lifecycle.apps.kruise.io/state": "PreparingNormal",
    }}});
    // An update to another tag of the same image: the container's id is new, the image's is not.
    let revision = snapshot(&json!({}), &json!({})).revisions[0]
        .metadata
        .name
        .clone();
    let patched = |observed: i64| {
        let gate = "InPlaceUpdateReady";
        let state = json!({
            "revision": revision, "updateTimestamp": BEGAN, "updateImages": true,
            "lastContainerStatuses": {"main": {"imageID": "web@sha256:1", "berthContainerID": "1"}},
        });
        let status = json!({"name": "main", "image": "web:1", "imageID": "web@sha256:1", "containerID": "containerd://2", "ready": true});
        json!({
            "metadata": {
                "annotations": {"apps.kruise.io/inplace-update-state": state.to_string()},
                "labels": {"lifecycle.apps.kruise.io/state": "Updating"},
            },
            "spec": {"readinessGates": [{"conditionType": gate}]},
            "status": {"observedGeneration": observed, "containerStatuses": [status], "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": BEGAN},
                {"type": gate, "status": "False", "lastTransitionTime": BEGAN},
            ]},
        })
    };
    vec![
        (
            "a daemon that does not answer",
            patched(1),
            json!({}),
            60,
            "DaemonSilent",
            &["pod web-a on node n1", "kruise-daemon"],
        ),
        (
            "a kubelet that does not answer",
            patched(0),
            json!({}),
            60,
            "UpdateNotDone",
            &["not done since", "the node is up"],
        ),
        (
            "no image",
            waiting("ErrImagePull", refused),
            json!({}),
            0,
            "ImageUnavailable",
            &[
                "default/web",
                "pod web-a",
                "n1",
                "\"web:1\"",
                "not found",
                "imagePullSecrets",
            ],
        ),
        (
            "no image, backing off",
            waiting(
                "ImagePullBackOff",
                "Back-off pulling image \"web:1\": ErrImagePull: rpc error: x",
            ),
            json!({}),
            0,
            "ImageUnavailable",
            &["says: x; "],
        ),
        (
            "never pulled",
            waiting("ErrImageNeverPull", "is not present"),
            json!({}),
            0,
            "ImageUnavailable",
            &[
                "is not present; set spec.template.spec.containers[main].imagePullPolicy to IfNotPresent",
            ],
        ),
        (
            "no credentials",
            waiting(
                "ErrImagePull",
                "failed to resolve reference \"web:1\": no basic auth credentials",
            ),
            json!({}),
            0,
            "ImageUnavailable",
            &[
                "no basic auth credentials; add a Secret that opens the registry to spec.template.spec.imagePullSecrets",
            ],
        ),
        (
            "a missing config map",
            waiting("CreateContainerConfigError", "configmap \"x\" not found"),
            json!({}),
            0,
            "ContainerCannotStart",
            &["container main", "configmap \"x\" not found"],
        ),
        (
            "containers that start in order, at their barrier",
            ordered(
                "CreateContainerConfigError",
                "couldn't find key p_0 in ConfigMap default/web-a-barrier",
            ),
            json!({}),
            60,
            "PodNotReady",
            &["its container main"],
        ),
        (
            "containers that start in order, of which the first cannot",
            ordered("CreateContainerConfigError", "configmap \"x\" not found"),
            json!({}),
            0,
            "ContainerCannotStart",
            &["container main", "configmap \"x\" not found"],
        ),
        (
            "a crash loop",
            container(
                json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}),
            ),
            json!({}),
            0,
            "ContainerCrashLooping",
            &[
                "container main",
                "\"web:1\"",
                "exit code 137 (OOMKilled)",
                "-c main --previous`",
            ],
        ),
        (
            "a missing image after a container that crashes",
            json!({
                "spec": {"containers": [{"name": "main", "image": "web:1"}, {"name": "side", "image": "side:1"}]},
                "status": {"containerStatuses": [
                    {"name": "main", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
                    {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
                ]},
            }),
            json!({}),
            0,
            "ImageUnavailable",
            &["container side"],
        ),
        (
            "an init container",
            json!({"status": {"phase": "Pending", "initContainerStatuses": [{"name": "init", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}]}}),
            json!({}),
            0,
            "ContainerCrashLooping",
            &["init container init", "exit code 1"],
        ),
        (
            "a native sidecar whose new image is not there",
            native(
                json!({"image": "mesh:1", "state": {"waiting": {"reason": "ImagePullBackOff"}}}),
            ),
            json!({}),
            0,
            "ImageUnavailable",
            &["init container mesh", "\"mesh:2\""],
        ),
        (
            "the probe of a native sidecar",
            native(json!({"state": {"running": {}}})),
            json!({}),
            60,
            "PodNotReady",
            &["its container mesh runs", "readiness probe"],
        ),
        (
            "a probe",
            container(json!({"state": {"running": {}}})),
            json!({}),
            60,
            "PodNotReady",
            &[
                "since 2026-01-01T00:00:00Z",
                "container main",
                "readiness probe",
            ],
        ),
        (
            "no room",
            json!({"spec": {"nodeName": ""}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu.", "lastTransitionTime": BEGAN}]}}),
            json!({}),
            60,
            "PodUnschedulable",
            &[
                "3 Insufficient cpu",
                "; ask for less in spec.template.spec, or make room",
            ],
        ),
        (
            "no node with the labels",
            json!({"spec": {"nodeName": ""}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "lastTransitionTime": BEGAN}]}}),
            json!({}),
            60,
            "PodUnschedulable",
            &["selector.; correct spec.template.spec.nodeSelector or affinity"],
        ),
        (
            "no scheduler",
            json!({"spec": {"nodeName": ""}, "status": {"phase": "Pending", "conditions": []}}),
            json!({}),
            60,
            "PodUnschedulable",
            &["schedulerName"],
        ),
        (
            "a volume that does not come",
            json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}),
            json!({}),
            60,
            "PodNotReady",
            &["ContainerCreating"],
        ),
        (
            "a resize that no node could do",
            resize("PodResizePending", "Infeasible"),
            json!({}),
            0,
            "ResizeInfeasible",
            &["needs 9 CPU"],
        ),
        (
            "a resize that is put off",
            resize("PodResizePending", "Deferred"),
            json!({}),
            60,
            "ResizeDeferred",
            &["needs 9 CPU"],
        ),
        (
            "a resize that failed",
            resize("PodResizeInProgress", "Error"),
            json!({}),
            0,
            "ResizeFailed",
            &["needs 9 CPU"],
        ),
        (
            "a hook",
            preparing,
            lifecycle,
            60,
            "HookNotReleased",
            &["PreparingNormal", "spec.lifecycle.preNormal", "label lb=in"],
        ),
        (
            "a finalizer",
            json!({"metadata": {"deletionTimestamp": BEGAN, "finalizers": ["x/y"]}}),
            json!({}),
            60,
            "PodTerminating",
            &["x/y", "must remove it"],
        ),
        (
            "a node that is gone",
            json!({"metadata": {"deletionTimestamp": BEGAN}}),
            json!({}),
            60,
            "PodTerminating",
            &["node n1", "by force"],
        ),
    ]
}

#[test]
fn every_cause_is_reported_with_pod_and_remedy() {
    for (what, pod, spec, after, reason, words) in cases() {
        let mut snapshot = snapshot(&pod, &spec);
        if after > 0 {
            // A spec with hooks may be refused; the condition does not mention the pod before its
            // time.
            assert_eq!(
                told(&mut snapshot, &Outcome::default(), 0).filter(|c| c.reason == reason),
                None,
                "{what}"
            );
            let wait = decide(&snapshot, at(0))
                .look_again
                .unwrap_or_else(|| panic!("{what}: the plan has no next look"));
            assert!(wait.as_secs() <= after, "{what}: {wait:?}");
        }
        let told = told(&mut snapshot, &Outcome::default(), after);
        let Some(told) = told.filter(|told| told.reason == reason) else {
            let plan = decide(&snapshot, at(after));
            assert!(plan.refusal.is_some(), "{what}: {plan:?}");
            continue;
        };
        assert_eq!(told.status, "True", "{what}");
        let missing: Vec<_> = ["CloneSet default/web", "pod web-a"]
            .iter()
            .chain(words)
            .filter(|w| !told.message.contains(**w))
            .collect();
        assert!(
            missing.is_empty(),
            "{what}: {missing:?} not in {}",
            told.message
        );
    }
}

#[test]
fn missing_image_stays_during_back_offs() {
    let revision = snapshot(&json!({}), &json!({})).revisions[0]
        .metadata
        .name
        .clone();
    let updated = |waiting: Value| {
        let state = json!({
            "revision": revision, "updateTimestamp": BEGAN, "updateImages": true,
            "lastContainerStatuses": {"main": {"berthContainerID": "1", "berthImage": "web:0"}},
        });
        let mut pod = container(json!({"state": {"waiting": waiting}, "image": "web:0"}));
        pod["metadata"] = json!({
            "annotations": {"apps.kruise.io/inplace-update-state": state.to_string()},
            "labels": {"lifecycle.apps.kruise.io/state": "Updating"},
        });
        let gate = "InPlaceUpdateReady";
        pod["spec"] = json!({"readinessGates": [{"conditionType": gate}]});
        pod["status"]["observedGeneration"] = json!(1);
        pod["status"]["conditions"] = json!([
            {"type": "Ready", "status": "False", "lastTransitionTime": BEGAN},
            {"type": gate, "status": "False", "lastTransitionTime": BEGAN},
        ]);
        pod
    };
    let missing = updated(json!({"reason": "ErrImagePull", "message": "web:1: not found"}));
    let back_off = updated(json!({
        "reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=main",
    }));
    let mut set = snapshot(&missing, &json!({}));
    let first = told(&mut set, &Outcome::default(), 0);
    assert_eq!(
        first.as_ref().map(|told| &*told.reason),
        Some("ImageUnavailable")
    );
    set = Snapshot {
        set: set.set,
        ..snapshot(&back_off, &json!({}))
    };
    assert_eq!(told(&mut set, &Outcome::default(), 90), first);
    // Without the earlier report it is not known whether the image is there.
    let mut set = snapshot(&back_off, &json!({}));
    assert_eq!(told(&mut set, &Outcome::default(), 0), None);
    let later = told(&mut set, &Outcome::default(), 60).unwrap();
    assert_eq!(later.reason, "UpdateNotDone");
    for words in [
        "starts it again after its back-off 40s;",
        "it starts by itself",
    ] {
        assert!(later.message.contains(words), "{}", later.message);
    }
}

#[test]
fn condition_is_stable_until_its_cause_is_gone() {
    let crash = |state: Value| {
        container(
            json!({"restartCount": 3, "state": state, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}),
        )
    };
    let mut set = snapshot(
        &crash(json!({"waiting": {"reason": "CrashLoopBackOff"}})),
        &json!({}),
    );
    let first = told(&mut set, &Outcome::default(), 0);
    assert_eq!(
        first.as_ref().map(|c| &*c.reason),
        Some("ContainerCrashLooping")
    );
    // The pod runs for a moment, until it ends again.
    let with = |set: &Snapshot, pod: &Value| {
        let mut next = snapshot(pod, &json!({}));
        next.set = set.set.clone();
        next
    };
    set = with(&set, &crash(json!({"running": {}})));
    assert_eq!(told(&mut set, &Outcome::default(), 5), first);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": BEGAN}]}});
    set = with(&set, &ready);
    assert_eq!(told(&mut set, &Outcome::default(), 10), None);
    // A container that was restarted once and is not ready yet is no crash loop.
    set = with(&set, &crash(json!({"running": {}})));
    assert_eq!(told(&mut set, &Outcome::default(), 15), None);
    assert_eq!(
        told(&mut set, &Outcome::default(), 60).map(|c| c.reason),
        Some("PodNotReady".to_owned())
    );
}

#[test]
fn changed_port_in_error_keeps_the_message() {
    let pull = |port: &str| {
        let message = format!("rpc error: read tcp 10.0.0.1:{port}->10.0.0.2:5000: refused");
        container(json!({"state": {"waiting": {"reason": "ErrImagePull", "message": message}}}))
    };
    let mut set = snapshot(&pull("41000"), &json!({}));
    let first = told(&mut set, &Outcome::default(), 0);
    let mut next = snapshot(&pull("42111"), &json!({}));
    next.set = set.set;
    assert_eq!(told(&mut next, &Outcome::default(), 1), first);
}

#[test]
fn refused_write_sets_blocked_and_failed_scale() {
    let mut set = snapshot(
        &json!({"metadata": {"deletionTimestamp": BEGAN}}),
        &json!({}),
    );
    let quota = |pod: &str, used: u8| Outcome {
        failures: vec![Failure {
            write: Write::of(Verb::Create, PODS),
            namespace: "default".to_owned(),
            object: pod.to_owned(),
            message: format!("pods \"{pod}\" is forbidden: exceeded quota: few, used: pods={used}"),
            code: 403,
            permanent: false,
            outdated: false,
            taken: false,
            infeasible: false,
        }],
    };
    let first = told(&mut set, &quota("web-abcde", 1), 0).unwrap();
    assert_eq!(first.reason, "QuotaExceeded");
    assert!(
        first
            .message
            .contains("pods \"web-*\" is forbidden: exceeded quota: few"),
        "{}",
        first.message
    );
    let conditions = |set: &Snapshot| set.set.status.clone().unwrap().conditions;
    let scale = conditions(&set)
        .into_iter()
        .find(|c| c.type_ == "FailedScale")
        .unwrap();
    assert_eq!(
        (&*scale.status, &*scale.reason, scale.last_update_time),
        ("True", "", None)
    );
    assert_eq!(
        scale.message,
        "pods \"web-abcde\" is forbidden: exceeded quota: few, used: pods=1"
    );
    let before = conditions(&set);
    assert_eq!(told(&mut set, &quota("web-fghij", 1), 9), Some(first));
    assert_eq!(conditions(&set), before, "another name is no news");
    assert_eq!(told(&mut set, &Outcome::default(), 10), None);
    assert_eq!(conditions(&set), []);
}

#[test]
fn invalid_spec_is_reported_before_other_causes() {
    let mut snapshot = snapshot(
        &container(json!({"state": {"waiting": {"reason": "ErrImagePull"}}})),
        &json!({}),
    );
    let plan = Plan {
        refusal: Some(Refusal {
            reason: "InvalidSpec",
            message: "CloneSet default/web: spec.x: y".to_owned(),
        }),
        ..Plan::default()
    };
    let status = status(&snapshot, &plan, &Outcome::default(), at(0)).unwrap();
    let reasons: Vec<_> = status.conditions.iter().map(|c| &*c.reason).collect();
    assert_eq!(reasons, ["InvalidSpec"]);
    snapshot.overlapping = vec!["other".to_owned()];
    assert_eq!(
        told(&mut snapshot, &Outcome::default(), 0).unwrap().reason,
        "ImageUnavailable",
        "graver than an overlap"
    );
}

#[test]
fn paused_or_partitioned_rollout_is_not_blocked() {
    for strategy in [json!({"paused": true}), json!({"partition": 2})] {
        let mut world = World::settled(2, template("web:1"), json!({"rollingUpdate": strategy}));
        world.set_template(template("web:2"));
        for _ in 0..5 {
            world.step();
            world.pass(60);
        }
        assert_eq!(world.status().conditions, [], "{strategy}");
    }
}

#[test]
fn numbers_that_let_nothing_happen_are_named() {
    let mut world = World::settled(
        2,
        template("web:1"),
        json!({"rollingUpdate": {"maxUnavailable": 0}}),
    );
    assert_eq!(world.status().conditions, []);
    world.set_template(template("web:2"));
    world.step();
    world.step();
    let told = world.status().conditions;
    assert_eq!(
        told.iter().map(|c| &*c.reason).collect::<Vec<_>>(),
        ["NoBudget"]
    );
    assert!(
        told[0].message.contains("maxUnavailable: 0 and maxSurge"),
        "{}",
        told[0].message
    );
}

#[test]
fn overlapping_selectors_send_one_event() {
    let world = World::settled(1, template("web:1"), json!({}));
    let mut snapshot = world.snapshot();
    snapshot.overlapping = vec!["other".to_owned()];
    let plan = decide(&snapshot, world.now());
    assert_eq!(
        plan.events
            .iter()
            .map(|event| event.reason)
            .collect::<Vec<_>>(),
        ["OverlappingSelector"]
    );
    let told = told(&mut snapshot, &Outcome::default(), 0).unwrap();
    assert!(
        told.message
            .contains("\"app=web\" overlaps with that of CloneSet other"),
        "{}",
        told.message
    );
    assert_eq!(decide(&snapshot, world.now()).events, []);
}

#[test]
fn unusable_prepull_annotation_is_reported() {
    let world = World::settled(1, template("web:1"), json!({}));
    let mut snapshot = world.snapshot();
    for (value, reason, says) in [
        ("true", "NotPrepulled", "set ImagePullJobGate=true"),
        ("yes", "InvalidSpec", "\"yes\" is neither"),
    ] {
        let annotations = Arc::make_mut(&mut snapshot.set)
            .metadata
            .annotations
            .get_or_insert_default();
        annotations.insert(PREPULL_ON_JOIN.to_owned(), value.to_owned());
        let told = told(&mut snapshot, &Outcome::default(), 0).unwrap();
        assert!(
            told.reason == reason && told.message.contains(says),
            "{told:?}"
        );
    }
}

#[test]
fn generated_names_are_masked_in_messages() {
    assert_eq!(
        blocked::without_names("pods \"web-abc12\" is forbidden, web-x", "web"),
        "pods \"web-*\" is forbidden, web-x"
    );
    assert_eq!(blocked::without_names("nothing", "web"), "nothing");
}
