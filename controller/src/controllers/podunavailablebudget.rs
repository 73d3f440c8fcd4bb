//! The PodUnavailableBudget controller: counts the pods of budgets and settles reservations. Grants
//! are made by [`crate::budgets`], on every replica.

use std::sync::Arc;

use berth_api::v1beta1::PodUnavailableBudget;
use berth_kinds::podunavailablebudget::{Snapshot, beyond, decide, is_urgent, status};
use berth_runtime::driver::Next;
use berth_runtime::object::POD_UNAVAILABLE_BUDGETS;
use berth_runtime::queue::Queue;
use berth_runtime::store::pods;
use berth_runtime::{Change, Key, Object, Resource, Store};
use berth_workload::budget::count::{Expected, Unknown};
use berth_workload::budget::native::NativeBudget;
use berth_workload::budget::webhook_calls::WebhookCalls;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use jiff::Timestamp;

use crate::budgets::BudgetStores;
use crate::budgets::expected_pods::Uncounted;
use crate::budgets::native_budgets::is_mirrored;
use crate::budgets::views::{self, Views};
use crate::budgets::{Budget, Holds, PodBudgets};
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
use serde_json::{Value, json};

/// The stores that a count reads.
pub(crate) struct PodUnavailableBudgetController {
    pub(crate) budgets: Arc<Store<Watched<PodUnavailableBudget>>>,
    pub(crate) natives: Arc<Store<Watched<NativeBudget>>>,
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) nodes: Arc<Store<Watched<Node>>>,
    status_throttle: StatusThrottle,
    views: Views,
}

impl Controller for PodUnavailableBudgetController {
    const RESOURCE: Resource = POD_UNAVAILABLE_BUDGETS;
    const NAME: &'static str = "podunavailablebudget";

    fn new(reader: &mut Reader<'_>) -> Self {
        let (status_throttle, views) = (StatusThrottle::default(), Views::default());
        Self {
            budgets: reader.read(),
            natives: reader.read(),
            pods: reader.read(),
            nodes: reader.read(),
            status_throttle,
            views,
        }
    }

    /// Wakes a budget when it, one of its pods, or one of their nodes changes.
    fn wake(&self, queue: &Arc<Queue<Key>>, context: &Arc<Context>) {
        let (to, on) = (queue.clone(), context.clone());
        self.budgets.on_change(move |change| {
            if let Change::Deleted { old } = change {
                on.expectations.forget(old.uid());
                on.pod_budgets.forget(old.uid());
            }
            on.pod_budgets
                .comes_to_count(POD_UNAVAILABLE_BUDGETS, change)
                .into_iter()
                .for_each(|key| to.add(key));
            each(change, |budget| to.add(Key::of(budget)));
        });
        let (to, budgets) = (queue.clone(), self.budgets.clone());
        // Its own native budget, or another that may hold the same pods.
        self.natives.on_change(move |change| {
            each(change, |native| {
                let beside = budgets.by_index(&by_namespace(), native.namespace());
                let mirrored = beside.iter().filter(|budget| is_mirrored(&budget.0));
                mirrored.for_each(|budget| to.add(Key::of(&**budget)));
            });
        });
        let (to, holding) = (queue.clone(), context.pod_budgets.clone());
        views::on_change(&self.views, &self.pods, &self.nodes, move |pod| {
            holding.wake_holders(POD_UNAVAILABLE_BUDGETS, pod, &to)
        });
    }

    /// One count of one budget.
    async fn reconcile(&self, context: &Context, key: Key) -> Next {
        let Some(budget) = self
            .budgets
            .get(&key.namespace, &key.name)
            .filter(|budget| !budget.terminating())
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
        let of_either = Budget::Unavailable(budget.0.clone());
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

impl PodUnavailableBudgetController {
    /// The input of a count; or when to look again, if the stores know less than an earlier count
    /// did.
    pub(crate) async fn observe(
        &self,
        budgets: &PodBudgets,
        budget: &Watched<PodUnavailableBudget>,
    ) -> Result<Snapshot, Next> {
        let ledger = budget
            .0
            .status
            .as_ref()
            .and_then(|status| status.ledger.as_ref());
        let looks = self
            .views
            .looks(&self.pods, &self.nodes, ledger, budgets.patience())?;
        let (namespace, holds) = (
            budget.namespace(),
            budgets.holds(&Budget::Unavailable(budget.0.clone())),
        );
        let all = self.pods.by_index(&pods::BY_NAMESPACE, namespace);
        let expected = match self.expected(budgets, budget, &holds, &all).await {
            Ok(expected) => Ok(expected),
            Err(Uncounted::Fault(unknown)) => Err(unknown),
            Err(Uncounted::Silent(failed)) => return Err(Next::Retry(failed.to_string())),
        };
        let selector = expected
            .as_ref()
            .ok()
            .and_then(|expected| expected.selector.clone());
        let is_selected = |pod: &Pod| {
            let by_target = selector
                .as_ref()
                .is_some_and(|selector| selector.matches(|key| pod.metadata.label(key)));
            by_target || holds.selects(&pod.metadata)
        };
        let view = looks
            .view(
                budgets.client(),
                Key::of(budget),
                (all, is_selected),
                expected,
            )
            .await;
        let natives = self.natives.by_index(&by_namespace(), namespace);
        Ok(Snapshot {
            budget: budget.0.clone(),
            view,
            webhook_calls: WebhookCalls::Always,
            child: self
                .natives
                .get(namespace, budget.name())
                .map(|native| native.0.clone()),
            keeps: budgets.keeps(
                &Budget::Unavailable(budget.0.clone()),
                budget.uid(),
                &natives,
            ),
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
            return Err(Uncounted::Fault(Unknown {
                message: "its spec is invalid".to_owned(),
            }));
        };
        let mut expected = match rules.total {
            Some(total) if budget.0.spec.target_ref.is_none() => Expected {
                total,
                selector: None,
            },
            _ => {
                budgets
                    .wanted(&Budget::Unavailable(budget.0.clone()), holds, all)
                    .await?
            }
        };
        expected.total = rules.total.unwrap_or(expected.total);
        Ok(expected)
    }
}

impl Explains for PodUnavailableBudgetController {
    type Object = PodUnavailableBudget;
    const OF_NODES: bool = true;

    async fn explain(&self, look: &Look<'_>, stores: &BudgetStores) -> anyhow::Result<Explained> {
        let Some(budget) = self.budgets.get(&look.namespaces.explained, look.name) else {
            return look.is_missing::<Self>();
        };
        let (budgets, of_either) = (look.budgets(stores), Budget::Unavailable(budget.0.clone()));
        if let Some(why) = budgets.beyond(&of_either) {
            let plan = beyond::plan(&[], &why, None);
            return Ok(look.explained::<Self>(plan, &Value::Null, &Value::Null));
        }
        let Ok(mut snapshot) = self.observe(&budgets, &budget).await else {
            bail!("the apiserver does not say how many pods are expected: try again")
        };
        // The condition says what a running controller has written.
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
