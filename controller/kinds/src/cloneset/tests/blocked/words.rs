//! The message of a cause, and when the condition changes.

use berth_workload::objects::resource::{CLAIMS, IMAGE_PULL_JOBS, POD_TEMPLATES, PODS};
use berth_workload::plan::{Verb, Write};

use super::*;

fn ready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": BEGAN}]}})
}

fn pull(message: &str) -> Value {
    container(json!({"state": {"waiting": {"reason": "ErrImagePull", "message": message}}}))
}

fn crash(exit_code: i32) -> Value {
    let ended = json!({"terminated": {"exitCode": exit_code, "reason": "Error"}});
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    container(json!({"restartCount": 3, "state": waiting, "lastState": ended}))
}

#[test]
fn a_refusal_says_what_cannot_be_done_and_what_helps() {
    let quota = "forbidden: exceeded quota: few";
    let table = [
        (
            Write::of(Verb::Create, PODS),
            422,
            true,
            "no",
            Some((
                "CreateRefused",
                "pods cannot be created; the apiserver says: no; ",
            )),
        ),
        (
            Write::of(Verb::Create, CLAIMS),
            403,
            true,
            "no",
            Some(("CreateRefused", "claims cannot be created")),
        ),
        (
            Write::of(Verb::Delete, PODS),
            403,
            true,
            "no",
            Some((
                "DeleteRefused",
                "pod web-a cannot be deleted; the apiserver says: no; ",
            )),
        ),
        (
            Write::of(Verb::Patch, PODS),
            422,
            true,
            "no",
            Some((
                "UpdateRefused",
                "pod web-a cannot be updated; the apiserver says: no; ",
            )),
        ),
        (
            Write::of(Verb::Resize, PODS),
            403,
            true,
            "no",
            Some(("UpdateRefused", "pod web-a cannot be resized")),
        ),
        (
            Write::of(Verb::Resize, PODS),
            403,
            false,
            quota,
            Some((
                "UpdateRefused",
                "pod web-a cannot be resized; the apiserver says: forbidden: exceeded quota: few; raise the ResourceQuota",
            )),
        ),
        (
            Write::of(Verb::Create, PODS),
            403,
            false,
            quota,
            Some(("QuotaExceeded", "raise the ResourceQuota")),
        ),
        (
            Write::of(Verb::Create, PODS),
            403,
            true,
            quota,
            Some(("QuotaExceeded", "raise the ResourceQuota")),
        ),
        (
            Write::of(Verb::Validate, POD_TEMPLATES),
            422,
            true,
            "no",
            Some((
                "TemplateRefused",
                "CloneSet default/web: no; correct the field",
            )),
        ),
        (
            Write::of(Verb::Create, PODS),
            422,
            true,
            "vault is one of the value controller.protectedNamespaces of the chart",
            Some((
                "CreateRefused",
                "of the chart; take the namespace out of controller.protectedNamespaces, or use another namespace",
            )),
        ),
        // Writes that may succeed the next time.
        (Write::of(Verb::Create, PODS), 500, false, "no", None),
        (Write::of(Verb::Create, PODS), 403, false, "no", None),
        (Write::of(Verb::Create, PODS), 500, false, quota, None),
        // Images that are not pulled ahead block nothing.
        (
            Write::of(Verb::Create, IMAGE_PULL_JOBS),
            403,
            true,
            "no",
            None,
        ),
        (
            Write::of(Verb::Delete, IMAGE_PULL_JOBS),
            403,
            true,
            quota,
            None,
        ),
    ];
    for (write, code, permanent, message, expected) in table {
        let mut set = snapshot(&ready(), &json!({}));
        let [namespace, object, message] = ["default", "web-a", message].map(str::to_owned);
        let failure = Failure {
            write,
            namespace,
            object,
            message,
            code,
            permanent,
            outdated: false,
            taken: false,
            infeasible: false,
        };
        let what = format!("{failure:?}");
        let told = told(
            &mut set,
            &Outcome {
                failures: vec![failure],
            },
            0,
        );
        assert_eq!(
            told.as_ref().map(|told| &*told.reason),
            expected.map(|(reason, _)| reason),
            "{what}"
        );
        if let (Some(told), Some((_, words))) = (told, expected) {
            assert!(
                told.message.contains("CloneSet default/web") && told.message.contains(words),
                "{}",
                told.message
            );
        }
    }
}

#[test]
fn quota_waits_for_pods_that_are_ending() {
    for (due, reported) in [
        ("2026-01-01T00:00:30Z", false),
        ("2025-12-31T23:59:00Z", true),
    ] {
        let ending = json!({"metadata": {"deletionTimestamp": due}});
        let mut set = snapshot(&ending, &json!({}));
        let failure = Failure {
            write: Write::of(Verb::Create, PODS),
            namespace: "default".to_owned(),
            object: "web-b".to_owned(),
            message: "forbidden: exceeded quota: few".to_owned(),
            code: 403,
            permanent: true,
            outdated: false,
            taken: false,
            infeasible: false,
        };
        let failures = vec![failure];
        let told = told(&mut set, &Outcome { failures }, 0);
        let is_quota = told.is_some_and(|told| told.reason == "QuotaExceeded");
        assert_eq!(is_quota, reported, "{due}");
    }
}

#[test]
fn new_cause_changes_message_and_keeps_start_time() {
    // The first cause, the next cause, and whether the condition changes.
    let table = [
        ("another cause", pull("no such image"), crash(1), true),
        ("another exit code", crash(1), crash(2), true),
        (
            "the node says something else",
            pull("no such image"),
            pull("no such registry"),
            true,
        ),
        (
            "it says the same of another port",
            pull("10.0.0.1:80: refused"),
            pull("10.0.0.1:8080: refused"),
            false,
        ),
        ("the same", crash(1), crash(1), false),
    ];
    for (what, first, then, is_news) in table {
        let mut set = snapshot(&first, &json!({}));
        let before = told(&mut set, &Outcome::default(), 0).unwrap();
        let mut set = Snapshot {
            set: set.set,
            ..snapshot(&then, &json!({}))
        };
        let after = told(&mut set, &Outcome::default(), 9).unwrap();
        if !is_news {
            assert_eq!(after, before, "{what}");
            continue;
        }
        assert_ne!(
            (&after.reason, &after.message),
            (&before.reason, &before.message),
            "{what}"
        );
        assert_eq!(
            after.last_update_time.map(|time| time.0),
            Some(at(9)),
            "{what}"
        );
        assert_eq!(
            after.last_transition_time.map(|time| time.0),
            Some(at(0)),
            "{what}"
        );
        let conditions = set.set.status.as_ref().unwrap().conditions.iter();
        assert_eq!(
            conditions.filter(|c| c.type_ == condition::BLOCKED).count(),
            1,
            "{what}"
        );
    }
}

#[test]
fn pods_out_of_service_are_named_where_others_wait() {
    let named = |failing: usize, waits: bool| {
        let mut set = snapshot(&json!({}), &json!({}));
        let pod = |name: &str, more: &Value| {
            let mut pod = json!({"metadata": {"name": format!("web-{name}"), "uid": name}});
            merge(&mut pod, more);
            snapshot(&pod, &json!({})).pods.remove(0)
        };
        let mut ended = crash(1);
        ended["status"]["phase"] = json!("Failed");
        set.pods = vec![pod("0", &ended), pod("1", &ready())];
        set.pods.extend(
            ["a", "b", "c", "d", "e"]
                .iter()
                .take(failing)
                .map(|name| pod(name, &crash(1))),
        );
        let reason = if waits {
            "is to be updated, and waits for maxUnavailable"
        } else {
            "stays at its revision"
        };
        let waiting = vec![berth_workload::plan::Waiting {
            pod: "web-z".to_owned(),
            reason: reason.to_owned(),
        }];
        let plan = Plan {
            waiting,
            ..Plan::default()
        };
        let status = status(&set, &plan, &Outcome::default(), at(0)).unwrap();
        let message = status
            .conditions
            .into_iter()
            .find(|c| c.type_ == condition::BLOCKED)
            .unwrap()
            .message;
        message
            .split_once(". Other pods wait for maxUnavailable, and ")
            .map(|(_, names)| names.to_owned())
    };
    let table = [
        (1, true, Some("web-a is out of service")),
        (3, true, Some("web-a, web-b, web-c are out of service")),
        (
            4,
            true,
            Some("web-a, web-b, web-c and others are out of service"),
        ),
        (
            5,
            true,
            Some("web-a, web-b, web-c and others are out of service"),
        ),
        (3, false, None),
    ];
    for (failing, waits, expected) in table {
        assert_eq!(
            named(failing, waits).as_deref(),
            expected,
            "{failing} {waits}"
        );
    }
}

/// The pod is older than the state in which its hook holds it.
#[test]
fn hook_time_counts_from_start_of_lifecycle_state() {
    let lifecycle = json!({"lifecycle": {"preNormal": {"labelsHandler": {"lb": "in"}}}});
    let pod = json!({"metadata": {
        "labels": {"app": "web", "lifecycle.apps.kruise.io/state": "PreparingNormal"},
        "annotations": {"lifecycle.apps.kruise.io/timestamp": at(100)},
    }});
    let mut set = snapshot(&pod, &lifecycle);
    assert_eq!(told(&mut set, &Outcome::default(), 159), None);
    let told = told(&mut set, &Outcome::default(), 160).unwrap();
    assert_eq!(told.reason, "HookNotReleased");
    assert!(
        told.message
            .contains("in lifecycle state PreparingNormal since 2026-01-01T00:01:40Z"),
        "{}",
        told.message
    );
}

#[test]
fn zero_limits_are_reported_only_when_work_is_due() {
    let update = |max_unavailable: i32, max_surge: i32, more: Value| {
        let mut rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
        merge(&mut rolling, &more);
        let mut world = World::settled(2, template("web:1"), json!({"rollingUpdate": rolling}));
        world.set_template(template("web:2"));
        world.step();
        world.step();
        world
            .status()
            .conditions
            .iter()
            .any(|c| c.reason == "NoBudget")
    };
    assert!(update(0, 0, json!({})));
    assert!(
        !update(1, 0, json!({})) && !update(0, 1, json!({})),
        "one of them is enough"
    );
    assert!(
        !update(0, 0, json!({"paused": true})) && !update(0, 0, json!({"partition": 2})),
        "nothing is to happen"
    );

    let create = |max_unavailable: Value, missing: bool| {
        let mut world = World::settled(2, template("web:1"), json!({"rollingUpdate": {}}));
        let spec = &mut Arc::make_mut(&mut world.set).spec;
        spec.scale_strategy.max_unavailable = serde_json::from_value(max_unavailable).unwrap();
        spec.replicas = Some(if missing { 3 } else { 2 });
        world.step();
        world
            .status()
            .conditions
            .into_iter()
            .find(|c| c.reason == "NoBudget")
            .map(|c| c.message)
    };
    let message = create(json!(0), true).unwrap();
    assert!(
        message.contains("spec.scaleStrategy.maxUnavailable: 0 lets no pod be created"),
        "{message}"
    );
    assert_eq!(
        (
            create(json!(0), false),
            create(json!(1), true),
            create(Value::Null, true)
        ),
        (None, None, None)
    );
}

fn failure(write: Write, object: &str, message: &str) -> Failure {
    Failure {
        code: 403,
        ..Failure::of_budget(write, ("default", object), message.to_owned())
    }
}

fn held(pod: &str, message: &str) -> Failure {
    Failure::of_budget(
        Write::of(Verb::Delete, PODS),
        ("default", pod),
        message.to_owned(),
    )
}

#[test]
fn budget_is_reported_after_causes_to_be_fixed() {
    let unscheduled = json!({
        "metadata": {"creationTimestamp": BEGAN}, "spec": {"nodeName": ""},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": BEGAN}]},
    });
    for (pod, seconds, expected) in [
        (pull("no such image"), 0, "ImageUnavailable"),
        (crash(1), 0, "ContainerCrashLooping"),
        (unscheduled.clone(), 59, "NoBudget"),
        (unscheduled, 60, "PodUnschedulable"),
        (ready(), 600, "NoBudget"),
    ] {
        let mut set = snapshot(&pod, &json!({}));
        let outcome = Outcome {
            failures: vec![held(
                "web-z",
                "PodUnavailableBudget default/web allows no more",
            )],
        };
        assert_eq!(
            told(&mut set, &outcome, seconds).unwrap().reason,
            expected,
            "{pod}"
        );
    }
    let mut set = snapshot(&ready(), &json!({}));
    set.overlapping = vec!["other".to_owned()];
    let told = told(
        &mut set,
        &Outcome {
            failures: vec![held("web-z", "no")],
        },
        0,
    )
    .unwrap();
    assert_eq!(told.reason, "NoBudget", "graver than an overlap");
}

#[test]
fn refusals_name_the_first_pods_and_count_the_others() {
    let (delete, patch, create) = (Verb::Delete, Verb::Patch, Verb::Create);
    let pods = [
        "web-ddddd",
        "web-bbbbb",
        "web-aaaaa",
        "web-eeeee",
        "web-ccccc",
    ];
    for (verb, count, expected) in [
        (
            delete,
            1,
            "pod web-ddddd cannot be deleted; the apiserver says: pod web-ddddd is kept",
        ),
        (
            delete,
            2,
            "pods web-bbbbb, web-ddddd cannot be deleted; the apiserver says: pod web-bbbbb is kept",
        ),
        (
            delete,
            3,
            "pods web-aaaaa, web-bbbbb, web-ddddd cannot be deleted",
        ),
        (
            patch,
            5,
            "pods web-aaaaa, web-bbbbb, web-ccccc and 2 more cannot be updated",
        ),
        // These names change with each try.
        (
            create,
            2,
            "pods cannot be created; the apiserver says: pod web-* is kept",
        ),
    ] {
        let write = Write::of(verb, PODS);
        let failures = pods[..count]
            .iter()
            .map(|pod| failure(write, pod, &format!("pod {pod} is kept")));
        let mut set = snapshot(&ready(), &json!({}));
        let told = told(
            &mut set,
            &Outcome {
                failures: failures.collect(),
            },
            0,
        )
        .unwrap()
        .message;
        assert!(
            told.starts_with(&format!("CloneSet default/web: {expected}")),
            "{told}"
        );
    }
}

#[test]
fn message_is_stable_while_its_named_pods_wait() {
    let budget = |available: u8| {
        format!(
            "PodUnavailableBudget default/web allows no more pods to go: {available} of 9 are available"
        )
    };
    let mut set = snapshot(&ready(), &json!({}));
    let mut now = |pods: &[&str], available: u8, seconds: i64| {
        let failures = pods
            .iter()
            .map(|pod| held(&format!("web-{pod}"), &budget(available)))
            .collect();
        told(&mut set, &Outcome { failures }, seconds).unwrap()
    };
    let first = now(&["b", "c", "d", "e"], 9, 0);
    let says = "pods web-b, web-c, web-d and 1 more wait for a budget, which says: PodUnavailableBudget default/web";
    assert!(
        first
            .message
            .starts_with(&format!("CloneSet default/web: {says}")),
        "{}",
        first.message
    );
    assert_eq!(
        now(&["a", "b", "c", "d", "e", "f"], 8, 1),
        first,
        "other pods wait too, and numbers differ"
    );
    let next = now(&["a", "c", "d", "e", "f"], 8, 2);
    assert!(
        next.message
            .contains("pods web-a, web-c, web-d and 2 more wait for"),
        "{}",
        next.message
    );
    let last = now(&["c"], 8, 3);
    assert!(
        last.message
            .contains(": pod web-c waits for a budget, which says: "),
        "{}",
        last.message
    );
}
