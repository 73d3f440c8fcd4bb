mod reported;
mod silence;

use std::sync::Arc;

use berth_api::v1beta1::containerrecreaterequest::{ContainerRecreateRequestStatus, RecreatePhase};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::resource::CONTAINER_RECREATE_REQUESTS;
use berth_workload::plan::{Action, Failure, Outcome, Plan};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_000_000;
const FINALIZER: &str = "crr.apps.kruise.io/unready-acquired";

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn ago(seconds: i64) -> Value {
    json!(Timestamp::from_second(NOW - seconds).unwrap().to_string())
}

fn request() -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": "demo", "uid": "r", "resourceVersion": "7", "creationTimestamp": ago(10),
            "labels": {"crr.apps.kruise.io/pod-uid": "u", "crr.apps.kruise.io/active": "true"},
        },
        "spec": {
            "podName": "web", "strategy": {},
            "containers": [{"name": "app", "statusContext": {"containerID": "c://a", "restartCount": 0}}],
        },
    })
}

fn recreating() -> Value {
    let mut request = request();
    request["status"] = json!({"phase": "Recreating", "containerRecreateStates": [{"name": "app", "phase": "Pending"}]});
    request
}

fn pod(id: &str) -> Value {
    let restarts = i32::from(id != "a");
    json!({
        "metadata": {"namespace": "default", "name": "web", "uid": "u", "resourceVersion": "3"},
        "spec": {
            "nodeName": "n1", "containers": [{"name": "app"}], "terminationGracePeriodSeconds": 30,
            "readinessGates": [{"conditionType": "KruisePodReady"}],
        },
        "status": {
            "phase": "Running", "conditions": [{"type": "KruisePodReady", "status": "True"}],
            "containerStatuses": [{"name": "app", "containerID": format!("c://{id}"), "ready": true, "restartCount": restarts, "state": {}}],
        },
    })
}

fn image(answer: Option<&str>) -> Value {
    let stop = json!({"request": "r", "namespace": "default", "name": "web", "uid": "u", "container": "app", "containerID": "c://a", "createdAt": ago(5)});
    let answers: Vec<_> = answer
        .iter()
        .map(|phase| {
            let begun = (*phase == "Stopping").then(|| ago(4));
            json!({"request": "r", "container": "app", "containerID": "c://a", "phase": phase, "begunAt": begun})
        })
        .collect();
    json!({"metadata": {"name": "n1", "uid": "i"}, "spec": {"stopContainers": [stop]}, "status": {"desired": 0, "stoppedContainers": answers}})
}

fn idle() -> Value {
    json!({"metadata": {"name": "n1", "uid": "i"}, "spec": {}, "status": {"desired": 0}})
}

fn snapshot(request: &Value, pod: Option<Value>, image: Option<Value>) -> Snapshot {
    let request = Arc::new(serde_json::from_value(request.clone()).unwrap());
    Snapshot {
        of_pod: vec![Arc::clone(&request)],
        request,
        pod: pod.map(|pod| Arc::new(serde_json::from_value(pod).unwrap())),
        image: image.map(|image| Arc::new(serde_json::from_value(image).unwrap())),
        gates: Gates::default(),
        filled: None,
        held: None,
    }
}

fn round(snapshot: &Snapshot) -> (Plan, ContainerRecreateRequestStatus) {
    let plan = decide(snapshot, now());
    let status = status(snapshot, &plan, &Outcome::default(), now()).unwrap_or_default();
    (plan, status)
}

fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[field] = new;
    value
}

#[test]
fn request_waits_for_budget_and_is_blocked() {
    let held = |request: &Value| Snapshot {
        held: Some("PodUnavailableBudget a/web allows no more pods to go".to_owned()),
        ..snapshot(request, Some(pod("a")), Some(idle()))
    };
    let free = snapshot(&request(), Some(pod("a")), Some(idle()));
    assert_eq!(restarts(&free, now()).len(), 1);
    let (plan, status) = round(&held(&request()));
    assert!(
        plan.stages.is_empty() && plan.look_again.is_some(),
        "{plan:?}"
    );
    let told = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Blocked")
        .unwrap();
    assert_eq!(
        (status.phase, &*told.reason),
        (RecreatePhase::Pending, "NoBudget")
    );
    // A request that has begun continues. A request that takes the pod out of service first
    // reserves by that step.
    assert_eq!(
        round(&held(&recreating())).1.phase,
        RecreatePhase::Recreating
    );
    assert_eq!(
        restarts(
            &snapshot(&recreating(), Some(pod("a")), Some(idle())),
            now()
        ),
        [""; 0]
    );
    let unready = with(
        request(),
        "/spec/strategy",
        json!({"unreadyGracePeriodSeconds": 1}),
    );
    assert_eq!(
        restarts(&snapshot(&unready, Some(pod("a")), Some(idle())), now()),
        [""; 0]
    );
}

/// The request's phase in view of its objects, and how the request ends.
#[test]
fn request_ends_when_nothing_is_left_to_wait_for() {
    let (gone, silent) = ("pod has gone", "daemon has not responded for a long time");
    let stopping = |grace: Value, seconds: i64| {
        let image = with(
            image(Some("Stopping")),
            "/spec/stopContainers/0/gracePeriodSeconds",
            grace,
        );
        Some(with(
            image,
            "/spec/stopContainers/0/createdAt",
            ago(seconds),
        ))
    };
    for (what, snapshot, expected) in [
        (
            "new",
            snapshot(&request(), Some(pod("a")), Some(idle())),
            None,
        ),
        (
            "asked",
            snapshot(&recreating(), Some(pod("a")), Some(image(None))),
            None,
        ),
        (
            "stopped",
            snapshot(&recreating(), Some(pod("a")), Some(image(Some("Stopped")))),
            None,
        ),
        (
            "restarted",
            snapshot(&recreating(), Some(pod("b")), Some(image(Some("Stopped")))),
            Some(""),
        ),
        (
            "failed",
            snapshot(&recreating(), Some(pod("a")), Some(image(Some("Failed")))),
            Some(""),
        ),
        (
            "without pod",
            snapshot(&recreating(), None, None),
            Some(gone),
        ),
        (
            "another pod",
            snapshot(
                &recreating(),
                Some(with(pod("a"), "/metadata/uid", json!("v"))),
                None,
            ),
            Some(gone),
        ),
        (
            "a pod that goes",
            snapshot(
                &recreating(),
                Some(with(pod("a"), "/metadata/deletionTimestamp", ago(1))),
                None,
            ),
            Some(gone),
        ),
        (
            "a pod that ended",
            snapshot(
                &recreating(),
                Some(with(pod("a"), "/status/phase", json!("Failed"))),
                Some(idle()),
            ),
            Some("pod has ended"),
        ),
        (
            "an answer that does not come",
            snapshot(
                &recreating(),
                Some(pod("a")),
                Some(with(
                    image(None),
                    "/spec/stopContainers/0/createdAt",
                    ago(60),
                )),
            ),
            Some(silent),
        ),
        (
            "a stop that takes its time",
            snapshot(&recreating(), Some(pod("a")), stopping(json!(null), 89)),
            None,
        ),
        (
            "a stop that does not end",
            snapshot(&recreating(), Some(pod("a")), stopping(json!(null), 90)),
            Some(silent),
        ),
        (
            "a stop with a grace of its own",
            snapshot(&recreating(), Some(pod("a")), stopping(json!(600), 659)),
            None,
        ),
        (
            "one with that, too, that does not end",
            snapshot(&recreating(), Some(pod("a")), stopping(json!(600), 660)),
            Some(silent),
        ),
        (
            "no NodeImage",
            snapshot(
                &with(recreating(), "/metadata/creationTimestamp", ago(60)),
                Some(pod("a")),
                None,
            ),
            Some(silent),
        ),
        (
            "deadline",
            snapshot(
                &with(recreating(), "/spec/activeDeadlineSeconds", json!(10)),
                Some(pod("a")),
                Some(image(None)),
            ),
            Some("recreating has exceeded the activeDeadlineSeconds"),
        ),
        (
            "done at the deadline",
            snapshot(
                &with(recreating(), "/spec/activeDeadlineSeconds", json!(10)),
                Some(pod("b")),
                Some(image(Some("Stopped"))),
            ),
            Some(""),
        ),
    ] {
        let (_, status) = round(&snapshot);
        let ended = (status.phase == RecreatePhase::Completed).then_some(status.message.as_str());
        assert_eq!(ended, expected, "{what}");
        assert_eq!(
            status.completion_time.is_some(),
            expected.is_some(),
            "{what}"
        );
    }
}

#[test]
fn restart_status_matches_openkruise() {
    let (_, status) = round(&snapshot(
        &recreating(),
        Some(pod("b")),
        Some(image(Some("Stopped"))),
    ));
    let states = json!([{"name": "app", "phase": "Succeeded", "isKilled": true}]);
    assert_eq!(
        serde_json::to_value(&status.container_recreate_states).unwrap(),
        states
    );
    let seen = json!([{"name": "app", "ready": true, "restartCount": 1, "containerID": "c://b"}]);
    assert_eq!(
        serde_json::to_value(&status.container_status_snapshot).unwrap(),
        seen
    );
    let (_, stopped) = round(&snapshot(
        &recreating(),
        Some(pod("a")),
        Some(image(Some("Stopped"))),
    ));
    assert_eq!(
        stopped.container_recreate_states[0].phase,
        RecreatePhase::Recreating
    );
    assert!(
        stopped.container_status_snapshot.is_empty(),
        "the old one is none"
    );
}

#[test]
fn container_snapshot_is_written_with_its_state() {
    let mut killed = recreating();
    killed["status"]["containerRecreateStates"] =
        json!([{"name": "app", "phase": "Recreating", "isKilled": true}]);
    let starts = with(pod("b"), "/status/containerStatuses/0/ready", json!(false));
    let seen = snapshot(&killed, Some(starts), Some(image(Some("Stopped"))));
    assert_eq!(Some(round(&seen).1), seen.request.status);
    let serves = snapshot(&killed, Some(pod("b")), Some(image(Some("Stopped"))));
    assert_eq!(round(&serves).1.container_status_snapshot.len(), 1);
}

#[test]
fn refused_write_sets_blocked_condition() {
    let graceful = with(
        recreating(),
        "/spec/strategy/unreadyGracePeriodSeconds",
        json!(3),
    );
    let seen = snapshot(&graceful, Some(pod("a")), Some(idle()));
    let plan = decide(&seen, now());
    let failure = Failure {
        write: plan.actions().next().unwrap().write(),
        namespace: "default".into(),
        object: "web".into(),
        message: "it is protected".into(),
        code: 403,
        permanent: true,
        outdated: false,
        taken: false,
        infeasible: false,
    };
    let told = super::status(
        &seen,
        &plan,
        &Outcome {
            failures: vec![failure],
        },
        now(),
    )
    .unwrap();
    assert_eq!(
        (
            told.conditions[0].type_.as_str(),
            told.conditions[0].reason.as_str()
        ),
        ("Blocked", "Refused")
    );
}

#[test]
fn deadline_keeps_states_and_names_open_containers() {
    let late = with(recreating(), "/spec/activeDeadlineSeconds", json!(10));
    let (_, status) = round(&snapshot(&late, Some(pod("a")), Some(image(None))));
    assert_eq!(
        status.container_recreate_states[0].phase,
        RecreatePhase::Pending
    );
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "DeadlineExceeded")
        .unwrap();
    assert!(
        condition.message.contains("before app of pod web"),
        "{}",
        condition.message
    );
    // The stop was under way.
    let mut completed = late;
    completed["status"] = serde_json::to_value(&status).unwrap();
    let (_, told) = round(&snapshot(
        &completed,
        Some(pod("a")),
        Some(image(Some("Stopped"))),
    ));
    assert_eq!(
        (
            told.container_recreate_states[0].phase,
            told.container_recreate_states[0].is_killed
        ),
        (RecreatePhase::Recreating, true)
    );
    assert_eq!(
        (told.phase, &told.completion_time),
        (RecreatePhase::Completed, &status.completion_time)
    );
}

#[test]
fn request_waits_for_older_request_of_the_pod() {
    let mut mine = snapshot(&request(), Some(pod("a")), Some(idle()));
    let older = with(
        with(recreating(), "/metadata/uid", json!("q")),
        "/metadata/name",
        json!("older"),
    );
    mine.of_pod
        .push(Arc::new(serde_json::from_value(older).unwrap()));
    let (plan, status) = round(&mine);
    assert_eq!(status.phase, RecreatePhase::Pending);
    assert!(
        plan.is_idle() && plan.waiting[0].reason.contains("older"),
        "{plan:?}"
    );
}

fn patches(plan: &Plan) -> Vec<Value> {
    let of = |action: &Action| match action {
        Action::Patch { patch, .. } => Some(patch["metadata"].clone()),
        Action::PatchPodStatus { conditions, .. } => Some(json!(
            conditions
                .iter()
                .map(|c| (&*c.type_, &*c.status, &*c.message))
                .collect::<Vec<_>>()
        )),
        Action::Delete {
            resource: CONTAINER_RECREATE_REQUESTS,
            ..
        } => Some(json!("delete")),
        _ => None,
    };
    plan.actions().filter_map(of).collect()
}

const ENTRY: &str = r#"[{"userAgent":"ContainerRecreateRequest","key":"default/demo"}]"#;

#[test]
fn pod_is_out_of_service_from_grace_period_to_end() {
    let graceful = with(
        recreating(),
        "/spec/strategy/unreadyGracePeriodSeconds",
        json!(3),
    );
    let seen = snapshot(&graceful, Some(pod("a")), Some(idle()));
    let (plan, status) = round(&seen);
    let written = patches(&plan);
    assert_eq!(written[0], json!({"finalizers": [FINALIZER]}));
    assert_eq!(written[1][0], json!(["KruisePodReady", "False", ENTRY]));
    let grace = &status.conditions[0];
    assert_eq!(
        (grace.type_.as_str(), grace.last_transition_time.0),
        ("PreRecreateGrace", now())
    );
    // The write failed: the wait has not begun.
    let failure = Failure {
        write: plan.actions().next().unwrap().write(),
        namespace: "default".into(),
        object: "demo".into(),
        message: "no".into(),
        code: 409,
        permanent: false,
        outdated: true,
        taken: false,
        infeasible: false,
    };
    let failed = super::status(
        &seen,
        &plan,
        &Outcome {
            failures: vec![failure],
        },
        now(),
    )
    .unwrap();
    assert_eq!(failed.conditions, []);

    let mut completed = with(graceful, "/metadata/finalizers", json!([FINALIZER, "x"]));
    completed["status"] = json!({"phase": "Completed", "completionTime": ago(1)});
    let closed = with(
        pod("b"),
        "/status/conditions",
        json!([{"type": "KruisePodReady", "status": "False", "message": ENTRY}]),
    );
    let (plan, _) = round(&snapshot(&completed, Some(closed.clone()), Some(idle())));
    let written = patches(&plan);
    assert_eq!(written[0], json!([["KruisePodReady", "True", "[]"]]));
    assert_eq!(
        written[1],
        json!({"finalizers": ["x"], "labels": {"crr.apps.kruise.io/active": null}})
    );
    // A user removed the finalizer.
    let bare = with(completed.clone(), "/metadata/finalizers", json!([]));
    assert_eq!(
        patches(&round(&snapshot(&bare, Some(closed), Some(idle()))).0)[0],
        json!([["KruisePodReady", "True", "[]"]])
    );
    // A request that is being deleted releases the pod, too, and one whose pod is gone does not
    // wait for it.
    let going = with(completed, "/metadata/deletionTimestamp", ago(1));
    assert_eq!(
        patches(&round(&snapshot(&going, None, None)).0),
        [json!({"finalizers": ["x"]})]
    );
}

#[test]
fn request_with_finalizer_begins_with_one_pod_write() {
    let held = with(request(), "/metadata/finalizers", json!([FINALIZER]));
    let graceful = with(held, "/spec/strategy/unreadyGracePeriodSeconds", json!(3));
    let (plan, status) = round(&snapshot(&graceful, Some(pod("a")), Some(idle())));
    let written = patches(&plan);
    assert_eq!(
        (written.len(), &written[0][0]),
        (1, &json!(["KruisePodReady", "False", ENTRY]))
    );
    assert_eq!(
        (status.phase, &*status.conditions[0].type_),
        (RecreatePhase::Recreating, "PreRecreateGrace")
    );
    // A provider says itself that it begins.
    let foreign = with(graceful, "/metadata/labels/type", json!("virtual-kubelet"));
    let (plan, status) = round(&snapshot(&foreign, Some(pod("a")), Some(idle())));
    assert_eq!((patches(&plan), status.conditions), (vec![], vec![]));
}

#[test]
fn completed_request_loses_label_and_expires() {
    let mut completed = with(request(), "/spec/ttlSecondsAfterFinished", json!(3));
    completed["status"] = json!({"phase": "Completed", "completionTime": ago(3)});
    assert_eq!(
        patches(&decide(&snapshot(&completed, None, None), now())),
        [json!({"labels": {"crr.apps.kruise.io/active": null}})]
    );
    completed["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("crr.apps.kruise.io/active");
    assert_eq!(
        patches(&decide(&snapshot(&completed, None, None), now())),
        [json!("delete")]
    );
    completed["status"]["completionTime"] = ago(1);
    let plan = decide(&snapshot(&completed, None, None), now());
    assert_eq!(
        (
            patches(&plan).len(),
            plan.look_again.map(|wait| wait.as_secs())
        ),
        (0, Some(2))
    );
}

#[test]
fn container_id_over_253_bytes_needs_filling() {
    for (length, expected) in [(253, false), (254, true)] {
        let id = json!(format!("containerd://{}", "a".repeat(length - 13)));
        let forged = with(
            request(),
            "/spec/containers/0/statusContext/containerID",
            id,
        );
        assert_eq!(
            needs_filling(&serde_json::from_value(forged).unwrap()),
            expected,
            "{length}"
        );
    }
}

#[test]
fn request_behind_64_others_of_its_pod_ends() {
    let other = |number: i64| {
        let other = with(
            request(),
            "/metadata/name",
            json!(format!("before{number}")),
        );
        with(
            with(other, "/metadata/uid", json!(format!("u{number}"))),
            "/metadata/creationTimestamp",
            ago(1_000 + number),
        )
    };
    for (before, expected) in [
        (63, None),
        (64, Some("the pod has 64 requests before this one")),
    ] {
        let mut seen = snapshot(&request(), Some(pod("a")), Some(idle()));
        seen.of_pod.extend(
            (0..before).map(|number| Arc::new(serde_json::from_value(other(number)).unwrap())),
        );
        let (_, status) = round(&seen);
        let refused = (status.phase == RecreatePhase::Completed).then_some(status.message.as_str());
        assert_eq!(
            refused.is_some(),
            expected.is_some(),
            "{before}: {}",
            status.message
        );
        assert!(
            refused
                .unwrap_or_default()
                .starts_with(expected.unwrap_or_default()),
            "{}",
            status.message
        );
    }
}

#[test]
fn request_past_the_webhook_is_filled_or_refused() {
    let mut slipped = request();
    slipped["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("labels");
    let mut seen = snapshot(&slipped, Some(pod("a")), Some(idle()));
    seen.filled = Some(Ok(json!({"metadata": {"labels": {"x": "y"}}})));
    let plan = decide(&seen, now());
    assert_eq!(patches(&plan), [json!({"labels": {"x": "y"}})]);
    assert_eq!(status(&seen, &plan, &Outcome::default(), now()), None);
    seen.filled = Some(Err("spec.podName: pod web does not exist".to_owned()));
    let (plan, status) = round(&seen);
    assert_eq!(
        (status.phase, status.message.as_str()),
        (
            RecreatePhase::Completed,
            "spec.podName: pod web does not exist"
        )
    );
    assert_eq!(plan.events[0].reason, "Refused");
}

#[test]
fn request_without_daemon_ends_except_for_provider() {
    let mut seen = snapshot(&request(), Some(pod("a")), Some(idle()));
    seen.gates = Gates::default().with(Gate::KruiseDaemon, false);
    assert!(round(&seen).1.message.contains("KruiseDaemon"));
    let mut foreign = recreating();
    foreign["metadata"]["labels"]["type"] = json!("virtual-kubelet");
    let seen = snapshot(&foreign, Some(pod("b")), None);
    let (plan, status) = round(&seen);
    assert!(plan.is_idle());
    let before = seen.request.status.clone().unwrap();
    assert_eq!(
        status.container_recreate_states, before.container_recreate_states,
        "its states are the provider's"
    );
    assert_eq!(
        status.container_status_snapshot[0].container_id, "c://b",
        "who sees the new one here"
    );
    foreign["spec"]["strategy"]["unreadyGracePeriodSeconds"] = json!(3);
    let (plan, status) = round(&snapshot(&foreign, Some(pod("a")), None));
    assert_eq!(
        (patches(&plan).len(), status.conditions[0].type_.as_str()),
        (2, "PreRecreateGrace")
    );
}

#[test]
fn blocked_names_problems_that_need_an_action() {
    let graceful = with(
        recreating(),
        "/spec/strategy/unreadyGracePeriodSeconds",
        json!(3),
    );
    let no_gate = with(pod("a"), "/spec/readinessGates", json!([]));
    let waiting = |reason: &str| {
        let pod = with(
            pod("b"),
            "/status/containerStatuses/0/state",
            json!({"waiting": {"reason": reason}}),
        );
        with(pod, "/status/containerStatuses/0/ready", json!(false))
    };
    let not_ready = |seconds: i64| {
        let condition = json!([{"type": "ContainersReady", "status": "False", "lastTransitionTime": ago(seconds)}]);
        with(
            with(pod("b"), "/status/containerStatuses/0/ready", json!(false)),
            "/status/conditions",
            condition,
        )
    };
    let stopped = || Some(image(Some("Stopped")));
    let asked_before = |answer: Option<&str>, seconds: i64| {
        Some(with(
            image(answer),
            "/spec/stopContainers/0/createdAt",
            ago(seconds),
        ))
    };
    let stopped_before = |seconds: i64| asked_before(Some("Stopped"), seconds);
    let crashed = with(
        pod("b"),
        "/status/containerStatuses/0/state",
        json!({"terminated": {"exitCode": 1}}),
    );
    let crashed = with(crashed, "/status/containerStatuses/0/ready", json!(false));
    let told = json!([{"type": "Blocked", "status": "True", "reason": "NotStarted", "message": "pod web on node n1", "lastTransitionTime": ago(9)}]);
    let crashes = with(recreating(), "/status/conditions", told);
    for (what, snapshot, expected) in [
        (
            "no gate",
            snapshot(&graceful, Some(no_gate), Some(idle())),
            Some("NoReadinessGate"),
        ),
        (
            "back-off",
            snapshot(&recreating(), Some(waiting("CrashLoopBackOff")), stopped()),
            Some("NotStarted"),
        ),
        (
            "between two crashes",
            snapshot(&crashes, Some(crashed.clone()), stopped()),
            Some("NotStarted"),
        ),
        (
            "its first end",
            snapshot(&recreating(), Some(crashed), stopped()),
            None,
        ),
        (
            "a dead kubelet",
            snapshot(&recreating(), Some(pod("a")), stopped_before(90)),
            Some("NotReported"),
        ),
        (
            "a kubelet that is slow",
            snapshot(&recreating(), Some(pod("a")), stopped_before(80)),
            None,
        ),
        (
            "starts",
            snapshot(&recreating(), Some(waiting("ContainerCreating")), stopped()),
            None,
        ),
        (
            "not ready for long",
            snapshot(&recreating(), Some(not_ready(60)), stopped()),
            Some("NotReady"),
        ),
        (
            "not ready yet",
            snapshot(&recreating(), Some(not_ready(20)), stopped()),
            None,
        ),
        (
            "waits for the daemon",
            snapshot(&recreating(), Some(pod("a")), asked_before(None, 29)),
            None,
        ),
        (
            "a daemon without a word",
            snapshot(&recreating(), Some(pod("a")), asked_before(None, 30)),
            Some("NotAnswered"),
        ),
        (
            "a stop in its time",
            snapshot(
                &recreating(),
                Some(pod("a")),
                asked_before(Some("Stopping"), 59),
            ),
            None,
        ),
        (
            "a stop that does not end",
            snapshot(
                &recreating(),
                Some(pod("a")),
                asked_before(Some("Stopping"), 60),
            ),
            Some("NotAnswered"),
        ),
    ] {
        let (plan, status) = round(&snapshot);
        let blocked = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Blocked");
        assert_eq!(
            blocked.map(|condition| condition.reason.as_str()),
            expected,
            "{what}"
        );
        assert!(
            blocked.is_none_or(|blocked| blocked.message.contains("pod web on node n1")),
            "{what}"
        );
        if what == "not ready yet" {
            assert_eq!(
                plan.look_again.map(|wait| wait.as_secs()),
                Some(40),
                "the plan looks again when the pod is unready for a minute"
            );
        }
    }
}

#[test]
fn request_behind_a_blocked_one_is_blocked() {
    let mut mine = snapshot(&request(), Some(pod("a")), Some(idle()));
    let older = with(
        with(recreating(), "/metadata/uid", json!("q")),
        "/metadata/name",
        json!("older"),
    );
    mine.of_pod
        .push(Arc::new(serde_json::from_value(older.clone()).unwrap()));
    assert_eq!(round(&mine).1.conditions, []);
    let blocked = json!([{"type": "Blocked", "status": "True", "reason": "NotReady", "message": "", "lastTransitionTime": ago(9)}]);
    mine.of_pod[1] =
        Arc::new(serde_json::from_value(with(older, "/status/conditions", blocked)).unwrap());
    let (_, status) = round(&mine);
    assert_eq!(
        (status.phase, status.conditions[0].reason.as_str()),
        (RecreatePhase::Pending, "BehindAnother")
    );
    let message = &status.conditions[0].message;
    assert!(
        message.contains("older comes first") && message.contains("(NotReady)"),
        "{message}"
    );
}

#[test]
fn pod_gets_one_event_per_stop_and_failed_hook() {
    let mut answer = image(Some("Stopped"));
    answer["status"]["stoppedContainers"][0]["hookMessage"] = json!("ended with 1");
    let seen = snapshot(&recreating(), Some(pod("a")), Some(answer));
    let next = round(&seen).1;
    let events = pod_events(&seen, &next);
    assert_eq!(
        events
            .iter()
            .map(|event| (event.reason, event.warning))
            .collect::<Vec<_>>(),
        [("Killing", false), ("FailedPreStopHook", true)]
    );
    let mut again = recreating();
    again["status"] = serde_json::to_value(&next).unwrap();
    assert_eq!(
        pod_events(
            &snapshot(&again, Some(pod("a")), Some(image(Some("Stopped")))),
            &next
        ),
        []
    );
}
