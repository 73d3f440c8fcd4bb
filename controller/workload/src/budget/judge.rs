//! What one budget says to requests, and in which words: by its ledger, by how many pods are expected, and by what the budgets that it
//! names bring.

use berth_api::names::annotation::HOLD_PREFIX;
use berth_api::v1beta1::podunavailablebudget::PodUnavailableBudgetStatus;
use jiff::Timestamp;

use super::federation::{Brings, Silence, Whole};
use super::ledger::{Refused, Request, Verdict, draw, set_numbers, stands, told};
use super::{Fault, Rules};
use crate::objects::pod::Metadata;

/// The most budgets that hold one pod: each is a write.
const MOST_BUDGETS: usize = 16;
/// As much of a hold's reason is told.
const LONGEST_HOLD: usize = 256;
/// As many users of a budget a message names.
const NAMED: usize = 3;

/// What a budget says to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It costs nothing.
    Free,
    /// It stands in the ledger.
    Drawn,
    /// It must be, though the budget refuses it for this reason.
    Passed(String),
    /// It must not be, for this reason.
    Refused(String),
    /// The same, and only because as many are out of service as may be.
    UsedUp(String),
}

impl Decision {
    /// Whether the pod must stay.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::UsedUp(_))
    }
}

/// A budget as it was read.
#[derive(Debug, Clone)]
pub struct Account<'a> {
    /// Its kind, namespace and name, as messages have them.
    pub name: &'a str,
    /// What its spec says, or what is wrong with that.
    pub rules: &'a Result<Rules, Fault>,
    /// The generation of that spec.
    pub generation: i64,
    /// The budget's own pods and its ledger.
    pub status: PodUnavailableBudgetStatus,
    /// Of a budget that counts the pods of others, too: how many of its own never go.
    pub floor: Option<usize>,
}

/// What a budget says to all of a few requests. What it grants is in its account.
#[derive(Debug)]
pub struct Judged {
    /// To each.
    pub decisions: Vec<Decision>,
    /// Whether the account is to be written.
    pub is_drawn: bool,
    /// Whether one of them is refused, or let go without a write. A write would show whether the budget, its spec and its status, is as it
    /// was read; so else it has to be read anew.
    pub is_by_what_is_written: bool,
}

impl Account<'_> {
    /// Judges requests, those of dry runs among them, by another total where that was asked for, and by what the budgets that it names
    /// bring.
    pub fn judge(
        &mut self,
        requests: &[(Request, bool)],
        (total, others): (Option<usize>, &[Result<Brings, Silence>]),
        now: Timestamp,
    ) -> Judged {
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
        let mut judged = Judged {
            decisions: Vec::new(),
            is_drawn: false,
            is_by_what_is_written: false,
        };
        for (request, is_dry_run) in requests {
            // A dry run is judged, and takes nothing.
            let verdict = if *is_dry_run {
                draw(
                    &mut self.status.clone(),
                    (rules, self.generation),
                    request,
                    now,
                )
            } else {
                draw(&mut self.status, (rules, self.generation), request, now)
            };
            let is_drawn = matches!(verdict, Verdict::Drawn | Verdict::Passed(_)) && !is_dry_run;
            judged.is_drawn |= is_drawn;
            judged.is_by_what_is_written |= !is_drawn;
            judged.decisions.push(match verdict {
                Verdict::Free => Decision::Free,
                Verdict::Stands | Verdict::Drawn => Decision::Drawn,
                Verdict::Passed(why) => {
                    Decision::Passed(shortage(self.name, &self.status, (rules, whole), why))
                }
                Verdict::Refused(why) => {
                    let words = refusal(self.name, &self.status, (rules, whole, others), why);
                    if why == Refused::UsedUp {
                        Decision::UsedUp(words)
                    } else {
                        Decision::Refused(words)
                    }
                }
            });
        }
        judged
    }

    /// What is said where nobody knows how many may go.
    fn uncounted(&self, requests: &[(Request, bool)], message: &str) -> Judged {
        let refused = format!(
            "{} holds the pod, and cannot be counted: {message}",
            self.name
        );
        let rule = |(request, _): &(Request, bool)| match request.takes_nothing(&self.status) {
            true => Decision::Free,
            false if request.passes => Decision::Passed(refused.clone()),
            false => Decision::Refused(refused.clone()),
        };
        Judged {
            decisions: requests.iter().map(rule).collect(),
            is_drawn: false,
            is_by_what_is_written: true,
        }
    }

    /// Sets how many may go, where that depends on others or on another total.
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

    /// Looks once more, with what was drawn for a request standing here, and in those of the others that it was drawn from; `Some` says why
    /// that must not be.
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
        // One that was not healthy takes nothing.
        let is_enough =
            !request.is_available || whole.is_some_and(|whole| own >= whole.left_to_own());
        (!is_enough)
            .then(|| format!("{name} or a budget that it names has let another pod go at the same moment: try again"))
    }
}

/// Why a pod must stay before any of so many budgets that hold it is asked. Where one of them counts the pods of others, anyone may hold
/// the pod by an annotation.
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

/// How many pods are available, and how many must be.
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

/// How many pods are out of service that no entry names: an entry ends when its pod is being deleted.
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

/// Which of the others do not bring what they have, and why: each replica reads other clusters for itself, and may know less than the
/// status tells.
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

/// What a budget lacks for a request.
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

/// Why a pod must stay, who uses the budget up, and what helps.
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
            let entries = told(status.ledger.as_ref());
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

/// Does the budget let no pod go even if all pods are available?
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
