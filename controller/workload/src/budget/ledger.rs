//! Who may take a pod out of service: a budget's ledger, a request, and what becomes of both.

mod view;

use std::collections::BTreeSet;

use berth_api::kinds::podunavailablebudget::annotations::{
    MOST_CONTAINERS, MOST_ENTRIES, MOST_REPLACEMENTS,
};
use berth_api::v1beta1::podunavailablebudget::{
    DeploymentReference, Ledger, LedgerEntry, PodUnavailableBudgetStatus, ProtectedOperation,
    Replacement, UnhealthyPodPolicy,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Rules;
use crate::objects::condition::whole_seconds;
use crate::objects::pod::Pod;
use crate::plan::Waiting;

pub use view::{is_counted, note_counted, note_settled, settled_by, unless_only_its_view};

/// Who asks for a pod again and again is noted so seldom.
const ASKED_LATELY: SignedDuration = SignedDuration::from_secs(60);

/// Who wants what of which pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The pod's name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// What is to befall it.
    pub operation: ProtectedOperation,
    /// Who wants it.
    pub holder: String,
    /// Whether it serves now. One that does not costs nothing.
    pub is_available: bool,
    /// Its generation, where it is to change.
    pub generation: Option<i64>,
    /// The containers that are to be replaced.
    pub container_ids: Vec<String>,
    /// Whether some of them are restarted for other resources.
    pub resizes: bool,
    /// Whether the pod's own workload asks for it, and no service is lost: [`Self::by_own_workload`].
    pub is_repair: bool,
    /// Whether no budget may refuse the request: [`super::disruption::passes`]. The ledger has an entry of the pod all the same.
    pub passes: bool,
    /// A name of its own, where what is drawn may be taken back. Then it never stands on what another request has drawn.
    pub grant: Option<String>,
    /// Whether this process has entered the same a moment ago, by the clock that only goes on: then it is the same request, which the
    /// apiserver validates again. What an entry says of time is the clock of whoever wrote it.
    pub is_again: bool,
}

impl Request {
    /// As the pod's own workload asks. Of a pod that is not available and [down](Pod::is_down) it takes nothing away: budgets wait for
    /// pods to serve again, and this one may never do so without the change.
    #[must_use]
    pub fn by_own_workload(self, pod: &Pod) -> Self {
        let is_repair =
            !self.is_available && self.operation != ProtectedOperation::Evict && pod.is_down();
        Self { is_repair, ..self }
    }

    /// Whether it takes nothing from a budget, whatever that has counted. A change of a pod that another one has charged is entered
    /// beside that one.
    pub fn takes_nothing(&self, status: &PodUnavailableBudgetStatus) -> bool {
        let is_deletion = self.operation == ProtectedOperation::Delete;
        self.is_repair && (is_deletion || entries(status).all(|entry| entry.uid != self.uid))
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The budget has nothing to say.
    Free,
    /// It stands in the ledger already.
    Stands,
    /// It is in the ledger that is to be written.
    Drawn,
    /// The same, past the budget, which would refuse it for this reason. A full ledger stays as it was.
    Passed(Refused),
    /// It must not be.
    Refused(Refused),
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Pods have not been counted since the budget was made or changed.
    NotCounted,
    /// As many are out of service as may be.
    UsedUp,
    /// The ledger is full.
    TooMany,
}

/// Decides about a request. Where it is [`Verdict::Drawn`] or [`Verdict::Passed`] the status is as it is to be written, and else as it
/// was.
pub fn draw(
    status: &mut PodUnavailableBudgetStatus,
    of_spec: (&Rules, i64),
    request: &Request,
    now: Timestamp,
) -> Verdict {
    let why = match draw_allowed(status, of_spec, request, now) {
        Verdict::Refused(why) if request.passes => why,
        verdict => return verdict,
    };
    if why != Refused::TooMany {
        let is_charged = entries(status).any(|entry| entry.uid == request.uid);
        if request.is_available && !is_charged {
            take_one(status);
        }
        enter(status, request, now);
    }
    Verdict::Passed(why)
}

fn draw_allowed(
    status: &mut PodUnavailableBudgetStatus,
    (rules, generation): (&Rules, i64),
    request: &Request,
    now: Timestamp,
) -> Verdict {
    let is_counted = is_counted(status, generation);
    if !rules.protects_from(request.operation) || request.takes_nothing(status) {
        return Verdict::Free;
    }
    let of_pod = || entries(status).filter(|entry| entry.uid == request.uid);
    let mine = of_pod().find(|entry| is_of(entry, request));
    // One that has more containers replaced is another.
    let names_all = |entry: &LedgerEntry| {
        let has = |id: &String| entry.container_ids.contains(id);
        request.container_ids.iter().all(has) && (entry.resizes || !request.resizes)
    };
    if request.is_again && mine.is_some_and(names_all) {
        return Verdict::Stands;
    }
    let (is_charged, is_known) = (of_pod().next().is_some(), mine.is_some());
    let is_full = !is_known && entries(status).count() >= MOST_ENTRIES;
    if !is_charged && !request.is_available {
        let is_healthy = is_counted && status.current_available >= status.desired_available;
        return match rules.unhealthy {
            UnhealthyPodPolicy::IfHealthyBudget if !is_counted => {
                Verdict::Refused(Refused::NotCounted)
            }
            UnhealthyPodPolicy::IfHealthyBudget if !is_healthy => Verdict::Refused(Refused::UsedUp),
            // It takes nothing, for it is not counted. The apiserver carries out what was asked about the pod only while that is as
            // it was shown; but an eviction says nothing of the pod, which may serve again by then, and be counted.
            _ if request.operation != ProtectedOperation::Evict => Verdict::Free,
            _ if is_full => Verdict::Refused(Refused::TooMany),
            _ => {
                enter(status, request, now);
                Verdict::Drawn
            }
        };
    }
    if !is_counted {
        return Verdict::Refused(Refused::NotCounted);
    }
    // Where others bring enough today, whoever draws from one of them must see what goes here.
    if !is_charged && status.desired_available == 0 && !rules.may_be_named {
        return Verdict::Free;
    }
    if is_full {
        return Verdict::Refused(Refused::TooMany);
    }
    if !is_charged {
        if status.unavailable_allowed <= kept_for_others(status, request) {
            return Verdict::Refused(Refused::UsedUp);
        }
        take_one(status);
    }
    enter(status, request, now);
    Verdict::Drawn
}

/// Counts one pod less as available.
fn take_one(status: &mut PodUnavailableBudgetStatus) {
    let one_less = |number: i32| number.saturating_sub(1).max(0);
    status.unavailable_allowed = one_less(status.unavailable_allowed);
    status.current_available = one_less(status.current_available);
}

fn entries(status: &PodUnavailableBudgetStatus) -> impl Iterator<Item = &LedgerEntry> {
    status.ledger.iter().flat_map(|ledger| &ledger.entries)
}

/// Whether what a request is for was entered within the last seconds, as the clock of whichever replica did so tells.
pub fn is_dated(status: &PodUnavailableBudgetStatus, request: &Request, now: Timestamp) -> bool {
    entries(status).any(|entry| {
        is_of(entry, request) && (-2..10).contains(&now.duration_since(entry.time.0).as_secs())
    })
}

/// Whether an entry was drawn for this request, and may be taken back with it. Of a pod that has changed since, it speaks of an earlier
/// change, and is settled by itself.
fn is_of(entry: &LedgerEntry, request: &Request) -> bool {
    is_alike(entry, request) && entry.generation == request.generation
}

/// Whether an entry is of the same pod and operation, whichever change of it, and of no other's name.
fn is_alike(entry: &LedgerEntry, request: &Request) -> bool {
    entry.uid == request.uid && entry.operation == request.operation && entry.grant == request.grant
}

fn enter(status: &mut PodUnavailableBudgetStatus, request: &Request, now: Timestamp) {
    let ledger = status.ledger.get_or_insert_default();
    // What another request has drawn stands until that one is over: this one may be taken back.
    let all = std::mem::take(&mut ledger.entries).into_iter();
    let (replaced, others): (Vec<_>, Vec<_>) = all.partition(|old| is_of(old, request));
    ledger.entries = join_landed(others, request);
    // Whatever the clocks of those who wrote them: what is entered again is another entry, which the leader sees first from now on.
    let later = replaced
        .iter()
        .filter_map(|old| old.time.0.checked_add(SignedDuration::from_secs(1)).ok());
    let time = later.fold(whole_seconds(now), Ord::max);
    ledger.entries.push(LedgerEntry {
        pod: request.pod.clone(),
        uid: request.uid.clone(),
        operation: request.operation,
        holder: request.holder.clone(),
        time: Time(time),
        generation: request.generation,
        // The change that was granted before may still come to be.
        container_ids: joined_containers(&request.container_ids, &replaced),
        resizes: request.resizes || replaced.iter().any(|old| old.resizes),
        grant: request.grant.clone(),
    });
    ledger
        .replacements
        .retain(|replacement| replacement.uid != request.uid);
    name_pods(status);
}

/// Of a pod's changes that have come to be, as its generation tells, the latest entry speaks for all, with the containers of all: so a pod
/// that is changed again and again has two entries, and not one for each change.
fn join_landed(entries: Vec<LedgerEntry>, request: &Request) -> Vec<LedgerEntry> {
    let has_landed = |old: &LedgerEntry| {
        is_alike(old, request) && old.generation.is_some() && old.generation < request.generation
    };
    let (landed, mut entries): (Vec<_>, Vec<_>) = entries.into_iter().partition(has_landed);
    if let Some(latest) = landed.iter().max_by_key(|old| old.generation) {
        let container_ids = joined_containers(&latest.container_ids, &landed);
        let resizes = landed.iter().any(|old| old.resizes);
        entries.push(LedgerEntry {
            container_ids,
            resizes,
            ..latest.clone()
        });
    }
    entries
}

/// These containers, and those of entries, as many as one entry names.
fn joined_containers(ids: &[String], entries: &[LedgerEntry]) -> Vec<String> {
    let mut all = ids.to_vec();
    for id in entries.iter().flat_map(|entry| &entry.container_ids) {
        if !all.contains(id) {
            all.push(id.clone());
        }
    }
    all.truncate(MOST_CONTAINERS);
    all
}

/// How much room is kept for pods that are replaced before they go.
fn kept_for_others(status: &PodUnavailableBudgetStatus, request: &Request) -> i32 {
    let replacements = status.ledger.iter().flat_map(|ledger| &ledger.replacements);
    i32::try_from(
        replacements
            .filter(|replacement| replacement.uid != request.uid)
            .count(),
    )
    .unwrap_or(i32::MAX)
}

/// Notes that a pod is to go when another has come; false where that is noted already, or too many are.
pub fn ask_replacement(
    status: &mut PodUnavailableBudgetStatus,
    request: &Request,
    deployment: Option<&DeploymentReference>,
    now: Timestamp,
) -> bool {
    let ledger = status.ledger.get_or_insert_default();
    let is_fresh = |old: &Replacement| now.duration_since(old.time.0) < ASKED_LATELY;
    let mut deployment = deployment.cloned();
    match ledger
        .replacements
        .iter()
        .position(|old| old.uid == request.uid)
    {
        Some(at) if is_fresh(&ledger.replacements[at]) => return false,
        Some(at) => deployment = deployment.or(ledger.replacements.remove(at).deployment),
        None if ledger.replacements.len() >= MOST_REPLACEMENTS => return false,
        None => {}
    }
    ledger.replacements.push(Replacement {
        pod: request.pod.clone(),
        uid: request.uid.clone(),
        holder: request.holder.clone(),
        time: Time(whole_seconds(now)),
        deployment,
    });
    true
}

/// Takes back what was drawn for a request, and nothing that was drawn for another; the leader counts anew.
pub fn withdraw(status: &mut PodUnavailableBudgetStatus, request: &Request) {
    let Some(ledger) = &mut status.ledger else {
        return;
    };
    let before = ledger.entries.len();
    ledger.entries.retain(|entry| !is_of(entry, request));
    ledger.recount |= ledger.entries.len() < before;
    name_pods(status);
}

/// Whether what was drawn for a request stands.
pub fn stands(status: &PodUnavailableBudgetStatus, request: &Request) -> bool {
    entries(status).any(|entry| is_of(entry, request))
}

/// The entries of a ledger that are told: of requests for one pod the first.
pub fn told(ledger: Option<&Ledger>) -> Vec<&LedgerEntry> {
    let mut known = BTreeSet::new();
    let entries = ledger.map_or(&[][..], |ledger| &ledger.entries);
    entries
        .iter()
        .filter(|entry| known.insert((&entry.uid, entry.operation)))
        .collect()
}

/// Who uses a budget up, and who waits for another pod, in words.
pub fn users(ledger: Option<&Ledger>) -> Vec<Waiting> {
    let used = told(ledger).into_iter().map(|entry| {
        let (operation, holder, time) = (entry.operation.name(), &entry.holder, entry.time.0);
        Waiting {
            pod: entry.pod.clone(),
            reason: format!("uses it up: {operation} by {holder} since {time}"),
        }
    });
    let replaced = ledger
        .iter()
        .flat_map(|ledger| &ledger.replacements)
        .map(|one| {
            let reason = format!(
                "goes when another has come in its place: {} asked at {}",
                one.holder, one.time.0
            );
            Waiting {
                pod: one.pod.clone(),
                reason,
            }
        });
    used.chain(replaced).collect()
}

/// What the peer reads of a ledger: the names of the pods, by what befalls them.
pub fn name_pods(status: &mut PodUnavailableBudgetStatus) {
    let entries = status
        .ledger
        .as_ref()
        .map_or(&[][..], |ledger| &ledger.entries);
    let named = |is_change: bool| {
        let of_kind = entries
            .iter()
            .filter(|entry| entry.operation.is_change() == is_change);
        of_kind
            .map(|entry| (entry.pod.clone(), entry.time.clone()))
            .collect()
    };
    (status.disrupted_pods, status.unavailable_pods) = (named(false), named(true));
}

/// The numbers of a status for so many available pods, those of the ledger not among them, and another total.
pub fn set_numbers(
    status: &mut PodUnavailableBudgetStatus,
    available: usize,
    total: usize,
    desired: usize,
) {
    let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    status.total_replicas = number(total);
    status.desired_available = number(desired);
    status.current_available = number(available);
    status.unavailable_allowed = number(available.saturating_sub(desired));
}
