//! The queue of requests of one budget: requests that arrive close together are decided together,
//! and written once.

pub(in crate::budgets) mod queued;
pub(in crate::budgets) mod queues;
pub(in crate::budgets) mod recent_reservations;

use std::borrow::Cow;
use std::sync::Arc;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::{
    DeploymentReference, PodUnavailableBudgetStatus, ProtectedOperation,
};
use berth_runtime::client;
use berth_webhook::pods::NotYet;
use berth_workload::budget::judge::Decision;
use berth_workload::budget::ledger::{Request, ask_replacement, is_dated, release};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::DISTRIBUTED_POD_DISRUPTION_BUDGETS;
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::budgets::ledger_queue::queued::{Queued, QueuedRequest, Release, Waiting};
use crate::budgets::{Budget, BudgetKey, Holds, PodBudgets, UNREAD};

/// How often a ledger is read again after another writer changed it meanwhile.
const TRIES: usize = 12;

impl PodBudgets {
    /// Reserves from one budget. Returns its decision, and the request as the budget sees it.
    pub(in crate::budgets) async fn reserve_one(
        &self,
        key: &BudgetKey,
        pod: &Arc<Pod>,
        request: Request,
        is_dry_run: bool,
    ) -> Result<(Decision, Request), NotYet> {
        let (answer, answered) = oneshot::channel();
        let queued = QueuedRequest {
            request,
            pod: pod.clone(),
            is_dry_run,
        };
        self.enqueue(key, Queued::Reserve(Waiting { queued, answer }));
        answered.await.unwrap_or(Err(UNREAD))
    }

    /// Puts a request into a budget's queue, and starts a task that works on the queue if none
    /// does.
    fn enqueue(&self, key: &BudgetKey, standing: Queued) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        if !self.ledgers.queue.join(key, standing) {
            return;
        }
        let key = key.clone();
        // A task of its own, because the caller that came first may give up while others still
        // wait.
        tokio::spawn(async move {
            while let Some(all) = this.ledgers.queue.next(&key) {
                let (mut reservations, mut releases) = (Vec::new(), Vec::new());
                for standing in all {
                    match standing {
                        Queued::Reserve(waiting) => reservations.push(waiting),
                        Queued::Release(given) => releases.push(given),
                    }
                }
                if !releases.is_empty() {
                    this.release_all(&key, releases).await;
                }
                if !reservations.is_empty() {
                    this.decide(&key, reservations).await;
                }
            }
        });
    }

    async fn decide(&self, key: &BudgetKey, waiting: Vec<Waiting>) {
        let (all, answers): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|one| (one.queued, one.answer))
            .unzip();
        let decisions = self.rule(key, &all).await;
        for (at, answer) in answers.into_iter().enumerate() {
            let decision = decisions.as_ref().map_or_else(
                |error| Err(*error),
                |all| all.get(at).cloned().ok_or(UNREAD),
            );
            // An error means that the caller no longer waits.
            let _ = answer.send(decision);
        }
    }

    /// The budget's decision on each request; what it grants is written. A stored budget may be
    /// old: by a stored budget no request is refused, or granted without a write.
    async fn rule(
        &self,
        key: &BudgetKey,
        all: &[QueuedRequest],
    ) -> Result<Vec<(Decision, Request)>, NotYet> {
        let (mut view, name) = (self.stored(key), key.words());
        let (mut is_live, mut total, mut look) = (false, None, None);
        for _ in 0..TRIES {
            let budget = match view.take() {
                Some(budget) => budget,
                None => match self.read(key).await? {
                    Some(budget) => {
                        is_live = true;
                        budget
                    }
                    None => {
                        return Ok(all
                            .iter()
                            .map(|queued| (Decision::Free, queued.request.clone()))
                            .collect());
                    }
                },
            };
            let holds = self.holds(&budget);
            let all = self.as_of_now(all, &holds).await?;
            let as_seen = |queued: &QueuedRequest| {
                let mut request = as_seen(queued, &holds);
                let is_dated_now = || is_dated(&budget.account(), &request, Timestamp::now());
                request.is_again = self.ledgers.recent.has(key, &request, is_dated_now);
                (request, queued.is_dry_run)
            };
            let requests: Vec<_> = all.iter().map(|queued| as_seen(queued)).collect();
            // A pod that does not serve may go without a reservation, and therefore without a
            // second read of the members.
            let is_confirmed = requests.iter().all(|(request, _)| request.is_available);
            // A recent read is enough here: a reservation stands only if enough pods are left by a
            // read that begins after the write. [`Self::confirm`] does that read.
            look = look.filter(|_| is_confirmed);
            let is_dry_run = all.iter().all(|queued| queued.is_dry_run);
            let others = self.members_lately(&budget, &mut look, is_dry_run).await?;
            let mut account = budget.as_judged(&name, &holds);
            let decided = account.judge(&requests, (total, &others), Timestamp::now());
            if decided.is_by_what_is_written && !is_live {
                continue;
            }
            let is_short = |decision: &Decision| {
                decision.is_refusal() || matches!(decision, Decision::Passed(_))
            };
            let is_refused = decided.decisions.iter().any(is_short);
            if is_refused && total.is_none() {
                // Workloads may expect fewer pods by now: a scale-down must not wait for the next
                // count.
                total = self.total(&budget, &holds).await;
                if total.is_some() {
                    view = Some(budget);
                    continue;
                }
            }
            let began = Instant::now();
            if !decided.is_reserved || self.write(key, &budget, &account.status).await? {
                self.ledgers
                    .recent
                    .note(key, requests.iter().zip(&decided.decisions), began);
                let requests = requests.into_iter().map(|(request, _)| request);
                return Ok(decided.decisions.into_iter().zip(requests).collect());
            }
            is_live = false;
        }
        Err(NotYet("of a ledger that many write"))
    }

    /// The requests, with pods to evict that were out of service as the apiserver has them now: the
    /// numbers that the budget was read with may count such a pod, which serves again. Other
    /// requests are carried out only on the version of the pod that they show.
    async fn as_of_now<'a>(
        &self,
        all: &'a [QueuedRequest],
        holds: &Holds,
    ) -> Result<Vec<Cow<'a, QueuedRequest>>, NotYet> {
        let mut now = Vec::with_capacity(all.len());
        for queued in all {
            let is_down = !as_seen(queued, holds).is_available;
            let is_eviction = queued.request.operation == ProtectedOperation::Evict;
            now.push(if is_eviction && is_down && self.parts.copies.is_none() {
                Cow::Owned(self.read_again(queued).await?)
            } else {
                Cow::Borrowed(queued)
            });
        }
        Ok(now)
    }

    /// Reads a budget and its members again after the reservation of a request was written; `Some`
    /// says why the reservation must not stand. Of two requests that reserve from these budgets at
    /// the same time, at least one sees the other.
    pub(in crate::budgets) async fn confirm(
        &self,
        key: &BudgetKey,
        request: &Request,
    ) -> Result<Option<String>, NotYet> {
        let Some(budget) = self.read(key).await? else {
            return Ok(None);
        };
        // An earlier read is never enough, not even one of this request. Each try has an entry of
        // its own. A request that reserved from a member between that read and this entry would not
        // be seen, and would not have seen this entry.
        let others = self.others(&budget).await?;
        let (name, holds) = (key.words(), self.holds(&budget));
        Ok(budget.as_judged(&name, &holds).confirm(request, &others))
    }

    /// Notes that a pod is to go once it has a replacement; false if that cannot be noted.
    pub(in crate::budgets) async fn note_replacement(
        &self,
        key: &BudgetKey,
        request: &Request,
        deployment: Option<&DeploymentReference>,
    ) -> bool {
        for _ in 0..TRIES {
            let Ok(Some(budget)) = self.read(key).await else {
                return false;
            };
            let mut account = budget.account();
            let is_new = ask_replacement(&mut account, request, deployment, Timestamp::now());
            let is_noted = || {
                let mut all = account
                    .ledger
                    .iter()
                    .flat_map(|ledger| &ledger.replacements);
                all.any(|one| one.uid == request.uid)
            };
            if !is_new {
                return is_noted();
            }
            match self.write(key, &budget, &account).await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Releases the reservation of a request that another budget refused. A reservation that is not
    /// released expires.
    pub(in crate::budgets) async fn release_one(&self, key: &BudgetKey, request: &Request) {
        let (request, (done, is_done)) = (request.clone(), oneshot::channel());
        self.enqueue(key, Queued::Release(Release { request, done }));
        // An error means that no task works on the queue any more.
        let _ = is_done.await;
    }

    /// Releases reservations in one write. A rollout that another budget refuses releases one for
    /// each pod.
    async fn release_all(&self, key: &BudgetKey, releases: Vec<Release>) {
        for _ in 0..TRIES {
            let Ok(Some(budget)) = self.read(key).await else {
                break;
            };
            let mut account = budget.account();
            releases
                .iter()
                .for_each(|one| release(&mut account, &one.request));
            if !matches!(self.write(key, &budget, &account).await, Ok(false)) {
                break;
            }
        }
        for Release { done, .. } in releases {
            // An error means that the caller no longer waits.
            let _ = done.send(());
        }
    }

    /// The budget as the apiserver has it.
    async fn read(&self, budget: &BudgetKey) -> Result<Option<Budget>, NotYet> {
        if let Some(copy) = self.copied(budget) {
            return Ok(Some(copy));
        }
        let BudgetKey { resource, key } = budget;
        let Ok(path) = resource.path(&key.namespace, &key.name) else {
            return Ok(None);
        };
        match client::get::<Box<RawValue>>(&self.parts.client, &path).await {
            Ok(text) => Budget::read(resource.plural, text.get())
                .map(Some)
                .ok_or(UNREAD),
            // Only a missing object is `None`: if the kind is not served for a moment, the budget
            // may still hold the pod.
            Err(failed) if failed.is_not_found() => Ok(None),
            Err(_) => Err(UNREAD),
        }
    }

    /// Writes a ledger if it is still the one that was read; false if another writer changed it.
    async fn write(
        &self,
        key: &BudgetKey,
        read: &Budget,
        account: &PodUnavailableBudgetStatus,
    ) -> Result<bool, NotYet> {
        if let Some(copies) = self.parts.copies.as_ref() {
            let mut copies = copies.lock();
            copies.insert(key.clone(), read.with_account(account));
            return Ok(true);
        }
        let Some(patch) = read.patch(account) else {
            return Ok(true);
        };
        let (namespace, name, patch) = (&key.key.namespace, &key.key.name, &Patch::Merge(patch));
        let (client, write) = (self.parts.client.clone(), PatchParams::default());
        let written = if key.resource == DISTRIBUTED_POD_DISRUPTION_BUDGETS {
            let api = Api::<DistributedPodDisruptionBudget>::namespaced(client, namespace);
            api.patch_status(name, &write, patch).await.map(drop)
        } else {
            let api = Api::<PodUnavailableBudget>::namespaced(client, namespace);
            api.patch_status(name, &write, patch).await.map(drop)
        };
        match written {
            Ok(()) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            // A deleted budget holds no pod: the next read shows that it is gone.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(_) => Err(NotYet("ledgers")),
        }
    }
}

/// A request as a budget sees it: a pod that lacks one of the conditions that the budget asks for
/// does not serve.
fn as_seen(QueuedRequest { request, pod, .. }: &QueuedRequest, holds: &Holds) -> Request {
    let is_healthy = holds
        .rules
        .as_ref()
        .is_ok_and(|rules| rules.finds_healthy(pod));
    Request {
        is_available: request.is_available && is_healthy,
        ..request.clone()
    }
}

#[cfg(test)]
mod tests;
