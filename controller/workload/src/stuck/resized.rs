//! The event for a resize that a node can never do.

use berth_api::names::condition::BLOCKED;
use serde_json::Value;

use crate::inplace::resize::INFEASIBLE;
use crate::plan::Event;

/// The event for a status that says so in its condition `Blocked` and did not before. The kubelet or the apiserver has refused the resize.
pub fn event(old: &Value, new: &Value) -> Option<Event> {
    let message = message(new).filter(|_| message(old).is_none())?;
    Some(Event { warning: true, reason: INFEASIBLE, message: message.to_owned() })
}

fn message(status: &Value) -> Option<&str> {
    let mut conditions = status["conditions"].as_array()?.iter();
    conditions.find(|one| one["type"] == BLOCKED && one["reason"] == INFEASIBLE)?["message"].as_str()
}
