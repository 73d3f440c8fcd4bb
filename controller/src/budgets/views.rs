//! The input of the leader's counts: the pods in its store, and how long it has known each
//! reservation.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::podunavailablebudget::{Ledger, LedgerEntry, ProtectedOperation};
use berth_runtime::client;
use berth_runtime::driver::Next;
use berth_runtime::store::pods::{BY_NAMESPACE, BY_NODE};
use berth_runtime::store::reaches;
use berth_runtime::{Change, Key, Object, Store};
use berth_workload::budget::count::{Expected, Unknown, View, has_begun};
use berth_workload::budget::ledger::settled_by;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::PODS;
use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::stores::triggers::each;
use crate::stores::watched::Watched;

/// How long until the next count if the store does not show some pods yet.
const NOT_SEEN: Duration = Duration::from_secs(1);
/// The most pods that are remembered after they are gone.
const MOST_GONE: usize = 4096;
/// The most pods of late entries that are read at once; the others wait for the next count.
const MOST_READ: usize = 64;

/// The knowledge about each entry of a budget's ledger.
#[derive(Clone, Default)]
pub(crate) struct Views(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    sights: HashMap<Key, HashMap<Entry, Sight>>,
    /// The uids of pods that are gone, the latest at the end.
    gone: VecDeque<Box<str>>,
}

/// Identifies an entry of a ledger: the pod, the operation, the time of the grant, the name of the
/// grant if it has one, and the generation of the pod.
type Entry = (
    String,
    ProtectedOperation,
    Timestamp,
    Option<String>,
    Option<i64>,
);

/// How long an entry is known, and whether the store is new enough that the entry may expire.
struct Sight {
    /// When the entry was first seen. Once the kubelet is seen to know of its change, the time of
    /// that instead.
    since: Instant,
    has_begun: bool,
    /// Whether the entry can have no further effect, and the store has shown all its effects.
    is_final: bool,
    /// Whether its pod was ever there.
    has_pod: bool,
}

/// The stores at the time of a count.
pub(crate) struct Looks<'a> {
    views: &'a Views,
    pods: &'a Store<Pod>,
    nodes: &'a Store<Watched<Node>>,
    entries: &'a [LedgerEntry],
    /// The time after which a granted request can have no further effect, because the apiserver has
    /// given it up.
    patience: Duration,
}

/// Whether pods that were seen up to a position are as new as those of the last count, or of the
/// last try to count. The position is `None` before the first list has ended.
fn is_as_new(position: Option<&str>, ledger: Option<&Ledger>) -> bool {
    let last = ledger.and_then(settled_by);
    position.is_some_and(|position| last.is_none_or(|last| reaches(position, last)))
}

/// The pods of a budget's namespace, if they are as new as those of its last count.
pub(in crate::budgets) fn pods_of_count(
    pods: &Store<Pod>,
    namespace: &str,
    ledger: Option<&Ledger>,
) -> Option<Vec<Arc<Pod>>> {
    let is_seen = pods.is_synced() && is_as_new(pods.position().as_deref(), ledger);
    is_seen.then(|| pods.by_index(&BY_NAMESPACE, namespace))
}

/// Calls `concerns` for each pod that may count differently from now on: it changed, or its node
/// came or went. `concerns` says whether a budget holds the pod. If such a pod goes, its uid is
/// remembered.
pub(crate) fn on_change(
    views: &Views,
    pods: &Arc<Store<Pod>>,
    nodes: &Store<Watched<Node>>,
    concerns: impl Fn(&Pod) -> bool + Clone + Send + Sync + 'static,
) {
    let (also, on, views) = (concerns.clone(), Arc::downgrade(pods), views.clone());
    pods.on_change(move |change| {
        let mut is_held = false;
        each(change, |pod| is_held |= concerns(pod));
        match change {
            Change::Deleted { old } if is_held => views.note_gone(&old.metadata.uid),
            // Another pod has the name, and the watch did not show the end of the first.
            Change::Applied {
                old: Some(old),
                new,
            } if is_held && old.metadata.uid != new.metadata.uid => {
                views.note_gone(&old.metadata.uid);
            }
            _ => {}
        }
    });
    nodes.on_change(move |change| {
        let node = match change {
            Change::Deleted { old: node }
            | Change::Applied {
                old: None,
                new: node,
            } => node,
            Change::Applied { .. } | Change::Synced => return,
        };
        let on_node = on
            .upgrade()
            .map(|pods| pods.by_index(&BY_NODE, node.name()));
        for pod in on_node.iter().flatten() {
            also(pod);
        }
    });
}

impl Views {
    /// A view of the stores; or when to look again, if the last count knew more than the store
    /// does.
    pub(crate) fn looks<'a>(
        &'a self,
        pods: &'a Store<Pod>,
        nodes: &'a Store<Watched<Node>>,
        ledger: Option<&'a Ledger>,
        patience: Duration,
    ) -> Result<Looks<'a>, Next> {
        let position = pods.position().unwrap_or_default();
        if !is_as_new(Some(&position), ledger) {
            return Err(Next::After(NOT_SEEN));
        }
        let entries = ledger.map_or(&[][..], |ledger| &ledger.entries);
        Ok(Looks {
            views: self,
            pods,
            nodes,
            entries,
            patience,
        })
    }

    /// To be called when a budget is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().sights.remove(key);
    }

    fn note_gone(&self, uid: &str) {
        let gone = &mut self.lock().gone;
        if gone.len() >= MOST_GONE {
            gone.pop_front();
        }
        gone.push_back(uid.into());
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Known> {
        self.0.lock()
    }

    /// How long each entry is known, and whether the store has shown its effects. Entries that left
    /// the ledger are forgotten.
    fn ages(&self, key: &Key, entries: &[LedgerEntry], pods: &[Arc<Pod>]) -> Vec<(Duration, bool)> {
        let by_uid: HashMap<&str, &Pod> = pods
            .iter()
            .map(|pod| (&*pod.metadata.uid, &**pod))
            .collect();
        let mut known = self.lock();
        let mut before = known.sights.remove(key).unwrap_or_default();
        let mut sights = HashMap::new();
        let ages = entries.iter().map(|entry| {
            let name = name(entry);
            let first = || Sight {
                since: Instant::now(),
                has_begun: false,
                is_final: false,
                has_pod: false,
            };
            let mut sight = before.remove(&name).unwrap_or_else(first);
            // A container that is being stopped now serves until its grace period is over, however
            // old the grant is.
            if !sight.has_begun
                && by_uid
                    .get(entry.uid.as_str())
                    .is_some_and(|pod| has_begun(entry, pod))
            {
                (sight.since, sight.has_begun, sight.is_final) = (Instant::now(), true, false);
            }
            let age = (sight.since.elapsed(), sight.is_final);
            sights.insert(name, sight);
            age
        });
        let ages = ages.collect();
        if !sights.is_empty() {
            known.sights.insert(key.clone(), sights);
        }
        ages
    }

    /// The uids of entries whose pods are not among these and never were: a pod that a webhook was
    /// shown may reach this store later.
    fn unseen(&self, key: &Key, entries: &[LedgerEntry], pods: &[Arc<Pod>]) -> BTreeSet<String> {
        let mut known = self.lock();
        let Known { sights, gone } = &mut *known;
        let Some(sights) = sights.get_mut(key) else {
            return BTreeSet::new();
        };
        let is_unseen = |entry: &&LedgerEntry| {
            let is_its = |uid: &str| *uid == *entry.uid;
            let Some(sight) = sights.get_mut(&name(entry)) else {
                return false;
            };
            sight.has_pod |= pods.iter().any(|pod| is_its(&pod.metadata.uid))
                || gone.iter().any(|uid| is_its(uid));
            !sight.has_pod
        };
        entries
            .iter()
            .filter(is_unseen)
            .map(|entry| entry.uid.clone())
            .collect()
    }
}

impl Looks<'_> {
    /// The input of a count: of these pods of the budget's namespace, those that it selects and
    /// those that its ledger names.
    pub(crate) async fn view(
        self,
        client: &Client,
        key: Key,
        (all, is_selected): (Vec<Arc<Pod>>, impl Fn(&Pod) -> bool),
        expected: Result<Expected, Unknown>,
    ) -> View {
        // The position is read after the pods were listed. An event is handled before the store's
        // position moves on, and the next leader that counts must have seen the event, too.
        let position = self.pods.newest_shown().unwrap_or_default().into_string();
        let is_named = |pod: &Pod| {
            self.entries
                .iter()
                .any(|entry| *entry.uid == *pod.metadata.uid)
        };
        let pods: Vec<_> = all
            .into_iter()
            .filter(|pod| is_selected(pod) || is_named(pod))
            .collect();
        let mut nodes: Vec<_> = pods
            .iter()
            .map(|pod| pod.spec.node_name.to_string())
            .collect();
        nodes.sort();
        nodes.dedup();
        nodes.retain(|node| self.nodes.get("", node).is_some());
        let seen_for = self.seen_for(client, key.clone(), &pods).await;
        let unseen = self.views.unseen(&key, self.entries, &pods);
        View {
            expected,
            pods,
            nodes,
            position,
            seen_for,
            unseen,
            patience: self.patience,
        }
    }

    /// How long each entry is known, by a monotonic clock: the times in a ledger are by another
    /// replica's clock. An entry that can have no further effect counts as late once the store has
    /// shown all its effects.
    async fn seen_for(&self, client: &Client, key: Key, pods: &[Arc<Pod>]) -> Vec<Duration> {
        let ages = self.views.ages(&key, self.entries, pods);
        let is_late = |age: Duration| age >= self.patience;
        let late = self
            .entries
            .iter()
            .zip(&ages)
            .filter(|(_, (age, is_final))| is_late(*age) && !is_final);
        let read = late.take(MOST_READ).map(async |(entry, _)| {
            let live = version_of(client, &key.namespace, entry).await?;
            let seen = pods.iter().find(|pod| *pod.metadata.uid == *entry.uid);
            (live.as_deref() == seen.map(|pod| &*pod.metadata.resource_version))
                .then(|| name(entry))
        });
        let finished: Vec<_> = join_all(read).await.into_iter().flatten().collect();
        let mut known = self.views.lock();
        let mut of_budget = known.sights.get_mut(&key);
        for name in &finished {
            if let Some(sight) = of_budget.as_mut().and_then(|sights| sights.get_mut(name)) {
                sight.is_final = true;
            }
        }
        let settled = self
            .entries
            .iter()
            .zip(ages)
            .map(|(entry, (age, is_final))| {
                // An entry whose effects the store does not show yet is checked again soon.
                let waits = is_late(age) && !is_final && !finished.contains(&name(entry));
                if waits {
                    self.patience.saturating_sub(NOT_SEEN)
                } else {
                    age
                }
            });
        settled.collect()
    }
}

fn name(entry: &LedgerEntry) -> Entry {
    (
        entry.uid.clone(),
        entry.operation,
        entry.time.0,
        entry.grant.clone(),
        entry.generation,
    )
}

/// The version of an entry's pod that the apiserver has now: `Some(None)` if the pod is gone,
/// `None` if the apiserver does not say. The pod's version alone shows the effect of the entry at
/// once. The store's own position lags by a minute while no pod changes.
async fn version_of(
    client: &Client,
    namespace: &str,
    entry: &LedgerEntry,
) -> Option<Option<Box<str>>> {
    let path = PODS.path(namespace, &entry.pod).ok()?;
    match client::get::<Pod>(client, &path).await {
        Ok(pod) => Some((*pod.metadata.uid == *entry.uid).then_some(pod.metadata.resource_version)),
        Err(failed) => failed.is_not_found().then_some(None),
    }
}

#[cfg(test)]
mod tests;
