use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use berth_workload::budget::count::{Expected, Unknown, View};
use berth_workload::budget::federation::Brings;
use berth_workload::objects::pod::Pod;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;

mod interleavings;

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn pod(name: &str, ready: bool) -> Arc<Pod> {
    let ready = if ready { "True" } else { "False" };
    let pod = json!({
        "metadata": {"name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn budget(spec: Value, status: Value) -> Arc<PodUnavailableBudget> {
    let mut all = json!({"selector": {"matchLabels": {"app": "web"}}});
    spec.as_object()
        .unwrap()
        .iter()
        .for_each(|(key, value)| all[key] = value.clone());
    let budget = json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "web", "namespace": "default", "uid": "b", "generation": 1}, "spec": all, "status": status,
    });
    Arc::new(serde_json::from_value(budget).unwrap())
}

fn snapshot(spec: Value, status: Value, total: usize, pods: &[(&str, bool)]) -> Snapshot {
    let budget = budget(spec, status);
    let entries = budget
        .status
        .iter()
        .flat_map(|status| &status.ledger)
        .map(|ledger| ledger.entries.len())
        .sum();
    Snapshot {
        budget,
        view: View {
            expected: Ok(Expected {
                total,
                selector: None,
            }),
            pods: pods.iter().map(|(name, ready)| pod(name, *ready)).collect(),
            nodes: vec!["n1".to_owned()],
            position: "9".to_owned(),
            seen_for: vec![Duration::ZERO; entries],
            unseen: BTreeSet::new(),
            patience: Duration::from_secs(75),
        },
        webhook_calls: WebhookCalls::Always,
        child: None,
        keeps: Err(berth_workload::budget::child::Without::NotRequested),
    }
}

fn evicted(pods: &[&str]) -> Value {
    let entry = |pod: &&str| json!({"pod": pod, "uid": pod, "operation": "EVICT", "holder": "admin", "time": "2026-01-01T00:00:00Z"});
    json!({
        "observedGeneration": 1, "ledger": {"counted": "7", "entries": pods.iter().map(entry).collect::<Vec<_>>()},
    })
}

fn numbers(status: &PodUnavailableBudgetStatus) -> [i32; 4] {
    [
        status.unavailable_allowed,
        status.current_available,
        status.desired_available,
        status.total_replicas,
    ]
}

#[test]
fn count_excludes_pods_allowed_to_disrupt() {
    let five = [
        ("a", true),
        ("b", true),
        ("c", true),
        ("d", true),
        ("e", false),
    ];
    for (spec, status_, total, expected) in [
        (json!({"maxUnavailable": 2}), Value::Null, 5, [1, 4, 3, 5]),
        (
            json!({"maxUnavailable": 2}),
            evicted(&["a"]),
            5,
            [0, 3, 3, 5],
        ),
        (
            json!({"maxUnavailable": 2}),
            evicted(&["a", "b"]),
            5,
            [0, 2, 3, 5],
        ),
        (
            json!({"maxUnavailable": 2}),
            evicted(&["gone"]),
            5,
            [1, 4, 3, 5],
        ),
        (json!({"minAvailable": "50%"}), Value::Null, 4, [2, 4, 2, 4]),
        (json!({"maxUnavailable": 0}), Value::Null, 3, [1, 4, 3, 3]),
        (
            json!({"maxUnavailable": 1, "ignoredPodSelector": {"matchLabels": {"app": "web"}}}),
            Value::Null,
            0,
            [0, 0, 0, 0],
        ),
    ] {
        let snapshot = snapshot(spec.clone(), status_, total, &five);
        assert_eq!(numbers(&status(&snapshot, now())), expected, "{spec}");
    }
}

#[test]
fn settled_and_late_entries_leave_ledger_and_status() {
    let mut snapshot = snapshot(
        json!({"maxUnavailable": 2}),
        evicted(&["a", "gone"]),
        3,
        &[("a", true), ("b", true)],
    );
    let next = status(&snapshot, now());
    assert_eq!(next.disrupted_pods.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(next.ledger.as_ref().unwrap().entries.len(), 1);
    snapshot.view.seen_for[0] = Duration::from_secs(75);
    let next = status(&snapshot, now());
    assert!(next.disrupted_pods.is_empty() && next.ledger.unwrap().entries.is_empty());
    assert_eq!(next.current_available, 2);
}

#[test]
fn allowed_pod_that_stays_sends_not_deleted_event() {
    let pods = [("a", true), ("b", true), ("c", true)];
    let told = |seen_for: [u64; 3], entries: &[&str]| {
        let mut snapshot = snapshot(json!({"maxUnavailable": 2}), evicted(entries), 3, &pods);
        snapshot.view.seen_for = seen_for.map(Duration::from_secs).to_vec();
        let events = decide(&snapshot, now()).events;
        events
            .into_iter()
            .map(|event| (event.reason, event.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(told([0, 0, 74], &["a", "b", "c"]), []);
    let message = "were allowed to go and are still there, so they are counted again: a (EVICT by admin since 2026-01-01T00:00:00Z)";
    assert_eq!(
        told([75, 0, 0], &["a", "b", "c"]),
        [("NotDeleted", message.to_owned())]
    );
    assert_eq!(
        told([75, 0, 0], &["a", "a", "b"]),
        [],
        "somebody has asked for it again"
    );
    assert_eq!(told([75, 75, 75], &["gone", "gone", "gone"]), []);
}

#[test]
fn disruptions_of_openkruise_are_charged_until_late() {
    let at = |seconds: i64| json!(now() + SignedDuration::from_secs(seconds));
    let left = json!({
        "observedGeneration": 1, "disruptedPods": {"a": at(-5), "c": at(-5), "gone": at(-5)},
        "unavailablePods": {"b": at(-9), "d": at(-75)},
    });
    let pods = [("a", true), ("b", true), ("c", true), ("d", true)];
    let mut snapshot = snapshot(json!({"maxUnavailable": 3}), left, 4, &pods);
    // The pod was created when the previous pod of its name was gone.
    let young = Arc::make_mut(&mut snapshot.view.pods[2]);
    young.metadata.creation_timestamp = Some(now() - SignedDuration::from_secs(1));
    let next = status(&snapshot, now());
    let charged = |next: &PodUnavailableBudgetStatus| {
        let entries = next.ledger.iter().flat_map(|ledger| &ledger.entries);
        entries
            .map(|entry| format!("{} {}", entry.operation.name(), entry.uid))
            .collect::<Vec<_>>()
    };
    assert_eq!(charged(&next), ["DELETE a", "UPDATE b"]);
    assert_eq!(numbers(&next), [1, 2, 1, 4]);
    // The next count has the ledger, and adds no charge.
    Arc::make_mut(&mut snapshot.budget).status = Some(next.clone());
    snapshot.view.seen_for = vec![Duration::ZERO; 2];
    assert_eq!(charged(&status(&snapshot, now())), charged(&next));
    snapshot.view.seen_for = vec![Duration::from_secs(75); 2];
    assert_eq!(charged(&status(&snapshot, now())), [""; 0]);
}

#[test]
fn budget_without_count_is_blocked_and_allows_nothing() {
    let told = |snapshot: &Snapshot| {
        let next = status(snapshot, now());
        let blocked = next
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Blocked")
            .unwrap()
            .reason
            .clone();
        assert!(
            next.unavailable_allowed == 0 && next.ledger.unwrap().counted.is_empty(),
            "{blocked}"
        );
        blocked
    };
    let mut unknown = snapshot(
        json!({"maxUnavailable": 2}),
        evicted(&[]),
        3,
        &[("a", true)],
    );
    unknown.view.expected = Err(Unknown {
        message: "no scale: set spec.protectTotalReplicas".to_owned(),
    });
    assert_eq!(told(&unknown), "CalculateExpectedPodCountFailed");
    assert_eq!(
        decide(&unknown, now()).events[0].reason,
        "CalculateExpectedPodCountFailed"
    );
    let broken = snapshot(
        json!({"maxUnavailable": "x"}),
        evicted(&[]),
        3,
        &[("a", true)],
    );
    assert_eq!(told(&broken), "InvalidSpec");
}

#[test]
fn min_available_as_a_number_needs_no_total() {
    let pods = [("a", true), ("b", true), ("c", true), ("d", false)];
    let number = json!({"minAvailable": 1});
    let by_target = json!({"minAvailable": 1, "selector": null, "targetRef": {"apiVersion": "v1", "kind": "Foo", "name": "a"}});
    for (spec, status_, is_counted, expected) in [
        (number.clone(), Value::Null, true, [2, 3, 1, 4]),
        (number, evicted(&["a", "b"]), true, [0, 1, 1, 4]),
        (json!({"minAvailable": 4}), Value::Null, true, [0, 3, 4, 4]),
        (
            json!({"minAvailable": "25%"}),
            Value::Null,
            false,
            [0, 0, 0, 0],
        ),
        (
            json!({"maxUnavailable": 1}),
            Value::Null,
            false,
            [0, 0, 0, 0],
        ),
        // Only the workload says which pods it means.
        (by_target, Value::Null, false, [0, 0, 0, 0]),
    ] {
        let mut unknown = snapshot(spec.clone(), status_, 0, &pods);
        unknown.view.expected = Err(Unknown {
            message: "pod a has no controller".to_owned(),
        });
        let next = status(&unknown, now());
        assert_eq!(numbers(&next), expected, "{spec}");
        let told = |type_: &str| {
            next.conditions
                .iter()
                .find(|condition| condition.type_ == type_)
        };
        assert_eq!(
            (told("Blocked").is_none(), told("TotalKnown").is_some()),
            (is_counted, is_counted),
            "{spec}"
        );
        let explained: Vec<_> = explain(&unknown, now())
            .into_iter()
            .map(|line| line.reason)
            .collect();
        let says = if is_counted {
            "the number of pods that there are: pod a has"
        } else {
            "its pods are refused"
        };
        assert!(
            explained.iter().any(|line| line.contains(says)),
            "{spec} {explained:?}"
        );
        assert_eq!(
            decide(&unknown, now()).events.is_empty(),
            is_counted,
            "{spec}"
        );
        // In a federation, with parts of all pods, too few pods would be expected of the budget.
        let mut budget = (*unknown.budget).clone();
        budget.status = Some(next.clone());
        assert!(Brings::of_unavailable(&budget).is_err(), "{spec}");
    }
    let mut known = snapshot(json!({"minAvailable": 1}), Value::Null, 4, &pods);
    known.view.expected = Err(Unknown {
        message: String::new(),
    });
    Arc::make_mut(&mut known.budget).status = Some(status(&known, now()));
    known.view.expected = Ok(Expected {
        total: 4,
        selector: None,
    });
    let next = status(&known, now());
    assert!(
        next.conditions
            .iter()
            .all(|condition| condition.type_ != "TotalKnown"),
        "{next:?}"
    );
}

#[test]
fn failed_count_keeps_view_of_settled_entries() {
    let known = || -> Result<Expected, Unknown> {
        Ok(Expected {
            total: 1,
            selector: None,
        })
    };
    let unknown = || -> Result<Expected, Unknown> {
        Err(Unknown {
            message: "no scale".to_owned(),
        })
    };
    let mut snapshot = snapshot(
        json!({"maxUnavailable": 1}),
        evicted(&["gone"]),
        1,
        &[("a", true)],
    );
    for (position, expected, views) in [
        ("9", known(), ("9", "")),
        ("12", unknown(), ("", "12")),
        ("13", unknown(), ("", "12")),
        ("14", known(), ("14", "")),
        ("15", known(), ("14", "")),
    ] {
        (snapshot.view.position, snapshot.view.expected) = (position.to_owned(), expected);
        let next = status(&snapshot, now());
        let ledger = next.ledger.as_ref().unwrap();
        assert_eq!(
            (ledger.counted.as_str(), ledger.settled.as_str()),
            views,
            "{position}"
        );
        Arc::make_mut(&mut snapshot.budget).status = Some(next);
    }
    // A build that knew only views of counts has left no entries.
    let left = json!({"observedGeneration": 1, "ledger": {}});
    Arc::make_mut(&mut snapshot.budget).status = serde_json::from_value(left).unwrap();
    snapshot.view.expected = unknown();
    assert_eq!(status(&snapshot, now()).ledger.unwrap().settled, "15");
}

#[test]
fn invalid_annotation_blocks_with_value_and_remedy() {
    for (key, value, says) in [
        (
            "pub.kruise.io/protect-total-replicas",
            "abc",
            Some("is no number from 1: correct or remove it"),
        ),
        (
            "kruise.io/pub-protect-operations",
            "DELETE,DROP",
            Some("correct or remove it"),
        ),
        ("kruise.io/pub-protect-operations", "DELETE", None),
    ] {
        let mut snapshot = snapshot(
            json!({"maxUnavailable": 1}),
            Value::Null,
            2,
            &[("a", true), ("b", true)],
        );
        let annotations = [(key.to_owned(), value.to_owned())].into();
        Arc::make_mut(&mut snapshot.budget).metadata.annotations = Some(annotations);
        let next = status(&snapshot, now());
        let blocked = next
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Blocked");
        assert_eq!(blocked.is_some(), says.is_some(), "{key}");
        if let (Some(blocked), Some(says)) = (blocked, says) {
            assert_eq!(
                (&*blocked.reason, next.unavailable_allowed),
                ("InvalidSpec", 0),
                "{key}"
            );
            let message = &blocked.message;
            assert!(
                message.contains(key)
                    && message.contains(&format!("{value:?}"))
                    && message.contains(says),
                "{message}"
            );
        }
    }
}

#[test]
fn newer_view_with_equal_numbers_changes_no_status() {
    let mut snapshot = snapshot(
        json!({"maxUnavailable": 1}),
        Value::Null,
        2,
        &[("a", true), ("b", true)],
    );
    let first = status(&snapshot, now());
    let mut budget = (*snapshot.budget).clone();
    budget.status = Some(first.clone());
    snapshot.budget = Arc::new(budget);
    snapshot.view.position = "10".to_owned();
    assert_eq!(status(&snapshot, now()), first);
    snapshot.view.pods.pop();
    let fewer = status(&snapshot, now());
    assert_eq!(fewer.ledger.as_ref().unwrap().counted, "10");
    assert!(is_urgent(Some(&first), &fewer) && !is_urgent(Some(&fewer), &first));
    assert!(is_urgent(None, &first));
}

#[test]
fn budget_requeues_when_an_entry_expires() {
    let mut snapshot = snapshot(
        json!({"maxUnavailable": 2}),
        evicted(&["a"]),
        2,
        &[("a", true), ("b", true)],
    );
    snapshot.view.seen_for[0] = Duration::from_secs(70);
    assert_eq!(
        decide(&snapshot, now()).look_again,
        Some(jiff::SignedDuration::from_secs(5))
    );
    let lines = explain(&snapshot, now());
    assert_eq!(
        lines[0].reason,
        "1 of 2 pods are available, 0 must be (maxUnavailable 2): 1 may go"
    );
    assert_eq!(
        lines[1].reason,
        "uses it up: EVICT by admin since 2026-01-01T00:00:00Z"
    );
}
