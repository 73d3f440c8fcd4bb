//! `explain` of a plan: which steps the controller carries out now, and which ones a budget holds.

use std::borrow::Cow;

use berth_runtime::events::Owner;
use berth_webhook::pods::{Change, Disruption};
use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Action, Failure, Plan, Step, Target, Verb, Write};

use crate::budgets::{Budget, BudgetKey, PodBudgets};

impl PodBudgets {
    /// The copy of a budget, if `explain` has granted something from it.
    pub(in crate::budgets) fn copied(&self, budget: &BudgetKey) -> Option<Budget> {
        self.parts.copies.as_ref()?.lock().get(budget).cloned()
    }

    /// The plan without the steps that a budget refuses now, and these steps as failures: by the
    /// rules of [`Self::admitted`], and for evictions by those of the webhook. Reservations are
    /// made in copies of the ledgers.
    pub(crate) async fn explained(&self, plan: &Plan, owner: &Owner) -> (Plan, Vec<Failure>) {
        let (plan, mut held) = self.admitted(Cow::Borrowed(plan), owner).await;
        let mut plan = plan.into_owned();
        for stage in &mut plan.stages {
            let mut steps = Vec::new();
            for step in std::mem::take(&mut stage.steps) {
                match self.refused_eviction(&step).await {
                    Some(failure) => held.push(failure),
                    None => steps.push(step),
                }
            }
            stage.steps = steps;
        }
        plan.stages.retain(|stage| !stage.steps.is_empty());
        (plan, held)
    }

    /// Why the apiserver would refuse the eviction that a step asks for.
    async fn refused_eviction(&self, step: &Step) -> Option<Failure> {
        let Target {
            namespace,
            name,
            uid,
            ..
        } = step.actions.iter().find_map(|action| match action {
            Action::EvictPod { target } => Some(target),
            _ => None,
        })?;
        let disruption = Disruption {
            namespace: namespace.clone(),
            pod: name.clone(),
            uid: Some(uid.clone()),
            user: self.settings.own_user.clone(),
            change: Change::Evict,
            ..Disruption::default()
        };
        let refusal = match self.review(disruption).await {
            Ok(Some(refusal)) => refusal,
            // The webhook does not answer for a pod that no budget of ours holds.
            Ok(None) => {
                let stores = self.parts.stores.as_ref()?;
                let pod = stores.pods.get(namespace, name)?;
                self.refused_natively(stores, &pod).await.ok()??.message
            }
            Err(not_yet) => not_yet.to_string(),
        };
        Some(Failure::of_budget(
            Write::of(Verb::Evict, PODS),
            (namespace, name),
            refusal,
        ))
    }
}
