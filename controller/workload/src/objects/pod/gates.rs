//! The readiness gates that Berth adds to its pods, and the conditions that open and close them.

pub use berth_api::names::condition::{
    INPLACE_UPDATE_READY as IN_PLACE_UPDATE_READY, KRUISE_POD_READY,
};
use jiff::Timestamp;

use super::{Condition, Pod};

/// The readiness gates of every new pod.
pub const OF_NEW_PODS: [&str; 2] = [IN_PLACE_UPDATE_READY, KRUISE_POD_READY];

/// Conditions that open the readiness gates without a condition yet. Empty if all have one.
pub fn unset(pod: &Pod, now: Timestamp) -> Vec<Condition> {
    let ours = OF_NEW_PODS
        .iter()
        .filter(|gate| has_gate(pod, gate) && pod.condition(gate).is_none());
    ours.map(|gate| condition(gate, true, now)).collect()
}

/// Whether the pod's spec has this readiness gate.
pub fn has_gate(pod: &Pod, gate: &str) -> bool {
    pod.spec
        .readiness_gates
        .iter()
        .any(|g| &*g.condition_type == gate)
}

/// The condition that opens or closes a readiness gate.
pub fn condition(gate: &str, open: bool, now: Timestamp) -> Condition {
    Condition {
        type_: gate.into(),
        status: if open { "True" } else { "False" }.into(),
        last_transition_time: Some(now),
        ..Condition::default()
    }
}

/// The pod's own `Ready` condition after a readiness gate is closed. It is written together with
/// the gate, so that endpoints drop the pod at once. The kubelet writes the same condition a moment
/// later, and later sets it to True again. The message is exactly the kubelet's: otherwise the
/// kubelet would sync the pod to correct it, and the sync for the new image would wait for the next
/// look at the runtime, up to a second.
pub fn not_ready(pod: &Pod, closed: &str, now: Timestamp) -> Condition {
    let why = |gate: &&str| {
        let status = if *gate == closed {
            Some("False")
        } else {
            pod.condition(gate).map(|c| &*c.status)
        };
        match status {
            Some("True") => None,
            Some(status) => Some(format!(
                "the status of pod readiness gate \"{gate}\" is not \"True\", but {status}"
            )),
            None => Some(format!(
                "corresponding condition of pod readiness gate \"{gate}\" does not exist."
            )),
        }
    };
    let gates: Vec<&str> = pod
        .spec
        .readiness_gates
        .iter()
        .map(|gate| &*gate.condition_type)
        .collect();
    Condition {
        type_: "Ready".into(),
        status: "False".into(),
        last_transition_time: Some(now),
        reason: "ReadinessGatesNotReady".into(),
        message: gates
            .iter()
            .filter_map(why)
            .collect::<Vec<_>>()
            .join(", ")
            .into(),
    }
}

#[cfg(test)]
mod tests;
