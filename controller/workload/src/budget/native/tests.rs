use serde_json::json;

use super::*;

#[test]
fn native_eviction_follows_status_and_policy() {
    use Eviction::{Allowed, NotCounted, UsedUp};
    let (always, if_healthy, unknown) = (
        json!("AlwaysAllow"),
        json!("IfHealthyBudget"),
        json!("Later"),
    );
    for (ready, policy, (allowed, healthy, desired), observed, expected) in [
        ("True", Value::Null, (1, 3, 2), 2, Allowed),
        ("True", Value::Null, (0, 2, 2), 2, UsedUp),
        ("True", Value::Null, (1, 3, 2), 1, NotCounted),
        ("True", always.clone(), (0, 1, 2), 2, UsedUp),
        ("False", always.clone(), (0, 1, 2), 2, Allowed),
        ("False", always, (0, 1, 2), 1, Allowed),
        ("False", Value::Null, (0, 1, 2), 2, UsedUp),
        ("False", if_healthy.clone(), (0, 2, 2), 2, Allowed),
        ("False", if_healthy.clone(), (0, 2, 2), 1, Allowed),
        ("False", if_healthy.clone(), (0, 0, 0), 2, UsedUp),
        ("False", if_healthy, (0, 1, 2), 1, NotCounted),
        ("False", unknown, (0, 1, 2), 2, UsedUp),
    ] {
        let mut native = json!({
            "metadata": {"name": "web", "generation": 2}, "spec": {},
            "status": {
                "observedGeneration": observed, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
                "disruptedPods": {"web-a": "2026-01-01T00:00:00Z"},
            },
        });
        if !policy.is_null() {
            native["spec"]["unhealthyPodEvictionPolicy"] = policy.clone();
        }
        let native: NativeBudget = serde_json::from_value(native).unwrap();
        let pod = json!({
            "metadata": {"name": "web-a"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(
            native.on_eviction(&pod),
            expected,
            "{ready} {policy} {allowed} {healthy} {desired} {observed}"
        );
    }
}
