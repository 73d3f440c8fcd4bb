//! The ledger of a budget: requests to take a pod out of service, and the entries that record them.

mod request;
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

use self::request::{begins_restart, entries, is_alike, is_of};
use super::Rules;
use crate::objects::condition::whole_seconds;
use crate::plan::Waiting;

pub use request::Request;
pub use view::{is_counted, note_counted, note_settled, settled_by, unless_only_its_view};

/// The ledger notes a repeated request for a replacement at most this often.
const REQUESTED_LATELY: SignedDuration = SignedDuration::from_secs(60);

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum LedgerDecision {
    /// The request costs nothing.
    Free,
    /// The ledger already has an entry for the request.
    AlreadyReserved,
    /// The status to write has a new entry for the request.
    Reserved,
    /// A new entry, although the budget would refuse for this reason. A full ledger gets none.
    Passed(Refused),
    /// The budget refuses the request.
    Refused(Refused),
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Pods have not been counted since the budget was made or changed.
    NotCounted,
    /// The budget allows no more pods out of service.
    UsedUp,
    /// The ledger is full.
    TooMany,
}

/// Decides on a request. With [`LedgerDecision::Reserved`] and [`LedgerDecision::Passed`],
/// `status` becomes the status to write; otherwise it stays as it was.
pub fn reserve(
    status: &mut PodUnavailableBudgetStatus,
    of_spec: (&Rules, i64),
    request: &Request,
    now: Timestamp,
) -> LedgerDecision {
    let why = match reserve_allowed(status, of_spec, request, now) {
        LedgerDecision::Refused(why) if request.passes => why,
        decision => return decision,
    };
    if why != Refused::TooMany {
        let is_charged = entries(status).any(|entry| entry.uid == request.uid);
        if request.is_available && !is_charged {
            take_one(status);
        }
        enter(status, request, now);
    }
    LedgerDecision::Passed(why)
}

fn reserve_allowed(
    status: &mut PodUnavailableBudgetStatus,
    (rules, generation): (&Rules, i64),
    request: &Request,
    now: Timestamp,
) -> LedgerDecision {
    let is_counted = is_counted(status, generation);
    if !rules.protects_from(request.operation) || request.takes_nothing(status) {
        return LedgerDecision::Free;
    }
    let of_pod = || entries(status).filter(|entry| entry.uid == request.uid);
    let mine = of_pod().find(|entry| is_of(entry, request));
    // A request that replaces more containers needs its own entry.
    let names_all = |entry: &LedgerEntry| {
        let has = |id: &String| entry.container_ids.contains(id);
        request.container_ids.iter().all(has) && (entry.resizes || !request.resizes)
    };
    if request.is_again && mine.is_some_and(names_all) {
        return LedgerDecision::AlreadyReserved;
    }
    let (is_charged, is_known) = (of_pod().next().is_some(), mine.is_some());
    let is_full = !is_known && entries(status).count() >= MOST_ENTRIES;
    if !is_charged && !request.is_available {
        let is_healthy = is_counted && status.current_available >= status.desired_available;
        return match rules.unhealthy {
            UnhealthyPodPolicy::IfHealthyBudget if !is_counted => {
                LedgerDecision::Refused(Refused::NotCounted)
            }
            UnhealthyPodPolicy::IfHealthyBudget if !is_healthy => {
                LedgerDecision::Refused(Refused::UsedUp)
            }
            // An unavailable pod costs nothing. The apiserver carries out an update or deletion
            // only if the pod is still as the webhook saw it. An eviction has no such precondition,
            // so that the pod may serve again by then.
            _ if request.operation != ProtectedOperation::Evict => LedgerDecision::Free,
            _ if is_full => LedgerDecision::Refused(Refused::TooMany),
            _ => {
                enter(status, request, now);
                LedgerDecision::Reserved
            }
        };
    }
    if !is_counted {
        return LedgerDecision::Refused(Refused::NotCounted);
    }
    // Even if other budgets contribute enough, reservations from them must see pods that leave
    // here.
    if !is_charged && status.desired_available == 0 && !rules.may_be_named {
        return LedgerDecision::Free;
    }
    if is_full {
        return LedgerDecision::Refused(Refused::TooMany);
    }
    if !is_charged {
        if status.unavailable_allowed <= kept_for_others(status, request) {
            return LedgerDecision::Refused(Refused::UsedUp);
        }
        take_one(status);
    }
    enter(status, request, now);
    LedgerDecision::Reserved
}

/// Reduces the numbers of available and of allowed pods by one.
fn take_one(status: &mut PodUnavailableBudgetStatus) {
    let one_less = |number: i32| number.saturating_sub(1).max(0);
    status.unavailable_allowed = one_less(status.unavailable_allowed);
    status.current_available = one_less(status.current_available);
}

/// Whether the ledger got this request in the last seconds, by the clock of the entry's writer.
pub fn is_dated(status: &PodUnavailableBudgetStatus, request: &Request, now: Timestamp) -> bool {
    entries(status).any(|entry| {
        is_of(entry, request) && (-2..10).contains(&now.duration_since(entry.time.0).as_secs())
    })
}

fn enter(status: &mut PodUnavailableBudgetStatus, request: &Request, now: Timestamp) {
    let ledger = status.ledger.get_or_insert_default();
    // Other requests keep their reservations, because this request may be released.
    let all = std::mem::take(&mut ledger.entries).into_iter();
    let is_replaced = |old: &LedgerEntry| is_of(old, request) || begins_restart(old, request);
    let (replaced, others): (Vec<_>, Vec<_>) = all.partition(is_replaced);
    ledger.entries = join_landed(others, request);
    // The replicas' clocks differ. A repeated reservation gets a later time, so that the leader
    // treats it as a new entry.
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
        // The previously granted change may still happen.
        container_ids: joined_containers(&request.container_ids, &replaced),
        resizes: request.resizes || replaced.iter().any(|old| old.resizes),
        grant: request.grant.clone(),
    });
    ledger
        .replacements
        .retain(|replacement| replacement.uid != request.uid);
    name_pods(status);
}

/// Joins the entries of changes that the pod's generation shows as made, with the containers of
/// all. So a pod that changes repeatedly has two entries, not one for each change.
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

/// These containers and the ones of the entries, up to the limit of one entry.
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

/// How many pods the ledger keeps free for pods that wait for a replacement.
fn kept_for_others(status: &PodUnavailableBudgetStatus, request: &Request) -> i32 {
    let replacements = status.ledger.iter().flat_map(|ledger| &ledger.replacements);
    i32::try_from(
        replacements
            .filter(|replacement| replacement.uid != request.uid)
            .count(),
    )
    .unwrap_or(i32::MAX)
}

/// Notes that a pod leaves once it is replaced. False if this is noted already, or at the limit.
pub fn ask_replacement(
    status: &mut PodUnavailableBudgetStatus,
    request: &Request,
    deployment: Option<&DeploymentReference>,
    now: Timestamp,
) -> bool {
    let ledger = status.ledger.get_or_insert_default();
    let is_fresh = |old: &Replacement| now.duration_since(old.time.0) < REQUESTED_LATELY;
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

/// Releases the reservation of a request, and no other reservation; the leader counts anew.
pub fn release(status: &mut PodUnavailableBudgetStatus, request: &Request) {
    let Some(ledger) = &mut status.ledger else {
        return;
    };
    let before = ledger.entries.len();
    ledger.entries.retain(|entry| !is_of(entry, request));
    ledger.recount |= ledger.entries.len() < before;
    name_pods(status);
}

/// Whether the reservation of a request is in the ledger.
pub fn stands(status: &PodUnavailableBudgetStatus, request: &Request) -> bool {
    entries(status).any(|entry| is_of(entry, request))
}

/// The entries of a ledger that messages show: the first one of each pod.
pub fn shown_entries(ledger: Option<&Ledger>) -> Vec<&LedgerEntry> {
    let mut known = BTreeSet::new();
    let entries = ledger.map_or(&[][..], |ledger| &ledger.entries);
    entries
        .iter()
        .filter(|entry| known.insert((&entry.uid, entry.operation)))
        .collect()
}

/// The entries that use a budget up, and the pods that wait for a replacement, for messages.
pub fn users(ledger: Option<&Ledger>) -> Vec<Waiting> {
    let used = shown_entries(ledger).into_iter().map(|entry| {
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

/// Fills the fields that OpenKruise reads from a ledger: the names of the pods by operation.
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

/// Sets a status's numbers from a total and from the available pods without an entry.
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
