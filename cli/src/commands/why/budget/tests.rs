use serde_json::json;

use super::*;

fn pod(name: &str, node: &str, app: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "d", "labels": {"app": app}, "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn budget(change: &Value) -> Value {
    let mut budget = json!({
        "metadata": {"name": "web", "namespace": "d", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3,
            "desiredHealthy": 2, "expectedPods": 3},
    });
    for (path, value) in change.as_object().into_iter().flatten() {
        *budget.pointer_mut(path).unwrap() = value.clone();
    }
    budget
}

#[test]
fn native_budget_has_numbers_pods_and_drains() {
    let pods = [
        pod("web-a", "n1", "web"),
        pod("web-b", "n2", "web"),
        pod("web-c", "n2", "web"),
        pod("web-d", "", "web"),
        pod("db-a", "n1", "db"),
    ];
    let budget = budget(&json!({}));
    let all = std::slice::from_ref(&budget);
    assert_eq!(
        native_lines(&budget, &pods, all, None).unwrap(),
        [
            "PodDisruptionBudget d/web",
            "Now: 3 of 3 pods are healthy, 2 must be (maxUnavailable 1): 1 may go",
            "Pods without a node: web-d",
            "Pods on n1: web-a",
            "Pods on n2: web-b, web-c",
            "Drains: one of these nodes could be drained at once now, as far as its pods go: n1",
            "Drains: of these, a drain would have to wait for some of its pods: n2 (1 of 2)",
            "All budgets together: `kubectl berth drain NODE --dry-run`",
        ]
    );
    let lines = native_lines(&budget, &pods, all, Some("n2")).unwrap();
    assert_eq!(
        lines[2],
        "A drain of node n2 now, by Kubernetes' own budgets:"
    );
    assert_eq!(lines[3], "  web-b: would go");
    assert!(
        lines[4].starts_with("  web-c: would be refused: "),
        "{}",
        lines[4]
    );
}

#[test]
fn native_budget_names_what_blocks_it() {
    let failed = json!({"observedGeneration": 1, "conditions": [
        {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}]});
    let cases = [
        (
            json!({"/status": failed}),
            1,
            "Blocked: it allows no pod to go",
        ),
        (
            json!({"/metadata/generation": 2}),
            1,
            "Now: Kubernetes has not counted its pods yet",
        ),
        (
            json!({"/spec/maxUnavailable": "0%", "/status": {"observedGeneration": 1}}),
            2,
            "‼ it can never let a pod go",
        ),
        (json!({}), 2, "Pods: its selector selects none"),
    ];
    for (change, at, expected) in cases {
        let budget = budget(&change);
        let is_failed = expected.starts_with("Blocked: ");
        assert_eq!(uncounted(&budget).is_some(), is_failed, "{budget}");
        let lines = native_lines(&budget, &[], std::slice::from_ref(&budget), None).unwrap();
        assert!(lines[at].starts_with(expected), "{lines:?}");
    }
}

#[test]
fn budget_that_lets_no_pod_go_is_no_wait() {
    let of = |pods: i64| json!({"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": pods});
    let closed = budget(&json!({"/spec/maxUnavailable": 0, "/status": of(1)}));
    let full = budget(&json!({"/status": of(2)}));
    let mut other = budget(&json!({}));
    other["metadata"]["name"] = json!("other");
    let cases = [
        (
            &full,
            vec![full.clone()],
            "Drains: of these, a drain would have to wait",
        ),
        (
            &closed,
            vec![closed.clone()],
            "Drains: of these, a drain would never end",
        ),
        (
            &full,
            vec![full.clone(), other],
            "Drains: of these, a drain would never end",
        ),
    ];
    for (budget, all, expected) in cases {
        let lines = native_lines(budget, &[pod("web-a", "n1", "web")], &all, None).unwrap();
        let found = lines.iter().find(|line| line.starts_with("Drains: "));
        assert!(found.unwrap().starts_with(expected), "{lines:?}");
    }
}
