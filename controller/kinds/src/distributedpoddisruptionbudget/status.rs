//! The numbers of the status, and the entries that stay in the ledger.

use berth_api::names::condition::{BLOCKED, DISRUPTION_ALLOWED, FEDERATED};
use berth_api::v1alpha1::distributedpoddisruptionbudget::{
    ChildStatus, DistributedPodDisruptionBudgetStatus, FederatedStatus, OwnPods,
};
use berth_workload::budget::child;
use berth_workload::budget::count::Unknown;
use berth_workload::budget::federation::Whole;
use berth_workload::budget::ledger::{note_counted, note_settled, unless_only_its_view};
use berth_workload::budget::{Fault, Rules, floor};
use berth_workload::objects::condition::{condition, put, set, whole_seconds};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Snapshot, UNCOUNTED};

/// Most bytes of the message about a budget that does not answer: other clusters may send longer
/// ones.
const LONGEST_MESSAGE: usize = 1024;

type Status = DistributedPodDisruptionBudgetStatus;
/// The reason and the message why a budget cannot be counted.
type Blocked = (&'static str, String);

/// The status to write. It equals the budget's present status if nothing changed.
pub fn status(snapshot: &Snapshot, now: Timestamp) -> DistributedPodDisruptionBudgetStatus {
    let mut next = snapshot.budget.status.clone().unwrap_or_default();
    next.observed_generation = snapshot.budget.metadata.generation.unwrap_or_default();
    next.federated_statuses = federated(snapshot, now);
    next.child_status = child(snapshot);
    if snapshot.has_finalizer() {
        next.floor = floor::reported_floor(&snapshot.budget, snapshot.seen_for).0;
    }
    let own = count_own(snapshot, &mut next, now);
    let whole = own.and_then(|rules| {
        let expected = usize::try_from(next.own.expected).unwrap_or(0);
        snapshot
            .whole(&rules, expected)
            .map_err(|why| ("FederationUnknown", why))
    });
    // The number of pods that are known to be healthy is valid without the total, too.
    let known = snapshot.others.iter().map(|other| {
        other
            .brings
            .as_ref()
            .map_or_else(|it| it.keeps, |it| it.healthy)
    });
    let known = known.fold(
        usize::try_from(next.own.healthy).unwrap_or(0),
        usize::saturating_add,
    );
    (next.disruptions_allowed, next.current_healthy) = (0, number(known));
    if let Ok(whole) = &whole {
        let healthy = usize::try_from(next.own.healthy).unwrap_or(0);
        next.disruptions_allowed = number(whole.allowed(healthy));
        next.desired_healthy = number(whole.desired);
        next.expected_pods = number(whole.expected);
    }
    set_conditions(snapshot, &mut next, &whole, now);
    unless_only_its_view(next, snapshot.budget.status.as_ref(), |status| {
        &mut status.ledger
    })
}

fn number(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Settles entries, and counts the budget's own pods.
fn count_own(snapshot: &Snapshot, next: &mut Status, now: Timestamp) -> Result<Rules, Blocked> {
    let ledger = next.ledger.get_or_insert_default();
    ledger.entries = snapshot.view.open(&ledger.entries, now);
    ledger.recount = false;
    ledger.replacements = snapshot.view.replacements(&ledger.replacements, now);
    note_settled(ledger, &snapshot.view.position);
    let rules = Rules::of_distributed(&snapshot.budget.spec)
        .map_err(|Fault { field, message }| ("InvalidSpec", format!("{field} {message}")))?;
    let expected = snapshot
        .view
        .expected_by(&rules)
        .map_err(|Unknown { message }| (UNCOUNTED, message))?;
    let healthy = snapshot
        .view
        .available(&rules, &expected, &ledger.entries, now);
    note_counted(ledger);
    next.own = OwnPods {
        healthy: number(healthy),
        expected: number(expected.total),
    };
    Ok(rules)
}

fn federated(snapshot: &Snapshot, now: Timestamp) -> Vec<FederatedStatus> {
    let before = snapshot
        .budget
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.federated_statuses);
    let named = snapshot.budget.spec.federation.iter().zip(&snapshot.others);
    let statuses = named.map(|(member, other)| {
        let old = before.iter().find(|old| old.is_of(member));
        let mut status = FederatedStatus {
            kind: other
                .kind
                .map(|kind| kind.name().to_owned())
                .unwrap_or_default(),
            cluster: member.cluster.clone(),
            namespace: member.namespace.clone(),
            name: member.name.clone(),
            uid: other.origin.uid.clone(),
            generation: other.origin.generation,
            shared: number(other.shared.pods),
            shared_expected: number(other.shared.expected),
            last_changed: old.and_then(|old| old.last_changed.clone()),
            last_read: other.last_read.map(|at| Time(whole_seconds(at))),
            ..FederatedStatus::default()
        };
        match &other.brings {
            Ok(brings) => {
                (status.healthy, status.expected) =
                    (number(brings.healthy), number(brings.expected));
                status.reachable = true;
            }
            Err(silence) => {
                status.healthy = number(silence.keeps);
                status.message = silence.why.chars().take(LONGEST_MESSAGE).collect();
            }
        }
        if old != Some(&status) {
            status.last_changed = Some(Time(whole_seconds(now)));
        }
        status
    });
    statuses.collect()
}

/// The place of a budget, for messages.
pub(super) fn place(
    FederatedStatus {
        cluster,
        namespace,
        name,
        ..
    }: &FederatedStatus,
) -> String {
    let cluster = if cluster.is_empty() {
        String::new()
    } else {
        format!("{cluster}/")
    };
    format!("{cluster}{namespace}/{name}")
}

/// The message for budgets that may select the same pods.
const SHARING: &str = " may hold the same pods, so together they bring no more healthy ones than one of them alone: give their selectors \
                       the same label with different values, or name one of them";

/// The budgets of the federation that may select the same pods, and the remedy.
pub(super) fn sharing(snapshot: &Snapshot, statuses: &[FederatedStatus]) -> Vec<String> {
    let words = |group: &Vec<usize>| {
        let places: Vec<_> = group
            .iter()
            .filter_map(|at| statuses.get(*at))
            .map(place)
            .collect();
        places.join(" and ") + SHARING
    };
    snapshot.may_share.iter().map(words).collect()
}

/// The same messages as in the last status, for a caller that has read nothing of other clusters.
/// They count only if the status is about the present spec, because another spec names other
/// budgets.
pub(super) fn reported_sharing(snapshot: &Snapshot) -> Vec<String> {
    let generation = snapshot.budget.metadata.generation;
    let statuses = snapshot
        .budget
        .status
        .iter()
        .filter(|status| Some(status.observed_generation) == generation);
    let conditions = statuses
        .flat_map(|status| &status.conditions)
        .filter(|condition| condition.type_ == FEDERATED);
    let parts = conditions.flat_map(|condition| condition.message.split("; "));
    parts
        .filter(|part| part.ends_with(SHARING))
        .map(str::to_owned)
        .collect()
}

fn child(snapshot: &Snapshot) -> Option<ChildStatus> {
    let child = snapshot.child.as_ref().filter(|_| snapshot.keeps.is_ok())?;
    let min_available = child
        .spec
        .min_available
        .as_ref()
        .and_then(|value| value.as_i64());
    Some(ChildStatus {
        name: child.metadata.name.to_string(),
        min_available: min_available
            .and_then(|value| i32::try_from(value).ok())
            .unwrap_or_default(),
        disruptions_allowed: child.status.disruptions_allowed,
    })
}

fn set_conditions(
    snapshot: &Snapshot,
    next: &mut Status,
    whole: &Result<Whole, Blocked>,
    now: Timestamp,
) {
    let conditions = &mut next.conditions;
    let blocked = whole.as_ref().err();
    let blocked = blocked.map(|(why, words)| condition(BLOCKED, true, why, words.clone(), now));
    put(conditions, BLOCKED, blocked);
    let is_allowed = next.disruptions_allowed > 0;
    let (floor, expected) = (snapshot.budget.spec.floor, next.own.expected);
    let (reason, words) = if is_allowed {
        (
            "SufficientPods",
            format!("{} of its own pods may go", next.disruptions_allowed),
        )
    } else if floor > expected && whole.is_ok() {
        (
            "FloorAboveExpected",
            format!(
                "none of its own pods may ever go: spec.floor is {floor}, and {expected} are expected: lower it"
            ),
        )
    } else {
        ("InsufficientPods", "none of its own pods may go".to_owned())
    };
    set(
        conditions,
        condition(DISRUPTION_ALLOWED, is_allowed, reason, words, now),
    );
    set(conditions, snapshot.webhook_calls.condition(now));
    let of_federation = federation_condition(snapshot, &next.federated_statuses, now);
    put(conditions, FEDERATED, of_federation);
    let name = snapshot.budget.metadata.name.as_deref().unwrap_or_default();
    set(
        conditions,
        child::kept_condition(&snapshot.keeps, name, now),
    );
}

/// The condition that says whether the budgets of `spec.federation` have answered; `None` if there
/// are none.
fn federation_condition(
    snapshot: &Snapshot,
    federated: &[FederatedStatus],
    now: Timestamp,
) -> Option<Condition> {
    if federated.is_empty() {
        return None;
    }
    let silent = federated.iter().filter(|other| !other.reachable);
    let silent: Vec<_> = silent
        .map(|other| format!("{} {}", place(other), other.message))
        .collect();
    let is_known = silent.is_empty();
    let (reason, words) = if is_known {
        (
            "AllKnown",
            "it is known what each budget of spec.federation has".to_owned(),
        )
    } else {
        (
            "NotAllKnown",
            format!(
                "no pods of these count as healthy, but for a floor: {}",
                silent.join("; ")
            ),
        )
    };
    let mut words = vec![words];
    words.extend(sharing(snapshot, federated));
    Some(condition(
        FEDERATED,
        is_known,
        reason,
        words.join("; "),
        now,
    ))
}

/// Whether a change of the status must be written at once: because other readers could believe that
/// more pods may be disrupted than is true, or because no pod may be disrupted before the write.
pub fn is_urgent(old: Option<&Status>, new: &Status) -> bool {
    let sum = |status: &Status, of: fn(&FederatedStatus) -> i32| -> i64 {
        status
            .federated_statuses
            .iter()
            .map(|one| i64::from(of(one)))
            .sum()
    };
    old.is_none_or(|old| {
        old.observed_generation != new.observed_generation
            || old.ledger.as_ref().is_none_or(|ledger| ledger.recount)
            || new.own.healthy < old.own.healthy
            || sum(new, |one| one.shared) > sum(old, |one| one.shared)
            || sum(new, |one| one.shared_expected) < sum(old, |one| one.shared_expected)
    })
}
