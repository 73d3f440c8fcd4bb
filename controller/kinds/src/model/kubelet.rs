//! The status that a kubelet publishes.

use berth_workload::objects::pod::Pod;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::apiserver::set_condition;

/// Publishes a kubelet's status of a pod at the start of a sync.
pub(crate) fn publish(pod: &mut Value, serves: bool, now: Timestamp) {
    pod["status"]["observedGeneration"] = pod["metadata"]["generation"].clone();
    let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
    let gates_open = typed
        .spec
        .readiness_gates
        .iter()
        .all(|gate| typed.is_true(&gate.condition_type));
    if typed.is_true("Ready") != (gates_open && serves) {
        let status = if gates_open && serves {
            "True"
        } else {
            "False"
        };
        set_condition(
            pod,
            json!({"type": "Ready", "status": status, "lastTransitionTime": now}),
        );
    }
}
