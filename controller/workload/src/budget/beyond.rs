//! Budgets that exceed the number that counts in their namespace: they hold no pod, and their
//! status says so.

use berth_api::names::condition::{BLOCKED, ENFORCED};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::objects::condition::{condition, set};
use crate::plan::{Event, Plan, Step, Waiting};

/// The reason of the conditions and of the event.
const REASON: &str = "TooManyBudgets";

/// The plan for a budget that holds no pod for this reason and has these conditions. The event
/// comes once.
pub fn plan(reported: &[Condition], why: &str, child: Option<Step>) -> Plan {
    let mut plan = Plan {
        waiting: vec![Waiting {
            pod: String::new(),
            reason: why.to_owned(),
        }],
        ..Plan::default()
    };
    if !reported
        .iter()
        .any(|condition| condition.type_ == BLOCKED && condition.reason == REASON)
    {
        plan.events.push(Event::warning(REASON, why.to_owned()));
    }
    if let Some(step) = child {
        plan.add_stage("native budget", vec![step]);
    }
    plan
}

/// The conditions of a budget that holds no pod for this reason.
pub fn conditions(reported: &[Condition], why: &str, now: Timestamp) -> Vec<Condition> {
    let mut conditions: Vec<_> = reported
        .iter()
        .filter(|condition| [BLOCKED, ENFORCED].contains(&&*condition.type_))
        .cloned()
        .collect();
    set(
        &mut conditions,
        condition(BLOCKED, true, REASON, why.to_owned(), now),
    );
    set(
        &mut conditions,
        condition(ENFORCED, false, REASON, why.to_owned(), now),
    );
    conditions
}

#[cfg(test)]
mod tests;
