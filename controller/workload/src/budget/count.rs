//! How many pods a budget has and must keep, and which entries of its ledger are settled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::names::label::UNAVAILABLE_POD_PREFIX;
use berth_api::v1beta1::podunavailablebudget::{
    Ledger, LedgerEntry, PodUnavailableBudgetStatus, ProtectedOperation, Replacement,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Rules, surge};
use crate::objects::pod::{Pod, availability};
use crate::objects::selector::Selector;
use crate::plan::{Event, Plan};
use crate::update::inplace::resize;

/// How long until the leader checks again the pods that wait for a replacement.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Most pods that an event names.
const NAMED: usize = 3;
/// The holder of entries that another controller granted.
const TAKEN_OVER: &str = "the controller before";

/// What a count reads: the pods as the leader has seen them.
#[derive(Debug, Clone)]
pub struct View {
    /// How many pods are expected and their selector, or why the number is unknown.
    pub expected: Result<Expected, Unknown>,
    /// All pods of the budget's namespace that the budget may hold, including the ignored ones.
    pub pods: Vec<Arc<Pod>>,
    /// The existing nodes of these pods.
    pub nodes: Vec<String>,
    /// The newest resource version of a pod that the view may contain. A count by an older view
    /// does not know which entries this view settles.
    pub position: String,
    /// How long the leader has seen each entry of the ledger; zero for entries that it sees now for
    /// the first time. For a change that [`has_begun`], how long the leader has seen that it has
    /// begun.
    pub seen_for: Vec<Duration>,
    /// The uids of the budget's pods that the leader has never seen. Its watch may still be behind.
    pub unseen: BTreeSet<String>,
    /// How long after a grant the granted request can still be carried out.
    pub patience: Duration,
}

/// How many pods are expected, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The number of expected pods.
    pub total: usize,
    /// The selector of the workload, if a workload says it.
    pub selector: Option<Selector>,
}

/// Why the number of expected pods is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The cause, and the remedy.
    pub message: String,
}

impl View {
    /// The expected pods by which a budget with these rules counts. If no workload says how many
    /// pods it wants, and `minAvailable` is a number, the existing pods count as expected.
    ///
    /// # Errors
    /// The number of expected pods is unknown, and the budget has a percentage, `maxUnavailable` or
    /// no selector.
    pub fn expected_by(&self, rules: &Rules) -> Result<Expected, Unknown> {
        match &self.expected {
            Err(_) if rules.selector.is_some() && !rules.amount.depends_on_total() => {
                let none = Expected {
                    total: 0,
                    selector: None,
                };
                let active = self.members(rules, &none).filter(|pod| pod.is_active());
                Ok(Expected {
                    total: active.count(),
                    selector: None,
                })
            }
            // The workload alone says which pods a budget without a selector holds.
            Err(Unknown { message }) if rules.selector.is_some() => Err(Unknown {
                message: format!(
                    "{message}, or set spec.minAvailable to a number of pods that must stay"
                ),
            }),
            known => known.clone(),
        }
    }

    /// The pods that a budget holds.
    pub fn members<'a>(
        &'a self,
        rules: &'a Rules,
        expected: &'a Expected,
    ) -> impl Iterator<Item = &'a Arc<Pod>> {
        let selector = rules.selector.as_ref().or(expected.selector.as_ref());
        let is_selected =
            move |pod: &Pod| selector.is_some_and(|all| all.matches(|key| pod.metadata.label(key)));
        self.pods
            .iter()
            .filter(move |pod| is_selected(pod) && !rules.ignores(&pod.metadata))
    }

    /// How many of the budget's pods serve and have no entry in the ledger.
    pub fn available(
        &self,
        rules: &Rules,
        expected: &Expected,
        entries: &[LedgerEntry],
        now: Timestamp,
    ) -> usize {
        let charged: BTreeSet<&str> = entries.iter().map(|entry| entry.uid.as_str()).collect();
        let members = self
            .members(rules, expected)
            .filter(|pod| !charged.contains(&*pod.metadata.uid));
        members
            .filter(|pod| self.serves(pod, now) && rules.finds_healthy(pod))
            .count()
    }

    /// The entries that are not settled yet.
    pub fn open(&self, entries: &[LedgerEntry], now: Timestamp) -> Vec<LedgerEntry> {
        let pods = self.by_name();
        let seen = entries.iter().zip(&self.seen_for);
        let open = seen.filter(|(entry, seen_for)| {
            self.entry_state(entry, &pods, **seen_for, now) == Settled::Open
        });
        open.map(|(entry, _)| entry.clone()).collect()
    }

    /// The state of an entry that the leader has seen for `seen_for`.
    fn entry_state(
        &self,
        entry: &LedgerEntry,
        pods: &BTreeMap<&str, &Pod>,
        seen_for: Duration,
        now: Timestamp,
    ) -> Settled {
        let pod = pods.get(entry.pod.as_str()).copied();
        let late_for = seen_for.checked_sub(self.patience);
        // The pod existed for the webhook that granted the entry, and its watch event may reach the
        // leader later.
        if self.unseen.contains(&entry.uid) {
            return if late_for.is_some() {
                Settled::Expired
            } else {
                Settled::Open
            };
        }
        settled(
            entry,
            pod,
            pod.is_some_and(|pod| self.serves(pod, now)),
            late_for,
        )
    }

    /// An event for pods that a request was to delete and that still exist although the request
    /// cannot be carried out any more.
    pub fn not_deleted(&self, entries: &[LedgerEntry], now: Timestamp) -> Option<Event> {
        let pods = self.by_name();
        let seen = entries.iter().zip(&self.seen_for);
        let (open, over): (Vec<_>, Vec<_>) = seen
            .map(|(entry, seen_for)| (entry, self.entry_state(entry, &pods, *seen_for, now)))
            .filter(|(_, state)| *state != Settled::Over)
            .partition(|(_, state)| *state == Settled::Open);
        let is_waited_for = |uid: &str| open.iter().any(|(entry, _)| *entry.uid == *uid);
        let stayed = over.into_iter().map(|(entry, _)| entry).filter(|entry| {
            !entry.operation.is_change()
                && !self.unseen.contains(&entry.uid)
                && !is_waited_for(&entry.uid)
        });
        let stayed: BTreeMap<&str, &LedgerEntry> =
            stayed.map(|entry| (&*entry.pod, entry)).collect();
        let named = stayed.values().take(NAMED).map(|entry| {
            format!(
                "{} ({} by {} since {})",
                entry.pod,
                entry.operation.name(),
                entry.holder,
                entry.time.0
            )
        });
        let mut named: Vec<_> = named.collect();
        if stayed.len() > NAMED {
            named.push(format!("{} more", stayed.len() - NAMED));
        }
        let message = format!(
            "were allowed to go and are still there, so they are counted again: {}",
            named.join(", ")
        );
        (!stayed.is_empty()).then_some(Event::warning("NotDeleted", message))
    }

    /// The entries for operations that another controller's ledger granted less than
    /// [`View::patience`] ago, and that may still happen. OpenKruise's ledger has only names and
    /// times.
    pub fn taken_over(
        &self,
        status: &PodUnavailableBudgetStatus,
        now: Timestamp,
    ) -> Vec<LedgerEntry> {
        let patience = SignedDuration::try_from(self.patience).unwrap_or(SignedDuration::MAX);
        let pods = self.by_name();
        let entry = |(name, time): (&String, &Time), operation| {
            let pod = pods.get(name.as_str())?;
            // A pod that is younger than its grant only has the name of the granted pod, so that
            // the grant is over.
            let is_it = pod
                .metadata
                .creation_timestamp
                .is_none_or(|created| created <= time.0);
            (is_it && now.duration_since(time.0) < patience).then(|| LedgerEntry {
                pod: name.clone(),
                uid: pod.metadata.uid.to_string(),
                operation,
                holder: TAKEN_OVER.to_owned(),
                time: time.clone(),
                generation: (operation == ProtectedOperation::Update)
                    .then_some(pod.metadata.generation),
                container_ids: Vec::new(),
                resizes: false,
                grant: None,
            })
        };
        let gone = status
            .disrupted_pods
            .iter()
            .filter_map(|one| entry(one, ProtectedOperation::Delete));
        gone.chain(
            status
                .unavailable_pods
                .iter()
                .filter_map(|one| entry(one, ProtectedOperation::Update)),
        )
        .collect()
    }

    /// The replacements that the ledger still waits for.
    pub fn replacements(&self, replacements: &[Replacement], now: Timestamp) -> Vec<Replacement> {
        let is_open = |one: &&Replacement| surge::is_open(one, self.pod(one), now);
        replacements.iter().filter(is_open).cloned().collect()
    }

    fn pod(&self, replacement: &Replacement) -> Option<&Pod> {
        self.pods
            .iter()
            .find(|pod| *pod.metadata.uid == *replacement.uid)
            .map(|pod| &**pod)
    }

    /// Adds to a plan the steps that make workloads create the replacements in the ledger.
    pub fn replace_before(&self, plan: &mut Plan, ledger: Option<&Ledger>, now: Timestamp) {
        let replacements = ledger.map_or(&[][..], |ledger| &ledger.replacements);
        let steps = replacements
            .iter()
            .filter_map(|one| surge::step(one, self.pod(one)?, now));
        plan.add_stage("replace before", steps.collect());
        if !self.replacements(replacements, now).is_empty() {
            plan.look_again_after(LOOK_AGAIN);
        }
    }

    /// How long until the next of these entries expires.
    pub fn next_expiry(&self, entries: &[LedgerEntry]) -> Option<SignedDuration> {
        let pods = self.by_name();
        let left = entries.iter().zip(&self.seen_for).map(|(entry, seen_for)| {
            let grace = pods
                .get(entry.pod.as_str())
                .filter(|_| *seen_for >= self.patience)
                .map(|pod| grace(pod));
            (self.patience + grace.unwrap_or_default()).saturating_sub(*seen_for)
        });
        left.filter(|left| !left.is_zero())
            .min()
            .and_then(|left| SignedDuration::try_from(left).ok())
    }

    fn by_name(&self) -> BTreeMap<&str, &Pod> {
        self.pods
            .iter()
            .map(|pod| (&*pod.metadata.name, &**pod))
            .collect()
    }

    fn serves(&self, pod: &Pod, now: Timestamp) -> bool {
        is_available(
            pod,
            self.nodes.iter().any(|node| **node == *pod.spec.node_name),
            now,
        )
    }
}

/// Whether a pod serves, as budgets count: it is available, no label marks it as unavailable, and
/// its node exists.
pub fn is_available(pod: &Pod, has_node: bool, now: Timestamp) -> bool {
    has_node
        && availability(pod, 0, now).is_available()
        && !pod
            .metadata
            .labels
            .iter()
            .any(|(key, _)| key.starts_with(UNAVAILABLE_POD_PREFIX))
}

/// The state of the operation that an entry granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The pod is gone or terminating, or serves again.
    Over,
    /// The operation did not happen, and can no longer happen.
    Expired,
    /// The leader has not seen the operation's result yet.
    Open,
}

/// Whether the kubelet knows of the change that an entry granted. From then on it stops the
/// containers that the change replaces.
pub fn has_begun(entry: &LedgerEntry, pod: &Pod) -> bool {
    entry.operation.is_change()
        && entry
            .generation
            .is_some_and(|before| pod.status.observed_generation > before)
}

/// The state of an entry. `pod` is the pod that has the name in the entry now, and `is_available`
/// is whether this pod serves. `late_for` is for how long the granted request can no longer be
/// carried out; `None` as long as it can. For a change that [`has_begun`], `late_for` counts from
/// when the kubelet knew of the change.
pub fn settled(
    entry: &LedgerEntry,
    pod: Option<&Pod>,
    is_available: bool,
    late_for: Option<Duration>,
) -> Settled {
    let Some(pod) = pod.filter(|pod| *pod.metadata.uid == *entry.uid) else {
        return Settled::Over;
    };
    if pod.metadata.deletion_timestamp.is_some() || !pod.is_active() {
        return Settled::Over;
    }
    let expires_after = |grace: Duration| match late_for {
        Some(late_for) if late_for >= grace => Settled::Expired,
        _ => Settled::Open,
    };
    match entry.operation {
        ProtectedOperation::Delete | ProtectedOperation::Evict => expires_after(Duration::ZERO),
        ProtectedOperation::Update | ProtectedOperation::Resize => {
            let has_landed = entry
                .generation
                .is_none_or(|before| pod.metadata.generation > before);
            let is_seen = pod.status.observed_generation >= pod.metadata.generation;
            match (has_landed, is_seen && is_available) {
                // A deferred resize restarts its container later.
                (true, true) if entry.resizes && resize::is_awaited(pod) => Settled::Open,
                (true, true)
                    if is_replaced(entry, pod) && (!entry.resizes || resize::is_over(pod)) =>
                {
                    Settled::Over
                }
                // A change that was reverted before the kubelet saw it replaces no container. But a
                // container that is being stopped serves until its grace period ends.
                (true, true) => expires_after(grace(pod)),
                // The pod is out of service and not counted as available anyway; the entry keeps
                // the reason.
                (true, false) => Settled::Open,
                (false, _) => expires_after(Duration::ZERO),
            }
        }
    }
}

/// How long a container of the pod may run after the signal to stop.
fn grace(pod: &Pod) -> Duration {
    Duration::from_secs(u64::try_from(pod.spec.termination_grace_period_seconds).unwrap_or(0))
}

/// Whether none of the containers that the entry replaces still runs.
fn is_replaced(entry: &LedgerEntry, pod: &Pod) -> bool {
    let statuses = pod
        .status
        .container_statuses
        .iter()
        .chain(&pod.status.init_container_statuses);
    let mut running = statuses.map(|status| &*status.container_id);
    !running.any(|id| entry.container_ids.iter().any(|old| old == id))
}
