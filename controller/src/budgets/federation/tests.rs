use berth_workload::feature_gates::Gates;
use serde_json::Value;

use kube::Client;

use super::*;

/// A budget with members, and its status about them.
fn naming(federation: &Value, told: &Value) -> Budget {
    let budget = json!({
        "metadata": {"name": "foo", "namespace": "default", "uid": "u"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 3, "federation": federation},
        "status": {"federatedStatuses": told},
    });
    Budget::read("distributedpoddisruptionbudgets", &budget.to_string()).unwrap()
}

#[tokio::test]
async fn shared_budget_contributes_at_most_reported_pods() {
    let client =
        Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let budgets = PodBudgets::only_read(
        client,
        Gates::default(),
        None,
        ("", Duration::from_secs(75), false),
    );
    let bar = |namespace: &str| json!({"namespace": namespace, "name": "bar"});
    let status = |namespace: &str, shared: i32, healthy: i32| {
        json!({"namespace": namespace, "name": "bar", "uid": "b", "generation": 1, "reachable": true,
                   "shared": shared, "sharedExpected": 1, "healthy": healthy, "expected": 3})
    };
    let far = json!({"cluster": "east", "namespace": "default", "name": "bar"});
    let beside = json!({"namespace": "other", "name": "beside"});
    for (federation, told, expected) in [
        (json!([bar("default")]), json!([]), None),
        (
            json!([bar("default")]),
            json!([status("default", 0, 1)]),
            Some((1, 3)),
        ),
        (
            json!([bar("default")]),
            json!([status("default", 1, 3)]),
            Some((2, 3)),
        ),
        (
            json!([bar("default")]),
            json!([{"namespace": "default", "name": "bar", "uid": "b"}]),
            None,
        ),
        (json!([bar("other")]), json!([]), Some((3, 3))),
        (
            json!([bar("other")]),
            json!([status("other", 2, 0)]),
            Some((1, 2)),
        ),
        (json!([bar("other"), beside]), json!([]), None),
        (
            json!([bar("other"), beside]),
            json!([status("other", 0, 2)]),
            Some((2, 3)),
        ),
        (json!([far]), json!([]), Some((3, 3))),
    ] {
        let budget = naming(&federation, &told);
        let of_three = |_: &Member| Alone {
            origin: Origin {
                uid: "b".to_owned(),
                generation: 1,
            },
            elsewhere: Elsewhere::default(),
            brings: Ok(Brings {
                healthy: 3,
                expected: 3,
            }),
        };
        let alone: Vec<_> = budget.federation().iter().map(of_three).collect();
        let found = budgets.together(&budget, &alone).remove(0);
        assert_eq!(
            found.ok().map(|brings| (brings.healthy, brings.expected)),
            expected,
            "{federation} {told}"
        );
    }
}
