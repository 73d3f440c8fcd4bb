//! Who stands in line for one budget: what comes close together is decided together, and written once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::PodUnavailableBudget;
use berth_api::v1beta1::podunavailablebudget::{DeploymentReference, PodUnavailableBudgetStatus};
use berth_runtime::client::{self, Failed};
use berth_webhook::pods::NotYet;
use berth_workload::budget::federation::{Brings, Silence, Whole};
use berth_workload::budget::ledger::{
    Refused, Request, Verdict, ask_replacement, draw, set_numbers, stands, told, withdraw,
};
use berth_workload::budget::{Fault, Rules};
use berth_workload::pod::Pod;
use berth_workload::resource::DISTRIBUTED_POD_DISRUPTION_BUDGETS;
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use tokio::sync::oneshot;

use super::{Budget, BudgetKey, Holds, PodBudgets, UNREAD};

/// What a budget says to one request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ruling {
    /// It costs nothing.
    Free,
    /// It stands in the ledger.
    Drawn,
    /// It must not be, for this reason.
    Refused(String),
    /// The same, and only because as many are out of service as may be.
    UsedUp(String),
}

impl Ruling {
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::UsedUp(_))
    }
}

type Answer = Result<Ruling, NotYet>;

struct Waiting {
    request: Request,
    is_dry_run: bool,
    answer: oneshot::Sender<Answer>,
}

/// Who waits, by budget. A budget is in it while somebody works on its line.
#[derive(Default)]
pub(super) struct Lines(Arc<Mutex<BTreeMap<BudgetKey, Vec<Waiting>>>>);

/// How often a ledger is read again that somebody else wrote meanwhile.
const TRIES: usize = 12;
/// As many users of a budget a message names.
const NAMED: usize = 3;

impl Lines {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<BudgetKey, Vec<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one into the line; true if nobody works on it, so that the caller must.
    fn join(&self, key: &BudgetKey, waiting: Waiting) -> bool {
        let mut lines = self.lock();
        let is_first = !lines.contains_key(key);
        lines.entry(key.clone()).or_default().push(waiting);
        is_first
    }

    /// All that wait; the line is nobody's when there is none.
    fn next(&self, key: &BudgetKey) -> Vec<Waiting> {
        let mut lines = self.lock();
        let waiting = lines.get_mut(key).map(std::mem::take).unwrap_or_default();
        if waiting.is_empty() {
            lines.remove(key);
        }
        waiting
    }
}

impl PodBudgets {
    /// Draws from one budget: what that says, and the request as it sees it.
    pub(super) async fn draw_one(
        &self,
        key: &BudgetKey,
        pod: &Pod,
        request: &Request,
        is_dry_run: bool,
    ) -> Result<(Ruling, Request), NotYet> {
        let holds = self.stored(key).map(|budget| self.holds(&budget));
        let seen = as_seen(request, holds.as_deref(), pod);
        let (request, (answer, answered)) = (seen.clone(), oneshot::channel());
        if self.lines.join(key, Waiting { request, is_dry_run, answer }) {
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
        Ok((answered.await.unwrap_or(Err(UNREAD))?, seen))
    }

    async fn decide(&self, key: &BudgetKey, waiting: Vec<Waiting>) {
        let (requests, answers): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|one| ((one.request, one.is_dry_run), one.answer)).unzip();
        let rulings = self.rule(key, &requests).await;
        for (at, answer) in answers.into_iter().enumerate() {
            let ruling = rulings.as_ref().map_or_else(|error| Err(*error), |all| all.get(at).cloned().ok_or(UNREAD));
            // Nobody waits for it any more.
            let _ = answer.send(ruling);
        }
    }

    /// What the budget says to each, with what it grants written. By what a store has, which may be old, nobody is refused, and nobody
    /// goes for whom nothing is written.
    async fn rule(&self, key: &BudgetKey, requests: &[(Request, bool)]) -> Result<Vec<Ruling>, NotYet> {
        let mut view = self.stored(key);
        let (mut is_live, mut total, mut look) = (false, None, None);
        // A pod that does not serve may go without anything written, and so without another look.
        let is_confirmed = requests.iter().all(|(request, _)| request.is_available);
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
            // What is drawn by it stands only if enough are left by a look that begins when it is written: [`Self::confirm`].
            look = look.filter(|_| is_confirmed);
            let others = self.others_lately(&budget, &mut look).await?;
            let judged = judged(key, &budget, &holds, requests, (total, &others));
            if judged.is_by_what_is_written && !is_live {
                continue;
            }
            let is_refused = judged.rulings.iter().any(Ruling::is_refusal);
            if is_refused && total.is_none() {
                // Fewer may be expected by now: whoever scales down must not wait for the next count.
                total = self.total(&budget, &holds).await;
                if total.is_some() {
                    view = Some(budget);
                    continue;
                }
            }
            if !judged.is_drawn || self.write(key, &budget, &judged.account).await? {
                return Ok(judged.rulings);
            }
            is_live = false;
        }
        Err(NotYet("of a ledger that many write"))
    }

    /// Looks at a budget and at those that it names once more, with what was drawn for a request standing; `Some` says why that must
    /// not be. Whoever drew from one of them meanwhile is seen, or sees this.
    pub(super) async fn confirm(&self, key: &BudgetKey, request: &Request) -> Result<Option<String>, NotYet> {
        let Some(budget) = self.read(key).await? else { return Ok(None) };
        let account = budget.account();
        let name = key.words();
        if !stands(&account, request) {
            return Ok(Some(format!("what {name} granted has been dropped meanwhile: try again")));
        }
        if matches!(budget, Budget::Unavailable(_)) {
            return Ok(None);
        }
        // Never by an earlier look, not even of this request: each try has an entry of its own, and who drew from a member between that look
        // and this entry would neither be seen nor have seen it.
        let others = self.others(&budget).await?;
        let holds = self.holds(&budget);
        let own = usize::try_from(account.current_available).unwrap_or(0);
        let expected = usize::try_from(account.total_replicas).unwrap_or(0);
        let whole = holds
            .rules
            .as_ref()
            .ok()
            .and_then(|rules| Whole::of(&rules.amount, (expected, budget.floor()), &others).ok());
        // One that was not healthy takes nothing.
        let is_enough = !request.is_available || whole.is_some_and(|whole| own >= whole.left_to_own());
        Ok((!is_enough)
            .then(|| format!("{name} or a budget that it names has let another pod go at the same moment: try again")))
    }

    /// Notes that a pod is to go when another has come; false where that cannot be noted.
    pub(super) async fn note_replacement(
        &self,
        key: &BudgetKey,
        request: &Request,
        deployment: Option<&DeploymentReference>,
    ) -> bool {
        for _ in 0..TRIES {
            let Ok(Some(budget)) = self.read(key).await else { return false };
            let mut account = budget.account();
            let is_new = ask_replacement(&mut account, request, deployment, Timestamp::now());
            let is_noted = || {
                let mut all = account.ledger.iter().flat_map(|ledger| &ledger.replacements);
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
    pub(super) async fn withdraw(&self, key: &BudgetKey, request: &Request) {
        for _ in 0..TRIES {
            let Ok(Some(budget)) = self.read(key).await else { return };
            let mut account = budget.account();
            withdraw(&mut account, request);
            if !matches!(self.write(key, &budget, &account).await, Ok(false)) {
                return;
            }
        }
    }

    /// The budget as the apiserver has it.
    async fn read(&self, BudgetKey { resource, key }: &BudgetKey) -> Result<Option<Budget>, NotYet> {
        let Ok(path) = resource.path(&key.namespace, &key.name) else { return Ok(None) };
        let read = if *resource == DISTRIBUTED_POD_DISRUPTION_BUDGETS {
            client::get(&self.client, &path).await.map(|budget| Budget::Distributed(Arc::new(budget)))
        } else {
            client::get(&self.client, &path).await.map(|budget| Budget::Unavailable(Arc::new(budget)))
        };
        match read {
            Ok(budget) => Ok(Some(budget)),
            Err(Failed { code: 404, .. }) => Ok(None),
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
        let Some(patch) = read.patch(account) else { return Ok(true) };
        let (namespace, name, patch) = (&key.key.namespace, &key.key.name, &Patch::Merge(patch));
        let (client, write) = (self.client.clone(), PatchParams::default());
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
fn as_seen(request: &Request, holds: Option<&Holds>, pod: &Pod) -> Request {
    let finds_healthy = |holds: &Holds| holds.rules.as_ref().is_ok_and(|rules| rules.finds_healthy(pod));
    Request { is_available: request.is_available && holds.is_none_or(finds_healthy), ..request.clone() }
}

struct Judged {
    rulings: Vec<Ruling>,
    /// The ledger with what is granted.
    account: PodUnavailableBudgetStatus,
    /// Whether it is to be written.
    is_drawn: bool,
    /// Whether one of them is refused, or let go without a write, by what the budget's status says. A write would show whether that is as
    /// it was read; so else it has to be read anew.
    is_by_what_is_written: bool,
}

/// Judges requests by a budget as it was read, by another total where that was asked for, and by what the budgets that it names bring.
fn judged(
    key: &BudgetKey,
    budget: &Budget,
    holds: &Holds,
    requests: &[(Request, bool)],
    (total, others): (Option<usize>, &[Result<Brings, Silence>]),
) -> Judged {
    let mut account = budget.account();
    let name = key.words();
    let refused = |account, message: String| {
        let refused = Ruling::Refused(format!("{name} holds the pod, and cannot be counted: {message}"));
        Judged { rulings: vec![refused; requests.len()], account, is_drawn: false, is_by_what_is_written: true }
    };
    let rules = match &holds.rules {
        Ok(rules) => rules,
        Err(Fault { field, message }) => return refused(account, format!("{field} {message}")),
    };
    let number = |number: i32| usize::try_from(number).unwrap_or(0);
    let available = number(account.current_available);
    let mut whole = None;
    match budget {
        Budget::Distributed(_) => {
            let expected = total.unwrap_or_else(|| number(account.total_replicas));
            match Whole::of(&rules.amount, (expected, budget.floor()), others) {
                Ok(found) => {
                    set_numbers(&mut account, available, expected, found.left_to_own());
                    whole = Some(found);
                }
                Err(message) => return refused(account, message),
            }
        }
        Budget::Unavailable(_) => {
            if let Some(total) = total
                && let Ok(desired) = rules.amount.desired(total)
            {
                set_numbers(&mut account, available, total, desired);
            }
        }
    }
    let (generation, now) = (budget.metadata().generation.unwrap_or_default(), Timestamp::now());
    let (mut is_drawn, mut is_by_what_is_written) = (false, false);
    let mut rulings = Vec::new();
    for (request, is_dry_run) in requests {
        // A dry run is judged, and takes nothing.
        let verdict = if *is_dry_run {
            draw(&mut account.clone(), (rules, generation), request, now)
        } else {
            draw(&mut account, (rules, generation), request, now)
        };
        is_drawn |= verdict == Verdict::Drawn && !is_dry_run;
        is_by_what_is_written |= match verdict {
            Verdict::Stands | Verdict::Refused(_) => true,
            Verdict::Free => account.desired_available == 0,
            Verdict::Drawn => *is_dry_run,
        };
        let ruling = match verdict {
            Verdict::Free => Ruling::Free,
            Verdict::Stands | Verdict::Drawn => Ruling::Drawn,
            Verdict::Refused(Refused::UsedUp) => {
                Ruling::UsedUp(refusal(&name, &account, (rules, whole), Refused::UsedUp))
            }
            Verdict::Refused(why) => Ruling::Refused(refusal(&name, &account, (rules, whole), why)),
        };
        rulings.push(ruling);
    }
    Judged { rulings, account, is_drawn, is_by_what_is_written }
}

/// How many pods are available, and how many must be.
fn numbers(status: &PodUnavailableBudgetStatus, whole: Option<Whole>) -> String {
    let PodUnavailableBudgetStatus { current_available, desired_available, total_replicas, .. } = status;
    match whole {
        Some(Whole { others, expected, desired, .. }) => {
            let all = usize::try_from(*current_available).unwrap_or(0) + others;
            let of_others = if others > 0 { format!(", {others} of them of other budgets,") } else { String::new() };
            format!("{all} of {expected} are available{of_others} and {desired}")
        }
        None => format!("{current_available} of {total_replicas} are available and {desired_available}"),
    }
}

/// Why a pod must stay, who uses the budget up, and what helps.
fn refusal(
    name: &str,
    status: &PodUnavailableBudgetStatus,
    (rules, whole): (&Rules, Option<Whole>),
    why: Refused,
) -> String {
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
            let entries = told(status.ledger.as_ref());
            let named = entries.iter().take(NAMED).map(|entry| {
                format!("{} ({} by {} since {})", entry.pod, entry.operation.name(), entry.holder, entry.time.0)
            });
            let mut users: Vec<_> = named.collect();
            if entries.len() > NAMED {
                users.push(format!("{} more", entries.len() - NAMED));
            }
            let used = if users.is_empty() { String::new() } else { format!("; used up by {}", users.join(", ")) };
            let own = usize::try_from(status.current_available).unwrap_or(0);
            let kept = whole.map_or(0, |whole| whole.floor);
            let kept = if kept >= own.max(1) {
                format!(", and {kept} of its own never go (spec.floor)")
            } else {
                String::new()
            };
            format!(
                "{name} allows no more pods to go: {} must be ({}){kept}{used}; try again when more are available, or change its spec",
                numbers(status, whole),
                rules.amount.words()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::v1beta1::podunavailablebudget::ProtectedOperation::{self, Delete, Evict, Resize};
    use serde_json::json;

    use super::*;

    fn request(uid: &str, operation: ProtectedOperation) -> Request {
        Request {
            pod: format!("web-{uid}"),
            uid: uid.to_owned(),
            operation,
            holder: "somebody".to_owned(),
            is_available: true,
            generation: None,
            container_ids: Vec::new(),
            grant: None,
        }
    }

    #[test]
    fn by_what_a_store_has_nobody_is_refused_or_let_go_without_a_write() {
        let entry = json!({"pod": "web-a", "uid": "a", "operation": "EVICT", "holder": "me", "time": Timestamp::now()});
        for (desired, request, is_dry_run, expected) in [
            (2, request("b", Delete), false, false),
            (2, request("b", Delete), true, true),
            (3, request("b", Delete), false, true),
            (2, request("a", Evict), false, true),
            (2, request("a", Delete), false, false),
            (2, request("b", Resize), false, false),
            (2, Request { is_available: false, ..request("b", Delete) }, false, false),
            (0, request("b", Delete), false, true),
        ] {
            let budget = json!({
                "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
                "metadata": {"name": "web", "namespace": "default", "uid": "w", "generation": 1},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
                "status": {
                    "observedGeneration": 1, "unavailableAllowed": 3 - desired, "currentAvailable": 3, "desiredAvailable": desired,
                    "totalReplicas": 4, "ledger": {"counted": "7", "entries": [entry]},
                },
            });
            let budget = Budget::read("podunavailablebudgets", &budget.to_string()).unwrap();
            let what = format!("{desired} {request:?} {is_dry_run}");
            let judged = judged(&budget.key(), &budget, &Holds::of(&budget), &[(request, is_dry_run)], (None, &[]));
            assert_eq!(judged.is_by_what_is_written, expected, "{what}: {:?}", judged.rulings);
        }
    }

    #[test]
    fn a_pod_that_lacks_a_condition_of_the_budget_does_not_serve_as_that_sees_it() {
        let holds = |conditions: serde_json::Value| {
            let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1, "healthyConditions": conditions});
            let budget = json!({"metadata": {"name": "web"}, "spec": spec});
            Holds::of(&Budget::read("distributedpoddisruptionbudgets", &budget.to_string()).unwrap())
        };
        let (none, synced) = (holds(json!([])), holds(json!(["example.com/synced"])));
        let pod = |status: &str| -> Pod {
            let condition = json!({"type": "example.com/synced", "status": status});
            serde_json::from_value(json!({"metadata": {"name": "a"}, "status": {"conditions": [condition]}})).unwrap()
        };
        for (is_available, holds, status, expected) in [
            (true, None, "False", true),
            (true, Some(&none), "False", true),
            (true, Some(&synced), "True", true),
            (true, Some(&synced), "False", false),
            (false, Some(&synced), "True", false),
        ] {
            let asked = Request { is_available, ..request("a", Evict) };
            assert_eq!(as_seen(&asked, holds, &pod(status)).is_available, expected, "{is_available} {status}");
        }
    }
}
