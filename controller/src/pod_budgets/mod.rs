//! Budgets of pods, on every replica: which hold a pod, in which namespaces the apiserver is to ask, and what it is answered.

mod line;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use berth_api::budget::MOST_CONTAINERS;
use berth_api::names::annotation::MIRROR_POD;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::{ProtectedOperation, UnhealthyPodPolicy};
use berth_kinds::podunavailablebudget::Expected;
use berth_runtime::client::{self, Failed};
use berth_runtime::events::Recorder;
use berth_runtime::executor::Owner;
use berth_runtime::store::pods;
use berth_runtime::{Key, Object, Store};
use berth_webhook::pods::{Asks, Budgets, Change, Disruption, Disruptions, NotYet};
use berth_workload::budget::count::is_available;
use berth_workload::budget::ledger::Request;
use berth_workload::budget::{Fault, Rules, disruption};
use berth_workload::gates::{Gate, Gates};
use berth_workload::node::Node;
use berth_workload::plan::{Deed, Event, Failure, Plan, Verb};
use berth_workload::pod::{Metadata, Pod};
use berth_workload::resource::PODS;
use berth_workload::selector::Selector;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::time::Instant;

use crate::controllers::podunavailablebudget::{BY_NAMESPACE, Reads};
use crate::expected_pods::{ExpectedPods, Uncounted};
use crate::pod_asks::{Asking, PodAsks};
use crate::watched::Watched;
use line::{Lines, Ruling};

/// How long apiservers take to go by an entry that was written.
const KNOWN: Duration = Duration::from_secs(2);
/// The controller's service account, as the chart names it.
const ACCOUNT: &str = "kruise-manager";
/// The most budgets that hold one pod: each is a write.
const MOST_BUDGETS: usize = 16;
/// What the budgets are that were not read yet.
const UNREAD: NotYet = NotYet("PodUnavailableBudgets");

/// Who knows the budgets.
pub(crate) struct PodBudgets {
    /// Itself, for what goes on when nobody waits for it any more.
    this: Weak<Self>,
    client: Client,
    asks: Arc<PodAsks>,
    gates: Gates,
    /// Namespaces whose pods nobody is asked about.
    protected: BTreeSet<String>,
    fails_open: bool,
    /// Our own account, which has drawn before it changes a pod.
    own_user: String,
    expected: ExpectedPods,
    stores: OnceLock<Stores>,
    /// Where pods are told that they must stay.
    recorder: OnceLock<Recorder>,
    /// By uid of a budget: its version, and what it holds. A change of an annotation in v1alpha1 is one of the spec, and raises no
    /// generation.
    holds: Mutex<BTreeMap<String, (Version, Arc<Holds>)>>,
    lines: Lines,
    /// Since when the entry of a namespace is known to be written.
    written: Mutex<BTreeMap<String, Instant>>,
}

struct Stores {
    budgets: Arc<Store<Watched<PodUnavailableBudget>>>,
    pods: Arc<Store<Pod>>,
    nodes: Arc<Store<Watched<Node>>>,
}

/// Of a budget.
type Version = Option<String>;

/// Which pods a budget holds.
#[derive(Debug)]
pub(crate) struct Holds {
    pub(crate) rules: Result<Rules, Fault>,
    selector: Option<Selector>,
}

impl Holds {
    fn of(budget: &PodUnavailableBudget) -> Self {
        let rules = Rules::of(&budget.spec);
        let of_target = || Selector::parse(target_selector(budget)?).ok().filter(|selector| !selector.is_empty());
        let of_spec = || Selector::new(budget.spec.selector.as_ref()?).ok().filter(|selector| !selector.is_empty());
        Self { rules, selector: of_spec().or_else(of_target) }
    }

    /// Whether a pod of these labels and annotations is one of the budget's, protected or not.
    pub(crate) fn selects(&self, pod: &Metadata) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(|key| pod.label(key)))
    }

    /// Whether it protects a pod of these labels and annotations.
    fn holds(&self, pod: &Metadata) -> bool {
        self.selects(pod) && !self.rules.as_ref().is_ok_and(|rules| rules.ignores(pod))
    }
}

fn target_selector(budget: &PodUnavailableBudget) -> Option<&str> {
    budget.status.as_ref()?.ledger.as_ref()?.selector.as_deref()
}

impl PodBudgets {
    pub(crate) fn new(
        client: Client,
        asks: Arc<PodAsks>,
        gates: Gates,
        protected: BTreeSet<String>,
        (fails_open, own_namespace): (bool, &str),
    ) -> Arc<Self> {
        let own_user = format!("system:serviceaccount:{own_namespace}:{ACCOUNT}");
        let (stores, recorder, holds, lines, written) = Default::default();
        let expected = ExpectedPods::new(client.clone());
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            client,
            asks,
            gates,
            protected,
            fails_open,
            own_user,
            expected,
            stores,
            recorder,
            holds,
            lines,
            written,
        })
    }

    /// By these stores; to be called once.
    pub(crate) fn follow(self: &Arc<Self>, reads: &Reads) {
        let stores = Stores { budgets: reads.budgets.clone(), pods: reads.pods.clone(), nodes: reads.nodes.clone() };
        if self.stores.set(stores).is_err() || !self.is_asked() {
            return;
        }
        self.asks.ask(self.clone());
        let asks = self.asks.clone();
        reads.budgets.on_change(move |_| asks.changed());
    }

    /// The apiserver.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    fn is_asked(&self) -> bool {
        self.gates.has(Gate::PodWebhook) && self.gates.has(Gate::PodUnavailableBudgetDelete)
    }

    /// Why the apiserver does not ask about pods of a namespace, and when it may; `None` if it does.
    pub(crate) fn unenforced(&self, namespace: &str) -> Option<(String, Option<Duration>)> {
        if self.protected.contains(namespace) {
            return Some((format!("pods of namespace {namespace} may always go"), None));
        }
        for (gate, name) in
            [(Gate::PodWebhook, "PodWebhook"), (Gate::PodUnavailableBudgetDelete, "PodUnavailableBudgetDeleteGate")]
        {
            if !self.gates.has(gate) {
                return Some((format!("feature gate {name} is off: turn it on"), None));
            }
        }
        let stands = self.asks.has_written(|asks| asks.disruptions.namespaces.contains(namespace));
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if !stands {
            written.remove(namespace);
            return Some(("the webhook's entry for this namespace is not written yet".to_owned(), Some(KNOWN)));
        }
        let since = written.entry(namespace.to_owned()).or_insert_with(Instant::now).elapsed();
        let left = KNOWN.checked_sub(since).filter(|left| !left.is_zero())?;
        Some(("the webhook's entry for this namespace was written a moment ago".to_owned(), Some(left)))
    }

    /// What a budget holds.
    pub(crate) fn holds(&self, budget: &PodUnavailableBudget) -> Arc<Holds> {
        let uid = budget.metadata.uid.clone().unwrap_or_default();
        let version = budget.metadata.resource_version.clone();
        let mut known = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&uid) {
            Some((of, holds)) if *of == version => holds.clone(),
            _ => {
                let holds = Arc::new(Holds::of(budget));
                known.insert(uid, (version, holds.clone()));
                holds
            }
        }
    }

    /// To be called when a budget is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// The budgets that hold a pod, by name: always in this order they are drawn from.
    fn holding(&self, stores: &Stores, pod: &Metadata) -> Vec<Key> {
        let all = stores.budgets.by_index(&BY_NAMESPACE, &pod.namespace);
        let holding = all.iter().filter(|budget| !budget.terminating() && self.holds(&budget.0).holds(pod));
        let mut keys: Vec<_> = holding.map(|budget| Key::of(&**budget)).collect();
        keys.sort();
        keys
    }

    async fn draw_from_all(&self, disruption: Disruption) -> Result<Option<String>, NotYet> {
        let stores = self.stores.get().filter(|stores| stores.budgets.is_synced()).ok_or(UNREAD)?;
        let Some(pod) = self.pod(&disruption).await? else { return Ok(None) };
        let is_another = disruption.uid.as_ref().is_some_and(|uid| **uid != *pod.metadata.uid);
        let is_mirror = pod.metadata.annotation(MIRROR_POD).is_some();
        if is_another || is_mirror || pod.metadata.deletion_timestamp.is_some() || !pod.is_active() {
            return Ok(None);
        }
        let mut request = request(stores, &pod, operation(&disruption), disruption.user.clone());
        if let Some(new) = &disruption.new {
            request.container_ids = replaced(&pod, new);
        }
        let refusal = self.draw_for(stores, &pod, &request, disruption.is_dry_run).await?;
        if let Some(refusal) = refusal.as_ref().filter(|_| !disruption.is_dry_run) {
            self.tell(&pod, request.operation, refusal);
        }
        Ok(refusal)
    }

    /// Tells of a pod that it had to stay.
    fn tell(&self, pod: &Pod, operation: ProtectedOperation, refusal: &str) {
        let Some(recorder) = self.recorder.get() else { return };
        let [namespace, name, uid] =
            [&pod.metadata.namespace, &pod.metadata.name, &pod.metadata.uid].map(ToString::to_string);
        let reason = if operation.is_change() { "PubPreventPodUpdate" } else { "PubPreventPodDeletion" };
        let event = Event { warning: true, reason, message: refusal.to_owned() };
        recorder.record(&Owner { resource: PODS, namespace, name, uid }, &event);
    }

    /// Where pods are told; to be called once.
    pub(crate) fn tell_by(&self, recorder: Recorder) {
        // A second one would be a mistake that the first call's value hides.
        let _ = self.recorder.set(recorder);
    }

    /// Draws from all budgets that hold the pod; `Some` says why it must stay.
    async fn draw_for(
        &self,
        stores: &Stores,
        pod: &Pod,
        request: &Request,
        is_dry_run: bool,
    ) -> Result<Option<String>, NotYet> {
        let mut drawn = Vec::new();
        let holding = self.holding(stores, &pod.metadata);
        if holding.len() > MOST_BUDGETS {
            return Ok(Some(format!(
                "more than {MOST_BUDGETS} PodUnavailableBudgets hold the pod: delete some of them"
            )));
        }
        for key in holding {
            match self.draw_one(&key, request, is_dry_run).await? {
                Ruling::Free => {}
                Ruling::Drawn => drawn.push(key),
                Ruling::Refused(_) if request.operation == ProtectedOperation::Delete && self.is_garbage(pod).await => {
                }
                Ruling::Refused(message) => {
                    for key in drawn {
                        self.withdraw(&key, request).await;
                    }
                    return Ok(Some(message));
                }
            }
        }
        Ok(None)
    }

    /// The plan without the steps that would take a pod out of service which a budget holds; and those, as failures. What is left is
    /// drawn: in one write for each budget, before anything is done to a pod.
    pub(crate) async fn admitted<'a>(&self, plan: Cow<'a, Plan>, owner: &Owner) -> (Cow<'a, Plan>, Vec<Failure>) {
        let Some(stores) = self.stores.get().filter(|stores| !stores.budgets.is_empty()) else {
            return (plan, Vec::new());
        };
        let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
        let asked = steps.filter_map(|step| {
            let (target, operation) = disruption::of_step(step).filter(|(_, operation)| self.asks_for(*operation))?;
            let pod = stores.pods.get(&target.namespace, &target.name)?;
            if *pod.metadata.uid != *target.uid || self.holding(stores, &pod.metadata).is_empty() {
                return None;
            }
            let holder = format!("{} {}/{}", owner.resource.kind, owner.namespace, owner.name);
            let mut request = request(stores, &pod, operation, holder);
            let replaced = disruption::replaced(step);
            request.container_ids = ids(&pod, |name| replaced.contains(name));
            Some(self.draw_by(stores, pod, request))
        });
        let refused: BTreeMap<_, _> = join_all(asked).await.into_iter().flatten().collect();
        if refused.is_empty() {
            return (plan, Vec::new());
        }
        let mut plan = plan.into_owned();
        for stage in &mut plan.stages {
            stage.steps.retain(|step| {
                disruption::of_step(step).is_none_or(|(target, _)| !refused.contains_key(target.uid.as_str()))
            });
        }
        (Cow::Owned(plan), refused.into_values().collect())
    }

    /// Whether budgets are asked about this.
    fn asks_for(&self, operation: ProtectedOperation) -> bool {
        let gate =
            if operation.is_change() { Gate::PodUnavailableBudgetUpdate } else { Gate::PodUnavailableBudgetDelete };
        self.gates.has(gate)
    }

    /// Draws for a workload of ours; the uid of the pod and why, where it must stay.
    async fn draw_by(&self, stores: &Stores, pod: Arc<Pod>, request: Request) -> Option<(String, Failure)> {
        let refusal = match self.draw_for(stores, &pod, &request, false).await {
            Ok(refusal) => refusal?,
            Err(not_yet) => not_yet.to_string(),
        };
        let verb = if request.operation.is_change() { Verb::Patch } else { Verb::Delete };
        let failure = Failure::of_budget(Deed::of(verb, PODS), request.pod, refusal);
        Some((request.uid, failure))
    }

    /// The pod as the apiserver has it; `None` where there is none.
    async fn pod(&self, disruption: &Disruption) -> Result<Option<Pod>, NotYet> {
        if let Some(object) = &disruption.object {
            return serde_json::from_value(object.clone()).map(Some).map_err(|_| NotYet("fields of the pod"));
        }
        let Ok(path) = PODS.path(&disruption.namespace, &disruption.pod) else { return Ok(None) };
        match client::get::<Pod>(&self.client, &path).await {
            Ok(pod) => Ok(Some(pod)),
            Err(Failed { code: 404, .. }) => Ok(None),
            Err(_) => Err(NotYet("pods")),
        }
    }

    /// Whether the pod goes because its workload goes.
    async fn is_garbage(&self, pod: &Pod) -> bool {
        let Some(owner) = pod.metadata.controller() else { return false };
        self.expected.is_gone(&pod.metadata.namespace, owner).await
    }

    /// How many pods are expected now.
    async fn total(&self, budget: &PodUnavailableBudget, holds: &Holds) -> Result<usize, Uncounted> {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(total) = holds.rules.as_ref().ok().and_then(|rules| rules.total) {
            return Ok(total);
        }
        let all = self.stores.get().map(|stores| stores.pods.by_index(&pods::BY_NAMESPACE, namespace));
        self.wanted(budget, holds, &all.unwrap_or_default()).await.map(|expected| expected.total)
    }

    /// How many pods the workload of a budget wants, or those of its pods, of all pods of its namespace.
    pub(crate) async fn wanted(
        &self,
        budget: &PodUnavailableBudget,
        holds: &Holds,
        all: &[Arc<Pod>],
    ) -> Result<Expected, Uncounted> {
        let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(target) = &budget.spec.target_ref {
            return self.expected.of_target(namespace, target).await;
        }
        let members: Vec<_> = all.iter().filter(|pod| holds.holds(&pod.metadata)).cloned().collect();
        let total = self.expected.of_owners(namespace, &members).await?;
        Ok(Expected { total, selector: None })
    }
}

/// What is to befall the pod. Resources that restart a container change the pod like its image does.
fn operation(disruption: &Disruption) -> ProtectedOperation {
    match disruption.change {
        Change::Delete => ProtectedOperation::Delete,
        Change::Evict => ProtectedOperation::Evict,
        Change::Update => ProtectedOperation::Update,
        Change::Resize if disruption.new.as_ref().is_some_and(restarts_by_resize) => ProtectedOperation::Update,
        Change::Resize => ProtectedOperation::Resize,
    }
}

/// Whether a container of the pod is restarted for other resources, as its spec says. Which resource changes is not looked at.
fn restarts_by_resize(pod: &Value) -> bool {
    let containers = ["containers", "initContainers"].into_iter();
    let mut containers = containers.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let restarts = |container: &Value| {
        let mut policies = container["resizePolicy"].as_array().into_iter().flatten();
        policies.any(|policy| policy["restartPolicy"] == "RestartContainer")
    };
    containers.any(restarts)
}

/// The containers that run and get another image, by id.
fn replaced(pod: &Pod, new: &Value) -> Vec<String> {
    let image = |name: &str| {
        let lists = ["containers", "initContainers"].into_iter();
        let mut all = lists.flat_map(|list| new["spec"][list].as_array().into_iter().flatten());
        all.find(|container| container["name"] == name).and_then(|container| container["image"].as_str())
    };
    ids(pod, |name| pod.container(name).is_some_and(|old| image(name).is_some_and(|new| *new != *old.image)))
}

/// The ids of these containers of the pod.
fn ids(pod: &Pod, is_its: impl Fn(&str) -> bool) -> Vec<String> {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let ids = statuses.filter(|status| is_its(&status.name) && !status.container_id.is_empty());
    ids.map(|status| status.container_id.to_string()).take(MOST_CONTAINERS).collect()
}

/// What somebody wants of a pod.
fn request(stores: &Stores, pod: &Pod, operation: ProtectedOperation, holder: String) -> Request {
    let has_node = !stores.nodes.is_synced() || stores.nodes.get("", &pod.spec.node_name).is_some();
    Request {
        pod: pod.metadata.name.to_string(),
        uid: pod.metadata.uid.to_string(),
        operation,
        holder,
        is_available: is_available(pod, has_node, Timestamp::now()),
        generation: operation.is_change().then_some(pod.metadata.generation),
        container_ids: Vec::new(),
    }
}

impl Budgets for PodBudgets {
    fn draw(&self, disruption: Disruption) -> BoxFuture<'_, Result<Option<String>, NotYet>> {
        self.draw_from_all(disruption).boxed()
    }
}

impl Asking for PodBudgets {
    fn add_to(&self, asks: &mut Asks) -> bool {
        let Some(stores) = self.stores.get().filter(|stores| stores.budgets.is_synced()) else { return false };
        let all = stores.budgets.all();
        let named =
            all.iter().map(|budget| budget.namespace()).filter(|namespace| !self.protected.contains(*namespace));
        let holds_unready = |budget: &Arc<Watched<PodUnavailableBudget>>| {
            budget.0.spec.unhealthy_pod_policy == UnhealthyPodPolicy::IfHealthyBudget
        };
        asks.disruptions = Disruptions {
            namespaces: named.map(str::to_owned).collect(),
            unready: all.iter().any(holds_unready),
            fails_open: self.fails_open,
            changes_but_by: self.gates.has(Gate::PodUnavailableBudgetUpdate).then(|| self.own_user.clone()),
        };
        true
    }
}

impl fmt::Debug for PodBudgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodBudgets").finish_non_exhaustive()
    }
}
