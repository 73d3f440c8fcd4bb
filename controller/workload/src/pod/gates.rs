//! The readiness gates that Berth gives its pods, and the conditions that open and close them.

use jiff::Timestamp;

use super::{Condition, Pod};

/// False while a pod is updated in place.
pub const IN_PLACE_UPDATE_READY: &str = "InPlaceUpdateReady";
/// False while something else asked for the pod to be out of service.
pub const KRUISE_POD_READY: &str = "KruisePodReady";
/// The gates of every new pod.
pub const OF_NEW_PODS: [&str; 2] = [IN_PLACE_UPDATE_READY, KRUISE_POD_READY];

/// Conditions that open the gates which nobody has opened or closed yet. Empty when there are none.
pub fn unset(pod: &Pod, now: Timestamp) -> Vec<Condition> {
    let ours = OF_NEW_PODS.iter().filter(|gate| has_gate(pod, gate) && pod.condition(gate).is_none());
    ours.map(|gate| condition(gate, true, now)).collect()
}

/// Does the pod's spec have this gate?
pub fn has_gate(pod: &Pod, gate: &str) -> bool {
    pod.spec.readiness_gates.iter().any(|g| &*g.condition_type == gate)
}

/// Opens or closes a gate.
pub fn condition(gate: &str, open: bool, now: Timestamp) -> Condition {
    Condition {
        type_: gate.into(),
        status: if open { "True" } else { "False" }.into(),
        last_transition_time: Some(now),
        ..Condition::default()
    }
}

/// What closing a gate means for the pod's own `Ready` condition. Written along with the gate, so that endpoints drop
/// the pod at once; the kubelet writes the same a moment later and is the one to set it True again.
pub fn not_ready(gate: &str, now: Timestamp) -> Condition {
    Condition {
        type_: "Ready".into(),
        status: "False".into(),
        last_transition_time: Some(now),
        reason: "ReadinessGatesNotReady".into(),
        message: format!("corresponding condition of pod readiness gate \"{gate}\" is False").into(),
    }
}
