//! Who stands in line for one budget: what comes close together is decided together, and written once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use berth_runtime::Key;
use berth_runtime::client::{self, Failed};
use berth_webhook::pods::NotYet;
use berth_workload::budget::ledger::{Refused, Request, Verdict, draw, name_pods, set_numbers};
use berth_workload::budget::{Fault, Rules};
use berth_workload::merge_patch::merge_patch;
use berth_workload::resource::POD_UNAVAILABLE_BUDGETS;
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Holds, PodBudgets, UNREAD};

/// What a budget says to one request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ruling {
    /// It costs nothing.
    Free,
    /// It stands in the ledger.
    Drawn,
    /// It must not be, for this reason.
    Refused(String),
}

type Answer = Result<Ruling, NotYet>;

struct Waiting {
    request: Request,
    is_dry_run: bool,
    answer: oneshot::Sender<Answer>,
}

/// Who waits, by budget. A budget is in it while somebody works on its line.
#[derive(Default)]
pub(super) struct Lines(Arc<Mutex<BTreeMap<Key, Vec<Waiting>>>>);

/// How often a ledger is read again that somebody else wrote meanwhile.
const TRIES: usize = 12;
/// As many users of a budget a message names.
const NAMED: usize = 3;

impl Lines {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Vec<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one into the line; true if nobody works on it, so that the caller must.
    fn join(&self, key: &Key, waiting: Waiting) -> bool {
        let mut lines = self.lock();
        let is_first = !lines.contains_key(key);
        lines.entry(key.clone()).or_default().push(waiting);
        is_first
    }

    /// All that wait; the line is nobody's when there is none.
    fn next(&self, key: &Key) -> Vec<Waiting> {
        let mut lines = self.lock();
        let waiting = lines.get_mut(key).map(std::mem::take).unwrap_or_default();
        if waiting.is_empty() {
            lines.remove(key);
        }
        waiting
    }
}

impl PodBudgets {
    /// Draws from one budget.
    pub(super) async fn draw_one(&self, key: &Key, request: &Request, is_dry_run: bool) -> Answer {
        let (answer, answered) = oneshot::channel();
        if self.lines.join(key, Waiting { request: request.clone(), is_dry_run, answer }) {
            let (Some(this), key) = (self.this.upgrade(), key.clone()) else { return Err(UNREAD) };
            // Whoever asked first may give up; the others go on waiting.
            tokio::spawn(async move {
                loop {
                    let waiting = this.lines.next(&key);
                    if waiting.is_empty() {
                        return;
                    }
                    this.decide(&key, waiting).await;
                }
            });
        }
        answered.await.unwrap_or(Err(UNREAD))
    }

    async fn decide(&self, key: &Key, waiting: Vec<Waiting>) {
        let (requests, answers): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|one| ((one.request, one.is_dry_run), one.answer)).unzip();
        let rulings = self.rule(key, &requests).await;
        for (at, answer) in answers.into_iter().enumerate() {
            let ruling = rulings.as_ref().map_or_else(|error| Err(*error), |all| all.get(at).cloned().ok_or(UNREAD));
            // Nobody waits for it any more.
            let _ = answer.send(ruling);
        }
    }

    /// What the budget says to each, with what it grants written. Refused is nobody by what a store has, which may be old.
    async fn rule(&self, key: &Key, requests: &[(Request, bool)]) -> Result<Vec<Ruling>, NotYet> {
        let stored = self.stores.get().and_then(|stores| stores.budgets.get(&key.namespace, &key.name));
        let mut view = stored.map(|budget| (*budget.0).clone());
        let (mut is_live, mut total) = (false, None);
        for _ in 0..TRIES {
            let budget = match view.take() {
                Some(budget) => budget,
                None => match self.read(key).await? {
                    Some(budget) => {
                        is_live = true;
                        budget
                    }
                    None => return Ok(vec![Ruling::Free; requests.len()]),
                },
            };
            let holds = self.holds(&budget);
            let judged = judged(key, &budget, &holds, requests, total);
            let is_refused = judged.rulings.iter().any(|ruling| matches!(ruling, Ruling::Refused(_)));
            if is_refused && !is_live {
                continue;
            }
            if is_refused && total.is_none() {
                // Fewer may be expected by now: whoever scales down must not wait for the next count.
                total = self.total(&budget, &holds).await.ok();
                if total.is_some() {
                    view = Some(budget);
                    continue;
                }
            }
            if !judged.is_drawn || self.write(key, &budget, &judged.status).await? {
                return Ok(judged.rulings);
            }
            is_live = false;
        }
        Err(NotYet("of a ledger that many write"))
    }

    /// Takes back the entry of a request that another budget refused; the leader counts anew. What is not taken back expires.
    pub(super) async fn withdraw(&self, key: &Key, request: &Request) {
        for _ in 0..TRIES {
            let Ok(Some(budget)) = self.read(key).await else { return };
            let mut status = budget.status.clone().unwrap_or_default();
            let Some(ledger) = &mut status.ledger else { return };
            ledger.entries.retain(|entry| entry.uid != request.uid || entry.operation != request.operation);
            name_pods(&mut status);
            if !matches!(self.write(key, &budget, &status).await, Ok(false)) {
                return;
            }
        }
    }

    /// The budget as the apiserver has it.
    async fn read(&self, key: &Key) -> Result<Option<PodUnavailableBudget>, NotYet> {
        let Ok(path) = POD_UNAVAILABLE_BUDGETS.path(&key.namespace, &key.name) else { return Ok(None) };
        match client::get(&self.client, &path).await {
            Ok(budget) => Ok(Some(budget)),
            Err(Failed { code: 404, .. }) => Ok(None),
            Err(_) => Err(UNREAD),
        }
    }

    /// Writes a ledger as it was read; false where it was another by then.
    async fn write(
        &self,
        key: &Key,
        read: &PodUnavailableBudget,
        status: &PodUnavailableBudgetStatus,
    ) -> Result<bool, NotYet> {
        let Some(patch) = patch(read, status) else { return Ok(true) };
        let api: Api<PodUnavailableBudget> = Api::namespaced(self.client.clone(), &key.namespace);
        match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(false),
            // Who is gone holds nobody: the next look shows it.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(_) => Err(NotYet("ledgers")),
        }
    }
}

/// The patch of a ledger, which fails where it is another by then.
fn patch(read: &PodUnavailableBudget, status: &PodUnavailableBudgetStatus) -> Option<Value> {
    let (old, new) = (serde_json::to_value(&read.status).ok()?, serde_json::to_value(status).ok()?);
    let patch = merge_patch(&old, &new)?;
    let metadata = json!({"resourceVersion": read.metadata.resource_version, "uid": read.metadata.uid});
    Some(json!({"metadata": metadata, "status": patch}))
}

struct Judged {
    rulings: Vec<Ruling>,
    /// The ledger with what is granted.
    status: PodUnavailableBudgetStatus,
    /// Whether it is to be written.
    is_drawn: bool,
}

/// Judges requests by a budget as it was read, and by another total where that was asked for.
fn judged(
    key: &Key,
    budget: &PodUnavailableBudget,
    holds: &Holds,
    requests: &[(Request, bool)],
    total: Option<usize>,
) -> Judged {
    let mut status = budget.status.clone().unwrap_or_default();
    let name = format!("PodUnavailableBudget {}/{}", key.namespace, key.name);
    let rules = match &holds.rules {
        Ok(rules) => rules,
        Err(Fault { field, message }) => {
            let refused = Ruling::Refused(format!("{name} holds the pod, and cannot be counted: {field} {message}"));
            return Judged { rulings: vec![refused; requests.len()], status, is_drawn: false };
        }
    };
    if let Some(total) = total
        && let Ok(desired) = rules.amount.desired(total)
    {
        let available = usize::try_from(status.current_available).unwrap_or(0);
        set_numbers(&mut status, available, total, desired);
    }
    let (generation, now) = (budget.metadata.generation.unwrap_or_default(), Timestamp::now());
    let mut is_drawn = false;
    let mut rulings = Vec::new();
    for (request, is_dry_run) in requests {
        // A dry run is judged, and takes nothing.
        let verdict = if *is_dry_run {
            draw(&mut status.clone(), (rules, generation), request, now)
        } else {
            draw(&mut status, (rules, generation), request, now)
        };
        is_drawn |= verdict == Verdict::Drawn && !is_dry_run;
        let ruling = match verdict {
            Verdict::Free => Ruling::Free,
            Verdict::Stands | Verdict::Drawn => Ruling::Drawn,
            Verdict::Refused(why) => Ruling::Refused(refusal(&name, &status, rules, why)),
        };
        rulings.push(ruling);
    }
    Judged { rulings, status, is_drawn }
}

/// Why a pod must stay, who uses the budget up, and what helps.
fn refusal(name: &str, status: &PodUnavailableBudgetStatus, rules: &Rules, why: Refused) -> String {
    let PodUnavailableBudgetStatus { current_available, desired_available, total_replicas, .. } = status;
    let blocked = status.conditions.iter().find(|condition| condition.type_ == "Blocked");
    match (why, blocked) {
        (Refused::NotCounted, Some(blocked)) => {
            format!("{name} cannot count its pods, so none may go: {}", blocked.message)
        }
        (Refused::NotCounted, None) => {
            format!("{name} was made or changed a moment ago, and its pods are not counted yet: try again")
        }
        (Refused::TooMany, _) => {
            format!("{name} has granted as many pods as it can tell of: try again when some of them are gone")
        }
        (Refused::UsedUp, _) => {
            let entries = status.ledger.as_ref().map_or(&[][..], |ledger| &ledger.entries);
            let named = entries.iter().take(NAMED).map(|entry| {
                format!("{} ({} by {} since {})", entry.pod, entry.operation.name(), entry.holder, entry.time.0)
            });
            let mut users: Vec<_> = named.collect();
            if entries.len() > NAMED {
                users.push(format!("{} more", entries.len() - NAMED));
            }
            let used = if users.is_empty() { String::new() } else { format!("; used up by {}", users.join(", ")) };
            format!(
                "{name} allows no more pods to go: {current_available} of {total_replicas} are available and {desired_available} must \
                 be ({}){used}; try again when more are available, or change its spec",
                rules.amount.words()
            )
        }
    }
}
