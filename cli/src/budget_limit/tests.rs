use serde_json::json;

use super::*;

fn budget(spec: &Value, (total, least): (i64, i64)) -> Value {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    json!({
        "metadata": {"name": "web", "namespace": "d", "generation": 2}, "spec": spec,
        "status": {"observedGeneration": 2, "totalReplicas": total, "desiredAvailable": least,
            "expectedPods": total, "desiredHealthy": least},
    })
}

#[test]
fn limits_that_keep_all_pods_are_found() {
    let cases = [
        (
            json!({"maxUnavailable": 0}),
            (3, 3),
            Some("spec.maxUnavailable is 0, and it has 3 pods"),
        ),
        (
            json!({"maxUnavailable": "0%"}),
            (0, 0),
            Some("spec.maxUnavailable is 0%; set"),
        ),
        (json!({"maxUnavailable": 1}), (3, 2), None),
        (json!({"maxUnavailable": "1%"}), (0, 0), None),
        (
            json!({"minAvailable": "100%"}),
            (0, 0),
            Some("spec.minAvailable is 100%; set"),
        ),
        (
            json!({"minAvailable": "80%"}),
            (3, 3),
            Some("spec.minAvailable is 80%, and it has 3 pods"),
        ),
        (json!({"minAvailable": "80%"}), (5, 4), None),
        (
            json!({"minAvailable": 3}),
            (3, 3),
            Some("spec.minAvailable is 3, and it has 3 pods"),
        ),
        (
            json!({"minAvailable": 3}),
            (1, 3),
            Some("spec.minAvailable is 3, and it has 1 pod;"),
        ),
        (json!({"minAvailable": 3}), (0, 3), None),
        (json!({"minAvailable": 2}), (3, 2), None),
        (json!({"minAvailable": "odd"}), (0, 0), None),
        (json!({}), (3, 3), None),
    ];
    for (spec, counts, expected) in cases {
        for (resource, _) in kinds() {
            let found = never(resource, &budget(&spec, counts), &[]);
            assert_eq!(found.is_some(), expected.is_some(), "{spec} {found:?}");
            let found = found.unwrap_or_default();
            assert!(found.contains(expected.unwrap_or_default()), "{found}");
        }
    }
    let mut stale = budget(&json!({"minAvailable": 3}), (3, 3));
    stale["metadata"]["generation"] = json!(3);
    assert_eq!(never(POD_UNAVAILABLE_BUDGETS, &stale, &[]), None);
}

#[test]
fn replacements_let_pods_of_own_budgets_go() {
    let workload = |namespace: &str, app: &str| {
        json!({"metadata": {"name": "web", "namespace": namespace, "annotations": {SURGE_ON_EVICTION: "true"}},
            "spec": {"template": {"metadata": {"labels": {"app": app}}}}})
    };
    let selecting = budget(&json!({"minAvailable": 1}), (1, 1));
    let mut targeting = selecting.clone();
    targeting["spec"]["selector"] = Value::Null;
    targeting["spec"]["targetRef"] = json!({"kind": "CloneSet", "name": "web"});
    let cases = [
        (
            &selecting,
            POD_UNAVAILABLE_BUDGETS,
            workload("d", "web"),
            false,
        ),
        (
            &selecting,
            DISTRIBUTED_POD_DISRUPTION_BUDGETS,
            workload("d", "web"),
            false,
        ),
        (
            &selecting,
            POD_DISRUPTION_BUDGETS,
            workload("d", "web"),
            true,
        ),
        (
            &selecting,
            POD_UNAVAILABLE_BUDGETS,
            workload("d", "db"),
            true,
        ),
        (
            &selecting,
            POD_UNAVAILABLE_BUDGETS,
            workload("e", "web"),
            true,
        ),
        (
            &targeting,
            POD_UNAVAILABLE_BUDGETS,
            workload("d", "db"),
            false,
        ),
    ];
    for (budget, resource, workload, is_never) in cases {
        assert!(surges(&workload));
        let found = never(resource, budget, std::slice::from_ref(&workload));
        assert_eq!(found.is_some(), is_never, "{resource:?} {workload}");
    }
}
