use berth_workload::budget::drain::EvictionDecision;
use berth_workload::budget::native::NativeBudget;
use serde_json::{Value, json};

use super::end::{Rounds, rounds};
use super::places::Places;
use super::read::own_budget;
use super::rounds::{Answer, Budget, Decision, Row};
use super::words::{drainable, first_round, last_round, remains};

fn rows(pods: &[Value], decisions: &[Decision], natives: &[(usize, NativeBudget)]) -> Vec<Row> {
    super::rounds::rows(pods, decisions, natives, &Places::default())
}

fn pod(name: &str, change: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "d", "uid": name, "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for (path, value) in change.as_object().into_iter().flatten() {
        *pod.pointer_mut(path).unwrap() = value.clone();
    }
    pod
}

fn budget(name: &str, allowed: i64, most: i64) -> Budget {
    Budget {
        name: name.to_owned(),
        allowed,
        most,
    }
}

fn decision(pod: &str, decision: &EvictionDecision) -> Decision {
    Decision {
        budget: 0,
        namespace: "d".to_owned(),
        pod: pod.to_owned(),
        words: decision.words(),
    }
}

fn native(allowed: i32) -> NativeBudget {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3},
    }))
    .unwrap()
}

fn used_up(message: &str) -> EvictionDecision {
    EvictionDecision::UsedUp {
        budget: 0,
        message: message.to_owned(),
    }
}

#[test]
fn pods_get_the_answer_and_flags_of_kubectl() {
    let owner = |api: &str| json!([{"apiVersion": api, "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
    let cases = [
        (json!({}), Answer::Goes, &[][..]),
        (
            json!({"/metadata/ownerReferences": []}),
            Answer::Goes,
            &["--force"],
        ),
        (
            json!({"/metadata/ownerReferences": owner("apps/v1")}),
            Answer::Stays,
            &["--ignore-daemonsets"],
        ),
        (
            json!({"/metadata/ownerReferences": owner("apps.kruise.io/v1beta1")}),
            Answer::Goes,
            &[],
        ),
        (
            json!({"/spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            Answer::Goes,
            &["--delete-emptydir-data"],
        ),
        (
            json!({"/status/phase": "Failed", "/metadata/ownerReferences": []}),
            Answer::Goes,
            &[],
        ),
        (
            json!({"/metadata": {"name": "a", "namespace": "d", "annotations": {"kubernetes.io/config.mirror": "x"}}}),
            Answer::Stays,
            &[],
        ),
    ];
    for (change, answer, flags) in cases {
        let rows = rows(&[pod("a", change.clone())], &[], &[]);
        assert_eq!(
            (rows[0].answer, &*rows[0].flags),
            (answer, flags),
            "{change}"
        );
    }
}

#[test]
fn native_budget_lets_go_what_it_allows() {
    let pods: Vec<_> = ["a", "b", "c"].map(|name| pod(name, json!({}))).into();
    let rows = rows(&pods, &[], &[(4, native(1))]);
    let answers: Vec<_> = rows.iter().map(|row| row.answer).collect();
    assert_eq!(answers, [Answer::Goes, Answer::Waits, Answer::Waits]);
    assert!(
        rows[1]
            .message
            .contains("PodDisruptionBudget d/web allows no more"),
        "{}",
        rows[1].message
    );
    assert_eq!(rows[1].budgets, [4]);
}

#[test]
fn native_budgets_of_other_namespaces_hold_nothing() {
    let mut other = native(0);
    other.metadata.namespace = "e".into();
    let rows = rows(&[pod("a", json!({}))], &[], &[(0, other)]);
    assert_eq!(rows[0].answer, Answer::Goes);
}

#[test]
fn decisions_of_own_budgets_are_understood() {
    let cases = [
        (EvictionDecision::Allowed { left: 0 }, Answer::Goes, 1),
        (
            EvictionDecision::AllowedFree("it is not available".to_owned()),
            Answer::Goes,
            0,
        ),
        (
            EvictionDecision::Refused("held".to_owned()),
            Answer::Waits,
            1,
        ),
        (used_up("held"), Answer::Waits, 1),
        (EvictionDecision::Skipped("it is odd"), Answer::Stays, 0),
    ];
    for (found, answer, counting) in cases {
        let rows = rows(&[pod("a", json!({}))], &[decision("a", &found)], &[]);
        assert_eq!(
            (rows[0].answer, rows[0].budgets.len()),
            (answer, counting),
            "{found:?}"
        );
    }
}

fn row_of(name: &str, answer: Answer, message: &str, budgets: &[usize]) -> Row {
    Row {
        namespace: "d".to_owned(),
        pod: name.to_owned(),
        answer,
        message: message.to_owned(),
        after: String::new(),
        flags: Vec::new(),
        returns: false,
        pending: None,
        budgets: budgets.to_vec(),
        away: Vec::new(),
        is_doubled: false,
    }
}

#[test]
fn rounds_follow_the_slowest_budget() {
    let goes = || row_of("a", Answer::Goes, "would go", &[0]);
    let free = || row_of("a", Answer::Goes, "would go", &[]);
    let waits = || row_of("b", Answer::Waits, "would be refused: used up", &[0]);
    let replaced = || {
        row_of(
            "b",
            Answer::Waits,
            "would be refused: replacement first: x",
            &[0],
        )
    };
    let never = Rounds::Never(vec!["d/b: used up".to_owned()]);
    let cases = [
        (vec![], budget("b", 1, 1), Rounds::Empty(0)),
        (vec![free(), free()], budget("b", 1, 1), Rounds::Empty(1)),
        (vec![goes()], budget("b", 1, 1), Rounds::Empty(1)),
        (vec![goes(), waits()], budget("b", 1, 1), Rounds::Empty(2)),
        (
            vec![goes(), waits(), waits(), waits()],
            budget("b", 1, 2),
            Rounds::Empty(3),
        ),
        // Other pods of the budget are not ready yet.
        (vec![waits()], budget("b", 0, 1), Rounds::Empty(2)),
        // No pod may ever be away.
        (vec![waits()], budget("b", 0, 0), never.clone()),
        (vec![replaced()], budget("b", 0, 0), Rounds::Empty(2)),
        // The budget allows a pod, so the refusal has another cause.
        (vec![waits()], budget("b", 1, 1), never),
    ];
    for (rows, budget, expected) in cases {
        let found = rounds(&rows, std::slice::from_ref(&budget));
        assert_eq!(found, expected, "{rows:?} {budget:?}");
    }
}

#[test]
fn refusal_without_a_budget_never_ends() {
    for message in ["label hold", "label hold; try again when it is gone"] {
        let message = format!("would be refused: {message}");
        let held = row_of("a", Answer::Waits, &message, &[]);
        assert_eq!(
            rounds(&[held], &[]),
            Rounds::Never(vec!["d/a: label hold".to_owned()])
        );
    }
}

#[test]
fn sentences_name_budgets_and_numbers() {
    let rows = [
        row_of("a", Answer::Goes, "would go", &[0]),
        row_of("b", Answer::Waits, "would be refused: x", &[0]),
        row_of("c", Answer::Waits, "would be refused: x", &[0]),
        row_of(
            "d",
            Answer::Waits,
            "would be refused: replacement first: x",
            &[1],
        ),
        row_of("e", Answer::Stays, "stays", &[]),
        row_of("f", Answer::Waits, "would be refused: x", &[1]),
        row_of("g", Answer::Waits, "would be refused: x", &[1]),
    ];
    let budgets = [budget("pub d/web", 1, 1), budget("dpdb d/db", 0, 0)];
    assert_eq!(
        first_round(&rows, &budgets),
        "1st round: 1 pod goes; 2 wait for pub d/web until replacements are ready; 1 waits for a replacement; 2 stay, held by dpdb d/db"
    );
    let end = last_round("n", &rounds(&rows, &budgets), &rows);
    assert_eq!(
        end,
        "n is never empty as long as this stays so: d/f: x; d/g: x"
    );
    let end = last_round("n", &rounds(&rows[..5], &budgets), &rows[..5]);
    assert!(end.starts_with("n is empty after 3 rounds"), "{end}");
}

#[test]
fn budgets_are_read_by_their_kinds_fields() {
    let pub_ = json!({"metadata": {"name": "a", "namespace": "d"}, "status": {"unavailableAllowed": 1, "totalReplicas": 5, "desiredAvailable": 3}});
    assert_eq!(own_budget(&pub_, "pub"), budget("pub d/a", 1, 2));
    let other = json!({"metadata": {"name": "a", "namespace": "d"}, "status": {"disruptionsAllowed": 0, "expectedPods": 2, "desiredHealthy": 2}});
    assert_eq!(own_budget(&other, "dpdb"), budget("dpdb d/a", 0, 0));
}

#[test]
fn pods_without_another_node_end_the_rounds() {
    let pinned = |mut row: Row| {
        row.pending = Some("pinned".to_owned());
        row
    };
    let unavailable = |mut row: Row| {
        row.away = std::mem::take(&mut row.budgets);
        row
    };
    let goes = |name| row_of(name, Answer::Goes, "would go", &[0]);
    let waits = |name| row_of(name, Answer::Waits, "would be refused: used up", &[0]);
    let first = "would be refused: replacement first: x";
    let never = |pods: &[&str], away: &str| {
        let causes = pods.iter().map(|pod| {
            format!("d/{pod}: b waits for the replacement of d/{away}, which would be Pending")
        });
        Rounds::Never(causes.collect())
    };
    let cases = [
        (vec![pinned(goes("a"))], (1, 1), Rounds::Empty(1)),
        (
            vec![goes("a"), pinned(waits("b"))],
            (1, 1),
            Rounds::Empty(2),
        ),
        (
            vec![pinned(goes("a")), waits("b"), waits("c")],
            (1, 1),
            never(&["b", "c"], "a"),
        ),
        // One of two places stays free.
        (
            vec![pinned(goes("a")), goes("b"), waits("c"), waits("d")],
            (2, 2),
            Rounds::Empty(3),
        ),
        (
            vec![goes("a"), pinned(waits("b")), waits("c")],
            (1, 1),
            never(&["c"], "b"),
        ),
        // The unavailable pod goes first, and takes nothing.
        (
            vec![unavailable(pinned(goes("a"))), waits("b")],
            (0, 1),
            never(&["b"], "a"),
        ),
        (
            vec![unavailable(goes("a")), waits("b")],
            (0, 1),
            Rounds::Empty(2),
        ),
        // A third pod is away elsewhere, and no replacement becomes ready.
        (
            vec![unavailable(pinned(goes("a"))), waits("b")],
            (0, 2),
            never(&["b"], "a"),
        ),
        (
            vec![pinned(row_of("a", Answer::Waits, first, &[0]))],
            (1, 1),
            Rounds::Never(vec![
                "d/a: its replacement would be Pending: pinned".to_owned(),
            ]),
        ),
    ];
    for (rows, (allowed, most), expected) in cases {
        let found = rounds(&rows, &[budget("b", allowed, most)]);
        assert_eq!(found, expected, "{rows:?} {most}");
        let is_done = matches!(found, Rounds::Empty(_)) && remains(&rows).is_empty();
        let says_yes = drainable(&found, &rows).starts_with("yes");
        assert_eq!(says_yes, is_done, "{rows:?} {most}");
    }
}

#[test]
fn pods_that_are_away_already_are_known() {
    let pending = json!({"/status": {"phase": "Pending"}});
    let free = |why: &str| EvictionDecision::AllowedFree(why.to_owned());
    let cases = [
        (free("it is not available"), json!({}), vec![0]),
        (free("it was allowed to go already"), json!({}), vec![0]),
        (free("no pod must stay"), json!({}), vec![]),
        (EvictionDecision::Allowed { left: 0 }, json!({}), vec![]),
        (free("no pod must stay"), pending, vec![4]),
    ];
    for (found, change, away) in cases {
        let rows = rows(
            &[pod("a", change)],
            &[decision("a", &found)],
            &[(4, native(0))],
        );
        assert_eq!(rows[0].away, away, "{found:?}");
    }
}

#[test]
fn pods_of_two_native_budgets_never_go() {
    let mut other = native(1);
    other.metadata.name = "all".into();
    let natives = [(0, native(1)), (1, other)];
    let budgets = [budget("pdb d/web", 1, 1), budget("pdb d/all", 1, 1)];
    let cases = [
        (json!({}), &natives[..1], false),
        (json!({}), &natives, true),
        (json!({"/status": {"phase": "Pending"}}), &natives, false),
    ];
    for (change, natives, is_never) in cases {
        let rows = rows(&[pod("a", change)], &[], natives);
        let rounds = rounds(&rows, &budgets);
        assert_eq!(matches!(rounds, Rounds::Never(_)), is_never, "{rows:?}");
        if is_never {
            assert_eq!(
                first_round(&rows, &budgets),
                "1st round: 0 pods go; 1 stays, held by two PodDisruptionBudgets"
            );
            let answer = drainable(&rounds, &rows);
            let expected = "no: d/a: pdb d/web and pdb d/all hold it";
            assert!(answer.starts_with(expected), "{answer}");
        }
    }
}

#[test]
fn sentence_names_three_causes() {
    let causes = |number: usize| (0..number).map(|at| format!("d/{at}: x")).collect();
    let cases = [
        (1, "no: d/0: x"),
        (3, "no: d/0: x; d/1: x; d/2: x"),
        (5, "no: d/0: x; d/1: x; d/2: x; and 2 more"),
    ];
    for (number, expected) in cases {
        let rounds = Rounds::Never(causes(number));
        assert_eq!(drainable(&rounds, &[]), expected);
    }
}

#[test]
fn remaining_and_pending_pods_are_named() {
    let daemons = |api: &str| json!([{"apiVersion": api, "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
    let node = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let lazy = json!({"metadata": {"uid": "lazy", "annotations": {"daemonset.kruise.io/ignore-unschedulable": "true"}}});
    let mut of_lazy = daemons("apps.kruise.io/v1beta1");
    of_lazy[0]["uid"] = json!("lazy");
    let places = Places {
        nodes: vec![node("n"), node("other")],
        daemons: vec![lazy],
        ..Places::default()
    };
    let pods = [
        pod(
            "native",
            json!({"/metadata/ownerReferences": daemons("apps/v1")}),
        ),
        pod(
            "own",
            json!({"/metadata/ownerReferences": daemons("apps.kruise.io/v1beta1")}),
        ),
        pod("lazy", json!({"/metadata/ownerReferences": of_lazy})),
        pod("free", json!({})),
        pod("bare", json!({"/metadata/ownerReferences": []})),
        pod(
            "pinned",
            json!({"/spec": {"nodeName": "n", "nodeSelector": {"disk": "ssd"}}}),
        ),
        pod(
            "ended",
            json!({"/status/phase": "Failed", "/spec": {"nodeSelector": {"disk": "ssd"}}}),
        ),
    ];
    let rows = super::rounds::rows(&pods, &[], &[], &places);
    let found: Vec<_> = rows.iter().map(|row| (&*row.pod, row.sentence())).collect();
    assert_eq!(
        found,
        [
            ("bare", "would go; no controller recreates it (needs --force)"),
            ("ended", "would go: it has ended, or is on its way out"),
            ("free", "would go"),
            ("lazy", "would go; its DaemonSet recreates it once the node is uncordoned"),
            ("native", "stays: it is of a DaemonSet (needs --ignore-daemonsets)"),
            ("own", "would go; its DaemonSet recreates it on the node"),
            (
                "pinned",
                "would go; its replacement would be Pending: no other node matches its nodeSelector disk=ssd"
            ),
        ]
        .map(|(pod, sentence)| (pod, sentence.to_owned()))
    );
    assert_eq!(
        remains(&rows),
        [
            "1 pod stays: d/native",
            "1 pod comes back, because its DaemonSet recreates it on the node: d/own",
            "1 pod would be Pending, because no other node takes it: d/pinned",
        ]
    );
    assert_eq!(
        last_round("n", &rounds(&rows, &[]), &rows),
        "n is empty after 1 round, except for the pods that stay or come back"
    );
}

#[test]
fn failed_count_of_a_native_budget_is_named() {
    let of = |spec: Value, reason: &str| {
        json!({
            "metadata": {"name": "web", "namespace": "d", "generation": 2},
            "spec": spec,
            "status": {"expectedPods": 3, "desiredHealthy": 2, "conditions": [{
                "type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "found no scale"}]},
        })
    };
    let selector = json!({"matchLabels": {"app": "web"}});
    let failed = "PodDisruptionBudget d/web allows no pod to go, because Kubernetes cannot count its pods (SyncFailed): found no scale; ";
    let cases = [
        (
            of(
                json!({"selector": selector, "maxUnavailable": 1}),
                "SyncFailed",
            ),
            format!("{failed}set spec.minAvailable to 2 in place of spec.maxUnavailable"),
            0,
        ),
        (
            of(
                json!({"selector": selector, "minAvailable": 1}),
                "SyncFailed",
            ),
            format!("{failed}see `kubectl describe pdb web -n d`"),
            0,
        ),
        (
            of(
                json!({"selector": selector, "minAvailable": 1}),
                "InsufficientPods",
            ),
            "PodDisruptionBudget d/web was changed a moment ago".to_owned(),
            1,
        ),
    ];
    for (budget, expected, most) in cases {
        let native = serde_json::from_value(budget.clone()).unwrap();
        let rows = rows(&[pod("a", json!({}))], &[], &[(0, native)]);
        let message = &rows[0].message;
        assert!(
            message.starts_with(&format!("would be refused: {expected}")),
            "{message}"
        );
        assert_eq!(own_budget(&budget, "pdb").most, most);
    }
}
