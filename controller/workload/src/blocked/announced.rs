//! The events for causes of the condition `Blocked` that need one.

use berth_api::names::condition::BLOCKED;
use serde_json::Value;

use super::container::CRASH_LOOPING;
use crate::plan::Event;
use crate::update::inplace::resize::INFEASIBLE;

/// The causes that have an event: a node refuses a resize, and a container crashes.
const ANNOUNCED: [&str; 2] = [INFEASIBLE, CRASH_LOOPING];

/// The event for a status whose condition `Blocked` has a cause that it did not have before.
pub fn event(old: &Value, new: &Value) -> Option<Event> {
    let (reason, message) = ANNOUNCED
        .into_iter()
        .find_map(|reason| Some((reason, message(new, reason)?)))?;
    self::message(old, reason)
        .is_none()
        .then(|| Event::warning(reason, message.to_owned()))
}

fn message<'a>(status: &'a Value, reason: &str) -> Option<&'a str> {
    let mut conditions = status["conditions"].as_array()?.iter();
    conditions.find(|one| one["type"] == BLOCKED && one["reason"] == reason)?["message"].as_str()
}
