//! Causes of the condition `Blocked`, and the choice of the cause that it names.

use jiff::{SignedDuration, Timestamp};

use crate::update::podset::Blocked;

/// Separates a cause from the pods that are out of service, which change.
pub(super) const OTHERS: &str = ". Other pods wait for maxUnavailable";
/// Most pods that a message names.
pub(super) const NAMED: usize = 3;
/// How long a state that may pass by itself lasts before the condition names it.
pub(super) const LASTING: SignedDuration = SignedDuration::from_secs(60);

/// How grave a cause is. Graver grades come first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// The spec or a write was refused, so that the rollout makes no progress.
    Refused,
    /// A person must change the spec, or repair the registry or the node.
    Failing,
    /// The state may pass by itself, but has lasted for a minute.
    Lasting,
    /// A budget is used up. It has capacity again once other pods serve.
    Waiting,
    /// A hazard that holds nothing back yet.
    Hazard,
}

/// One cause of the condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// How grave the cause is.
    pub grade: Grade,
    /// The condition's reason, one CamelCase word.
    pub reason: &'static str,
    /// The condition's message, a whole sentence.
    pub message: String,
    /// The time from which the cause counts.
    pub from: Timestamp,
    /// The cause counts only if the condition has named it before, because a new one looks like a
    /// state that passes by itself.
    pub only_if_reported: bool,
}

/// Separates Berth's words from a quoted message. Numbers before it count when messages are
/// compared, except the number of further pods.
pub(super) const DETAIL: &str = " says: ";

impl Cause {
    /// A cause that counts from this time on.
    pub fn new(grade: Grade, reason: &'static str, message: String, from: Timestamp) -> Self {
        Self {
            grade,
            reason,
            message,
            from,
            only_if_reported: false,
        }
    }
}

/// The gravest cause that counts by now. Of several, the one that the condition names already is
/// first. The flag says whether the condition names it already; then the caller keeps its message.
pub fn gravest(
    mut causes: Vec<Cause>,
    reported: Option<Blocked<'_>>,
    now: Timestamp,
) -> Option<(Cause, bool)> {
    let same = |cause: &Cause| reported.is_some_and(|reported| is_same(reported, cause));
    causes.retain(|cause| {
        if cause.only_if_reported {
            same(cause)
        } else {
            cause.from <= now
        }
    });
    causes.sort_by_cached_key(|cause| (cause.grade, !same(cause)));
    let cause = causes.into_iter().next()?;
    let is_reported = same(&cause);
    Some((cause, is_reported))
}

/// Whether the condition names this cause already. Numbers in its message may differ, because they
/// change all the time.
fn is_same(reported: Blocked<'_>, cause: &Cause) -> bool {
    let words = |text: &str| {
        text.chars()
            .filter(|c| !c.is_ascii_digit())
            .collect::<String>()
    };
    // A cause that counts only if it was named before keeps its message when other pods are out of
    // service, and its details, which it does not know.
    let own = |message| {
        if cause.only_if_reported {
            without_others(message)
        } else {
            message
        }
    };
    let (reported, new) = (
        Blocked {
            message: own(reported.message),
            ..reported
        },
        own(&cause.message),
    );
    reported.reason == cause.reason
        && head(reported.message) == head(new)
        && (cause.only_if_reported || words(reported.message) == words(new))
}

fn without_others(message: &str) -> &str {
    message.split(OTHERS).next().unwrap_or_default()
}

/// The words of a message in which numbers count.
fn head(message: &str) -> Vec<&str> {
    let words: Vec<_> = message
        .split(DETAIL)
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let is_count = |at: usize| words.get(at + 1) == Some(&"more");
    words
        .iter()
        .enumerate()
        .filter(|(at, _)| !is_count(*at))
        .map(|(_, word)| *word)
        .collect()
}

/// Whether a message names this object before the quoted part.
pub(super) fn names(message: &str, object: &str) -> bool {
    let head = message.split(DETAIL).next().unwrap_or_default();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    head.split(|c| !is_of_name(c)).any(|word| word == object)
}

/// Replaces the names of new pods, which differ with every try, so that a repeated refusal has the
/// same text.
pub fn without_names(message: &str, set: &str) -> String {
    let prefix = format!("{set}-");
    let mut parts = message.split(&prefix);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let id = part
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(part.len());
        text += &prefix;
        text += if id == 5 { "*" } else { &part[..id] };
        text += &part[id..];
    }
    text
}
