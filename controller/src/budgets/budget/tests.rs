use super::*;

#[test]
fn target_budget_holds_pods_before_and_after_count() {
    let budget = |status: Value| {
        let budget = json!({
            "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": "web"},
            "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}, "maxUnavailable": 1},
            "status": status,
        });
        Holds::of(&Budget::read("podunavailablebudgets", &budget.to_string()).unwrap())
    };
    let pod = |owner: &str, app: &str| {
        let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": owner, "uid": "u", "controller": true});
        serde_json::from_value::<Metadata>(
            json!({"labels": {"app": app}, "ownerReferences": [owner]}),
        )
        .unwrap()
    };
    // As OpenKruise leaves it: no field says which pods are its.
    let uncounted =
        json!({"observedGeneration": 1, "unavailableAllowed": 0, "currentAvailable": 3});
    let counted =
        json!({"observedGeneration": 1, "ledger": {"counted": "7", "selector": "app=web"}});
    for (status, owner, app, expected) in [
        (Value::Null, "web", "web", true),
        (Value::Null, "other", "web", false),
        (uncounted, "web", "web", true),
        (counted.clone(), "web", "other", false),
        (counted, "other", "web", true),
    ] {
        assert_eq!(
            budget(status.clone()).holds(&pod(owner, app)),
            expected,
            "{status} {owner} {app}"
        );
    }
}
