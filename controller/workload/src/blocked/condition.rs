//! The conditions that say why a workload is blocked or which writes fail.

use berth_api::names::condition::BLOCKED;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::cause::{Cause, gravest, without_names};
use crate::update::podset::Workload;
use berth_api::fields::condition::StatusCondition;

/// Sets the condition `Blocked` to the gravest cause, or removes it. A cause that the condition
/// names already keeps its message.
pub fn set_blocked<C: StatusCondition>(
    conditions: &mut Vec<C>,
    workload: &Workload<'_>,
    causes: Vec<Cause>,
    now: Timestamp,
) {
    let cause = match gravest(causes, workload.blocked, now) {
        Some((_, true)) => return,
        cause => cause.map(|(cause, _)| cause),
    };
    let mut old = conditions.iter().map(StatusCondition::fields);
    let since = old
        .find(|old| old.type_ == BLOCKED)
        .and_then(|old| old.since.clone());
    let now = Some(Time(now));
    conditions.retain(|c| c.fields().type_ != BLOCKED);
    conditions.extend(cause.map(|cause| {
        let since = since.or_else(|| now.clone());
        C::new(BLOCKED, since, now, cause.reason, cause.message)
    }));
}

/// Sets a condition that is `True` while the server refuses writes, or removes it. It has
/// OpenKruise's form: without a reason, only with the server's first message and the time of the
/// transition.
pub fn set_failure<C: StatusCondition>(
    conditions: &mut Vec<C>,
    workload: &Workload<'_>,
    (type_, message): (&str, Option<String>),
    now: Timestamp,
) {
    let Some(message) = message else {
        conditions.retain(|c| c.fields().type_ != type_);
        return;
    };
    let mut old = conditions.iter().map(StatusCondition::fields);
    let old = old.find(|old| old.type_ == type_ && old.is_true);
    // A refused pod has another name with every try.
    let words = |text: &str| without_names(text, workload.name());
    if old
        .as_ref()
        .is_some_and(|old| words(old.message) == words(&message))
    {
        return;
    }
    let since = old.and_then(|old| old.since.clone()).or(Some(Time(now)));
    conditions.retain(|c| c.fields().type_ != type_);
    conditions.push(C::new(type_, since, None, "", message));
}
