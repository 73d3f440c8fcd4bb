//! Budgets of pods, on every replica: which hold a pod, in which namespaces the apiserver is to ask, and what it is answered.

mod awaited;
mod budget;
mod counting;
mod drains;
mod draw;
mod entered;
mod expected;
mod explained;
mod line;
pub(crate) mod native_budgets;
mod others;
mod own_plans;
mod queues;
pub(crate) mod refusals;
mod unseen;
pub(crate) mod views;
mod wish;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use berth_api::names::annotation::MIRROR_POD;
use berth_api::names::condition::ENFORCED;
use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use parking_lot::Mutex;

use berth_runtime::events::Recorder;
use berth_runtime::metrics::Metrics;
use berth_runtime::queue::Queue;
use berth_runtime::{Key, Resource, Store};
use berth_webhook::NO_TOKEN;
use berth_webhook::missing::Missing;
use berth_webhook::pods::{Asks, Budgets, Change, DISRUPTIONS, Disruption, Disruptions, NotYet};
use berth_workload::budget::asked::Asked;
use berth_workload::budget::disruption::{is_disruption_target, is_exempt, is_own_controller};
use berth_workload::budget::surge::is_open;
use berth_workload::condition::is_true;
use berth_workload::gates::{Gate, Gates};
use berth_workload::native_budget::{NativeBudget, RefusedNatively};
use berth_workload::node::Node;
use berth_workload::pod::Pod;
use berth_workload::resource::{DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS};
use futures::FutureExt;
use futures::future::{BoxFuture, try_join};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::clusters::{self, Clusters};
use crate::expected_pods::ExpectedPods;
use crate::paced::awaited_pace;
use crate::pod_asks::{Asking, PodAsks};
use crate::reads::Reader;
use crate::recent::Recent;
use crate::watched::Watched;
use awaited::{Awaited, Pace};
pub(crate) use budget::{Budget, BudgetKey, Holds};
use entered::Entered;
use line::Lines;
pub(crate) use others::{Found, ITSELF, MISSING, find, told_of};
use refusals::Refusals;
use unseen::{Looks, Unseen};
use wish::{operation, replaced, shown_uid};

/// How long apiservers take to go by an entry that was written.
const KNOWN: Duration = Duration::from_secs(2);
/// How long until a budget looks again whose namespace has no place in the webhook's configuration.
const NO_PLACE: Duration = Duration::from_secs(60);
/// The controller's service account, as the chart names it.
const ACCOUNT: &str = "kruise-manager";
/// As many budgets a warning names.
const NAMED: usize = 3;
/// What is told of an eviction that names no uid, which the webhook before this one has not given it.
const UNBOUND: &str =
    "the eviction is bound to no uid of a pod, for no replica answered in time: try again";
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

    /// The pace of this budget's counts of so many pods while something of ours waits until it has room.
    pub(crate) fn awaited_pace(&self, budget: &Budget, pods: usize) -> Option<Duration> {
        self.awaited.has(&budget.key()).then(|| awaited_pace(pods))
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

    /// Whether the apiserver is to ask about anything.
    fn is_asked(&self) -> bool {
        self.gates.has(Gate::PodWebhook)
            && ProtectedOperation::ALL
                .into_iter()
                .any(|operation| self.asks_for(operation))
    }

    /// Whether the apiserver asks about pods of a budget, and when it may. Where it has asked by these conditions, it goes on: a replica
    /// that has begun to lead knows neither what was written before, nor since when.
    pub(crate) fn asked(&self, budget: &Budget, told: &[Condition]) -> (Asked, Option<Duration>) {
        let namespace = budget.metadata().namespace.as_deref().unwrap_or_default();
        if self.protected.contains(namespace) {
            let why = format!(
                "pods of namespace {namespace} may always go, because the chart's value controller.protectedNamespaces has the \
                 namespace, or the controller runs there: take the namespace out of the value, or delete this budget"
            );
            return (Asked::Never(why), None);
        }
        // What is not known to be protected is refused altogether.
        let asked = match &self.holds(budget).rules {
            Ok(rules) => Asked::of(rules.operations(), self.gates),
            Err(_) => Asked::of(&[], self.gates),
        };
        if !matches!(asked, Asked::Never(_)) && self.asks.lacks_token() {
            return (Asked::Unanswered(NO_TOKEN.to_owned()), None);
        }
        let has_asked = is_true(told, ENFORCED);
        if matches!(asked, Asked::Never(_)) || (has_asked && !self.asks.has_written(|_| true)) {
            return (asked, None);
        }
        let stands = self
            .asks
            .has_written(|asks| asks.disruptions.namespaces.contains(namespace));
        let mut written = self.written.lock();
        if !stands {
            written.remove(namespace);
            if self.asks.wants(|asks| {
                asks.disruptions.is_full && !asks.disruptions.namespaces.contains(namespace)
            }) {
                let why = format!(
                    "namespace {namespace}: the names of the namespaces with older budgets are all that the webhook configuration \
                     {DISRUPTIONS} holds: delete budgets that nobody needs, of whole namespaces"
                );
                return (Asked::Never(why), Some(NO_PLACE));
            }
            let why = "the webhook's entry for this namespace is not written yet".to_owned();
            return (Asked::Never(why), Some(KNOWN));
        }
        let since = written
            .entry(namespace.to_owned())
            .or_insert_with(Instant::now)
            .elapsed();
        match KNOWN
            .checked_sub(since)
            .filter(|left| !left.is_zero() && !has_asked)
        {
            Some(left) => {
                let why =
                    "the webhook's entry for this namespace was written a moment ago".to_owned();
                (Asked::Never(why), Some(left))
            }
            None => (asked, None),
        }
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

    async fn draw_from_all(&self, disruption: Disruption) -> Result<Option<String>, NotYet> {
        // By an entry that was written while another gate was on. Where another replica leads, its gates are what is promised.
        if !self.asks_for(operation(&disruption)) && self.asks.are_its_own() {
            return Ok(None);
        }
        let stores = self
            .stores
            .as_ref()
            .filter(|_| self.is_synced())
            .ok_or(UNREAD)?;
        if self.is_missing(stores, &disruption) {
            return Ok(None);
        }
        // Which budgets there are is asked along with the pod, for it tells whose it is.
        let (pod, unseen) = try_join(
            self.pod(stores, &disruption),
            self.unseen(&disruption.namespace),
        )
        .await?;
        let pod = match pod {
            None => return Ok(None),
            Some(Ok(pod)) => pod,
            Some(Err(why)) => return Ok(self.refused_unread(&disruption, &unseen, &why)),
        };
        let is_mirror = pod.metadata.annotation(MIRROR_POD).is_some();
        if is_mirror || pod.metadata.deletion_timestamp.is_some() || !pod.is_active() {
            return Ok(None);
        }
        let holding = self.holding_beside(&pod.metadata, &unseen);
        let passes = self.passes(&disruption);
        // Anybody who learned the path may name such a user in a review. Kubernetes marks the pod before it deletes the pod.
        let is_forged =
            passes && !is_exempt(&disruption.groups, &self.exempt) && !is_disruption_target(&pod);
        if holding.is_free() || is_forged {
            return Ok(None);
        }
        let mut request = self
            .request(
                stores,
                &pod,
                operation(&disruption),
                disruption.user.clone(),
            )
            .await?;
        (request.container_ids, request.resizes) = replaced(&pod, &disruption);
        request.passes = passes;
        if is_own_controller(&pod.metadata, &disruption.user, &self.own_user) {
            request = request.by_own_workload(&pod);
        }
        let refused = match disruption.change {
            // A grant is for one pod, and by the time this one is carried out its name may be another's.
            Change::Evict if disruption.uid.is_none() => Some(RefusedNatively {
                message: UNBOUND.to_owned(),
                is_ours: false,
            }),
            // What the apiserver would refuse after us must not be drawn.
            Change::Evict => self.refused_natively(stores, &pod).await?,
            _ => None,
        };
        let draw = async |is_dry_run| {
            let refusal = self.draw_for(&pod, &holding, &request, is_dry_run).await?;
            Ok(refusal.map(|refusal| refusal.message))
        };
        let refusal = match refused {
            // One that we keep says what its budget says, or does so a moment later; the budget has more to tell.
            Some(refused) if refused.is_ours && !request.passes && draw(true).await?.is_some() => {
                draw(disruption.is_dry_run).await?
            }
            // Nothing is drawn for what the apiserver refuses itself, or for a pod that nobody has named.
            Some(_) if request.passes => None,
            Some(refused) => Some(refused.message),
            None => draw(disruption.is_dry_run).await?,
        };
        let is_counted = !disruption.is_dry_run && shown_uid(&disruption).is_some();
        if let Some(refusal) = refusal.as_ref().filter(|_| is_counted) {
            self.tell(&pod, request.operation, refusal);
            self.refusals.count(&pod, &request.holder);
        }
        Ok(refusal)
    }

    /// Whether nothing shows a pod of the name that the request has, and the apiserver had none a moment ago.
    fn is_missing(
        &self,
        stores: &BudgetStores,
        Disruption {
            namespace,
            pod,
            object,
            uid,
            ..
        }: &Disruption,
    ) -> bool {
        let is_shown =
            object.is_some() || uid.is_some() || stores.pods.get(namespace, pod).is_some();
        !is_shown && self.missing.has(namespace, pod)
    }

    /// Why a pod stays that cannot be read: a budget of its namespace may hold it.
    fn refused_unread(
        &self,
        disruption: &Disruption,
        unseen: &Unseen,
        why: &str,
    ) -> Option<String> {
        let Disruption { namespace, pod, .. } = disruption;
        let may_go = self.fails_open(disruption)
            || (self.in_namespace(namespace).is_empty() && unseen.is_empty());
        (!may_go).then(|| {
            format!(
                "pod {pod} cannot be read, so no budget can say whether it may go: {why}; to let it go, delete the budgets \
                 of namespace {namespace} first"
            )
        })
    }

    /// What is asked for, where pods of these namespaces are held, the first ones before others, and where some that are not ready, too.
    fn disruptions(&self, namespaces: Vec<(String, bool)>) -> Disruptions {
        if namespaces.is_empty() {
            return Disruptions::default();
        }
        let asked = Disruptions {
            fails_open: self.fails_open,
            deletions: self.asks_for(ProtectedOperation::Delete),
            changes_but_by: self
                .asks_for(ProtectedOperation::Update)
                .then(|| self.own_user.clone()),
            exempt: self.exempt.clone(),
            ..Disruptions::default()
        };
        asked.of(namespaces)
    }
}

impl Budgets for PodBudgets {
    fn draw(&self, disruption: Disruption) -> BoxFuture<'_, Result<Option<String>, NotYet>> {
        self.draw_from_all(disruption).boxed()
    }

    fn beside(&self, resource: &str, object: &str) -> Option<String> {
        let new = Budget::read(resource, object)?;
        let new_holds = Holds::of(&new);
        let selector = new_holds.selector()?;
        let all = self.in_namespace(new.metadata().namespace.as_deref().unwrap_or_default());
        let overlaps = |other: &&Budget| {
            let holds = self.holds(other);
            other.key() != new.key()
                && holds
                    .selector()
                    .is_some_and(|other| !other.excludes(selector))
        };
        let mut names: Vec<_> = all
            .iter()
            .filter(overlaps)
            .map(|other| other.key().words())
            .collect();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let told = format!(
            "{}{more} may hold the same pods: each of them must let a pod go",
            names.join(", ")
        );
        (!names.is_empty()).then_some(told)
    }

    fn known_uid(&self, namespace: &str, pod: &str) -> Option<String> {
        let pod = self.stores.as_ref()?.pods.get(namespace, pod)?;
        Some(pod.metadata.uid.to_string())
    }

    fn fails_open(&self, disruption: &Disruption) -> bool {
        self.fails_open || self.passes(disruption)
    }
}

impl Asking for PodBudgets {
    fn add_to(&self, asks: &mut Asks) -> bool {
        if self.stores.as_ref().is_none() || !self.is_synced() {
            return false;
        }
        asks.disruptions = self.disruptions(self.namespaces_of_budgets());
        true
    }
}

impl fmt::Debug for PodBudgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodBudgets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
