//! Causes, and which of them is told.

use jiff::{SignedDuration, Timestamp};

use crate::update::podset::Blocked;

/// Stands before the pods that are out of service, which change.
pub(super) const OTHERS: &str = ". Other pods wait for maxUnavailable";
/// As many pods a message names.
pub(super) const NAMED: usize = 3;
/// How long something that may pass by itself lasts before it is told.
pub(super) const LASTING: SignedDuration = SignedDuration::from_secs(60);

/// Something that holds a workload back. Graver causes come first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// The spec, or a write, was refused: nothing at all goes on.
    Refused,
    /// Only another spec, or a mended registry or node, helps.
    Failing,
    /// It may pass, but has not for a while.
    Lasting,
    /// A budget of pods has no room. It has room again when other pods serve.
    Waiting,
    /// It holds nothing back yet.
    Hazard,
}

/// One cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// How grave it is.
    pub grade: Grade,
    /// In one CamelCase word.
    pub reason: &'static str,
    /// A whole sentence.
    pub message: String,
    /// When it counts.
    pub from: Timestamp,
    /// It counts only where the same was told before: it cannot be told from what passes by itself.
    pub only_if_told: bool,
}

/// Stands before what somebody else said. Numbers before it count, but for how many more pods there are.
pub(super) const DETAIL: &str = " says: ";

impl Cause {
    /// A cause that counts from this time on.
    pub fn new(grade: Grade, reason: &'static str, message: String, from: Timestamp) -> Self {
        Self {
            grade,
            reason,
            message,
            from,
            only_if_told: false,
        }
    }
}

/// The gravest of those that count by now; of several, one that was told already. With it, whether it was told: then it
/// keeps its words.
pub fn gravest(
    mut causes: Vec<Cause>,
    told: Option<Blocked<'_>>,
    now: Timestamp,
) -> Option<(Cause, bool)> {
    let same = |cause: &Cause| told.is_some_and(|told| is_same(told, cause));
    causes.retain(|cause| {
        if cause.only_if_told {
            same(cause)
        } else {
            cause.from <= now
        }
    });
    causes.sort_by_cached_key(|cause| (cause.grade, !same(cause)));
    let cause = causes.into_iter().next()?;
    let is_told = same(&cause);
    Some((cause, is_told))
}

/// Was this very cause told? Numbers may differ: they run.
fn is_same(told: Blocked<'_>, cause: &Cause) -> bool {
    let words = |text: &str| {
        text.chars()
            .filter(|c| !c.is_ascii_digit())
            .collect::<String>()
    };
    // A cause that counts only where it was told keeps its words, whichever other pods are out of service by now.
    let own = |message| {
        if cause.only_if_told {
            without_others(message)
        } else {
            message
        }
    };
    let (told, new) = (
        Blocked {
            message: own(told.message),
            ..told
        },
        own(&cause.message),
    );
    told.reason == cause.reason
        && head(told.message) == head(new)
        && words(told.message) == words(new)
}

fn without_others(message: &str) -> &str {
    message.split(OTHERS).next().unwrap_or_default()
}

/// What numbers count in.
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

/// Does a message name this object before its detail?
pub(super) fn names(message: &str, object: &str) -> bool {
    let head = message.split(DETAIL).next().unwrap_or_default();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    head.split(|c| !is_of_name(c)).any(|word| word == object)
}

/// The names of new pods are new with every try: without them, the same refusal reads the same.
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
