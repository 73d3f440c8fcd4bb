//! Rules, and their outcomes.

use futures::future::LocalBoxFuture;

use super::context::{Context, Unread};

/// Most objects that a text names.
const NAMED: usize = 5;

/// What a rule found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// In order.
    Ok(String),
    /// Not in order, and Berth works; with a hint.
    Warn(String, String),
    /// Not in order, and Berth does not work; with a hint.
    Fail(String, String),
    /// Not known: the user lacks a right, which the sentence names.
    Unknown(String),
}

impl From<Unread> for Outcome {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Forbidden(sentence) => Self::Unknown(sentence),
            Unread::Failed(sentence) => Self::Fail(sentence, String::new()),
        }
    }
}

/// The outcome of a rule, or why its objects could not be read.
pub(super) type Found = Result<Outcome, Unread>;

/// A rule.
pub(super) struct Rule {
    /// Its name in JSON.
    pub(super) name: &'static str,
    /// Reads objects and judges them.
    pub(super) judge: for<'a> fn(&'a Context<'a>) -> LocalBoxFuture<'a, Found>,
    /// Whether no other rule can be judged if this one fails.
    pub(super) is_fatal: bool,
}

impl Rule {
    pub(super) const fn new(
        name: &'static str,
        judge: for<'a> fn(&'a Context<'a>) -> LocalBoxFuture<'a, Found>,
    ) -> Self {
        Self {
            name,
            judge,
            is_fatal: false,
        }
    }

    pub(super) const fn fatal(self) -> Self {
        Self {
            is_fatal: true,
            ..self
        }
    }
}

/// Rules under one heading.
pub(super) struct Category {
    pub(super) name: &'static str,
    pub(super) rules: &'static [Rule],
}

/// A rule that was judged.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) category: &'static str,
    pub(super) rule: &'static str,
    pub(super) outcome: Outcome,
}

/// The first five names, and how many more there are.
pub(super) fn some_of<T: AsRef<str>>(names: &[T]) -> String {
    let mut some: Vec<_> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = format!("{more} more");
    if names.len() > NAMED {
        some.push(&more);
    }
    some.join(", ")
}

/// The first five lines, and how many more there are.
pub(super) fn some_lines(mut lines: Vec<String>) -> String {
    let more = lines.len().saturating_sub(NAMED);
    lines.truncate(NAMED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

/// `1 node is`, `2 nodes are`.
pub(super) fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun} is"),
        _ => format!("{number} {noun}s are"),
    }
}

/// In order if there are none of these; otherwise a warning that names some.
pub(super) fn warn_if_any<T: AsRef<str>>(
    names: &[T],
    none: &str,
    some: &str,
    hint: &str,
) -> Outcome {
    if names.is_empty() {
        Outcome::Ok(none.to_owned())
    } else {
        Outcome::Warn(format!("{some}: {}", some_of(names)), hint.to_owned())
    }
}
