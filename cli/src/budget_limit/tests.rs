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
            let found = never(resource, &budget(&spec, counts), &[], None);
            assert_eq!(found.is_some(), expected.is_some(), "{spec} {found:?}");
            let found = found.unwrap_or_default();
            let expected = expected.unwrap_or_default();
            assert!(found.contains(expected), "{found}");
        }
    }
    let mut stale = budget(&json!({"minAvailable": 3}), (3, 3));
    stale["metadata"]["generation"] = json!(3);
    assert_eq!(never(POD_UNAVAILABLE_BUDGETS, &stale, &[], None), None);
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
        let found = never(resource, budget, std::slice::from_ref(&workload), None);
        assert_eq!(found.is_some(), is_never, "{resource:?} {workload}");
        if !is_never {
            let of = std::slice::from_ref(&workload);
            let why = never(resource, budget, of, Some("pinned")).unwrap();
            assert!(why.ends_with("which would be Pending: pinned"), "{why}");
        }
    }
}

#[test]
fn remedies_lead_to_budgets_that_let_pods_go() {
    let failed = json!([{"type": "DisruptionAllowed", "reason": "SyncFailed"}]);
    let (surge, instead) = (SURGE_ON_EVICTION, "in place of spec.minAvailable");
    let cases = [
        (
            POD_DISRUPTION_BUDGETS,
            json!(3),
            None,
            Some("set spec.minAvailable to 2"),
        ),
        (POD_DISRUPTION_BUDGETS, json!("100%"), None, Some(instead)),
        (POD_UNAVAILABLE_BUDGETS, json!(3), None, Some(surge)),
        (
            POD_UNAVAILABLE_BUDGETS,
            json!(3),
            Some("pinned"),
            Some(instead),
        ),
    ];
    for (resource, least, pending, remedy) in cases {
        let mut budget = budget(&json!({"minAvailable": least}), (3, 3));
        let found = never(resource, &budget, &[], pending).unwrap();
        assert!(found.contains(remedy.unwrap_or_default()), "{found}");
        assert!(pending.is_none() || !found.contains(surge), "{found}");
        budget["status"]["conditions"] = failed.clone();
        let is_native = resource == POD_DISRUPTION_BUDGETS;
        let found = never(resource, &budget, &[], pending);
        assert_eq!(found.is_none(), is_native, "{found:?}");
    }
}

fn native(name: &str, spec: Value) -> NativeBudget {
    let mut native = json!({
        "metadata": {"name": name, "namespace": "d"}, "spec": spec,
        "status": {"conditions": [
            {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}]},
    });
    native["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    serde_json::from_value(native).unwrap()
}

#[test]
fn failed_count_has_a_number_as_remedy() {
    let pod = |app: &str, phase: &str| json!({"metadata": {"namespace": "d", "name": "a", "labels": {"app": app}}, "status": {"phase": phase}});
    let pods = [
        pod("web", "Running"),
        pod("db", "Running"),
        pod("web", "Failed"),
    ];
    let cases = [
        (
            json!({"maxUnavailable": 1}),
            3,
            "set spec.minAvailable to 2 in place of spec.maxUnavailable",
        ),
        (
            json!({"maxUnavailable": 1}),
            1,
            "set spec.minAvailable to 0 in place of spec.maxUnavailable",
        ),
        (json!({"maxUnavailable": 1}), 0, "the subresource scale"),
        (
            json!({"minAvailable": "50%"}),
            2,
            "set spec.minAvailable to 1",
        ),
        (
            json!({"minAvailable": 1}),
            2,
            "see `kubectl describe pdb web -n d`",
        ),
    ];
    for (spec, pods, remedy) in cases {
        let why = uncounted(&native("web", spec), pods).unwrap();
        assert!(why.ends_with(remedy), "{why}");
    }
    assert_eq!(number_of_pods(&native("web", json!({})), &pods), 1);
}

#[test]
fn second_native_budget_of_a_pod_is_named() {
    let pod = |namespace: &str| json!({"metadata": {"namespace": namespace, "name": "a", "labels": {"app": "web"}}});
    let (web, all) = (native("web", json!({})), native("all", json!({})));
    let cases = [
        (vec![web.clone()], pod("d"), false),
        (vec![web.clone(), all.clone()], pod("d"), true),
        (vec![web.clone(), all.clone()], pod("e"), false),
    ];
    for (natives, pod, is_found) in cases {
        let found = doubled(&web, &natives, &[pod]);
        assert_eq!(found.is_some(), is_found, "{found:?}");
        let found = found.unwrap_or_default();
        assert!(
            !is_found || found.contains("a, because PodDisruptionBudget all holds"),
            "{found}"
        );
    }
}

#[test]
fn pods_of_a_budget_are_found() {
    let pod = |owner: &str, app: &str| json!({"metadata": {"namespace": "d", "name": "a", "labels": {"app": app}, "ownerReferences": [{"controller": true, "name": owner}]}});
    let selecting = budget(&json!({}), (1, 1));
    let mut targeting = selecting.clone();
    targeting["spec"]["targetRef"] = json!({"kind": "CloneSet", "name": "web"});
    let cases = [
        (&selecting, pod("x", "web"), true),
        (&selecting, pod("web", "db"), false),
        (&targeting, pod("web", "db"), true),
        (&targeting, pod("web-abc12", "db"), true),
        (&targeting, pod("web-abc12-x", "web"), false),
    ];
    for (budget, pod, expected) in cases {
        assert_eq!(has(budget, &pod), expected, "{pod}");
    }
}
