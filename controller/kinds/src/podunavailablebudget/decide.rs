//! Decisions about a budget: events, and its native budget.

use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use berth_workload::budget::Rules;
use berth_workload::budget::beyond;
use berth_workload::budget::child::{self, Wanted};
use berth_workload::budget::count::Unknown;
use berth_workload::budget::native::NativeBudget;
use berth_workload::objects::resource::POD_UNAVAILABLE_BUDGETS;
use berth_workload::plan::{Event, Plan, Step};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::status::{is_blocked, status};
use super::{NO_PODS, Snapshot, UNCOUNTED, explain};

/// The events, the write of the native budget, and the time of the next decision. All else that the
/// controller writes is the status.
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
    let has_reason = |reason: &str| {
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
        Err(Unknown { message }) if !has_reason(UNCOUNTED) => {
            plan.events.push(Event::warning(UNCOUNTED, message));
        }
        Ok(expected)
            if !has_reason(NO_PODS)
                && snapshot.view.members(&rules, &expected).next().is_none() =>
        {
            plan.events
                .push(Event::normal(NO_PODS, "no pods are selected".to_owned()));
        }
        _ => {}
    }
    plan
}

/// The plan and the status for a budget that `why` excludes from holding pods.
pub fn beyond(
    budget: &PodUnavailableBudget,
    child: Option<&NativeBudget>,
    why: &str,
    now: Timestamp,
) -> (Plan, PodUnavailableBudgetStatus) {
    let conditions = budget
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
        conditions: beyond::conditions(conditions, why, now),
        ..PodUnavailableBudgetStatus::default()
    };
    (beyond::plan(conditions, why, step), status)
}

/// The step for the native budget that the annotation asks for.
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
    // If fewer pods are known than needed, no pod may be disrupted.
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
