//! Budgets of pods, on every replica: which hold a pod, in which namespaces the apiserver is to ask, and what it is answered.

mod budget;
mod catalog;
mod drains;
mod expected;
mod explained;
pub(crate) mod federation;
mod ledger_queue;
pub(crate) mod native_budgets;
mod reserve;
pub(crate) mod review;
mod rollout_reservations;
pub(crate) mod views;
mod waiters;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::PodUnavailableBudget;
use parking_lot::Mutex;

use berth_runtime::events::Recorder;
use berth_runtime::metrics::Metrics;
use berth_runtime::queue::Queue;
use berth_runtime::{Key, Resource, Store};
use berth_webhook::missing::Missing;
use berth_webhook::pods::NotYet;
use berth_workload::budget::surge::is_open;
use berth_workload::gates::Gates;
use berth_workload::native_budget::NativeBudget;
use berth_workload::node::Node;
use berth_workload::pod::Pod;
use berth_workload::resource::{DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::clusters::{self, Clusters};
use crate::expected_pods::ExpectedPods;
use crate::pod_asks::PodAsks;
use crate::reads::Reader;
use crate::recent::Recent;
use crate::watched::Watched;
pub(crate) use budget::{Budget, BudgetKey, Holds};
use catalog::holding::Looks;
use federation::find::Found;
pub(crate) use federation::told_of;
use ledger_queue::queued::Lines;
use ledger_queue::recent_reservations::Entered;
use review::refusals::Refusals;
use waiters::{Awaited, Pace};

/// The controller's service account, as the chart names it.
const ACCOUNT: &str = "kruise-manager";
/// What the budgets are that were not read yet.
const UNREAD: NotYet = NotYet("budgets of pods");

/// Who knows the budgets.
pub(crate) struct PodBudgets {
    /// Itself, for what goes on when nobody waits for it any more.
    this: Weak<Self>,
    client: Client,
    clusters: Arc<Clusters>,
    asks: Arc<PodAsks>,
    gates: Gates,
    /// Namespaces whose pods nobody is asked about.
    protected: BTreeSet<String>,
    fails_open: bool,
    /// Groups whose members no budget holds.
    exempt: BTreeSet<String>,
    /// Our own account, which has drawn before it changes a pod.
    own_user: String,
    /// What workloads want, for those who reserve.
    expected: ExpectedPods,
    /// The same for counts, so that a scale-down right behind one is not refused by what that count was told.
    counted: ExpectedPods,
    /// When pods of a namespace changed, where that is a moment ago.
    changed: Mutex<HashMap<String, Instant>>,
    /// What budgets of this cluster bring that others name, for dry runs.
    members: Recent<Result<Arc<Found>, NotYet>>,
    /// `None` where no kind of budgets is worked on.
    stores: Option<BudgetStores>,
    /// Where pods are told that they must stay.
    recorder: Option<Recorder>,
    /// By uid of a budget: its version, and what it holds. A change of an annotation in v1alpha1 is one of the spec, and raises no
    /// generation.
    holds: Mutex<BTreeMap<String, (Version, Arc<Holds>)>>,
    lines: Lines,
    looks: Looks,
    /// One permit: pages and budgets have as much metadata as anybody wrote, so one of them at a time is in memory.
    whole: Semaphore,
    entered: Entered,
    awaited: Arc<Awaited>,
    refusals: Refusals,
    /// Pods that reviews named and that do not exist.
    missing: Missing,
    /// Set where `explain` asks: budgets as their ledgers would be after what was granted, which nothing writes.
    copies: Option<Mutex<BTreeMap<BudgetKey, Budget>>>,
    /// After so long nothing can come of what was granted.
    patience: Duration,
    /// Since when the entry of a namespace is known to be written.
    written: Mutex<BTreeMap<String, Instant>>,
}

/// What budgets are read from.
#[derive(Clone)]
pub(crate) struct BudgetStores {
    /// `None` where the kind is not worked on.
    pub(crate) unavailable: Option<Arc<Store<Watched<PodUnavailableBudget>>>>,
    /// `None` where the kind is not worked on.
    pub(crate) distributed: Option<Arc<Store<Watched<DistributedPodDisruptionBudget>>>>,
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) nodes: Arc<Store<Watched<Node>>>,
    pub(crate) natives: Arc<Store<Watched<NativeBudget>>>,
}

impl BudgetStores {
    pub(crate) fn new(
        reader: &mut Reader<'_>,
        mut is_worked_on: impl FnMut(&'static str) -> bool,
    ) -> Self {
        let is_read = is_worked_on(POD_UNAVAILABLE_BUDGETS.kind);
        let unavailable = is_read.then(|| reader.read());
        let is_read = is_worked_on(DISTRIBUTED_POD_DISRUPTION_BUDGETS.kind);
        let distributed = is_read.then(|| reader.read());
        Self {
            unavailable,
            distributed,
            pods: reader.read(),
            nodes: reader.read(),
            natives: reader.read(),
        }
    }
}

/// What budgets are checked with.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) asks: Arc<PodAsks>,
    pub(crate) stores: Option<BudgetStores>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) refusals: Refusals,
    /// Whether what is granted stands in copies, which are never written.
    pub(crate) in_copies: bool,
}

/// How budgets are checked.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) gates: Gates,
    pub(crate) protected: BTreeSet<String>,
    pub(crate) fails_open: bool,
    pub(crate) exempt: BTreeSet<String>,
    pub(crate) own_namespace: String,
    pub(crate) patience: Duration,
}

/// Of a budget.
type Version = Option<String>;

impl PodBudgets {
    pub(crate) fn new(parts: Parts, settings: Settings) -> Arc<Self> {
        let expected = ExpectedPods::new(parts.client.clone());
        let budgets = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            client: parts.client,
            clusters: parts.clusters,
            asks: parts.asks,
            gates: settings.gates,
            protected: settings.protected,
            fails_open: settings.fails_open,
            exempt: settings.exempt,
            own_user: format!("system:serviceaccount:{}:{ACCOUNT}", settings.own_namespace),
            counted: expected.apart(),
            expected,
            changed: Mutex::default(),
            members: Recent::default(),
            stores: parts.stores,
            recorder: parts.recorder,
            holds: Mutex::default(),
            lines: Lines::default(),
            looks: Looks::default(),
            whole: Semaphore::new(1),
            entered: Entered::default(),
            awaited: Arc::default(),
            refusals: parts.refusals,
            missing: Missing::default(),
            copies: parts.in_copies.then(Mutex::default),
            patience: settings.patience,
            written: Mutex::default(),
        });
        budgets.follow();
        budgets
    }

    /// For commands and tests, which write to no budget.
    pub(crate) fn only_read(
        client: Client,
        gates: Gates,
        stores: Option<BudgetStores>,
        (cluster_name, patience, in_copies): (&str, Duration, bool),
    ) -> Arc<Self> {
        let of_clusters = clusters::Settings {
            own: cluster_name.to_owned(),
            ..clusters::Settings::default()
        };
        let answering = clusters::Answering::default();
        let parts = Parts {
            client,
            clusters: Clusters::new(of_clusters, Metrics::new(|_| {}), answering),
            asks: Arc::default(),
            stores,
            recorder: None,
            refusals: Refusals::default(),
            in_copies,
        };
        let settings = Settings {
            gates,
            patience,
            ..Settings::default()
        };
        Self::new(parts, settings)
    }

    /// Hears of changes of budgets.
    fn follow(self: &Arc<Self>) {
        if self.stores.is_some() && self.is_asked() {
            self.asks.ask(self.clone());
        }
        if let Some(budgets) = self.unavailable() {
            let asks = self.asks.clone();
            budgets.on_change(move |_| asks.changed());
            self.awaited.follow(budgets, Budget::Unavailable);
        }
        if let Some(budgets) = self.distributed() {
            let asks = self.asks.clone();
            budgets.on_change(move |_| asks.changed());
            self.awaited.follow(budgets, Budget::Distributed);
        }
    }

    fn unavailable(&self) -> Option<&Arc<Store<Watched<PodUnavailableBudget>>>> {
        self.stores.as_ref()?.unavailable.as_ref()
    }

    fn distributed(&self) -> Option<&Arc<Store<Watched<DistributedPodDisruptionBudget>>>> {
        self.stores.as_ref()?.distributed.as_ref()
    }

    /// By which queue objects of a kind are woken that a budget refused something, when it has room, and at which pace.
    pub(crate) fn wake_by(&self, resource: Resource, queue: &Arc<Queue<Key>>, pace: Pace) {
        self.awaited.wake_by(resource, queue, pace);
    }

    /// Whether something of ours waits until this budget has room.
    pub(crate) fn is_awaited(&self, budget: &Budget) -> bool {
        self.awaited.has(&budget.key())
    }

    /// Whether all budgets are known.
    fn is_synced(&self) -> bool {
        let (unavailable, distributed) = (self.unavailable(), self.distributed());
        unavailable.is_none_or(|store| store.is_synced())
            && distributed.is_none_or(|store| store.is_synced())
    }

    fn has_budgets(&self) -> bool {
        let (unavailable, distributed) = (self.unavailable(), self.distributed());
        unavailable.is_some_and(|store| !store.is_empty())
            || distributed.is_some_and(|store| !store.is_empty())
    }

    /// Whether a budget waits for another pod in place of this one, or may do so.
    pub(crate) fn awaits_replacement(&self, pod: &Pod, now: Timestamp) -> bool {
        let awaits = |budget: &Budget| {
            budget
                .replacements()
                .iter()
                .any(|one| is_open(one, Some(pod), now))
        };
        !self.is_synced()
            || self
                .in_namespace(&pod.metadata.namespace)
                .iter()
                .any(awaits)
    }

    /// A budget as a store has it.
    fn stored(&self, budget: &BudgetKey) -> Option<Budget> {
        if let Some(copy) = self.copied(budget) {
            return Some(copy);
        }
        let BudgetKey { resource, key } = budget;
        if *resource == DISTRIBUTED_POD_DISRUPTION_BUDGETS {
            let budget = self.distributed()?.get(&key.namespace, &key.name)?;
            Some(Budget::Distributed(budget.0.clone()))
        } else {
            let budget = self.unavailable()?.get(&key.namespace, &key.name)?;
            Some(Budget::Unavailable(budget.0.clone()))
        }
    }

    /// The apiserver.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// After so long nothing can come of what was granted.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// What a budget holds.
    pub(crate) fn holds(&self, budget: &Budget) -> Arc<Holds> {
        let metadata = budget.metadata();
        let uid = metadata.uid.clone().unwrap_or_default();
        let version = metadata.resource_version.clone();
        let mut known = self.holds.lock();
        match known.get(&uid) {
            Some((of, holds)) if *of == version => holds.clone(),
            _ => {
                let holds = Arc::new(Holds::of(budget).with_gates(self.gates));
                known.insert(uid, (version, holds.clone()));
                holds
            }
        }
    }

    /// To be called when a budget is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.holds.lock().remove(uid);
    }
}

impl fmt::Debug for PodBudgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodBudgets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
