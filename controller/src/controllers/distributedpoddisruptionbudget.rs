//! The DistributedPodDisruptionBudget controller: counts the budget's own pods, settles what was granted, and keeps the native budget
//! that tells of it. Who grants is [`crate::pod_budgets`], on every replica.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::names::finalizer::BUDGET_FLOOR;
use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use berth_kinds::distributedpoddisruptionbudget::{Other, Snapshot, decide, is_urgent, status};
use berth_runtime::driver::Next;
use berth_runtime::object::DISTRIBUTED_POD_DISRUPTION_BUDGETS;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Index, Key, Object, Resource, Store};
use berth_workload::budget::asked::Asked;
use berth_workload::budget::count::Unknown;
use berth_workload::budget::federation::{Brings, Origin, Silence};
use berth_workload::budget::sharing::{Brought, Elsewhere, count_once};
use berth_workload::native_budget::NativeBudget;
use berth_workload::node::Node;
use berth_workload::pod::Pod;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use crate::acting::Acting;
use crate::change::each;
use crate::clusters::Known;
use crate::controllers::Controller;
use crate::expected_pods::Uncounted;
use crate::paced::{Paced, at_latest};
use crate::pod_budgets::views::{self, Views};
use crate::pod_budgets::{Budget, ITSELF, MISSING, PodBudgets, native_budgets};
use crate::reads::{Read, Reader};
use crate::watched::{CustomResource, Watched};

/// By namespace.
pub(crate) const BY_NAMESPACE: Index<Watched<DistributedPodDisruptionBudget>> =
    Index::new("namespace", |budget| Some(budget.namespace()));

/// How long until they are asked again where nobody knew how many pods are expected.
const UNKNOWN: Duration = Duration::from_secs(5);
/// How long until workloads are asked again how many pods they want, where nothing else tells.
const ASKED_AGAIN: Duration = Duration::from_secs(300);

/// The most budgets whose generation is remembered. Who is forgotten keeps a lowered floor for longer.
const MOST_GENERATIONS: usize = 10_000;

/// What a count is made of.
pub(crate) struct Reads {
    pub(crate) budgets: Arc<Store<Watched<DistributedPodDisruptionBudget>>>,
    pub(crate) unavailable: Arc<Store<Watched<PodUnavailableBudget>>>,
    pub(crate) natives: Arc<Store<Watched<NativeBudget>>>,
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) nodes: Arc<Store<Watched<Node>>>,
    paced: Paced,
    views: Views,
    /// By uid: the newest generation, and since when it is known here.
    generations: Mutex<BTreeMap<String, (i64, Instant)>>,
}

impl CustomResource for DistributedPodDisruptionBudget {
    const RESOURCE: Resource = DISTRIBUTED_POD_DISRUPTION_BUDGETS;
}

impl Read for Watched<DistributedPodDisruptionBudget> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[BY_NAMESPACE])
    }
}

impl Controller for Reads {
    const RESOURCE: Resource = DISTRIBUTED_POD_DISRUPTION_BUDGETS;
    const NAME: &'static str = "distributedpoddisruptionbudget";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            budgets: reader.read(),
            unavailable: reader.read(),
            natives: reader.read(),
            pods: reader.read(),
            nodes: reader.read(),
            paced: Paced::default(),
            views: Views::default(),
            generations: Mutex::default(),
        }
    }

    /// Wakes a budget when it changes, one of those that it names, one that may hold the same pods, one of its pods, or of their nodes.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>) {
        acting.pod_budgets.follow_distributed(self);
        let (to, all) = (queue.clone(), Arc::downgrade(&self.budgets));
        acting.pod_budgets.clusters().on_change(Box::new(move |member| {
            let all = all.upgrade().map(|all| all.all()).unwrap_or_default();
            let naming = all.iter().filter(|budget| budget.0.spec.federation.contains(member));
            naming.for_each(|budget| to.add(Key::of(&**budget)));
        }));
        let (to, on, all) = (queue.clone(), acting.clone(), self.budgets.clone());
        self.budgets.on_change(move |change| {
            if let Change::Deleted { old } = change {
                on.expectations.forget(old.uid());
                on.pod_budgets.forget(old.uid());
            }
            each(change, |budget| {
                to.add(Key::of(budget));
                wake_beside(&to, &all, budget.namespace(), budget.name());
            });
        });
        let (to, all) = (queue.clone(), self.budgets.clone());
        self.unavailable.on_change(move |change| {
            each(change, |budget| wake_beside(&to, &all, budget.namespace(), budget.name()));
        });
        let (to, all) = (queue.clone(), self.budgets.clone());
        self.natives.on_change(move |change| {
            each(change, |native| wake_beside(&to, &all, native.namespace(), native.name()));
        });
        let (to, all, holding) = (queue.clone(), self.budgets.clone(), acting.pod_budgets.clone());
        views::on_change(&self.views, &self.pods, &self.nodes, move |pod| wake_for(&to, &all, &holding, pod));
    }

    /// One count of one budget.
    async fn reconcile(&self, acting: &Acting, key: Key) -> Next {
        let is_kept = |budget: &Watched<DistributedPodDisruptionBudget>| {
            let mut finalizers = budget.0.metadata.finalizers.iter().flatten();
            !budget.terminating() || finalizers.any(|name| name == BUDGET_FLOOR)
        };
        let Some(budget) = self.budgets.get(&key.namespace, &key.name).filter(|budget| is_kept(budget)) else {
            self.views.forget(&key);
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
        let told = budget.0.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let of_either = Budget::Distributed(budget.0.clone());
        let (asked, soon) = acting.pod_budgets.asked(&of_either, told);
        snapshot.asked = asked;
        let soon = soon.or_else(|| snapshot.view.expected.is_err().then_some(UNKNOWN));
        let now = Timestamp::now();
        let (plan, new) = (decide(&snapshot, now), Some(status(&snapshot, now)));
        let old = &budget.0.status;
        let urgent = |old: &Option<_>, new: &Option<_>| new.as_ref().is_some_and(|new| is_urgent(old.as_ref(), new));
        let next = self.paced.carry_out_as_read(acting, &plan, &self.budgets, &*budget, (old, &new, urgent)).await;
        at_latest(next, soon.unwrap_or(ASKED_AGAIN))
    }
}

impl Reads {
    /// What is counted; or when to look again, where less is known than was known before.
    pub(crate) async fn observe(
        &self,
        budgets: &PodBudgets,
        budget: &Watched<DistributedPodDisruptionBudget>,
    ) -> Result<Snapshot, Next> {
        let ledger = budget.0.status.as_ref().and_then(|status| status.ledger.as_ref());
        let looks = self.views.looks(&self.pods, &self.nodes, ledger, budgets.patience())?;
        let (namespace, of_either) = (budget.namespace(), Budget::Distributed(budget.0.clone()));
        let holds = budgets.holds(&of_either);
        let all = self.pods.by_index(&pods::BY_NAMESPACE, namespace);
        let expected = match &holds.rules {
            Err(_) => Err(Unknown { message: "its spec is invalid".to_owned() }),
            Ok(_) => match budgets.wanted(&of_either, &holds, &all).await {
                Ok(expected) => Ok(expected),
                Err(Uncounted::Fault(unknown)) => Err(unknown),
                Err(Uncounted::Silent(failed)) => return Err(Next::Retry(failed.to_string())),
            },
        };
        let view =
            looks.view(budgets.client(), Key::of(budget), (all, |pod: &Pod| holds.selects(&pod.metadata)), expected);
        let view = view.await;
        let mut counted: BTreeSet<String> = view.pods.iter().map(|pod| pod.metadata.uid.to_string()).collect();
        let members = &budget.0.spec.federation;
        let others = members.iter().map(|member| self.other(budgets, &of_either, member, &mut counted));
        let (mut others, elsewhere): (Vec<Other>, Vec<Elsewhere>) = others.unzip();
        let brought = others.iter_mut().zip(&elsewhere).zip(members);
        let brought =
            brought.map(|((other, elsewhere), member)| Brought { member, elsewhere, brings: &mut other.brings });
        let sharing = count_once(&mut brought.collect::<Vec<_>>());
        for (other, counted) in others.iter_mut().zip(&sharing.counted) {
            other.shared += counted;
        }
        let natives = self.natives.by_index(&native_budgets::BY_NAMESPACE, namespace);
        let uid = budget.uid();
        Ok(Snapshot {
            budget: budget.0.clone(),
            view,
            asked: Asked::Always,
            others,
            may_share: sharing.groups,
            child: self.natives.get(namespace, budget.name()).map(|native| native.0.clone()),
            keeps: budgets.keeps(&of_either, uid, &natives),
            seen_for: self.seen_for(&budget.0.metadata),
        })
    }

    /// How long this process has known this generation of a budget. Another one in between, also by another leader, begins anew.
    fn seen_for(&self, metadata: &ObjectMeta) -> Duration {
        let (uid, generation) = (metadata.uid.clone().unwrap_or_default(), metadata.generation.unwrap_or_default());
        let mut known = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > MOST_GENERATIONS {
            known.clear();
        }
        let since = known.entry(uid).or_insert_with(|| (generation, Instant::now()));
        if since.0 != generation {
            *since = (generation, Instant::now());
        }
        since.1.elapsed()
    }

    /// What a budget of federation brings, without pods that are counted already; in another cluster, all, and what it is there.
    fn other(
        &self,
        budgets: &PodBudgets,
        budget: &Budget,
        member: &Member,
        counted: &mut BTreeSet<String>,
    ) -> (Other, Elsewhere) {
        let other = |kind, origin, brings, shared| Other { kind, origin, brings, shared, last_read: None };
        let silent = |why| (other(None, Origin::default(), Err(Silence::of(why)), 0), Elsewhere::default());
        if budgets.clusters().has(member) {
            let Known { elsewhere, brings, last_read } = budgets.clusters().last(member);
            return (Other { last_read, ..other(elsewhere.kind, Origin::default(), brings, 0) }, elsewhere);
        }
        if budget.is_named_by(member) {
            return silent(ITSELF);
        }
        let Member { namespace, name, kind, .. } = member;
        let of = |wanted: MemberKind| kind.is_none_or(|kind| kind == wanted);
        let native = || self.natives.get(namespace, name).filter(|_| of(MemberKind::PodDisruptionBudget));
        let distributed = self.budgets.get(namespace, name).filter(|_| of(MemberKind::DistributedPodDisruptionBudget));
        let unavailable =
            || self.unavailable.get(namespace, name).filter(|_| *kind == Some(MemberKind::PodUnavailableBudget));
        let (kind, origin, brings, mine): (_, _, _, Selects) = if let Some(budget) = distributed {
            let holds = budgets.holds(&Budget::Distributed(budget.0.clone()));
            let (kind, origin) = (MemberKind::DistributedPodDisruptionBudget, Origin::of(&budget.0.metadata));
            (kind, origin, Brings::of_distributed(&budget.0), Box::new(move |pod| holds.selects(&pod.metadata)))
        } else if let Some(budget) = unavailable() {
            let holds = budgets.holds(&Budget::Unavailable(budget.0.clone()));
            let (kind, origin) = (MemberKind::PodUnavailableBudget, Origin::of(&budget.0.metadata));
            (kind, origin, Brings::of_unavailable(&budget.0), Box::new(move |pod| holds.selects(&pod.metadata)))
        } else if let Some(native) = native() {
            let (kind, origin) = (MemberKind::PodDisruptionBudget, Origin::of_native(&native.0));
            (kind, origin, Brings::of_native(&native.0), Box::new(move |pod| native.0.selects(&pod.metadata)))
        } else {
            return silent(MISSING);
        };
        let pods = self.pods.by_index(&pods::BY_NAMESPACE, namespace);
        let uids = pods.iter().filter(|pod| mine(pod)).map(|pod| pod.metadata.uid.to_string());
        let shared = uids.filter(|uid| !counted.insert(uid.clone())).count();
        let brings = brings.map(|brings| brings.without(shared));
        (other(Some(kind), origin, brings, shared), Elsewhere::default())
    }
}

/// Which pods a budget holds.
type Selects = Box<dyn Fn(&Pod) -> bool>;

/// Wakes the budgets that name this one, and those of its namespace: theirs may hold the same pods.
fn wake_beside(queue: &Queue<Key>, all: &Store<Watched<DistributedPodDisruptionBudget>>, namespace: &str, name: &str) {
    for budget in all.all() {
        let names = budget.0.spec.federation.iter().any(|one| one.namespace == namespace && one.name == name);
        if names || budget.namespace() == namespace {
            queue.add(Key::of(&*budget));
        }
    }
}

/// Wakes the budgets that hold a pod; false where there is none.
fn wake_for(
    queue: &Queue<Key>,
    all: &Store<Watched<DistributedPodDisruptionBudget>>,
    holding: &PodBudgets,
    pod: &Pod,
) -> bool {
    let mut is_held = false;
    for budget in all.by_index(&BY_NAMESPACE, &pod.metadata.namespace) {
        if holding.holds(&Budget::Distributed(budget.0.clone())).selects(&pod.metadata) {
            queue.add(Key::of(&*budget));
            is_held = true;
        }
    }
    is_held
}
