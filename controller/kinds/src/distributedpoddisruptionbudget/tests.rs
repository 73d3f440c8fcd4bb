use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::v1alpha1::distributedpoddisruptionbudget::DistributedPodDisruptionBudgetStatus;
use berth_workload::budget::count::Expected;
use berth_workload::objects::pod::Pod;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn pod(name: &str, ready: bool) -> Arc<Pod> {
    let ready = if ready { "True" } else { "False" };
    let pod = json!({
        "metadata": {"name": name, "uid": name, "labels": {"app": "web"}}, "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}, {"type": "Synced", "status": ready}]},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn snapshot(
    spec: Value,
    status: Value,
    pods: &[(&str, bool)],
    others: &[Result<Brings, Silence>],
) -> Snapshot {
    let members: Vec<_> = (0..others.len())
        .map(|at| json!({"namespace": "other", "name": format!("b{at}")}))
        .collect();
    let mut all = json!({"selector": {"matchLabels": {"app": "web"}}, "federation": members});
    spec.as_object()
        .unwrap()
        .iter()
        .for_each(|(key, value)| all[key] = value.clone());
    let budget = json!({
        "apiVersion": "policy.kruise.io/v1alpha1", "kind": "DistributedPodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default", "uid": "b", "generation": 1}, "spec": all, "status": status,
    });
    let budget: Arc<DistributedPodDisruptionBudget> =
        Arc::new(serde_json::from_value(budget).unwrap());
    let entries = budget
        .status
        .iter()
        .flat_map(|status| &status.ledger)
        .map(|ledger| ledger.entries.len())
        .sum();
    let other = |brings: &Result<Brings, Silence>| Other {
        kind: Some(MemberKind::DistributedPodDisruptionBudget),
        origin: Origin::default(),
        brings: brings.clone(),
        shared: Shared::default(),
        last_read: None,
    };
    Snapshot {
        budget,
        view: View {
            expected: Ok(Expected {
                total: pods.len(),
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
        others: others.iter().map(other).collect(),
        may_share: Vec::new(),
        child: None,
        keeps: Ok(()),
        seen_for: Duration::ZERO,
    }
}

fn numbers(status: &DistributedPodDisruptionBudgetStatus) -> [i32; 5] {
    [
        status.disruptions_allowed,
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods,
        status.own.healthy,
    ]
}

fn told<'a>(
    status: &'a DistributedPodDisruptionBudgetStatus,
    type_: &str,
) -> Option<(&'a str, &'a str)> {
    let found = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_);
    found.map(|condition| (condition.status.as_str(), condition.reason.as_str()))
}

const BRINGS: fn(usize, usize) -> Result<Brings, Silence> =
    |healthy, expected| Ok(Brings { healthy, expected });

#[test]
fn own_pods_and_those_of_others_count_together() {
    let two = [("a", true), ("b", true)];
    let granted = json!({"observedGeneration": 1, "ledger": {"counted": "7", "entries": [
        {"pod": "a", "uid": "a", "operation": "EVICT", "holder": "admin", "time": "2026-01-01T00:00:00Z", "grant": "1"},
    ]}});
    for (spec, before, pods, others, expected) in [
        (
            json!({"minAvailable": 3}),
            Value::Null,
            two,
            vec![BRINGS(2, 2)],
            [1, 4, 3, 4, 2],
        ),
        (
            json!({"minAvailable": 3}),
            granted,
            two,
            vec![BRINGS(2, 2)],
            [0, 3, 3, 4, 1],
        ),
        (
            json!({"minAvailable": 3}),
            Value::Null,
            two,
            vec![],
            [0, 2, 3, 2, 2],
        ),
        (
            json!({"maxUnavailable": 1}),
            Value::Null,
            [("a", true), ("b", false)],
            vec![BRINGS(3, 3)],
            [0, 4, 4, 5, 1],
        ),
        (
            json!({"maxUnavailable": "50%"}),
            Value::Null,
            two,
            vec![BRINGS(2, 2), BRINGS(0, 2)],
            [1, 4, 3, 6, 2],
        ),
        (
            json!({"minAvailable": 1, "healthyConditions": ["Synced", "Backed"]}),
            Value::Null,
            two,
            vec![BRINGS(1, 1)],
            [0, 1, 1, 3, 0],
        ),
    ] {
        let snapshot = snapshot(spec.clone(), before, &pods, &others);
        assert_eq!(numbers(&status(&snapshot, now())), expected, "{spec}");
    }
}

#[test]
fn silent_budget_blocks_max_unavailable_alone() {
    let silent = || vec![Err(Silence::of("does not exist: create it"))];
    let two = [("a", true), ("b", true)];
    let enough = status(
        &snapshot(json!({"minAvailable": 1}), Value::Null, &two, &silent()),
        now(),
    );
    assert_eq!(numbers(&enough), [1, 2, 1, 2, 2]);
    assert_eq!(told(&enough, "Federated"), Some(("False", "NotAllKnown")));
    assert_eq!(told(&enough, "Blocked"), None);
    let allowed = enough
        .conditions
        .iter()
        .find(|condition| condition.type_ == "DisruptionAllowed")
        .unwrap();
    assert_eq!(allowed.message, "1 of its own pods may go");
    let unknown = status(
        &snapshot(json!({"maxUnavailable": 1}), Value::Null, &two, &silent()),
        now(),
    );
    assert_eq!(
        (unknown.disruptions_allowed, told(&unknown, "Blocked")),
        (0, Some(("True", "FederationUnknown")))
    );
    assert_eq!(unknown.current_healthy, 2);
    let blocked = unknown
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Blocked")
        .unwrap();
    let words = "maxUnavailable 1 is of all expected pods, and how many spec.federation[0] expects is not known: it does not exist: create it; or \
                 set spec.minAvailable to a number of pods";
    assert_eq!(blocked.message, words);
    let printed = explain(
        &snapshot(json!({"maxUnavailable": 1}), Value::Null, &two, &silent()),
        now(),
    );
    assert!(
        printed[0]
            .reason
            .starts_with("2 pods are healthy, 2 of them its own; its pods are refused: "),
        "{}",
        printed[0].reason
    );
    assert!(
        printed[1]
            .reason
            .contains("brings none: it does not exist: create it"),
        "{}",
        printed[1].reason
    );
    // The budget contributes its own pods to other budgets all the same.
    assert!(unknown.own.healthy == 2 && !unknown.ledger.unwrap().counted.is_empty());
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
    let mut one = snapshot(
        json!({"maxUnavailable": 1}),
        Value::Null,
        &[("a", true)],
        &[],
    );
    for (position, expected, views) in [
        ("9", known(), ("9", "")),
        ("12", unknown(), ("", "12")),
        ("13", unknown(), ("", "12")),
        ("14", known(), ("14", "")),
    ] {
        (one.view.position, one.view.expected) = (position.to_owned(), expected);
        let next = status(&one, now());
        let ledger = next.ledger.as_ref().unwrap();
        assert_eq!(
            (ledger.counted.as_str(), ledger.settled.as_str()),
            views,
            "{position}"
        );
        Arc::make_mut(&mut one.budget).status = Some(next);
    }
}

#[test]
fn min_available_as_a_number_needs_no_total() {
    for (spec, expected) in [
        (json!({"minAvailable": 1}), [2, 3, 1, 4, 3]),
        (json!({"maxUnavailable": 1}), [0; 5]),
    ] {
        let mut unknown = snapshot(
            spec.clone(),
            Value::Null,
            &[("a", true), ("b", true), ("c", true), ("d", false)],
            &[],
        );
        unknown.view.expected = Err(Unknown {
            message: "pod a has no controller".to_owned(),
        });
        assert_eq!(numbers(&status(&unknown, now())), expected, "{spec}");
    }
}

#[test]
fn budgets_that_may_hold_the_same_pods_are_named() {
    let of_three = || [BRINGS(2, 2), BRINGS(0, 2), Err(Silence::of("is silent"))];
    for (others, groups, is_known, named) in [
        (vec![BRINGS(2, 2), BRINGS(0, 2)], vec![], "True", None),
        (
            vec![BRINGS(2, 2), BRINGS(0, 2)],
            vec![vec![0, 1]],
            "True",
            Some("other/b0 and other/b1 may hold the same"),
        ),
        (
            of_three().to_vec(),
            vec![vec![0, 1]],
            "False",
            Some("is silent; other/b0 and other/b1 may hold the same"),
        ),
        (of_three().to_vec(), vec![], "False", None),
    ] {
        let mut one = snapshot(
            json!({"minAvailable": 1}),
            Value::Null,
            &[("a", true)],
            &others,
        );
        one.may_share = groups;
        let federated = status(&one, now())
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == "Federated");
        let federated = federated.unwrap();
        assert_eq!(federated.status, is_known, "{federated:?}");
        let is_named = |text: &str| {
            named.map_or(!text.contains("the same pods"), |named| {
                text.contains(named)
            })
        };
        assert!(is_named(&federated.message), "{federated:?}");
        let explained: Vec<_> = explain(&one, now())
            .into_iter()
            .map(|line| line.reason)
            .collect();
        let is_explained = explained
            .iter()
            .any(|line| line.contains("may hold the same pods"));
        assert_eq!(is_explained, named.is_some(), "{explained:?}");
    }
}

#[test]
fn explain_names_shared_budgets_from_the_status() {
    let others = [
        BRINGS(2, 2),
        BRINGS(0, 2),
        Err(Silence::of("is silent; try again")),
    ];
    let mut one = snapshot(
        json!({"minAvailable": 1}),
        Value::Null,
        &[("a", true)],
        &others,
    );
    one.may_share = vec![vec![0, 1]];
    let said = |snapshot: &Snapshot| -> Vec<String> {
        let lines = explain(snapshot, now()).into_iter().map(|line| line.reason);
        lines
            .filter(|line| line.contains("may hold the same pods"))
            .collect()
    };
    let by_controller = said(&one);
    assert!(
        by_controller.len() == 1 && by_controller[0].starts_with("other/b0 and other/b1 may"),
        "{by_controller:?}"
    );
    let mut budget = (*one.budget).clone();
    budget.status = Some(status(&one, now()));
    one.may_share.clear();
    for (generation, expected) in [(1, by_controller), (2, Vec::new())] {
        budget.metadata.generation = Some(generation);
        one.budget = Arc::new(budget.clone());
        assert_eq!(said(&one), expected, "of generation {generation}");
    }
}

#[test]
fn more_shared_pods_or_fewer_expected_are_urgent() {
    let told = |(pods, expected): (usize, usize)| {
        let mut one = snapshot(
            json!({"minAvailable": 1}),
            Value::Null,
            &[("a", true)],
            &[BRINGS(3, 3)],
        );
        one.others[0].shared = Shared { pods, expected };
        status(&one, now())
    };
    for (before, after, urgent) in [
        ((0, 0), (0, 0), false),
        ((0, 0), (1, 0), true),
        ((1, 0), (1, 1), false),
        ((1, 1), (1, 0), true),
        ((1, 1), (0, 1), false),
    ] {
        assert_eq!(
            is_urgent(Some(&told(before)), &told(after)),
            urgent,
            "{before:?} {after:?}"
        );
    }
}

#[test]
fn native_budget_gets_minimum_of_own_pods() {
    let step = |snapshot: &Snapshot| {
        let plan = decide(snapshot, now());
        plan.stages
            .first()
            .map(|stage| json!(stage.steps[0].actions[0]).to_string())
    };
    let two = [("a", true), ("b", true)];
    let mut one = snapshot(
        json!({"minAvailable": 3}),
        Value::Null,
        &two,
        &[BRINGS(2, 2)],
    );
    let made = step(&one).unwrap();
    assert!(
        made.contains("Create") && made.contains(r#""minAvailable":1"#),
        "{made}"
    );
    let native = |least: i64| {
        let native = json!({
            "metadata": {"name": "web", "ownerReferences": [{"kind": "DistributedPodDisruptionBudget", "uid": "b", "controller": true}]},
            "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptionsAllowed": 1},
        });
        Some(Arc::new(serde_json::from_value(native).unwrap()))
    };
    one.child = native(2);
    assert!(step(&one).unwrap().contains(r#""minAvailable":1"#));
    one.child = native(1);
    assert_eq!(step(&one), None);
    assert_eq!(status(&one, now()).child_status.unwrap().min_available, 1);
    one.keeps = Err(Without::Overlaps("PodDisruptionBudget other".to_owned()));
    assert!(step(&one).unwrap().contains("Delete"));
    assert_eq!(
        told(&status(&one, now()), "ChildPDB"),
        Some(("False", "Overlaps"))
    );
}

#[test]
fn recount_after_release_is_urgent() {
    let mut one = snapshot(
        json!({"minAvailable": 1}),
        Value::Null,
        &[("a", true), ("b", true)],
        &[],
    );
    let first = status(&one, now());
    let mut budget = (*one.budget).clone();
    budget.status = Some(first.clone());
    one.budget = Arc::new(budget.clone());
    one.view.position = "10".to_owned();
    assert_eq!(status(&one, now()), first);
    let mut taken_back = first.clone();
    taken_back.own.healthy = 1;
    taken_back.ledger.as_mut().unwrap().recount = true;
    budget.status = Some(taken_back.clone());
    one.budget = Arc::new(budget);
    let next = status(&one, now());
    assert!(
        is_urgent(Some(&taken_back), &next)
            && !next.ledger.as_ref().unwrap().recount
            && next.own.healthy == 2
    );
    assert!(is_urgent(None, &first) && !is_urgent(Some(&first), &first));
    assert!(
        explain(&one, now())[0]
            .reason
            .starts_with("2 of 2 pods are healthy, 2 of them its own; 1 must be")
    );
}

// The finalizer comes first, then the floor in the status. They are removed in the opposite order,
// after the time that the floor was valid for.
#[test]
fn floor_binds_before_its_report_until_lease_expiry() {
    let three = [("a", true), ("b", true), ("c", true)];
    let minute = Duration::from_secs(60);
    let told = json!({"observedGeneration": 1, "floor": {"pods": 2, "leaseSeconds": 60}});
    for (floor, status, finalizer, deleted, seen_for, patched, next) in [
        (2, json!({}), false, false, Duration::ZERO, Some(true), None),
        (2, json!({}), true, false, Duration::ZERO, None, Some(2)),
        (1, told.clone(), true, false, minute / 2, None, Some(2)),
        (1, told.clone(), true, false, minute, None, Some(1)),
        (0, told.clone(), true, false, minute, None, None),
        (0, json!({}), true, false, minute, Some(false), None),
        (2, told.clone(), true, true, minute / 2, None, Some(2)),
        (2, told.clone(), true, true, minute, None, None),
        (2, json!({}), true, true, minute, Some(false), None),
        (2, json!({}), false, true, minute, None, None),
    ] {
        let of = format!(
            "floor {floor}, {status}, finalizer {finalizer}, deleted {deleted}, seen for {seen_for:?}"
        );
        let mut one = snapshot(
            json!({"minAvailable": 0, "floor": floor}),
            status,
            &three,
            &[],
        );
        let metadata = &mut Arc::make_mut(&mut one.budget).metadata;
        metadata.finalizers = Some(if finalizer {
            vec![BUDGET_FLOOR.to_owned()]
        } else {
            Vec::new()
        });
        metadata.deletion_timestamp =
            deleted.then(|| k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        one.seen_for = seen_for;
        let plan = decide(&one, now());
        let stage = plan.stages.iter().find(|stage| stage.name == "floor");
        let adds = stage.map(|stage| match &stage.steps[0].actions[0] {
            Action::Patch { patch, .. } => patch.to_string().contains(BUDGET_FLOOR),
            other => panic!("{other:?}"),
        });
        assert_eq!(adds, patched, "{of}");
        let next_status = super::status(&one, now());
        assert_eq!(next_status.floor.map(|floor| floor.pods), next, "{of}");
        let binds = i32::try_from(floor::binding(&one.budget)).unwrap();
        assert_eq!(next_status.disruptions_allowed, 3 - binds, "{of}");
    }
}
