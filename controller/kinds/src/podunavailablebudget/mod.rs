//! PodUnavailableBudget: how many of its pods serve, how many must, and what became of what was granted. Who grants is in
//! [`berth_workload::budget`], for it is not the controller alone.

mod explain;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::LedgerEntry;
use berth_workload::budget::Rules;
use berth_workload::budget::count::is_available;
use berth_workload::plan::{Event, Plan};
use berth_workload::pod::Pod;
use berth_workload::selector::Selector;
use jiff::{SignedDuration, Timestamp};

pub use explain::explain;
pub use status::{is_urgent, status};

/// All that a decision about one budget reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The budget.
    pub budget: Arc<PodUnavailableBudget>,
    /// How many pods are expected, and whose they are; or why nobody knows.
    pub expected: Result<Expected, Unknown>,
    /// All pods of its namespace that it may hold, those that it ignores among them.
    pub pods: Vec<Arc<Pod>>,
    /// The nodes of those pods that are there.
    pub nodes: Vec<String>,
    /// The version of pods that all this was seen at.
    pub position: String,
    /// For how long each entry of the ledger has been seen, those first seen now by zero.
    pub seen_for: Vec<Duration>,
    /// After how long nothing can come of an entry any more.
    pub patience: Duration,
    /// Why the apiserver does not ask before pods are taken out of service; `None` if it does.
    pub unenforced: Option<String>,
}

/// How many pods are expected, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// How many.
    pub total: usize,
    /// Which, where a workload says it.
    pub selector: Option<Selector>,
}

/// Why nobody knows how many pods are expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// What is wrong, and the remedy.
    pub message: String,
}

impl Snapshot {
    /// The pods that it holds.
    pub fn members<'a>(&'a self, rules: &'a Rules, expected: &'a Expected) -> impl Iterator<Item = &'a Arc<Pod>> {
        let selector = rules.selector.as_ref().or(expected.selector.as_ref());
        let is_selected = move |pod: &Pod| selector.is_some_and(|all| all.matches(|key| pod.metadata.label(key)));
        self.pods.iter().filter(move |pod| is_selected(pod) && !rules.ignores(&pod.metadata))
    }

    fn is_available(&self, pod: &Pod, now: Timestamp) -> bool {
        let has_node = self.nodes.iter().any(|node| **node == *pod.spec.node_name);
        is_available(pod, has_node, now)
    }

    /// The entries of its ledger, with whether nothing can come of them any more.
    fn entries(&self) -> impl Iterator<Item = (&LedgerEntry, bool)> {
        let ledger = self.budget.status.iter().flat_map(|status| &status.ledger).flat_map(|ledger| &ledger.entries);
        ledger.zip(&self.seen_for).map(|(entry, seen_for)| (entry, *seen_for >= self.patience))
    }

    fn by_name(&self) -> BTreeMap<&str, &Arc<Pod>> {
        self.pods.iter().map(|pod| (&*pod.metadata.name, pod)).collect()
    }
}

/// What is to be told, and when to look again: all that is written is the status.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan { waiting: explain(snapshot, now), ..Plan::default() };
    let left = snapshot.seen_for.iter().map(|seen_for| snapshot.patience.saturating_sub(*seen_for));
    if let Some(left) = left.filter(|left| !left.is_zero()).min() {
        plan.look_again = SignedDuration::try_from(left).ok();
    }
    let Ok(rules) = Rules::of(&snapshot.budget.spec) else { return plan };
    let told = |reason: &str| {
        let conditions = snapshot.budget.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.reason == reason)
    };
    match &snapshot.expected {
        Err(Unknown { message }) if !told(UNCOUNTED) => {
            plan.events.push(Event { warning: true, reason: UNCOUNTED, message: message.clone() });
        }
        Ok(expected) if !told(NO_PODS) && snapshot.members(&rules, expected).next().is_none() => {
            plan.events.push(Event { warning: false, reason: NO_PODS, message: "no pods are selected".to_owned() });
        }
        _ => {}
    }
    plan
}

/// The reason of an event and of a condition: nobody knows how many pods are expected.
const UNCOUNTED: &str = "CalculateExpectedPodCountFailed";
/// The reason of an event and of a condition: there are no pods.
const NO_PODS: &str = "NoPods";
