//! The readiness gate `KruisePodReady`, which several writers may close. Each writer has an entry
//! in the condition's message, and the gate is open if the list is empty.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::gates::{self, KRUISE_POD_READY};
use super::{Condition, Pod};

/// One writer's reason to keep a pod out of service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The writer.
    #[serde(default)]
    pub user_agent: Cow<'static, str>,
    /// The writer's purpose.
    #[serde(default)]
    pub key: Cow<'static, str>,
}

/// The entry of a `preDelete` hook with `markPodNotReady`.
pub const BEFORE_DELETE: Reason = Reason {
    user_agent: Cow::Borrowed("Lifecycle"),
    key: Cow::Borrowed("preDeleteHook"),
};
/// The entry of an `inPlaceUpdate` hook with `markPodNotReady`.
pub const BEFORE_UPDATE: Reason = Reason {
    user_agent: Cow::Borrowed("Lifecycle"),
    key: Cow::Borrowed("preUpdateHook"),
};

/// The reasons in the pod's condition. A message that is no such list holds none.
pub fn reasons(pod: &Pod) -> Vec<Reason> {
    let message = pod
        .condition(KRUISE_POD_READY)
        .map_or("", |condition| &condition.message);
    serde_json::from_str(message).unwrap_or_default()
}

/// The condition with this reason added. `None` if there is nothing to write: the reason closes the
/// gate already, or the pod has no such gate.
pub fn with(pod: &Pod, reason: &Reason, now: Timestamp) -> Option<Condition> {
    let mut reasons = reasons(pod);
    let listed = reasons.contains(reason);
    let closed = pod
        .condition(KRUISE_POD_READY)
        .is_some_and(|condition| &*condition.status == "False");
    if !gates::has_gate(pod, KRUISE_POD_READY) || (listed && closed) {
        return None;
    }
    if !listed {
        reasons.push(reason.clone());
    }
    Some(condition(reasons, now))
}

/// The condition without the reasons of lifecycle hooks; other reasons stay. `None` if there are no
/// hook reasons.
pub fn without_hooks(pod: &Pod, now: Timestamp) -> Option<Condition> {
    without_all(pod, &[BEFORE_DELETE, BEFORE_UPDATE], now)
}

/// The condition without this reason, those of others kept. `None` when it is not there.
pub fn without(pod: &Pod, reason: &Reason, now: Timestamp) -> Option<Condition> {
    without_all(pod, std::slice::from_ref(reason), now)
}

fn without_all(pod: &Pod, gone: &[Reason], now: Timestamp) -> Option<Condition> {
    let mut reasons = reasons(pod);
    let before = reasons.len();
    reasons.retain(|reason| !gone.contains(reason));
    (reasons.len() < before && gates::has_gate(pod, KRUISE_POD_READY))
        .then(|| condition(reasons, now))
}

fn condition(mut reasons: Vec<Reason>, now: Timestamp) -> Condition {
    reasons.sort();
    // A list of strings always serialises. An empty list is written out, because a patch without a
    // message would keep the old one.
    let message = serde_json::to_string(&reasons).unwrap_or_default().into();
    Condition {
        message,
        ..gates::condition(KRUISE_POD_READY, reasons.is_empty(), now)
    }
}

#[cfg(test)]
mod tests;
