//! DistributedPodDisruptionBudget: how many of its own pods and of those of other budgets are
//! healthy, how many must be, and the native budget that shows these numbers. Reservations are in
//! [`berth_workload::budget`], because other components than the controller make them, too.

mod explain;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use berth_api::names::finalizer::BUDGET_FLOOR;
use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{
    DistributedPodDisruptionBudgetStatus, MemberKind,
};
use berth_workload::budget::beyond;
use berth_workload::budget::child::{self, Wanted, Without};
use berth_workload::budget::count::{Unknown, View};
use berth_workload::budget::federation::{Brings, Origin, Shared, Silence, Whole};
use berth_workload::budget::native::NativeBudget;
use berth_workload::budget::webhook_calls::WebhookCalls;
use berth_workload::budget::{Rules, floor};
use berth_workload::objects::resource::DISTRIBUTED_POD_DISRUPTION_BUDGETS;
use berth_workload::plan::{Action, Event, Plan, Step, Target};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

pub use explain::explain;
pub use status::{is_urgent, status};

/// All that a decision about one budget reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The budget.
    pub budget: Arc<DistributedPodDisruptionBudget>,
    /// The numbers of its own pods.
    pub view: View,
    /// Whether the apiserver calls the webhook before pods are taken out of service.
    pub webhook_calls: WebhookCalls,
    /// The contribution of each budget of `spec.federation`, in its order.
    pub others: Vec<Other>,
    /// Groups of those budgets that are in other clusters and may select the same pods, by their
    /// indexes.
    pub may_share: Vec<Vec<usize>>,
    /// The native budget of its name.
    pub child: Option<Arc<NativeBudget>>,
    /// Whether the budget must keep a native budget.
    pub keeps: Result<(), Without>,
    /// How long the leader has seen this generation of the budget.
    pub seen_for: Duration,
}

/// A budget of `spec.federation`.
#[derive(Debug, Clone)]
pub struct Other {
    /// Its kind; `None` if no budget has that name.
    pub kind: Option<MemberKind>,
    /// Its identity, if it is in this cluster.
    pub origin: Origin,
    /// Its pods, without those that are counted already.
    pub brings: Result<Brings, Silence>,
    /// How many of its pods are counted already, or may be.
    pub shared: Shared,
    /// The time of the last read, if it cannot be read now.
    pub last_read: Option<Timestamp>,
}

impl Snapshot {
    fn whole(&self, rules: &Rules, expected: usize) -> Result<Whole, String> {
        let others: Vec<_> = self
            .others
            .iter()
            .map(|other| other.brings.clone())
            .collect();
        Whole::of(
            &rules.amount,
            (expected, floor::binding(&self.budget)),
            &others,
        )
    }

    fn has_finalizer(&self) -> bool {
        self.budget
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|name| name == BUDGET_FLOOR)
    }
}

/// Decides on events, on the native budget, and on the time of the next decision.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let budget = &*snapshot.budget;
    let ledger = budget
        .status
        .iter()
        .flat_map(|status| &status.ledger)
        .next();
    let entries = ledger.map_or(&[][..], |ledger| &ledger.entries);
    let look_again = snapshot.view.next_expiry(entries);
    let mut plan = Plan {
        waiting: explain(snapshot, now),
        look_again,
        ..Plan::default()
    };
    plan.events.extend(snapshot.view.not_deleted(entries, now));
    keep_floor(snapshot, &mut plan);
    let Ok(rules) = Rules::of_distributed(&budget.spec) else {
        return plan;
    };
    let expected = snapshot.view.expected_by(&rules);
    let before = budget.status.iter().flat_map(|status| &status.conditions);
    let was_reported = before
        .into_iter()
        .any(|condition| condition.reason == UNCOUNTED);
    if let Err(Unknown { message }) = &expected
        && !was_reported
    {
        plan.events.push(Event::warning(UNCOUNTED, message.clone()));
    }
    // If fewer pods are known to be healthy than needed, no pod may be disrupted.
    let least = expected
        .ok()
        .and_then(|expected| Some(snapshot.whole(&rules, expected.total).ok()?.left_to_own()));
    let min_available =
        i32::try_from(least.unwrap_or(snapshot.view.pods.len())).unwrap_or(i32::MAX);
    let wanted = Wanted {
        resource: &DISTRIBUTED_POD_DISRUPTION_BUDGETS,
        owner: &budget.metadata,
        selector: &budget.spec.selector,
        min_available,
        unhealthy: rules.unhealthy,
    };
    let wanted = snapshot.keeps.is_ok().then_some(&wanted);
    let uid = budget.metadata.uid.as_deref().unwrap_or_default();
    snapshot.view.replace_before(&mut plan, ledger, now);
    if let Some(step) = child::step(wanted, snapshot.child.as_deref(), uid) {
        plan.add_stage("native budget", vec![step]);
    }
    plan
}

/// The plan and the status for a budget that `why` excludes from holding pods. The floor that other
/// clusters have read stays in the status.
pub fn beyond(
    budget: &DistributedPodDisruptionBudget,
    child: Option<&NativeBudget>,
    why: &str,
    now: Timestamp,
) -> (Plan, DistributedPodDisruptionBudgetStatus) {
    let conditions = budget
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    let step = child::step(
        None,
        child,
        budget.metadata.uid.as_deref().unwrap_or_default(),
    );
    let status = DistributedPodDisruptionBudgetStatus {
        observed_generation: budget.metadata.generation.unwrap_or_default(),
        conditions: beyond::conditions(conditions, why, now),
        floor: budget.status.as_ref().and_then(|status| status.floor),
        ..DistributedPodDisruptionBudgetStatus::default()
    };
    (beyond::plan(conditions, why, step), status)
}

/// Keeps a budget whose floor other clusters have read, until no other cluster counts on the floor.
fn keep_floor(snapshot: &Snapshot, plan: &mut Plan) {
    let budget = &*snapshot.budget;
    let (reported, left) = floor::reported_floor(budget, snapshot.seen_for);
    if let Some(left) = left.and_then(|left| SignedDuration::try_from(left).ok()) {
        plan.look_again_after(left);
    }
    let has_floor = budget
        .status
        .as_ref()
        .is_some_and(|status| status.floor.is_some());
    let (is_going, has_finalizer) = (
        budget.metadata.deletion_timestamp.is_some(),
        snapshot.has_finalizer(),
    );
    let mut finalizers = budget.metadata.finalizers.clone().unwrap_or_default();
    let reason = if reported.is_some() && !has_finalizer && !is_going {
        finalizers.push(BUDGET_FLOOR.to_owned());
        "other clusters are about to count on its floor"
    } else if reported.is_none() && !has_floor && has_finalizer {
        finalizers.retain(|name| name != BUDGET_FLOOR);
        "no other cluster counts on its floor"
    } else {
        return;
    };
    let patch = json!({"metadata": {"finalizers": finalizers}});
    let target = Target::from(&budget.metadata);
    let action = Action::Patch {
        resource: DISTRIBUTED_POD_DISRUPTION_BUDGETS,
        target,
        patch,
    };
    plan.add_required_stage("floor", vec![Step::new(action, reason.to_owned())]);
}

/// The reason of an event and of a condition: the number of expected pods is unknown.
const UNCOUNTED: &str = "CalculateExpectedPodCountFailed";
