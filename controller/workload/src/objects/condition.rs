//! Conditions as Kubernetes' type has them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition since now.
pub fn condition(
    type_: &str,
    is_true: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        last_transition_time: Time(whole_seconds(now)),
        reason: reason.to_owned(),
        message,
        observed_generation: None,
    }
}

/// Whether one of this type is there and True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Puts a condition in the place of the one of its type. Its time stays where the status does.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition) {
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == new.type_)
    {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

/// Puts a condition in the place of the one of its type, or takes that one away.
pub fn put(conditions: &mut Vec<Condition>, type_: &str, new: Option<Condition>) {
    match new {
        Some(new) => set(conditions, new),
        None => conditions.retain(|condition| condition.type_ != type_),
    }
}

/// A number of pods as statuses have it.
pub fn number(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

/// The API's times have no fractions.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
