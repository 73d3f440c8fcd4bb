//! The PodUnavailableBudget controller: counts the pods of budgets and settles what was granted. Who grants is
//! [`crate::pod_budgets`], on every replica.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::{LedgerEntry, ProtectedOperation};
use berth_kinds::podunavailablebudget::{Expected, Snapshot, Unknown, decide, is_urgent, status};
use berth_runtime::client;
use berth_runtime::driver::Next;
use berth_runtime::executor::Owner;
use berth_runtime::object::POD_UNAVAILABLE_BUDGETS;
use berth_runtime::queue::Queue;
use berth_runtime::store::{pods, reaches};
use berth_runtime::{Change, Index, Key, Object, Resource, Store};
use berth_workload::node::Node;
use berth_workload::pod::Pod;
use berth_workload::resource::PODS;
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use tokio::time::Instant;

use crate::acting::{Acting, next};
use crate::change::each;
use crate::controllers::Controller;
use crate::expected_pods::Uncounted;
use crate::paced::{Paced, at_latest};
use crate::pod_budgets::{Holds, PodBudgets};
use crate::reads::{Read, Reader};
use crate::watched::{CustomResource, Watched};

/// By namespace.
pub(crate) const BY_NAMESPACE: Index<Watched<PodUnavailableBudget>> =
    Index::new("namespace", |budget| Some(budget.namespace()));

/// After so long nothing can come of a request that was granted: the apiserver gives it up after its `--request-timeout`.
const PATIENCE: Duration = Duration::from_secs(75);
/// How long until pods are counted that the store does not show yet.
const NOT_SEEN: Duration = Duration::from_secs(1);
/// How long until they are asked again where nobody knew how many pods are expected.
const UNKNOWN: Duration = Duration::from_secs(5);
/// How long until workloads are asked again how many pods they want, where nothing else tells.
const ASKED_AGAIN: Duration = Duration::from_secs(300);

/// What a count is made of.
pub(crate) struct Reads {
    pub(crate) budgets: Arc<Store<Watched<PodUnavailableBudget>>>,
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) nodes: Arc<Store<Watched<Node>>>,
    paced: Paced,
    /// Since when each entry of a budget's ledger is seen.
    seen: Mutex<HashMap<Key, HashMap<Entry, Sight>>>,
}

/// An entry of a ledger, as one that was granted at one time.
type Entry = (String, ProtectedOperation, Timestamp);

/// How long an entry is known, and how far the store must have come before it may expire.
struct Sight {
    since: Instant,
    /// The version that the apiserver was at when nothing could come of the entry any more: what had come of it is older.
    needs: Option<String>,
}

impl CustomResource for PodUnavailableBudget {
    const RESOURCE: Resource = POD_UNAVAILABLE_BUDGETS;
}

impl Read for Watched<PodUnavailableBudget> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[BY_NAMESPACE])
    }
}

impl Controller for Reads {
    const RESOURCE: Resource = POD_UNAVAILABLE_BUDGETS;
    const NAME: &'static str = "podunavailablebudget";

    fn new(reader: &mut Reader<'_>) -> Self {
        let (paced, seen) = (Paced::default(), Mutex::default());
        Self { budgets: reader.read(), pods: reader.read(), nodes: reader.read(), paced, seen }
    }

    /// Wakes a budget when it, one of its pods, or one of their nodes changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
        acting.pod_budgets.follow(self);
        let (to, on) = (queue.clone(), acting.clone());
        self.budgets.on_change(move |change| {
            if let Change::Deleted { old } = change {
                on.expectations.forget(old.uid());
                on.pod_budgets.forget(old.uid());
            }
            each(change, |budget| to.add(Key::of(budget)));
        });
        let (to, budgets, holding) = (queue.clone(), self.budgets.clone(), acting.pod_budgets.clone());
        self.pods.on_change(move |change| each(change, |pod| wake_for(&to, &budgets, &holding, pod)));
        let (to, budgets, pods, holding) =
            (queue.clone(), self.budgets.clone(), Arc::downgrade(&self.pods), acting.pod_budgets.clone());
        self.nodes.on_change(move |change| {
            let node = match change {
                Change::Deleted { old: node } | Change::Applied { old: None, new: node } => node,
                Change::Applied { .. } | Change::Synced => return,
            };
            let on_node = pods.upgrade().map(|pods| pods.by_index(&pods::BY_NODE, node.name()));
            on_node.iter().flatten().for_each(|pod| wake_for(&to, &budgets, &holding, pod));
        });
    }

    /// One count of one budget.
    async fn reconcile(&self, acting: &Acting, key: Key) -> Next {
        let Some(budget) = self.budgets.get(&key.namespace, &key.name).filter(|budget| !budget.terminating()) else {
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Next::Done;
        };
        let budget = match acting.seen(&self.budgets, &*budget).await {
            Ok(budget) => budget,
            Err(next) => return next,
        };
        let mut snapshot = match self.observe(&acting.pod_budgets, &budget).await {
            Ok(snapshot) => snapshot,
            Err(next) => return next,
        };
        let (why, soon) = acting.pod_budgets.unenforced(budget.namespace()).unzip();
        snapshot.unenforced = why;
        let soon = soon.flatten().or_else(|| snapshot.expected.is_err().then_some(UNKNOWN));
        let now = Timestamp::now();
        let (plan, new) = (decide(&snapshot, now), Some(status(&snapshot, now)));
        let old = &budget.0.status;
        let urgent = |old: &Option<_>, new: &Option<_>| new.as_ref().is_some_and(|new| is_urgent(old.as_ref(), new));
        let wait = self.paced.waits(budget.uid(), old, &new, urgent);
        if !wait.is_zero() {
            return Next::After(wait);
        }
        let outcome = acting.executor.act(&plan, &Owner::of(&*budget)).await;
        let written = acting.write_status_as_read(&*budget, (old, &new)).await;
        if matches!(written, Ok(true)) {
            self.paced.note(budget.uid());
        }
        acting.forget_if_gone(&self.budgets, &*budget);
        at_latest(next(&plan, &outcome, written), soon.unwrap_or(ASKED_AGAIN))
    }
}

impl Reads {
    /// What is counted; or when to look again, where less is known than was known before.
    pub(crate) async fn observe(
        &self,
        budgets: &PodBudgets,
        budget: &Watched<PodUnavailableBudget>,
    ) -> Result<Snapshot, Next> {
        let ledger = budget.0.status.as_ref().and_then(|status| status.ledger.as_ref());
        let position = self.pods.position().unwrap_or_default();
        let counted = ledger.map(|ledger| ledger.counted.as_str()).filter(|counted| !counted.is_empty());
        if counted.is_some_and(|counted| !reaches(&position, counted)) {
            return Err(Next::After(NOT_SEEN));
        }
        let (namespace, holds) = (budget.namespace(), budgets.holds(&budget.0));
        let all = self.pods.by_index(&pods::BY_NAMESPACE, namespace);
        let expected = match self.expected(budgets, budget, &holds, &all).await {
            Ok(expected) => Ok(expected),
            Err(Uncounted::Fault(unknown)) => Err(unknown),
            Err(Uncounted::Silent(failed)) => return Err(Next::Retry(failed.to_string())),
        };
        let selector = expected.as_ref().ok().and_then(|expected| expected.selector.as_ref());
        let entries = ledger.map_or(&[][..], |ledger| &ledger.entries);
        let is_named = |pod: &Pod| entries.iter().any(|entry| *entry.uid == *pod.metadata.uid);
        let is_selected = |pod: &Pod| {
            let by_target = selector.is_some_and(|selector| selector.matches(|key| pod.metadata.label(key)));
            by_target || holds.selects(&pod.metadata)
        };
        let pods: Vec<_> = all.into_iter().filter(|pod| is_selected(pod) || is_named(pod)).collect();
        let mut nodes: Vec<_> = pods.iter().map(|pod| pod.spec.node_name.to_string()).collect();
        nodes.sort();
        nodes.dedup();
        nodes.retain(|node| self.nodes.get("", node).is_some());
        Ok(Snapshot {
            budget: budget.0.clone(),
            expected,
            pods,
            nodes,
            position: position.to_string(),
            seen_for: self.seen_for(budgets.client(), Key::of(budget), entries, &position).await,
            patience: PATIENCE,
            unenforced: None,
        })
    }

    async fn expected(
        &self,
        budgets: &PodBudgets,
        budget: &Watched<PodUnavailableBudget>,
        holds: &Holds,
        all: &[Arc<Pod>],
    ) -> Result<Expected, Uncounted> {
        let Ok(rules) = &holds.rules else {
            return Err(Uncounted::Fault(Unknown { message: "its spec is invalid".to_owned() }));
        };
        let mut expected = match rules.total {
            Some(total) if budget.0.spec.target_ref.is_none() => Expected { total, selector: None },
            _ => budgets.wanted(&budget.0, holds, all).await?,
        };
        expected.total = rules.total.unwrap_or(expected.total);
        Ok(expected)
    }

    /// For how long each entry is seen, by the clock that only goes on: what a ledger says of time is another's clock. One of which
    /// nothing can come any more counts as late once the store has all that may have come of it.
    async fn seen_for(&self, client: &Client, key: Key, entries: &[LedgerEntry], position: &str) -> Vec<Duration> {
        let ages = self.ages(&key, entries);
        if entries.is_empty() {
            return Vec::new();
        }
        let is_open = |(_, needs): &(Duration, Option<String>)| needs.is_none();
        let is_late = |(age, _): &(Duration, Option<String>)| *age >= PATIENCE;
        let newest = if ages.iter().any(|age| is_late(age) && is_open(age)) {
            newest_version(client, &key.namespace).await
        } else {
            None
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of_budget = seen.entry(key).or_default();
        let settled = entries.iter().zip(ages).map(|(entry, (age, needs))| {
            if age < PATIENCE {
                return age;
            }
            let needs = needs.or_else(|| newest.clone());
            if let (Some(sight), Some(needs)) = (of_budget.get_mut(&name(entry)), &needs) {
                sight.needs = Some(needs.clone());
            }
            // Not yet: it is looked at again soon.
            if needs.is_some_and(|needs| reaches(position, &needs)) { age } else { PATIENCE.saturating_sub(NOT_SEEN) }
        });
        settled.collect()
    }

    /// How long each entry is known, and what the store must have reached; what is no entry any more is forgotten.
    fn ages(&self, key: &Key, entries: &[LedgerEntry]) -> Vec<(Duration, Option<String>)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = seen.remove(key).unwrap_or_default();
        let mut known = HashMap::new();
        let ages = entries.iter().map(|entry| {
            let name = name(entry);
            let sight = before.remove(&name).unwrap_or_else(|| Sight { since: Instant::now(), needs: None });
            let age = (sight.since.elapsed(), sight.needs.clone());
            known.insert(name, sight);
            age
        });
        let ages = ages.collect();
        if !known.is_empty() {
            seen.insert(key.clone(), known);
        }
        ages
    }
}

fn name(entry: &LedgerEntry) -> Entry {
    (entry.uid.clone(), entry.operation, entry.time.0)
}

/// The version that the apiserver is at, by a list of one pod.
async fn newest_version(client: &Client, namespace: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
    }
    let path = PODS.list(namespace, &[("limit", "1")]).ok()?;
    client::get::<List>(client, &path).await.ok().map(|list| list.metadata.resource_version)
}

fn wake_for(queue: &Queue<Key>, budgets: &Store<Watched<PodUnavailableBudget>>, holding: &PodBudgets, pod: &Pod) {
    for budget in budgets.by_index(&BY_NAMESPACE, &pod.metadata.namespace) {
        let status = budget.0.status.as_ref();
        let selector = status.and_then(|status| status.ledger.as_ref()?.selector.as_ref());
        let is_target_unknown = budget.0.spec.target_ref.is_some() && selector.is_none();
        if is_target_unknown || holding.holds(&budget.0).selects(&pod.metadata) {
            queue.add(Key::of(&*budget));
        }
    }
}
