//! The readiness gates that Berth gives its pods, and the conditions that open and close them.

pub use berth_api::names::condition::{
    INPLACE_UPDATE_READY as IN_PLACE_UPDATE_READY, KRUISE_POD_READY,
};
use jiff::Timestamp;

use super::{Condition, Pod};

/// The gates of every new pod.
pub const OF_NEW_PODS: [&str; 2] = [IN_PLACE_UPDATE_READY, KRUISE_POD_READY];

/// Conditions that open the gates which nobody has opened or closed yet. Empty when there are none.
pub fn unset(pod: &Pod, now: Timestamp) -> Vec<Condition> {
    let ours = OF_NEW_PODS
        .iter()
        .filter(|gate| has_gate(pod, gate) && pod.condition(gate).is_none());
    ours.map(|gate| condition(gate, true, now)).collect()
}

/// Does the pod's spec have this gate?
pub fn has_gate(pod: &Pod, gate: &str) -> bool {
    pod.spec
        .readiness_gates
        .iter()
        .any(|g| &*g.condition_type == gate)
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
/// the pod at once; the kubelet writes the same a moment later and is the one to set it True again. In the kubelet's very
/// words: where they differ it syncs the pod for that alone, and the sync for the new image, a moment later, then has to
/// wait for the next look at the runtime, up to a second.
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
