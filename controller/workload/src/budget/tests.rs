mod drained;
mod federated;
mod native;
mod replaced;

use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::podunavailablebudget::{
    Ledger, LedgerEntry, PodUnavailableBudgetSpec, PodUnavailableBudgetStatus, ProtectedOperation,
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::count::{Expected, Settled, View, is_available, settled};
use super::ledger::{self, LedgerDecision, Refused, Request, set_numbers};
use super::*;
use crate::objects::pod::Pod;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn spec(fields: Value) -> PodUnavailableBudgetSpec {
    serde_json::from_value(fields).unwrap()
}

fn rules(fields: Value) -> Rules {
    let mut all = json!({"selector": {"matchLabels": {"app": "web"}}});
    fields
        .as_object()
        .unwrap()
        .iter()
        .for_each(|(key, value)| all[key] = value.clone());
    Rules::of(&spec(all)).unwrap()
}

#[test]
fn invalid_spec_is_refused_with_its_field() {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let selector = json!({"matchLabels": {"app": "web"}});
    for (fields, field) in [
        (json!({"maxUnavailable": 1}), "spec.selector"),
        (
            json!({"maxUnavailable": 1, "selector": selector, "targetRef": target}),
            "spec.selector",
        ),
        (
            json!({"maxUnavailable": 1, "selector": {}}),
            "spec.selector",
        ),
        (json!({"targetRef": target}), "spec.maxUnavailable"),
        (
            json!({"targetRef": target, "maxUnavailable": 1, "minAvailable": 1}),
            "spec.maxUnavailable",
        ),
        (
            json!({"targetRef": target, "maxUnavailable": "abc"}),
            "spec.maxUnavailable",
        ),
        (
            json!({"targetRef": target, "minAvailable": -1}),
            "spec.minAvailable",
        ),
        (
            json!({"targetRef": target, "maxUnavailable": 1, "ignoredPodSelector": {}}),
            "spec.ignoredPodSelector",
        ),
        (
            json!({"targetRef": target, "maxUnavailable": 1, "protectTotalReplicas": 0}),
            "spec.protectTotalReplicas",
        ),
    ] {
        let fault = Rules::of(&spec(fields.clone())).unwrap_err();
        assert_eq!(fault.field, field, "{fields}");
        assert!(!fault.message.is_empty());
    }
}

#[test]
fn how_many_must_stay_available() {
    for (fields, total, desired) in [
        (json!({"maxUnavailable": "25%"}), 10, 7),
        (json!({"maxUnavailable": "25%"}), 0, 0),
        (json!({"maxUnavailable": 3}), 2, 0),
        (json!({"maxUnavailable": 0}), 2, 2),
        (json!({"maxUnavailable": "100%"}), 5, 0),
        (json!({"minAvailable": "25%"}), 10, 3),
        (json!({"minAvailable": 3}), 2, 3),
        (json!({"minAvailable": 0}), 9, 0),
    ] {
        assert_eq!(
            rules(fields.clone()).amount.desired(total),
            Ok(desired),
            "{fields} of {total}"
        );
    }
}

fn pod(fields: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "web-a", "uid": "a", "generation": 2, "labels": {"app": "web"}}, "spec": {},
        "status": {"phase": "Running", "observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"name": "main", "containerID": "c://1"}]},
    });
    for (path, value) in fields.as_object().unwrap() {
        let (parent, key) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

#[test]
fn pod_counts_while_it_serves_on_an_existing_node() {
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    for (fields, has_node, expected) in [
        (json!({}), true, true),
        (json!({}), false, false),
        (json!({"/status/conditions": ready("False")}), true, false),
        (json!({"/status/phase": "Pending"}), true, false),
        (
            json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"}),
            true,
            false,
        ),
        (
            json!({"/metadata/labels": {"unavailable-pod.kruise.io/x": "1"}}),
            true,
            false,
        ),
        (
            json!({"/metadata/labels": {"lifecycle.apps.kruise.io/state": "Updating"}}),
            true,
            false,
        ),
    ] {
        assert_eq!(
            is_available(&pod(fields.clone()), has_node, now()),
            expected,
            "{fields} {has_node}"
        );
    }
}

fn entry(operation: ProtectedOperation) -> LedgerEntry {
    serde_json::from_value(json!({
        "pod": "web-a", "uid": "a", "operation": operation, "holder": "somebody", "time": "2026-01-01T00:00:00Z",
        "generation": 1, "containerIDs": ["c://0"],
    }))
    .unwrap()
}

#[test]
fn ledger_entry_is_settled_by_result_or_expires() {
    use ProtectedOperation::{Delete, Evict, Update};
    use Settled::{Expired, Open, Over};
    let gone = json!({"/metadata/uid": "b"});
    let leaves = json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"});
    let (unchanged, unseen) = (
        json!({"/metadata/generation": 1}),
        json!({"/status/observedGeneration": 1}),
    );
    let old = json!({"/status/containerStatuses": [{"name": "main", "containerID": "c://0"}]});
    let broken = json!({"/status/conditions": []});
    let slow = json!({
        "/spec/terminationGracePeriodSeconds": 600, "/status/containerStatuses": old["/status/containerStatuses"],
    });
    for (operation, fields, late, expected) in [
        (Delete, json!({}), None, Open),
        (Delete, json!({}), Some(0), Expired),
        (Evict, gone.clone(), None, Over),
        (Evict, leaves.clone(), None, Over),
        (Update, gone, None, Over),
        (Update, leaves, None, Over),
        (Update, unchanged.clone(), None, Open),
        (Update, unchanged, Some(0), Expired),
        (Update, unseen.clone(), None, Open),
        (Update, unseen, Some(0), Open),
        (Update, old.clone(), None, Open),
        (Update, old, Some(0), Expired),
        (Update, slow.clone(), Some(0), Open),
        (Update, slow.clone(), Some(599), Open),
        (Update, slow, Some(600), Expired),
        (Update, broken.clone(), None, Open),
        (Update, broken, Some(0), Open),
        (Update, json!({}), None, Over),
    ] {
        let pod = pod(fields.clone());
        let late_for = late.map(Duration::from_secs);
        let found = settled(
            &entry(operation),
            Some(&pod),
            is_available(&pod, true, now()),
            late_for,
        );
        assert_eq!(found, expected, "{operation:?} {fields} {late:?}");
    }
    assert_eq!(settled(&entry(Delete), None, false, None), Over);
}

#[test]
fn restarting_resize_is_over_after_new_container() {
    use Settled::{Expired, Open, Over};
    let amounts = |memory: &str| json!({"requests": {"memory": memory}});
    let spec = json!([{"name": "main", "resources": amounts("2Gi")}]);
    let is_true =
        |type_: &str, reason: &str| json!({"type": type_, "status": "True", "reason": reason});
    let [put_off, never] =
        ["Deferred", "Infeasible"].map(|reason| vec![is_true("PodResizePending", reason)]);
    let begun = vec![is_true("PodResizeInProgress", "")];
    let both = vec![
        is_true("PodResizePending", "Infeasible"),
        is_true("PodResizeInProgress", ""),
    ];
    for (conditions, memory, id, late, expected) in [
        (vec![], "2Gi", "c://1", None, Over),
        (vec![], "2Gi", "c://0", None, Open),
        (vec![], "2Gi", "c://0", Some(30), Expired),
        // The container has not restarted for this change, and no status says when it will.
        (vec![], "1Gi", "c://1", None, Open),
        (vec![], "1Gi", "c://1", Some(30), Expired),
        (put_off.clone(), "1Gi", "c://0", Some(3_600), Open),
        (put_off, "1Gi", "c://1", Some(3_600), Open),
        (begun, "1Gi", "c://0", Some(3_600), Open),
        (both, "1Gi", "c://1", Some(3_600), Open),
        (never.clone(), "1Gi", "c://1", None, Over),
        (never, "1Gi", "c://0", Some(30), Expired),
    ] {
        let all: Vec<_> = [is_true("Ready", "")]
            .into_iter()
            .chain(conditions)
            .collect();
        let pod = pod(json!({
            "/spec/terminationGracePeriodSeconds": 30, "/spec/containers": spec, "/status/conditions": all,
            "/status/containerStatuses": [{"name": "main", "containerID": id, "resources": amounts(memory)}],
        }));
        let what = format!("{all:?} {memory} {id} {late:?}");
        let resize = LedgerEntry {
            resizes: true,
            ..entry(ProtectedOperation::Update)
        };
        let (is_available, late_for) = (
            is_available(&pod, true, now()),
            late.map(Duration::from_secs),
        );
        assert_eq!(
            settled(&resize, Some(&pod), is_available, late_for),
            expected,
            "{what}"
        );
        // What replaces a container for another reason does not wait for a resize.
        let of_image = settled(
            &entry(ProtectedOperation::Update),
            Some(&pod),
            is_available,
            late_for,
        );
        assert_eq!(of_image == Over, id == "c://1", "{what}");
    }
}

#[test]
fn entry_of_uncached_pod_is_open_until_deadline() {
    let entries = [entry(ProtectedOperation::Delete)];
    let another = pod(json!({"/metadata/uid": "b"}));
    for (unseen, pods, seen_for, is_open) in [
        (vec!["a"], vec![], 0, true),
        (vec!["a"], vec![], 74, true),
        (vec!["a"], vec![], 75, false),
        (vec!["a"], vec![another.clone()], 0, true),
        (vec![], vec![], 0, false),
        (vec![], vec![another], 0, false),
    ] {
        let view = View {
            expected: Ok(Expected {
                total: 1,
                selector: None,
            }),
            pods: pods.into_iter().map(Arc::new).collect(),
            nodes: Vec::new(),
            position: "9".to_owned(),
            seen_for: vec![Duration::from_secs(seen_for)],
            unseen: unseen.iter().map(ToString::to_string).collect(),
            patience: Duration::from_secs(75),
        };
        assert_eq!(
            view.open(&entries, now()).len(),
            usize::from(is_open),
            "{unseen:?} {seen_for}"
        );
    }
}

/// One request after the other.
fn reserve(
    status: &mut PodUnavailableBudgetStatus,
    rules: (&Rules, i64),
    requests: &[Request],
    now: Timestamp,
) -> Vec<LedgerDecision> {
    requests
        .iter()
        .map(|request| ledger::reserve(status, rules, request, now))
        .collect()
}

fn counted(available: usize, total: usize, rules: &Rules) -> PodUnavailableBudgetStatus {
    let mut status = PodUnavailableBudgetStatus {
        observed_generation: 1,
        ledger: Some(Ledger {
            counted: "7".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    set_numbers(
        &mut status,
        available,
        total,
        rules.amount.desired(total).unwrap(),
    );
    status
}

fn request(uid: &str, operation: ProtectedOperation) -> Request {
    let holder = "somebody".to_owned();
    Request {
        pod: format!("web-{uid}"),
        uid: uid.to_owned(),
        operation,
        holder,
        is_available: true,
        generation: None,
        container_ids: Vec::new(),
        resizes: false,
        grant: None,
        is_again: false,
        is_repair: false,
        passes: false,
    }
}

#[test]
fn requests_use_up_budget_and_charge_a_pod_once() {
    use ProtectedOperation::{Delete, Evict, Resize, Update};
    let rules = rules(json!({"maxUnavailable": 2}));
    let rules = rules.with_gates(Gates::default().with(Gate::InPlacePodVerticalScaling, true));
    let mut status = counted(5, 5, &rules);
    let ill = Request {
        is_available: false,
        ..request("d", Delete)
    };
    let requests = [
        request("a", Evict),
        Request {
            is_again: true,
            ..request("a", Evict)
        },
        request("a", Delete),
        request("b", Update),
        request("c", Delete),
        ill,
        request("c", Resize),
    ];
    let decisions = reserve(&mut status, (&rules, 1), &requests, now());
    let used_up = LedgerDecision::Refused(Refused::UsedUp);
    assert_eq!(
        decisions,
        [
            LedgerDecision::Reserved,
            LedgerDecision::AlreadyReserved,
            LedgerDecision::Reserved,
            LedgerDecision::Reserved,
            used_up,
            LedgerDecision::Free,
            LedgerDecision::Free
        ]
    );
    assert_eq!(
        (
            status.unavailable_allowed,
            status.current_available,
            status.desired_available
        ),
        (0, 3, 3)
    );
    assert_eq!(status.disrupted_pods.keys().collect::<Vec<_>>(), ["web-a"]);
    assert_eq!(
        status.unavailable_pods.keys().collect::<Vec<_>>(),
        ["web-b"]
    );
    let later = now() + std::time::Duration::from_secs(30);
    assert_eq!(
        reserve(&mut status, (&rules, 1), &[request("a", Evict)], later),
        [LedgerDecision::Reserved],
        "the time counts anew"
    );
    assert_eq!(status.ledger.unwrap().entries.len(), 3);
}

#[test]
fn exempt_request_is_charged_beyond_the_budget() {
    use ProtectedOperation::Delete;
    let rules = rules(json!({"maxUnavailable": 1}));
    let passing = |uid: &str, operation| Request {
        passes: true,
        ..request(uid, operation)
    };
    let used_up = LedgerDecision::Passed(Refused::UsedUp);
    let mut status = counted(3, 3, &rules);
    for (asked, decision, (allowed, available, entries)) in [
        (passing("a", Delete), LedgerDecision::Reserved, (0, 2, 1)),
        (passing("b", Delete), used_up.clone(), (0, 1, 2)),
        (passing("b", Delete), LedgerDecision::Reserved, (0, 1, 2)),
        (
            request("c", Delete),
            LedgerDecision::Refused(Refused::UsedUp),
            (0, 1, 2),
        ),
        (
            Request {
                is_available: false,
                ..passing("c", Delete)
            },
            LedgerDecision::Free,
            (0, 1, 2),
        ),
        (passing("c", Delete), used_up, (0, 0, 3)),
    ] {
        assert_eq!(
            reserve(
                &mut status,
                (&rules, 1),
                std::slice::from_ref(&asked),
                now()
            ),
            [decision],
            "{asked:?}"
        );
        let ledger = status.ledger.as_ref().unwrap();
        let found = (
            status.unavailable_allowed,
            status.current_available,
            ledger.entries.len(),
        );
        assert_eq!(found, (allowed, available, entries), "{asked:?}");
    }
    let mut uncounted = counted(3, 3, &rules);
    let decisions = reserve(&mut uncounted, (&rules, 2), &[passing("a", Delete)], now());
    assert_eq!(decisions, [LedgerDecision::Passed(Refused::NotCounted)]);
    assert_eq!(uncounted.ledger.unwrap().entries.len(), 1);
}

#[test]
fn new_request_renews_entry_despite_clock_skew() {
    let rules = rules(json!({"maxUnavailable": 1}));
    for (is_again, seconds, decision, written) in [
        (true, 0, LedgerDecision::AlreadyReserved, 60),
        (true, 65, LedgerDecision::AlreadyReserved, 60),
        (false, 0, LedgerDecision::Reserved, 61),
        (false, 60, LedgerDecision::Reserved, 61),
        (false, 65, LedgerDecision::Reserved, 65),
    ] {
        let mut status = counted(3, 3, &rules);
        let at = |seconds: u64| now() + Duration::from_secs(seconds);
        // By a clock that is a minute ahead.
        assert_eq!(
            reserve(
                &mut status,
                (&rules, 1),
                &[request("a", ProtectedOperation::Evict)],
                at(60)
            ),
            [LedgerDecision::Reserved]
        );
        let asked = Request {
            is_again,
            ..request("a", ProtectedOperation::Evict)
        };
        assert_eq!(
            reserve(&mut status, (&rules, 1), &[asked], at(seconds)),
            [decision],
            "{is_again} {seconds}"
        );
        let times: Vec<_> = status
            .ledger
            .unwrap()
            .entries
            .into_iter()
            .map(|entry| entry.time.0)
            .collect();
        assert_eq!(times, [at(written)], "{is_again} {seconds}");
        assert_eq!(
            (status.unavailable_allowed, status.current_available),
            (0, 2),
            "it is charged once"
        );
    }
}

#[test]
fn resize_counts_as_update_without_feature_gate() {
    use ProtectedOperation::{Resize, Update};
    for (operations, gate, is_held_by_resize, is_held_by_update) in [
        (json!([]), None, true, true),
        (json!([]), Some(false), true, true),
        (json!([]), Some(true), false, true),
        (json!(["UPDATE"]), Some(false), true, true),
        (json!(["UPDATE"]), Some(true), false, true),
        (json!(["RESIZE"]), Some(false), true, false),
        (json!(["RESIZE"]), Some(true), true, false),
        (json!(["UPDATE", "RESIZE"]), Some(false), true, true),
        (json!(["UPDATE", "RESIZE"]), Some(true), true, true),
        (json!(["DELETE", "EVICT"]), Some(false), false, false),
        (json!(["DELETE", "EVICT"]), Some(true), false, false),
    ] {
        let read = rules(json!({"maxUnavailable": 2, "protectOperations": operations}));
        let rules = match gate {
            Some(is_on) => {
                read.with_gates(Gates::default().with(Gate::InPlacePodVerticalScaling, is_on))
            }
            None => read,
        };
        for (operation, is_held) in [(Resize, is_held_by_resize), (Update, is_held_by_update)] {
            let decisions = reserve(
                &mut counted(3, 3, &rules),
                (&rules, 1),
                &[request("a", operation)],
                now(),
            );
            let expected = if is_held {
                LedgerDecision::Reserved
            } else {
                LedgerDecision::Free
            };
            assert_eq!(decisions, [expected], "{operations} {gate:?} {operation:?}");
        }
    }
}

#[test]
fn two_grants_for_one_pod_are_charged_once() {
    use ProtectedOperation::{Delete, Evict};
    let rules = rules(json!({"maxUnavailable": 1}));
    let named = |grant: &str, operation| Request {
        grant: Some(grant.to_owned()),
        ..request("a", operation)
    };
    let (first, second, bare) = (named("1", Evict), named("2", Evict), request("a", Evict));
    let mut status = counted(3, 3, &rules);
    let again = Request {
        is_again: true,
        ..first.clone()
    };
    let asked = [
        first.clone(),
        second.clone(),
        bare.clone(),
        again,
        request("b", Delete),
    ];
    let expected = [
        LedgerDecision::Reserved,
        LedgerDecision::Reserved,
        LedgerDecision::Reserved,
        LedgerDecision::AlreadyReserved,
        LedgerDecision::Refused(Refused::UsedUp),
    ];
    assert_eq!(reserve(&mut status, (&rules, 1), &asked, now()), expected);
    assert_eq!(
        (status.unavailable_allowed, status.current_available),
        (0, 2)
    );
    assert_eq!(
        ledger::shown_entries(status.ledger.as_ref()).len(),
        1,
        "one pod is listed"
    );
    let standing = |status: &PodUnavailableBudgetStatus| {
        [&first, &second, &bare].map(|one| ledger::stands(status, one))
    };
    assert_eq!(standing(&status), [true; 3]);
    ledger::release(&mut status, &second);
    assert_eq!(standing(&status), [true, false, true]);
    assert_eq!(status.disrupted_pods.keys().collect::<Vec<_>>(), ["web-a"]);
}

#[test]
fn later_change_of_charged_pod_costs_nothing() {
    let rules = rules(json!({"maxUnavailable": 1}));
    for (changes, expected) in [
        (
            vec![(1, vec!["0"]), (2, vec![])],
            vec![(1, vec!["0"]), (2, vec![])],
        ),
        (vec![(1, vec!["0"]), (1, vec![])], vec![(1, vec!["0"])]),
        (vec![(1, vec![]), (1, vec!["0"])], vec![(1, vec!["0"])]),
        (
            vec![(1, vec!["0"]), (1, vec!["1"])],
            vec![(1, vec!["1", "0"])],
        ),
        (
            vec![(1, vec!["0"]), (2, vec!["1"]), (3, vec!["2"])],
            vec![(2, vec!["1", "0"]), (3, vec!["2"])],
        ),
        (
            vec![(1, vec!["0"]), (2, vec![]), (3, vec![]), (4, vec![])],
            vec![(3, vec!["0"]), (4, vec![])],
        ),
    ] {
        for gap in [0, 30] {
            let mut status = counted(3, 3, &rules);
            for (at, (generation, ids)) in (0_u64..).zip(&changes) {
                let (generation, container_ids) = (Some(*generation), owned(ids));
                let change = Request {
                    generation,
                    container_ids,
                    ..request("a", ProtectedOperation::Update)
                };
                let decision = ledger::reserve(
                    &mut status,
                    (&rules, 1),
                    &change,
                    now() + Duration::from_secs(at * gap),
                );
                assert!(
                    matches!(
                        decision,
                        LedgerDecision::Reserved | LedgerDecision::AlreadyReserved
                    ),
                    "{changes:?}: {decision:?}"
                );
                assert!(ledger::stands(&status, &change), "{changes:?}");
            }
            assert_eq!(
                (status.unavailable_allowed, status.current_available),
                (0, 2),
                "{changes:?}"
            );
            let entries = &status.ledger.as_ref().unwrap().entries;
            let ids = |entry: &LedgerEntry| entry.container_ids.clone();
            let found: Vec<_> = entries
                .iter()
                .map(|entry| (entry.generation.unwrap(), ids(entry)))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(generation, ids)| (*generation, owned(ids)))
                .collect();
            assert_eq!(found, expected, "{changes:?} {gap}");
        }
    }
}

#[test]
fn restart_replaces_entry_of_its_grace_period() {
    let rules = rules(json!({"maxUnavailable": 1}));
    for (first_ids, holder, expected) in [
        (vec![], "somebody", 1),
        (vec![], "another", 2),
        (vec!["0"], "somebody", 2),
    ] {
        let mut status = counted(3, 3, &rules);
        let first = Request {
            generation: Some(1),
            container_ids: owned(&first_ids),
            holder: holder.to_owned(),
            ..request("a", ProtectedOperation::Update)
        };
        let restart = Request {
            container_ids: owned(&["0"]),
            ..request("a", ProtectedOperation::Update)
        };
        for change in [&first, &restart] {
            ledger::reserve(&mut status, (&rules, 1), change, now());
        }
        let entries = &status.ledger.as_ref().unwrap().entries;
        assert_eq!(entries.len(), expected, "{first_ids:?} {holder}");
        assert_eq!(status.unavailable_allowed, 0);
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn zero_min_available_reserves_only_if_distributed() {
    let request = Request {
        grant: Some("1".to_owned()),
        ..request("a", ProtectedOperation::Delete)
    };
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 0});
    let distributed = Rules::of_distributed(&serde_json::from_value(spec).unwrap()).unwrap();
    for (rules, expected) in [
        (rules(json!({"minAvailable": 0})), LedgerDecision::Free),
        (distributed, LedgerDecision::Reserved),
    ] {
        let mut status = counted(2, 2, &rules);
        assert_eq!(
            reserve(
                &mut status,
                (&rules, 1),
                std::slice::from_ref(&request),
                now()
            ),
            [expected]
        );
    }
}

#[test]
fn budget_refuses_until_changed_spec_is_counted() {
    let rules = rules(json!({"maxUnavailable": 2}));
    let refused = LedgerDecision::Refused(Refused::NotCounted);
    for (mut status, generation, expected) in [
        (PodUnavailableBudgetStatus::default(), 1, &refused),
        (
            PodUnavailableBudgetStatus {
                observed_generation: 1,
                unavailable_allowed: 9,
                ..Default::default()
            },
            1,
            &refused,
        ),
        (counted(5, 5, &rules), 2, &refused),
        (counted(5, 5, &rules), 1, &LedgerDecision::Reserved),
    ] {
        let decisions = reserve(
            &mut status,
            (&rules, generation),
            &[request("a", ProtectedOperation::Delete)],
            now(),
        );
        assert_eq!(&decisions[0], expected);
    }
}

#[test]
fn unhealthy_pod_policy_decides_on_unavailable_pod() {
    let ill = Request {
        is_available: false,
        ..request("a", ProtectedOperation::Delete)
    };
    let used_up = LedgerDecision::Refused(Refused::UsedUp);
    for (policy, available, expected) in [
        ("AlwaysAllow", 2, &LedgerDecision::Free),
        ("IfHealthyBudget", 2, &used_up),
        ("IfHealthyBudget", 3, &LedgerDecision::Free),
    ] {
        let rules = rules(json!({"minAvailable": 3, "unhealthyPodPolicy": policy}));
        let mut status = counted(available, 4, &rules);
        let before = status.clone();
        assert_eq!(
            &reserve(&mut status, (&rules, 1), std::slice::from_ref(&ill), now())[0],
            expected,
            "{policy} {available}"
        );
        assert_eq!(status, before);
    }
}

#[test]
fn own_workload_repairs_a_pod_that_is_down() {
    use ProtectedOperation::{Delete, Evict, Resize, Update};
    let (down, unready) = (json!([]), json!([{"type": "Ready", "status": "False"}]));
    let refused = LedgerDecision::Refused(Refused::UsedUp);
    for (operation, conditions, is_available, is_own, expected) in [
        (Delete, &down, false, true, &LedgerDecision::Free),
        (Update, &down, false, true, &LedgerDecision::Free),
        (Resize, &down, false, true, &LedgerDecision::Free),
        // A drain is not to take pods that may yet serve.
        (Evict, &down, false, true, &refused),
        (Delete, &down, false, false, &refused),
        // It has served, and may serve again at any moment.
        (Delete, &unready, false, true, &refused),
        (Delete, &down, true, true, &refused),
    ] {
        let rules = rules(json!({
            "minAvailable": 3, "unhealthyPodPolicy": "IfHealthyBudget",
            "protectOperations": ["DELETE", "UPDATE", "EVICT", "RESIZE"],
        }));
        let pod = pod(json!({"/status/conditions": conditions}));
        let request = Request {
            is_available,
            ..request("a", operation)
        };
        let request = if is_own {
            request.by_own_workload(&pod)
        } else {
            request
        };
        let what = format!("{request:?} {conditions}");
        // Whether others serve, or the budget is counted at all, is no matter.
        for mut status in [counted(0, 4, &rules), counted(2, 4, &rules)] {
            assert_eq!(
                &ledger::reserve(&mut status, (&rules, 1), &request, now()),
                expected,
                "{what}"
            );
        }
        let is_free = expected == &LedgerDecision::Free;
        for rules in [
            Ok(rules),
            Err(Fault {
                field: "spec.selector".into(),
                message: "is wrong".to_owned(),
            }),
        ] {
            let status = PodUnavailableBudgetStatus::default();
            let mut account = judge::Account {
                name: "web",
                rules: &rules,
                generation: 1,
                status,
                floor: None,
            };
            let decided = account.judge(&[(request.clone(), false)], (None, &[]), now());
            assert_eq!(
                decided.decisions[0] == judge::Decision::Free,
                is_free,
                "{what}"
            );
        }
    }
}

#[test]
fn update_that_repairs_a_charged_pod_is_entered() {
    use ProtectedOperation::{Delete, Update};
    let rules = rules(json!({"maxUnavailable": 1, "unhealthyPodPolicy": "IfHealthyBudget"}));
    for (operation, expected, entries) in [
        (Update, LedgerDecision::Reserved, 2),
        (Delete, LedgerDecision::Free, 1),
    ] {
        let change = |generation| Request {
            generation: Some(generation),
            ..request("a", Update)
        };
        let mut status = counted(3, 3, &rules);
        reserve(&mut status, (&rules, 1), &[change(1)], now());
        let repair = Request {
            operation,
            is_available: false,
            ..change(2)
        }
        .by_own_workload(&pod(json!({"/status/conditions": []})));
        assert_eq!(
            reserve(&mut status, (&rules, 1), &[repair], now()),
            [expected],
            "{operation:?}"
        );
        assert_eq!(
            (
                status.current_available,
                status.ledger.unwrap().entries.len()
            ),
            (2, entries),
            "{operation:?}"
        );
    }
}

#[test]
fn eviction_of_unavailable_pod_is_entered_uncharged() {
    let rules = rules(json!({"maxUnavailable": 1}));
    let mut status = counted(3, 4, &rules);
    let ill = Request {
        is_available: false,
        ..request("a", ProtectedOperation::Evict)
    };
    let again = Request {
        is_again: true,
        ..ill.clone()
    };
    assert_eq!(
        reserve(&mut status, (&rules, 1), &[ill, again], now()),
        [LedgerDecision::Reserved, LedgerDecision::AlreadyReserved]
    );
    assert_eq!(
        (status.unavailable_allowed, status.current_available),
        (0, 3)
    );
    assert_eq!(status.disrupted_pods.keys().collect::<Vec<_>>(), ["web-a"]);
}

#[test]
fn refusal_without_entries_counts_unavailable_pods() {
    use ProtectedOperation::Evict;
    let rules = Ok(rules(json!({"maxUnavailable": 1})));
    for (available, words) in [
        (3, "; 1 pod is Terminating, not ready"),
        (2, "; 2 pods are Terminating, not ready"),
    ] {
        let status = counted(available, 4, rules.as_ref().unwrap());
        let mut account = judge::Account {
            name: "web",
            rules: &rules,
            generation: 1,
            status,
            floor: None,
        };
        let decided = account.judge(&[(request("a", Evict), false)], (None, &[]), now());
        let judge::Decision::UsedUp(told) = &decided.decisions[0] else {
            panic!("{:?}", decided.decisions)
        };
        assert!(
            told.contains(words) && !told.contains("used up by"),
            "{told}"
        );
    }
}

proptest! {
    /// For any requests in any order: no more pods are granted than the budget allowed, and each
    /// pod is granted once.
    #[test]
    fn no_more_is_granted_than_was_counted(
        available in 0_usize..8,
        most in 0_i32..8,
        asked in proptest::collection::vec((0_u8..8, 0_usize..4, any::<bool>(), 0_i64..40), 0..40),
    ) {
        let rules = rules(json!({"maxUnavailable": most, "protectOperations": ["DELETE", "UPDATE", "EVICT", "RESIZE"]}));
        let mut status = counted(available, 8, &rules);
        let room = usize::try_from(status.unavailable_allowed).unwrap();
        let operations = [ProtectedOperation::Delete, ProtectedOperation::Update, ProtectedOperation::Evict, ProtectedOperation::Resize];
        let mut at = now();
        for (uid, operation, is_available, seconds) in asked {
            at += std::time::Duration::from_secs(seconds.unsigned_abs());
            // A pod that does not serve takes nothing, so that this test leaves it out.
            let uid = if is_available { uid.to_string() } else { format!("ill-{uid}") };
            let asked = Request { is_available, ..request(&uid, operations[operation]) };
            reserve(&mut status, (&rules, 1), &[asked], at);
            let entries = &status.ledger.as_ref().unwrap().entries;
            let charged = entries.iter().filter(|entry| !entry.uid.starts_with("ill"));
            let pods: std::collections::BTreeSet<_> = charged.map(|entry| &entry.uid).collect();
            prop_assert!(status.desired_available == 0 || pods.len() <= room);
            let is_charged_once = status.desired_available == 0 || usize::try_from(status.unavailable_allowed).unwrap() == room - pods.len();
            prop_assert!(is_charged_once);
        }
    }
}
