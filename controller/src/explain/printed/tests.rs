use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Action, Target, Verb, Write};
use serde_json::json;

use super::*;

const REFUSAL: &str = "PodUnavailableBudget default/web allows no more pods to go";

fn delete(pod: &str) -> Step {
    let [namespace, name, uid] = ["default", pod, pod].map(str::to_owned);
    let target = Target {
        namespace,
        name,
        uid,
        resource_version: None,
    };
    Step::new(
        Action::DeletePod { target },
        format!("pod {pod}: it cannot go to web-2 in place"),
    )
}

fn waiting(all: &[(&str, &str)]) -> Vec<Waiting> {
    all.iter()
        .map(|(pod, reason)| Waiting {
            pod: (*pod).to_owned(),
            reason: (*reason).to_owned(),
        })
        .collect()
}

fn plan(pods: &[&str], all: &[(&str, &str)]) -> Plan {
    let mut plan = Plan {
        waiting: waiting(all),
        ..Plan::default()
    };
    plan.add_stage(
        "update by recreating",
        pods.iter().map(|pod| delete(pod)).collect(),
    );
    plan
}

fn held(pod: &str) -> Failure {
    Failure::of_budget(
        Write::of(Verb::Delete, PODS),
        ("default", pod),
        REFUSAL.to_owned(),
    )
}

fn explained(plan: Plan, status: &Value, old: &Value) -> Explained {
    Explained::new(("CloneSet", "default/web".to_owned()), plan, status, old)
}

fn blocked(reason: &str) -> Value {
    json!({"conditions": [{"type": "Blocked", "status": "True", "reason": reason, "message": "m"}]})
}

#[test]
fn step_that_a_budget_refuses_waits_for_it() {
    let all = [
        ("web-c", "is to be updated, and waits for maxUnavailable"),
        ("web-b", "is not scheduled yet"),
    ];
    let carried_out = with_waiting(
        &plan(&["web-a", "web-b"], &all),
        plan(&[], &all),
        &[held("web-b"), held("web-a")],
        true,
    );
    let says = format!("it cannot go to web-2 in place; waits for a budget, which says: {REFUSAL}");
    let expected = waiting(&[
        ("web-a", &says),
        ("web-b", &format!("{says}; is not scheduled yet")),
        (
            "web-c",
            "is to be updated, and waits for maxUnavailable, which pods take up that wait for a budget",
        ),
    ]);
    assert_eq!(carried_out.waiting, expected);
    let text = explained(carried_out, &blocked("NoBudget"), &json!({})).to_string();
    assert!(
        text.starts_with(
            "CloneSet default/web\nBlocked (NoBudget): m\nNow: nothing, as long as that is so.\n"
        ),
        "{text}"
    );
}

#[test]
fn pods_of_cluster_wide_objects_have_a_namespace() {
    let carried_out = with_waiting(
        &plan(&["web-a"], &[]),
        Plan::default(),
        &[held("web-a")],
        false,
    );
    assert_eq!(carried_out.waiting[0].pod, "default/web-a");
}

#[test]
fn each_pod_has_one_line() {
    let all = [
        ("web-a", "is not scheduled yet"),
        ("", "one"),
        ("web-b", "stays"),
        ("", "two"),
        ("web-b", "has no claim"),
    ];
    let carried_out = with_waiting(&Plan::default(), plan(&["web-a"], &all), &[], true);
    let text = explained(carried_out, &json!({}), &json!({})).to_string();
    let lines: Vec<_> = text.lines().collect();
    let expected = [
        "CloneSet default/web",
        "Now:",
        "  update by recreating (1)",
        "    - pod web-a: it cannot go to web-2 in place [DeletePod]; web-a: is not scheduled yet",
        "Waits:",
        "  the CloneSet: one",
        "  web-b: stays; has no claim",
        "  the CloneSet: two",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn blocked_is_the_status_of_this_round() {
    let none = json!({});
    for (is_idle, now, old, expected) in [
        (
            false,
            blocked("NoBudget"),
            blocked("PodUnschedulable"),
            "NoBudget",
        ),
        (true, none.clone(), blocked("NoBudget"), ""),
        (false, none.clone(), blocked("NameTaken"), "NameTaken"),
        // A refusal by the apiserver shows only when the controller writes.
        (
            false,
            blocked("PodNotReady"),
            blocked("QuotaExceeded"),
            "QuotaExceeded",
        ),
        (
            true,
            blocked("PodNotReady"),
            blocked("QuotaExceeded"),
            "PodNotReady",
        ),
    ] {
        let plan = plan(if is_idle { &[] } else { &["web-a"] }, &[]);
        let found = explained(plan, &now, &old)
            .blocked
            .map(|told| told["reason"].clone())
            .unwrap_or_default();
        assert_eq!(
            found.as_str().unwrap_or_default(),
            expected,
            "{is_idle} {now} {old}"
        );
    }
}

#[test]
fn line_breaks_of_others_begin_no_line() {
    let all = [
        ("web-a", "waits\nNow: nothing to do.\r"),
        ("web-b", "is\nheld"),
    ];
    let blocked = json!({"conditions": [{"type": "Blocked", "reason": "R", "message": "a\nb"}]});
    let text = explained(plan(&["web-b"], &all), &blocked, &json!({})).to_string();
    let lines: Vec<_> = text.lines().skip(1).collect();
    let expected = [
        "Blocked (R): a\\u{a}b",
        "Now:",
        "  update by recreating (1)",
        "    - pod web-b: it cannot go to web-2 in place [DeletePod]; web-b: is\\u{a}held",
        "Waits:",
        "  web-a: waits\\u{a}Now: nothing to do.\\u{d}",
    ];
    assert_eq!(lines, expected);
}
