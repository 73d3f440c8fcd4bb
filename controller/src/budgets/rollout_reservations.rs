//! Reservations for Berth's own changes of pods: a step reserves before it is carried out, or is
//! left out.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_runtime::events::Owner;
use berth_webhook::pods::NotYet;
use berth_workload::budget::disruption;
use berth_workload::budget::judge::Decision;
use berth_workload::budget::ledger::Request;
use berth_workload::budget::webhook_calls::is_reviewed;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Failure, Plan, Step, Verb, Write};
use futures::future::join_all;

use crate::budgets::catalog::holding::{Holding, Looked};
use crate::budgets::reserve::Refusal;
use crate::budgets::review::disruption::ids;
use crate::budgets::{BudgetKey, BudgetStores, PodBudgets, UNREAD};

/// How long a plan waits for budgets that this process has not read yet, and how often it checks.
const READ_WITHIN: Duration = Duration::from_secs(5);
const LOOKS: u32 = 100;

impl PodBudgets {
    /// Waits until all budgets are known. Without it a controller that has read its own objects
    /// first would act without any reservation.
    async fn until_read(&self) -> bool {
        for _ in 0..LOOKS {
            if self.is_synced() {
                return true;
            }
            tokio::time::sleep(READ_WITHIN / LOOKS).await;
        }
        self.is_synced()
    }

    /// The plan without the steps that would take a pod out of service against a budget; and those
    /// steps, as failures. For the other steps it reserves: one write for each budget, before any
    /// pod is changed.
    pub(crate) async fn admitted<'a>(
        &self,
        plan: Cow<'a, Plan>,
        owner: &Owner,
    ) -> (Cow<'a, Plan>, Vec<Failure>) {
        let is_needless = self.is_synced() && !self.has_budgets();
        let Some(stores) = self.parts.stores.as_ref().filter(|_| !is_needless) else {
            return (plan, Vec::new());
        };
        let disruption =
            |step| disruption::of_step(step).filter(|(_, operation)| self.asks_for(*operation));
        let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
        if !steps.clone().any(|step| disruption(step).is_some()) {
            return (plan, Vec::new());
        }
        if !self.until_read().await {
            let unread = |step| {
                let (target, operation) = disruption(step)?;
                Some((
                    target.uid.clone(),
                    held(
                        operation,
                        (&target.namespace, &target.name),
                        UNREAD.to_string(),
                    ),
                ))
            };
            let refused = steps.filter_map(unread).collect();
            return without(plan, refused);
        }
        let stepped: Vec<_> = steps
            .filter_map(|step| {
                let (target, operation) = disruption(step)?;
                let pod = stores.pods.get(&target.namespace, &target.name)?;
                (*pod.metadata.uid == *target.uid).then_some((step, pod, operation))
            })
            .collect();
        let namespaces = stepped
            .iter()
            .map(|(_, pod, _)| pod.metadata.namespace.clone())
            .collect();
        let unseen = &self.uncached_in(namespaces).await;
        let reservations = stepped.into_iter().map(|(step, pod, operation)| {
            self.reserve_for_step(stores, unseen, pod, (step, operation), owner)
        });
        let refused = join_all(reservations).await.into_iter().flatten().collect();
        without(plan, refused)
    }

    /// Reserves for containers of a pod that are restarted; `Some` says why they must not be.
    pub(crate) async fn held_restart(
        &self,
        pod: &Arc<Pod>,
        owner: &Owner,
        containers: &[&str],
    ) -> Option<String> {
        let stores = self
            .parts
            .stores
            .as_ref()
            .filter(|_| self.asks_for(ProtectedOperation::Update))?;
        if containers.is_empty() {
            return None;
        }
        if !self.until_read().await {
            return Some(UNREAD.to_string());
        }
        let reserved = async {
            let holding = self.holding(&pod.metadata).await?;
            if holding.is_free() {
                return Ok(None);
            }
            let request = self
                .request(stores, pod, ProtectedOperation::Update, holder(owner))
                .await?;
            let container_ids = ids(pod, |name| containers.contains(&name));
            // The pod object itself does not change. The change shows in its container IDs.
            let request = Request {
                generation: None,
                container_ids,
                ..request
            };
            self.reserve_unless_refused(pod, &holding, &request, owner)
                .await
        };
        let refusal = reserved
            .await
            .unwrap_or_else(|not_yet: NotYet| Some(not_yet.to_string().into()));
        refusal.map(|refusal| self.waits(owner, refusal))
    }

    /// Reserves for an object of ours, which may have tried before. A budget that recently refused
    /// it is checked by a dry run first. Otherwise each try would write to the other budgets twice,
    /// and cause a count.
    async fn reserve_unless_refused(
        &self,
        pod: &Arc<Pod>,
        holding: &Holding,
        request: &Request,
        owner: &Owner,
    ) -> Result<Option<Refusal>, NotYet> {
        let is_one_of_many = |key: &&BudgetKey| {
            holding.keys.len() > 1 && self.ledgers.waiters.is_waiting(key, owner)
        };
        for key in holding.keys.iter().filter(is_one_of_many) {
            let (decision, _) = self.reserve_one(key, pod, request.clone(), true).await?;
            if let Decision::Refused(message) | Decision::UsedUp(message) = decision
                && !self.is_garbage_that_goes(pod, request).await
            {
                return Ok(Some(Refusal {
                    by: Some(key.clone()),
                    message,
                }));
            }
        }
        self.reserve(pod, holding, request, false).await
    }

    /// Registers the object to be woken when the refusing budget has capacity again. Returns the
    /// refusal.
    fn waits(&self, owner: &Owner, Refusal { by, message }: Refusal) -> String {
        by.iter()
            .for_each(|budget| self.ledgers.waiters.note(budget, owner));
        message
    }

    /// Whether budgets decide on this operation.
    pub(in crate::budgets) fn asks_for(&self, operation: ProtectedOperation) -> bool {
        is_reviewed(operation, self.settings.gates)
    }

    /// The budgets that the stores lack, by namespace: one read for each namespace serves all steps
    /// of a plan.
    async fn uncached_in(&self, namespaces: BTreeSet<Box<str>>) -> BTreeMap<Box<str>, Looked> {
        let looks = namespaces.into_iter().map(async |namespace| {
            let looked = self.unseen(&namespace).await;
            (namespace, looked)
        });
        join_all(looks).await.into_iter().collect()
    }

    /// Reserves for a workload of ours; if the pod must stay, its uid and the reason.
    async fn reserve_for_step(
        &self,
        stores: &BudgetStores,
        unseen: &BTreeMap<Box<str>, Looked>,
        pod: Arc<Pod>,
        (step, operation): (&Step, ProtectedOperation),
        owner: &Owner,
    ) -> Option<(String, Failure)> {
        let reserved = async {
            let unseen = unseen
                .get(&pod.metadata.namespace)
                .cloned()
                .unwrap_or(Err(UNREAD))?;
            let holding = self.holding_with(&pod.metadata, &unseen);
            if holding.is_free() {
                return Ok(None);
            }
            let mut request = self.request(stores, &pod, operation, holder(owner)).await?;
            let replaced = disruption::replaced(step);
            request.container_ids = ids(&pod, |name| replaced.contains(name));
            if disruption::only_restarts(step) {
                request.generation = None;
            }
            if disruption::is_own_workload(&pod.metadata, &owner.resource, &owner.uid) {
                request = request.by_own_workload(&pod);
            }
            self.reserve_unless_refused(&pod, &holding, &request, owner)
                .await
        };
        let refusal = match reserved.await {
            Ok(refusal) => self.waits(owner, refusal?),
            Err(not_yet) => not_yet.to_string(),
        };
        let of_pod = (&*pod.metadata.namespace, &*pod.metadata.name);
        Some((
            pod.metadata.uid.to_string(),
            held(operation, of_pod, refusal),
        ))
    }
}

/// The name of the requester in ledgers.
fn holder(owner: &Owner) -> String {
    format!("{} {}/{}", owner.resource.kind, owner.namespace, owner.name)
}

/// The failure of a step that is left out.
fn held(operation: ProtectedOperation, pod: (&str, &str), why: String) -> Failure {
    let verb = if operation.is_change() {
        Verb::Patch
    } else {
        Verb::Delete
    };
    Failure::of_budget(Write::of(verb, PODS), pod, why)
}

/// The plan without steps on these pods, by uid; and the reasons.
fn without(
    plan: Cow<'_, Plan>,
    refused: BTreeMap<String, Failure>,
) -> (Cow<'_, Plan>, Vec<Failure>) {
    if refused.is_empty() {
        return (plan, Vec::new());
    }
    let mut plan = plan.into_owned();
    for stage in &mut plan.stages {
        stage.steps.retain(|step| {
            disruption::of_step(step)
                .is_none_or(|(target, _)| !refused.contains_key(target.uid.as_str()))
        });
    }
    (Cow::Owned(plan), refused.into_values().collect())
}
