//! PodUnavailableBudget: how many of its pods serve, how many must, and what became of what was granted. Who grants is in
//! [`berth_workload::budget`], for it is not the controller alone.

mod explain;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use berth_workload::budget::Rules;
use berth_workload::budget::asked::Asked;
use berth_workload::budget::beyond;
use berth_workload::budget::child::{self, Wanted, Without};
use berth_workload::budget::count::{Unknown, View};
use berth_workload::native_budget::NativeBudget;
use berth_workload::plan::{Event, Plan, Step};
use berth_workload::resource::POD_UNAVAILABLE_BUDGETS;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

pub use explain::explain;
use status::{is_blocked, total_unknown};
pub use status::{is_urgent, status};

/// All that a decision about one budget reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The budget.
    pub budget: Arc<PodUnavailableBudget>,
    /// What is counted.
    pub view: View,
    /// Whether the apiserver asks before pods are taken out of service.
    pub asked: Asked,
    /// The native budget of its name.
    pub child: Option<Arc<NativeBudget>>,
    /// Whether it is to keep one.
    pub keeps: Result<(), Without>,
}

/// What is to be told, and when to look again: all that is written is the status.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan {
        waiting: explain(snapshot, now),
        ..Plan::default()
    };
    let budget = &*snapshot.budget;
    let ledger = budget
        .status
        .iter()
        .flat_map(|status| &status.ledger)
        .next();
    let entries = ledger.map_or(&[][..], |ledger| &ledger.entries);
    plan.look_again = snapshot.view.next_expiry(entries);
    plan.events.extend(snapshot.view.not_deleted(entries, now));
    let Ok(rules) = Rules::of_budget(&snapshot.budget) else {
        return plan;
    };
    snapshot.view.replace_before(&mut plan, ledger, now);
    if let Some(step) = child(snapshot, &rules, now) {
        plan.add_stage("native budget", vec![step]);
    }
    let told = |reason: &str| {
        let conditions = snapshot
            .budget
            .status
            .iter()
            .flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|condition| condition.reason == reason)
    };
    match snapshot.view.expected_by(&rules) {
        Err(Unknown { message }) if !told(UNCOUNTED) => {
            plan.events.push(Event {
                warning: true,
                reason: UNCOUNTED,
                message,
            });
        }
        Ok(expected)
            if !told(NO_PODS) && snapshot.view.members(&rules, &expected).next().is_none() =>
        {
            plan.events.push(Event {
                warning: false,
                reason: NO_PODS,
                message: "no pods are selected".to_owned(),
            });
        }
        _ => {}
    }
    plan
}

/// What is done for a budget that holds no pod for this reason, and its status.
pub fn beyond(
    budget: &PodUnavailableBudget,
    child: Option<&NativeBudget>,
    why: &str,
    now: Timestamp,
) -> (Plan, PodUnavailableBudgetStatus) {
    let told = budget
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    let step = child::step(
        None,
        child,
        budget.metadata.uid.as_deref().unwrap_or_default(),
    );
    let status = PodUnavailableBudgetStatus {
        observed_generation: budget.metadata.generation.unwrap_or_default(),
        conditions: beyond::conditions(told, why, now),
        ..PodUnavailableBudgetStatus::default()
    };
    (beyond::plan(told, why, step), status)
}

/// What becomes of the native budget that the annotation asks for.
fn child(snapshot: &Snapshot, rules: &Rules, now: Timestamp) -> Option<Step> {
    let budget = &*snapshot.budget;
    let of_target = || {
        snapshot
            .view
            .expected
            .as_ref()
            .ok()?
            .selector
            .as_ref()
            .map(LabelSelector::from)
    };
    let selector = rules
        .selector
        .as_ref()
        .map(LabelSelector::from)
        .or_else(of_target);
    let next = status(snapshot, now);
    // Where less is known than needed, none may go.
    let is_known = !is_blocked(&next);
    let all = i32::try_from(snapshot.view.pods.len()).unwrap_or(i32::MAX);
    let wanted = selector
        .as_ref()
        .filter(|_| snapshot.keeps.is_ok())
        .map(|selector| Wanted {
            resource: &POD_UNAVAILABLE_BUDGETS,
            owner: &budget.metadata,
            selector,
            min_available: if is_known {
                next.desired_available
            } else {
                all
            },
            unhealthy: rules.unhealthy,
        });
    child::step(
        wanted.as_ref(),
        snapshot.child.as_deref(),
        budget.metadata.uid.as_deref().unwrap_or_default(),
    )
}

/// The reason of an event and of a condition: nobody knows how many pods are expected.
const UNCOUNTED: &str = "CalculateExpectedPodCountFailed";
/// The reason of an event and of a condition: there are no pods.
const NO_PODS: &str = "NoPods";
