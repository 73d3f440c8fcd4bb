//! Who stands in line for one budget: what comes close together is decided together, and written once.

pub(in crate::budgets) mod queued;
pub(in crate::budgets) mod queues;
pub(in crate::budgets) mod recent_reservations;

use std::sync::Arc;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::{DeploymentReference, PodUnavailableBudgetStatus};
use berth_runtime::client;
use berth_webhook::pods::NotYet;
use berth_workload::budget::judge::Decision;
use berth_workload::budget::ledger::{Request, ask_replacement, is_dated, withdraw};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::DISTRIBUTED_POD_DISRUPTION_BUDGETS;
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::budgets::ledger_queue::queued::{Queued, QueuedRequest, Return, Waiting};
use crate::budgets::{Budget, BudgetKey, Holds, PodBudgets, UNREAD};

/// How often a ledger is read again that somebody else wrote meanwhile.
const TRIES: usize = 12;

impl PodBudgets {
    /// Draws from one budget: what that says, and the request as it sees it.
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
        self.enqueue(key, Queued::Draw(Waiting { queued, answer }));
        answered.await.unwrap_or(Err(UNREAD))
    }

    /// Puts one into a budget's line, and sees to it that somebody works on that.
    fn enqueue(&self, key: &BudgetKey, standing: Queued) {
        let Some(this) = self.this.upgrade() else {
            return;
        };
        if !self.ledgers.queue.join(key, standing) {
            return;
        }
        let key = key.clone();
        // Whoever asked first may give up; the others go on waiting.
        tokio::spawn(async move {
            while let Some(all) = this.ledgers.queue.next(&key) {
                let (mut draws, mut returns) = (Vec::new(), Vec::new());
                for standing in all {
                    match standing {
                        Queued::Draw(waiting) => draws.push(waiting),
                        Queued::Return(given) => returns.push(given),
                    }
                }
                if !returns.is_empty() {
                    this.release_all(&key, returns).await;
                }
                if !draws.is_empty() {
                    this.decide(&key, draws).await;
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
            // Nobody waits for it any more.
            let _ = answer.send(decision);
        }
    }

    /// What the budget says to each, with what it grants written. By what a store has, which may be old, nobody is refused, and nobody
    /// goes for whom nothing is written.
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
            let as_seen = |queued: &QueuedRequest| {
                let mut request = as_seen(queued, &holds);
                let is_dated_now = || is_dated(&budget.account(), &request, Timestamp::now());
                request.is_again = self.ledgers.recent.has(key, &request, is_dated_now);
                (request, queued.is_dry_run)
            };
            let requests: Vec<_> = all.iter().map(as_seen).collect();
            // A pod that does not serve may go without anything written, and so without another look.
            let is_confirmed = requests.iter().all(|(request, _)| request.is_available);
            // What is drawn by it stands only if enough are left by a look that begins when it is written: [`Self::confirm`].
            look = look.filter(|_| is_confirmed);
            let is_dry_run = all.iter().all(|queued| queued.is_dry_run);
            let others = self.members_lately(&budget, &mut look, is_dry_run).await?;
            let mut account = budget.as_judged(&name, &holds);
            let judged = account.judge(&requests, (total, &others), Timestamp::now());
            if judged.is_by_what_is_written && !is_live {
                continue;
            }
            let is_short = |decision: &Decision| {
                decision.is_refusal() || matches!(decision, Decision::Passed(_))
            };
            let is_refused = judged.decisions.iter().any(is_short);
            if is_refused && total.is_none() {
                // Fewer may be expected by now: whoever scales down must not wait for the next count.
                total = self.total(&budget, &holds).await;
                if total.is_some() {
                    view = Some(budget);
                    continue;
                }
            }
            let began = Instant::now();
            if !judged.is_drawn || self.write(key, &budget, &account.status).await? {
                self.ledgers
                    .recent
                    .note(key, requests.iter().zip(&judged.decisions), began);
                let requests = requests.into_iter().map(|(request, _)| request);
                return Ok(judged.decisions.into_iter().zip(requests).collect());
            }
            is_live = false;
        }
        Err(NotYet("of a ledger that many write"))
    }

    /// Looks at a budget and at those that it names once more, with what was drawn for a request standing; `Some` says why that must
    /// not be. Whoever drew from one of them meanwhile is seen, or sees this.
    pub(in crate::budgets) async fn confirm(
        &self,
        key: &BudgetKey,
        request: &Request,
    ) -> Result<Option<String>, NotYet> {
        let Some(budget) = self.read(key).await? else {
            return Ok(None);
        };
        // Never by an earlier look, not even of this request: each try has an entry of its own, and who drew from a member between that look
        // and this entry would neither be seen nor have seen it.
        let others = self.others(&budget).await?;
        let (name, holds) = (key.words(), self.holds(&budget));
        Ok(budget.as_judged(&name, &holds).confirm(request, &others))
    }

    /// Notes that a pod is to go when another has come; false where that cannot be noted.
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

    /// Takes back the entry of a request that another budget refused. What is not taken back expires.
    pub(in crate::budgets) async fn withdraw(&self, key: &BudgetKey, request: &Request) {
        let (request, (done, is_done)) = (request.clone(), oneshot::channel());
        self.enqueue(key, Queued::Return(Return { request, done }));
        // An error says that nobody works on it any more.
        let _ = is_done.await;
    }

    /// Takes back all that is given back, in one write: of a rollout that another budget refuses, each pod is.
    async fn release_all(&self, key: &BudgetKey, returns: Vec<Return>) {
        for _ in 0..TRIES {
            let Ok(Some(budget)) = self.read(key).await else {
                break;
            };
            let mut account = budget.account();
            returns
                .iter()
                .for_each(|one| withdraw(&mut account, &one.request));
            if !matches!(self.write(key, &budget, &account).await, Ok(false)) {
                break;
            }
        }
        for Return { done, .. } in returns {
            // Nobody waits for it any more.
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
            // One of a kind that is not served for a moment may hold the pod.
            Err(failed) if failed.is_not_found() => Ok(None),
            Err(_) => Err(UNREAD),
        }
    }

    /// Writes a ledger as it was read; false where it was another by then.
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
            // Who is gone holds nobody: the next look shows it.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(_) => Err(NotYet("ledgers")),
        }
    }
}

/// A request as a budget sees it: a pod that lacks one of the conditions that the budget asks for does not serve.
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
