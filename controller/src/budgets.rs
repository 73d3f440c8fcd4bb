//! Budgets of pods, on every replica: which budgets hold a pod, in which namespaces the apiserver
//! calls the webhook, and what the answer is.

mod budget;
mod catalog;
pub(crate) mod clusters;
mod drains;
mod expected;
pub(crate) mod expected_pods;
mod explained;
pub(crate) mod federation;
mod ledger_queue;
pub(crate) mod native_budgets;
mod reserve;
pub(crate) mod review;
mod rollout_reservations;
pub(crate) mod views;
mod waiters;

use berth_workload::budget::native::NativeBudget;
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
use berth_runtime::{Key, Object, Resource, Store};
use berth_webhook::pods::NotYet;
use berth_webhook::pods::missing::Missing;
use berth_workload::budget::surge::is_open;
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::admission::webhook_rules::WebhookRules;
use crate::budgets::clusters::Clusters;
use crate::budgets::expected_pods::ExpectedPods;
use crate::budgets::expected_pods::recent::Recent;
use crate::stores::reads::Reader;
use crate::stores::watched::Watched;
pub(crate) use budget::{Budget, BudgetKey, Holds};
use catalog::holding::Looks;
use clusters::find::Found;
pub(crate) use federation::reported;
use ledger_queue::queued::LedgerQueue;
use ledger_queue::recent_reservations::RecentReservations;
use review::refusals::Refusals;
use waiters::{Pace, Waiters};

/// The controller's service account, as the chart names it.
const ACCOUNT: &str = "kruise-manager";
/// The error while budgets were not read yet.
const UNREAD: NotYet = NotYet("budgets of pods");

/// The budgets of pods.
pub(crate) struct PodBudgets {
    /// Itself, for tasks that outlive their request.
    this: Weak<Self>,
    settings: Settings,
    parts: Parts,
    expected: Expected,
    catalog: Catalog,
    ledgers: Ledgers,
    federation: Federation,
    rules: Rules,
}

/// How many pods workloads want.
struct Expected {
    /// For reservations.
    wanted: ExpectedPods,
    /// For counts. Their cached answers are separate, so that they do not refuse a scale-down right
    /// after a count.
    counted: ExpectedPods,
    /// When pods of a namespace last changed, for a short time.
    changed: Mutex<HashMap<String, Instant>>,
}

/// Which budgets hold a pod.
struct Catalog {
    /// By uid of a budget: its resource version, and what it holds. The generation is not enough,
    /// because in v1alpha1 a change of an annotation changes the spec without a new generation.
    holds: Mutex<BTreeMap<String, (Version, Arc<Holds>)>>,
    looks: Looks,
    /// One permit, because a page or a budget has as much metadata as its author wrote. So only one
    /// at a time is in memory.
    whole: Semaphore,
    /// Pods that reviews named and that do not exist.
    missing: Missing,
}

/// The ledgers of budgets.
#[derive(Default)]
struct Ledgers {
    queue: LedgerQueue,
    recent: RecentReservations,
    waiters: Arc<Waiters>,
}

/// Budgets that other budgets name.
struct Federation {
    clusters: Arc<Clusters>,
    /// The contributions of budgets of this cluster, for dry runs.
    members: Recent<Result<Arc<Found>, NotYet>>,
}

/// For which pods the apiserver calls the webhook.
struct Rules {
    asks: Arc<WebhookRules>,
    /// When the entry of a namespace was first known to be written.
    written: Mutex<BTreeMap<String, Instant>>,
}

/// The stores that budgets are read from.
#[derive(Clone)]
pub(crate) struct BudgetStores {
    /// `None` if the kind is disabled.
    pub(crate) unavailable: Option<Arc<Store<Watched<PodUnavailableBudget>>>>,
    /// `None` if the kind is disabled.
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

/// The dependencies of budget checks.
pub(crate) struct Parts {
    pub(crate) client: Client,
    /// `None` if all kinds of budgets are disabled.
    pub(crate) stores: Option<BudgetStores>,
    /// Publishes the events of pods that must stay.
    pub(crate) recorder: Option<Recorder>,
    pub(crate) refusals: Refusals,
    /// For `explain`: copies of budgets with changed ledgers, which are never written.
    pub(crate) copies: Option<Mutex<BTreeMap<BudgetKey, Budget>>>,
}

/// The settings of budget checks.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) gates: Gates,
    /// Namespaces whose pods no budget holds.
    pub(crate) protected: BTreeSet<String>,
    pub(crate) fails_open: bool,
    /// Groups whose members no budget holds.
    pub(crate) exempt: BTreeSet<String>,
    /// Our own account, which reserves before it changes a pod.
    pub(crate) own_user: String,
    /// The time after which a reservation can have no effect any more.
    pub(crate) patience: Duration,
}

impl Settings {
    /// The user of our account in this namespace.
    pub(crate) fn user_in(namespace: &str) -> String {
        format!("system:serviceaccount:{namespace}:{ACCOUNT}")
    }
}

/// The resource version of a budget.
type Version = Option<String>;

impl PodBudgets {
    pub(crate) fn new(
        parts: Parts,
        settings: Settings,
        (asks, clusters): (Arc<WebhookRules>, Arc<Clusters>),
    ) -> Arc<Self> {
        let wanted = ExpectedPods::new(parts.client.clone());
        let budgets = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            settings,
            parts,
            expected: Expected {
                counted: wanted.apart(),
                wanted,
                changed: Mutex::default(),
            },
            catalog: Catalog {
                holds: Mutex::default(),
                looks: Looks::default(),
                whole: Semaphore::new(1),
                missing: Missing::default(),
            },
            ledgers: Ledgers::default(),
            federation: Federation {
                clusters,
                members: Recent::default(),
            },
            rules: Rules {
                asks,
                written: Mutex::default(),
            },
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
            stores,
            recorder: None,
            refusals: Refusals::default(),
            copies: in_copies.then(Mutex::default),
        };
        let settings = Settings {
            gates,
            patience,
            own_user: Settings::user_in(""),
            ..Settings::default()
        };
        let clusters = Clusters::new(of_clusters, Metrics::new(|_| {}), answering);
        Self::new(parts, settings, (Arc::default(), clusters))
    }

    /// Follows changes of budgets.
    fn follow(self: &Arc<Self>) {
        if self.parts.stores.is_some() && self.is_called() {
            self.rules.asks.ask(self.clone());
        }
        if let Some(budgets) = self.unavailable() {
            self.follow_kind(budgets, Budget::Unavailable);
        }
        if let Some(budgets) = self.distributed() {
            self.follow_kind(budgets, Budget::Distributed);
        }
    }

    fn follow_kind<T: 'static>(&self, budgets: &Store<Watched<T>>, either: fn(Arc<T>) -> Budget)
    where
        Watched<T>: Object,
    {
        let asks = self.rules.asks.clone();
        budgets.on_change(move |_| asks.changed());
        self.ledgers.waiters.follow(budgets, either);
    }

    fn unavailable(&self) -> Option<&Arc<Store<Watched<PodUnavailableBudget>>>> {
        self.parts.stores.as_ref()?.unavailable.as_ref()
    }

    fn distributed(&self) -> Option<&Arc<Store<Watched<DistributedPodDisruptionBudget>>>> {
        self.parts.stores.as_ref()?.distributed.as_ref()
    }

    /// Sets the queue and the pace by which objects of a kind are woken: a budget that refused them
    /// has capacity again.
    pub(crate) fn wake_by(&self, resource: Resource, queue: &Arc<Queue<Key>>, pace: Pace) {
        self.ledgers.waiters.wake_by(resource, queue, pace);
    }

    /// Whether an object of ours waits until this budget has capacity.
    pub(crate) fn is_awaited(&self, budget: &Budget) -> bool {
        self.ledgers.waiters.has(&budget.key())
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

    /// Whether a budget waits for a replacement of this pod, or may do so.
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
        &self.parts.client
    }

    /// The time after which a grant can have no effect any more.
    pub(crate) fn patience(&self) -> Duration {
        self.settings.patience
    }

    /// The pods that a budget holds.
    pub(crate) fn holds(&self, budget: &Budget) -> Arc<Holds> {
        let metadata = budget.metadata();
        let uid = metadata.uid.clone().unwrap_or_default();
        let version = metadata.resource_version.clone();
        let mut known = self.catalog.holds.lock();
        match known.get(&uid) {
            Some((of, holds)) if *of == version => holds.clone(),
            _ => {
                let holds = Arc::new(Holds::of(budget).with_gates(self.settings.gates));
                known.insert(uid, (version, holds.clone()));
                holds
            }
        }
    }

    /// To be called when a budget is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.catalog.holds.lock().remove(uid);
    }
}

impl fmt::Debug for PodBudgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodBudgets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
