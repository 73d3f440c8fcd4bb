use berth_api::v1beta1::podunavailablebudget::ProtectedOperation::{self, Delete, Evict, Resize};
use serde_json::json;

use super::*;

fn request(uid: &str, operation: ProtectedOperation) -> Request {
    Request {
        pod: format!("web-{uid}"),
        uid: uid.to_owned(),
        operation,
        holder: "somebody".to_owned(),
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
fn decisions_without_a_write_need_a_live_read() {
    let entry = json!({"pod": "web-a", "uid": "a", "operation": "EVICT", "holder": "me", "time": Timestamp::now()});
    let all = json!([]);
    for (desired, protects, request, is_dry_run, expected) in [
        (2, &all, request("b", Delete), false, false),
        (2, &all, request("b", Delete), true, true),
        (3, &all, request("b", Delete), false, true),
        (
            2,
            &all,
            Request {
                is_again: true,
                ..request("a", Evict)
            },
            false,
            true,
        ),
        (2, &all, request("a", Evict), false, false),
        (2, &all, request("a", Delete), false, false),
        (2, &all, request("b", Resize), false, false),
        // The budget may protect from this operation by now.
        (2, &json!(["EVICT"]), request("b", Delete), false, true),
        (2, &json!(["DELETE"]), request("b", Resize), false, true),
        // And it may hold a pod like this by now.
        (
            2,
            &all,
            Request {
                is_available: false,
                ..request("b", Delete)
            },
            false,
            true,
        ),
        (
            2,
            &all,
            Request {
                is_available: false,
                ..request("b", Evict)
            },
            false,
            false,
        ),
        (0, &all, request("b", Delete), false, true),
    ] {
        let budget = json!({
            "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
            "metadata": {"name": "web", "namespace": "default", "uid": "w", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1, "protectOperations": protects},
            "status": {
                "observedGeneration": 1, "unavailableAllowed": 3 - desired, "currentAvailable": 3, "desiredAvailable": desired,
                "totalReplicas": 4, "ledger": {"counted": "7", "entries": [entry]},
            },
        });
        let budget = Budget::read("podunavailablebudgets", &budget.to_string()).unwrap();
        let what = format!("{desired} {protects} {request:?} {is_dry_run}");
        let (name, holds) = (budget.key().words(), Holds::of(&budget));
        let decided = budget.as_judged(&name, &holds).judge(
            &[(request, is_dry_run)],
            (None, &[]),
            Timestamp::now(),
        );
        assert_eq!(
            decided.is_by_what_is_written, expected,
            "{what}: {:?}",
            decided.decisions
        );
    }
}

#[test]
fn pod_without_budget_condition_is_unavailable_to_it() {
    let holds = |conditions: serde_json::Value| {
        let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1, "healthyConditions": conditions});
        let budget = json!({"metadata": {"name": "web"}, "spec": spec});
        Holds::of(&Budget::read("distributedpoddisruptionbudgets", &budget.to_string()).unwrap())
    };
    let (none, synced) = (holds(json!([])), holds(json!(["example.com/synced"])));
    let pod = |status: &str| -> Arc<Pod> {
        let condition = json!({"type": "example.com/synced", "status": status});
        let pod = json!({"metadata": {"name": "a"}, "status": {"conditions": [condition]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    for (is_available, holds, status, expected) in [
        (true, &none, "False", true),
        (true, &synced, "True", true),
        (true, &synced, "False", false),
        (false, &synced, "True", false),
    ] {
        let request = Request {
            is_available,
            ..request("a", Evict)
        };
        let queued = QueuedRequest {
            request,
            pod: pod(status),
            is_dry_run: false,
        };
        assert_eq!(
            as_seen(&queued, holds).is_available,
            expected,
            "{is_available} {status}"
        );
    }
}
