//! The decision of one budget on requests, and its messages: by its ledger, the expected pods, and
//! the contributions of the budgets that it names.

use berth_api::names::annotation::HOLD_PREFIX;
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use jiff::Timestamp;

use super::federation::{Brings, Silence, Whole};
use super::ledger::{
    LedgerDecision, Refused, Request, reserve, set_numbers, shown_entries, stands,
};
use super::{Fault, Rules};
use crate::objects::pod::Metadata;

/// The most budgets that may hold one pod, because each of them is a write.
const MOST_BUDGETS: usize = 16;
/// Most characters of a hold's reason that a message shows.
const LONGEST_HOLD: usize = 256;
/// Most users of a budget that a message names.
const NAMED: usize = 3;

/// The decision of a budget on one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request costs nothing.
    Free,
    /// The request has an entry in the ledger.
    Reserved,
    /// The request is allowed although the budget would refuse it for this reason.
    Passed(String),
    /// The budget refuses the request for this reason.
    Refused(String),
    /// The budget refuses the request for this reason: it allows no more pods out of service.
    UsedUp(String),
}

impl Decision {
    /// Whether the pod must stay.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::UsedUp(_))
    }
}

/// A budget as it was read from the apiserver or a cache.
#[derive(Debug, Clone)]
pub struct Account<'a> {
    /// Its kind, namespace and name, as messages name it.
    pub name: &'a str,
    /// Its checked spec, or the fault of the spec.
    pub rules: &'a Result<Rules, Fault>,
    /// The generation of that spec.
    pub generation: i64,
    /// The budget's own pods and its ledger.
    pub status: PodUnavailableBudgetStatus,
    /// For a budget that federates others: how many of its own pods always stay.
    pub floor: Option<usize>,
}

/// The decisions of a budget on some requests. Its account has the new reservations.
#[derive(Debug)]
pub struct RequestDecisions {
    /// One decision for each request.
    pub decisions: Vec<Decision>,
    /// Whether the account must be written.
    pub is_reserved: bool,
    /// Whether a request is refused, or allowed without a write. A write proves that the budget's
    /// spec and status are still as they were read; without a write they must be read again.
    pub is_by_what_is_written: bool,
}

impl Account<'_> {
    /// Decides on requests, including dry runs. `total` replaces the number of expected pods, and
    /// `others` are the contributions of the budgets that this budget names.
    pub fn judge(
        &mut self,
        requests: &[(Request, bool)],
        (total, others): (Option<usize>, &[Result<Brings, Silence>]),
        now: Timestamp,
    ) -> RequestDecisions {
        let rules: &Result<Rules, Fault> = self.rules;
        let rules = match rules {
            Ok(rules) => rules,
            Err(Fault { field, message }) => {
                return self.uncounted(requests, &format!("{field} {message}"));
            }
        };
        let whole = match self.count(rules, total, others) {
            Ok(whole) => whole,
            Err(message) => return self.uncounted(requests, &message),
        };
        let mut decided = RequestDecisions {
            decisions: Vec::new(),
            is_reserved: false,
            is_by_what_is_written: false,
        };
        for (request, is_dry_run) in requests {
            // A dry run gets a decision and reserves nothing.
            let decision = if *is_dry_run {
                reserve(
                    &mut self.status.clone(),
                    (rules, self.generation),
                    request,
                    now,
                )
            } else {
                reserve(&mut self.status, (rules, self.generation), request, now)
            };
            let is_reserved = matches!(
                decision,
                LedgerDecision::Reserved | LedgerDecision::Passed(_)
            ) && !is_dry_run;
            decided.is_reserved |= is_reserved;
            decided.is_by_what_is_written |= !is_reserved;
            decided.decisions.push(match decision {
                LedgerDecision::Free => Decision::Free,
                LedgerDecision::AlreadyReserved | LedgerDecision::Reserved => Decision::Reserved,
                LedgerDecision::Passed(why) => {
                    Decision::Passed(shortage(self.name, &self.status, (rules, whole), why))
                }
                LedgerDecision::Refused(why) => {
                    let words = refusal(self.name, &self.status, (rules, whole, others), why);
                    if why == Refused::UsedUp {
                        Decision::UsedUp(words)
                    } else {
                        Decision::Refused(words)
                    }
                }
            });
        }
        decided
    }

    /// The decisions of a budget that cannot be counted.
    fn uncounted(&self, requests: &[(Request, bool)], message: &str) -> RequestDecisions {
        let refused = format!(
            "{} holds the pod, and cannot be counted: {message}",
            self.name
        );
        let rule = |(request, _): &(Request, bool)| match request.takes_nothing(&self.status) {
            true => Decision::Free,
            false if request.passes => Decision::Passed(refused.clone()),
            false => Decision::Refused(refused.clone()),
        };
        RequestDecisions {
            decisions: requests.iter().map(rule).collect(),
            is_reserved: false,
            is_by_what_is_written: true,
        }
    }

    /// Sets how many pods may leave, if that depends on other budgets or on another total.
    fn count(
        &mut self,
        rules: &Rules,
        total: Option<usize>,
        others: &[Result<Brings, Silence>],
    ) -> Result<Option<Whole>, String> {
        let available = number(self.status.current_available);
        if let Some(floor) = self.floor {
            let expected = total.unwrap_or_else(|| number(self.status.total_replicas));
            let whole = Whole::of(&rules.amount, (expected, floor), others)?;
            set_numbers(&mut self.status, available, expected, whole.left_to_own());
            return Ok(Some(whole));
        }
        if let Some(total) = total
            && let Ok(desired) = rules.amount.desired(total)
        {
            set_numbers(&mut self.status, available, total, desired);
        }
        Ok(None)
    }

    /// Checks a reservation again once it is written here and in the named budgets. `Some` is the
    /// reason to refuse the request.
    pub fn confirm(&self, request: &Request, others: &[Result<Brings, Silence>]) -> Option<String> {
        let name = self.name;
        if !stands(&self.status, request) {
            return Some(format!(
                "what {name} granted has been dropped meanwhile: try again"
            ));
        }
        let floor = self.floor?;
        let own = number(self.status.current_available);
        let expected = number(self.status.total_replicas);
        let rules = self.rules.as_ref().ok();
        let whole =
            rules.and_then(|rules| Whole::of(&rules.amount, (expected, floor), others).ok());
        // A pod that was not healthy takes nothing.
        let is_enough =
            !request.is_available || whole.is_some_and(|whole| own >= whole.left_to_own());
        (!is_enough)
            .then(|| format!("{name} or a budget that it names has let another pod go at the same moment: try again"))
    }
}

/// Why a pod must stay before one of its budgets decides. If one of them counts the pods of other
/// budgets, an annotation of the pod can hold it.
pub fn kept(pod: &Metadata, budgets: usize, counts_others: bool) -> Option<String> {
    if budgets > MOST_BUDGETS {
        return Some(format!(
            "more than {MOST_BUDGETS} budgets hold the pod: delete some of them"
        ));
    }
    let mut holds = pod
        .annotations
        .iter()
        .filter(|(key, _)| counts_others && key.starts_with(HOLD_PREFIX));
    let (key, why) = holds.next()?;
    let why: String = why.chars().take(LONGEST_HOLD).collect();
    Some(format!(
        "annotation {key} holds pod {}: {why}; try again when it is gone",
        pod.name
    ))
}

fn number(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// How many pods are available, and how many must be, as messages say it.
fn numbers(status: &PodUnavailableBudgetStatus, whole: Option<Whole>) -> String {
    let PodUnavailableBudgetStatus {
        current_available,
        desired_available,
        total_replicas,
        ..
    } = status;
    match whole {
        Some(Whole {
            others,
            expected,
            desired,
            ..
        }) => {
            let all = usize::try_from(*current_available).unwrap_or(0) + others;
            let of_others = if others > 0 {
                format!(", {others} of them of other budgets,")
            } else {
                String::new()
            };
            format!("{all} of {expected} are available{of_others} and {desired}")
        }
        None => {
            format!("{current_available} of {total_replicas} are available and {desired_available}")
        }
    }
}

/// How many pods are out of service without an entry, because an entry ends when its pod is being
/// deleted.
fn down(status: &PodUnavailableBudgetStatus) -> String {
    match status
        .total_replicas
        .saturating_sub(status.current_available)
    {
        ..=0 => String::new(),
        1 => "; 1 pod is Terminating, not ready or not created yet".to_owned(),
        down => format!("; {down} pods are Terminating, not ready or not created yet"),
    }
}

/// The named budgets with unknown contributions, and why. Each replica reads other clusters itself,
/// and may know less than the status says.
fn silent(others: &[Result<Brings, Silence>]) -> String {
    let silent = others
        .iter()
        .enumerate()
        .filter_map(|(index, other)| Some((index, other.as_ref().err()?)));
    silent
        .take(NAMED)
        .map(|(index, Silence { why, keeps })| {
            format!("; spec.federation[{index}] brings {keeps}: {why}")
        })
        .collect()
}

/// A message about the pods that the budget lacks for a request.
fn shortage(
    name: &str,
    status: &PodUnavailableBudgetStatus,
    (rules, whole): (&Rules, Option<Whole>),
    why: Refused,
) -> String {
    match why {
        Refused::NotCounted => format!("{name} has not counted its pods"),
        Refused::TooMany => format!("{name} has granted as many pods as it can tell of"),
        Refused::UsedUp => {
            let (numbers, amount) = (numbers(status, whole), rules.amount.words());
            format!("{name} allows no more pods to go: {numbers} must be ({amount})")
        }
    }
}

/// A message about why a pod must stay, which requests use the budget up, and the remedy.
fn refusal(
    name: &str,
    status: &PodUnavailableBudgetStatus,
    (rules, whole, others): (&Rules, Option<Whole>, &[Result<Brings, Silence>]),
    why: Refused,
) -> String {
    let blocked = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Blocked");
    match (why, blocked) {
        (Refused::NotCounted, Some(blocked)) => {
            format!(
                "{name} cannot count its pods, so none may go: {}",
                blocked.message
            )
        }
        (Refused::NotCounted, None) => {
            format!(
                "{name} was made or changed a moment ago, and its pods are not counted yet: try again"
            )
        }
        (Refused::TooMany, _) => {
            let shortage = shortage(name, status, (rules, whole), why);
            format!("{shortage}: try again when some of them are gone")
        }
        (Refused::UsedUp, _) => {
            let entries = shown_entries(status.ledger.as_ref());
            let named = entries.iter().take(NAMED).map(|entry| {
                format!(
                    "{} ({} by {} since {})",
                    entry.pod,
                    entry.operation.name(),
                    entry.holder,
                    entry.time.0
                )
            });
            let mut users: Vec<_> = named.collect();
            if entries.len() > NAMED {
                users.push(format!("{} more", entries.len() - NAMED));
            }
            let used = if users.is_empty() {
                down(status)
            } else {
                format!("; used up by {}", users.join(", "))
            };
            let own = usize::try_from(status.current_available).unwrap_or(0);
            let kept = whole.map_or(0, |whole| whole.floor);
            let kept = if kept >= own.max(1) {
                format!(", and {kept} of its own never go (spec.floor)")
            } else {
                String::new()
            };
            let silent = silent(others);
            let shortage = shortage(name, status, (rules, whole), why);
            let remedy = if allows_none(status, whole) {
                "with these numbers it never does: change its spec"
            } else {
                "try again when more are available, or change its spec"
            };
            format!("{shortage}{kept}{used}{silent}; {remedy}")
        }
    }
}

/// Whether the budget lets no pod leave even if all pods are available.
fn allows_none(status: &PodUnavailableBudgetStatus, whole: Option<Whole>) -> bool {
    let (desired, expected) = whole.map_or_else(
        || {
            (
                number(status.desired_available),
                number(status.total_replicas),
            )
        },
        |whole| (whole.desired, whole.expected),
    );
    expected > 0 && desired >= expected
}
