//! The DistributedPodDisruptionBudget controller: counts the budget's own pods, settles
//! reservations, and maintains the native budget that shows the result. Grants are made by
//! [`crate::budgets`], on every replica.

mod members;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::names::finalizer::BUDGET_FLOOR;
use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_kinds::distributedpoddisruptionbudget::{Snapshot, beyond, decide, is_urgent, status};
use berth_runtime::driver::Next;
use berth_runtime::object::DISTRIBUTED_POD_DISRUPTION_BUDGETS;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Resource, Store};
use berth_workload::budget::count::Unknown;
use berth_workload::budget::native::NativeBudget;
use berth_workload::budget::webhook_calls::WebhookCalls;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::budgets::BudgetStores;
use crate::budgets::expected_pods::Uncounted;
use crate::budgets::views::{self, Views};
use crate::budgets::{Budget, PodBudgets, reported};
use crate::context::Context;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::reconcile::controller::Controller;
use crate::status::throttle::{StatusThrottle, at_latest, awaited_pace, nothing_is_urgent};
use crate::stores::reads::Reader;
use crate::stores::triggers::each;
use crate::stores::watched::Watched;
use crate::stores::watched::by_namespace;
use anyhow::bail;
use berth_workload::budget::beyond;
use members::{Here, Naming};
use serde_json::{Value, json};

/// The most budgets whose generation is remembered. A forgotten budget keeps a lowered floor for
/// longer.
const MOST_GENERATIONS: usize = 10_000;

/// The stores that a count reads.
pub(crate) struct DistributedPodDisruptionBudgetController {
    pub(crate) budgets: Arc<Store<Watched<DistributedPodDisruptionBudget>>>,
    pub(crate) unavailable: Arc<Store<Watched<PodUnavailableBudget>>>,
    pub(crate) natives: Arc<Store<Watched<NativeBudget>>>,
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) nodes: Arc<Store<Watched<Node>>>,
    status_throttle: StatusThrottle,
    views: Views,
    /// By uid: the newest generation, and when this process first saw it.
    generations: Mutex<BTreeMap<String, (i64, Instant)>>,
}

impl Controller for DistributedPodDisruptionBudgetController {
    const RESOURCE: Resource = DISTRIBUTED_POD_DISRUPTION_BUDGETS;
    const NAME: &'static str = "distributedpoddisruptionbudget";

    fn new(reader: &mut Reader<'_>) -> Self {
        Self {
            budgets: reader.read(),
            unavailable: reader.read(),
            natives: reader.read(),
            pods: reader.read(),
            nodes: reader.read(),
            status_throttle: StatusThrottle::default(),
            views: Views::default(),
            generations: Mutex::default(),
        }
    }

    /// Wakes a budget when it changes, one of its members, a budget that may hold the same pods,
    /// one of its pods, or one of their nodes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, all) = (queue.clone(), Arc::downgrade(&self.budgets));
        context
            .pod_budgets
            .clusters()
            .on_change(Box::new(move |member| {
                let all = all.upgrade().map(|all| all.all()).unwrap_or_default();
                let naming = all
                    .iter()
                    .filter(|budget| budget.0.spec.federation.contains(member));
                naming.for_each(|budget| to.add(Key::of(&**budget)));
            }));
        let (to, on, all) = (queue.clone(), context.clone(), self.budgets.clone());
        self.budgets.on_change(move |change| {
            if let Change::Deleted { old } = change {
                on.expectations.forget(old.uid());
                on.pod_budgets.forget(old.uid());
            }
            on.pod_budgets
                .comes_to_count(DISTRIBUTED_POD_DISRUPTION_BUDGETS, change)
                .into_iter()
                .for_each(|key| to.add(key));
            each(change, |budget| {
                to.add(Key::of(budget));
                wake_beside(&to, &all, budget.namespace(), budget.name());
            });
        });
        let (to, all) = (queue.clone(), self.budgets.clone());
        self.unavailable.on_change(move |change| {
            each(change, |budget| {
                wake_beside(&to, &all, budget.namespace(), budget.name())
            });
        });
        let (to, all) = (queue.clone(), self.budgets.clone());
        self.natives.on_change(move |change| {
            each(change, |native| {
                wake_beside(&to, &all, native.namespace(), native.name())
            });
        });
        let (to, holding) = (queue.clone(), context.pod_budgets.clone());
        views::on_change(&self.views, &self.pods, &self.nodes, move |pod| {
            holding.wake_holders(DISTRIBUTED_POD_DISRUPTION_BUDGETS, pod, &to)
        });
    }

    /// One count of one budget.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let is_kept = |budget: &Watched<DistributedPodDisruptionBudget>| {
            let mut finalizers = budget.0.metadata.finalizers.iter().flatten();
            !budget.terminating() || finalizers.any(|name| name == BUDGET_FLOOR)
        };
        let Some(budget) = self
            .budgets
            .get(&key.namespace, &key.name)
            .filter(|budget| is_kept(budget))
        else {
            self.views.forget(&key);
            return Next::Done;
        };
        let budget = match context.seen(&self.budgets, &*budget).await {
            Ok(budget) => budget,
            Err(next) => return next,
        };
        let (old, budgets) = (&budget.0.status, &context.pod_budgets);
        let conditions = old.as_ref().map_or(&[][..], |status| &status.conditions);
        let of_either = Budget::Distributed(budget.0.clone());
        if let Some(why) = budgets.beyond(&of_either) {
            let child = self.natives.get(budget.namespace(), budget.name());
            let (plan, new) = beyond(
                &budget.0,
                child.as_ref().map(|native| &*native.0),
                &why,
                Timestamp::now(),
            );
            let written = (old, &Some(new), nothing_is_urgent, None);
            return self
                .status_throttle
                .carry_out_as_read(context, &plan, &self.budgets, &*budget, written)
                .await;
        }
        let mut snapshot = match self.observe(budgets, &budget).await {
            Ok(snapshot) => snapshot,
            Err(next) => return next,
        };
        let (webhook_calls, soon) = budgets.webhook_calls(&of_either, conditions);
        snapshot.webhook_calls = webhook_calls;
        let now = Timestamp::now();
        let again = || budgets.recheck_delay(&of_either, &snapshot.view, conditions);
        let soon = soon.unwrap_or_else(again);
        let (plan, new) = (decide(&snapshot, now), Some(status(&snapshot, now)));
        let urgent = |old: &Option<_>, new: &Option<_>| {
            new.as_ref().is_some_and(|new| is_urgent(old.as_ref(), new))
        };
        let is_awaited = budgets.is_awaited(&of_either);
        let pace = is_awaited.then(|| awaited_pace(snapshot.view.pods.len()));
        let written = (old, &new, urgent, pace);
        let next = self
            .status_throttle
            .carry_out_as_read(context, &plan, &self.budgets, &*budget, written)
            .await;
        at_latest(next, budgets.counted_again(&key.namespace, soon))
    }
}

impl DistributedPodDisruptionBudgetController {
    /// The input of a count; or when to look again, if the stores know less than an earlier count
    /// did.
    pub(crate) async fn observe(
        &self,
        budgets: &PodBudgets,
        budget: &Watched<DistributedPodDisruptionBudget>,
    ) -> Result<Snapshot, Next> {
        let ledger = budget
            .0
            .status
            .as_ref()
            .and_then(|status| status.ledger.as_ref());
        let looks = self
            .views
            .looks(&self.pods, &self.nodes, ledger, budgets.patience())?;
        let (namespace, of_either) = (budget.namespace(), Budget::Distributed(budget.0.clone()));
        let holds = budgets.holds(&of_either);
        let all = self.pods.by_index(&pods::BY_NAMESPACE, namespace);
        let expected = match &holds.rules {
            Err(_) => Err(Unknown {
                message: "its spec is invalid".to_owned(),
            }),
            Ok(_) => match budgets.wanted(&of_either, &holds, &all).await {
                Ok(expected) => Ok(expected),
                Err(Uncounted::Fault(unknown)) => Err(unknown),
                Err(Uncounted::Silent(failed)) => return Err(Next::Retry(failed.to_string())),
            },
        };
        let view = looks.view(
            budgets.client(),
            Key::of(budget),
            (all, |pod: &Pod| holds.selects(&pod.metadata)),
            expected,
        );
        let view = view.await;
        let members = &budget.0.spec.federation;
        let here = Here {
            budgets: &self.budgets,
            unavailable: &self.unavailable,
            natives: &self.natives,
            pods: &self.pods,
        };
        let naming = Naming {
            budget: &of_either,
            namespace,
            members,
            holds: &holds,
            view: &view,
        };
        let (others, may_share) = naming.others(&here, budgets).await?;
        let natives = self.natives.by_index(&by_namespace(), namespace);
        let uid = budget.uid();
        Ok(Snapshot {
            budget: budget.0.clone(),
            view,
            webhook_calls: WebhookCalls::Always,
            others,
            may_share,
            child: self
                .natives
                .get(namespace, budget.name())
                .map(|native| native.0.clone()),
            keeps: budgets.keeps(&of_either, uid, &natives),
            seen_for: self.seen_for(&budget.0.metadata),
        })
    }

    /// How long this process has known this generation of a budget. Any other generation in
    /// between, also by another leader's write, starts this anew.
    fn seen_for(&self, metadata: &ObjectMeta) -> Duration {
        let (uid, generation) = (
            metadata.uid.clone().unwrap_or_default(),
            metadata.generation.unwrap_or_default(),
        );
        let mut known = self.generations.lock();
        if known.len() > MOST_GENERATIONS {
            known.clear();
        }
        let since = known
            .entry(uid)
            .or_insert_with(|| (generation, Instant::now()));
        if since.0 != generation {
            *since = (generation, Instant::now());
        }
        since.1.elapsed()
    }
}

/// Wakes the budgets that name this one, and the budgets of its namespace, because they may hold
/// the same pods.
fn wake_beside(
    queue: &Queue<Key>,
    all: &Store<Watched<DistributedPodDisruptionBudget>>,
    namespace: &str,
    name: &str,
) {
    for budget in all.all() {
        let names = budget
            .0
            .spec
            .federation
            .iter()
            .any(|one| one.namespace == namespace && one.name == name);
        if names || budget.namespace() == namespace {
            queue.add(Key::of(&*budget));
        }
    }
}

impl Explains for DistributedPodDisruptionBudgetController {
    type Object = DistributedPodDisruptionBudget;
    const OF_NODES: bool = true;

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(budget) = self.budgets.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let (budgets, of_either) = (look.budgets(stores), Budget::Distributed(budget.0.clone()));
        if let Some(why) = budgets.beyond(&of_either) {
            let plan = beyond::plan(&[], &why, None);
            return Ok(look.explained::<Self>(plan, &Value::Null, &Value::Null));
        }
        let Ok(mut snapshot) = self.observe(&budgets, &budget).await else {
            bail!("the apiserver does not say how many pods are expected: try again")
        };
        // Budgets of other namespaces are read by name.
        let Ok(others) = budgets.others(&of_either).await else {
            bail!("the apiserver does not say what the budgets of spec.federation have: try again")
        };
        for ((other, brings), member) in snapshot
            .others
            .iter_mut()
            .zip(others)
            .zip(&budget.0.spec.federation)
        {
            other.brings = brings;
            if budgets.clusters().has(member) {
                *other = reported(&budget.0, member);
            }
        }
        let conditions = budget.0.status.iter().flat_map(|status| &status.conditions);
        snapshot.webhook_calls = WebhookCalls::from_conditions(conditions);
        let now = Timestamp::now();
        let plan = decide(&snapshot, now);
        let status = status(&snapshot, now);
        let explained = look.explained::<Self>(plan, &json!(status), &json!(budget.0.status));
        look.with_drains(explained, &budgets, &of_either, stores)
            .await
    }
}
