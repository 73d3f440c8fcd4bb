//! Rules, and their outcomes.

use futures::future::LocalBoxFuture;

use super::context::{Context, Unread};

/// Most objects that a text names, and most lines of a hint in the table.
pub(super) const NAMED: usize = 5;

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

impl Category {
    /// The failure of a category without any outcome, because the user lacks the rights.
    pub(super) fn unjudged(&self, outcomes: &[Judged]) -> Option<Judged> {
        let unknown = |one: &Judged| match &one.outcome {
            Outcome::Unknown(sentence) => Some(sentence.clone()),
            _ => None,
        };
        let unknown: Option<Vec<_>> = outcomes.iter().map(unknown).collect();
        let first = unknown?.into_iter().next()?;
        Some(Judged {
            category: self.name,
            rule: "rights",
            outcome: Outcome::Fail(
                format!("no rule of {} could be judged: {first}", self.name),
                "check with an account that has the rights named above; objects of one namespace \
                 are judged with -n"
                    .to_owned(),
            ),
        })
    }
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
