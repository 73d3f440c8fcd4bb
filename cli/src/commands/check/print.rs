//! The results, as linkerd prints them.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::outcome::{Judged, NAMED, Outcome};
use crate::text::{self, clean};

/// How the results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// All results.
    Table,
    /// All results but those in order.
    Short,
    /// The results as data.
    Json,
}

/// Prints the results of a command.
pub(super) fn results(results: &[Judged], output: Output, command: &str) -> anyhow::Result<()> {
    if output == Output::Json {
        anstream::println!("{}", text::json(&as_json(results))?);
        return Ok(());
    }
    anstream::print!("{}", as_text(results, output == Output::Short, command));
    Ok(())
}

/// The results as lines; `is_short` leaves out what is in order. The command prints all lines with
/// `-o json`.
pub(super) fn as_text(results: &[Judged], is_short: bool, command: &str) -> String {
    let mut lines = String::new();
    let mut category = "";
    for one in results {
        if is_short && matches!(one.outcome, Outcome::Ok(_)) {
            continue;
        }
        if category != one.category {
            category = one.category;
            let line = "-".repeat(category.len());
            lines += &format!("{category}\n{line}\n");
        }
        let (_, sign, style) = look(&one.outcome);
        let (text, hint) = parts(&one.outcome);
        lines += &format!("{style}{sign}{style:#} {}\n", clean(text));
        for line in hint.lines().take(NAMED) {
            lines += &format!("    {}\n", clean(line));
        }
        if let more @ 1.. = hint.lines().count().saturating_sub(NAMED) {
            lines += &format!("    and {more} more; `{command} -o json` lists all\n");
        }
    }
    let (_, sign, style) = look(&worst(results));
    lines + &format!("Status check results are {style}{sign}{style:#}\n")
}

/// The results with linkerd's names of fields.
pub(super) fn as_json(results: &[Judged]) -> Value {
    let mut categories: Vec<(&str, Vec<Value>)> = Vec::new();
    for one in results {
        let (result, ..) = look(&one.outcome);
        let (text, hint) = parts(&one.outcome);
        let check = json!({"name": one.rule, "result": result, "description": text, "hint": hint});
        match categories.last_mut() {
            Some((name, checks)) if *name == one.category => checks.push(check),
            _ => categories.push((one.category, vec![check])),
        }
    }
    let categories: Vec<_> = categories
        .into_iter()
        .map(|(name, checks)| json!({"categoryName": name, "checks": checks}))
        .collect();
    let success = !matches!(worst(results), Outcome::Fail(..));
    json!({"success": success, "categories": categories})
}

fn parts(outcome: &Outcome) -> (&str, &str) {
    match outcome {
        Outcome::Ok(text) | Outcome::Unknown(text) => (text, ""),
        Outcome::Warn(text, hint) | Outcome::Fail(text, hint) => (text, hint),
    }
}

/// The name in JSON, the sign, and its colour.
fn look(outcome: &Outcome) -> (&'static str, &'static str, Style) {
    let colour = |colour: AnsiColor| colour.on_default();
    match outcome {
        Outcome::Ok(_) => ("success", "√", colour(AnsiColor::Green)),
        Outcome::Warn(..) => ("warning", "‼", colour(AnsiColor::Yellow)),
        Outcome::Fail(..) => ("error", "×", colour(AnsiColor::Red)),
        Outcome::Unknown(_) => ("unknown", "?", colour(AnsiColor::Yellow)),
    }
}

/// The outcome of all: × if one failed, otherwise ‼ if one warns, otherwise ? if one is not known.
fn worst(results: &[Judged]) -> Outcome {
    let any = |is: fn(&Outcome) -> bool| results.iter().any(|one| is(&one.outcome));
    let none = String::new;
    if any(|one| matches!(one, Outcome::Fail(..))) {
        Outcome::Fail(none(), none())
    } else if any(|one| matches!(one, Outcome::Warn(..))) {
        Outcome::Warn(none(), none())
    } else if any(|one| matches!(one, Outcome::Unknown(_))) {
        Outcome::Unknown(none())
    } else {
        Outcome::Ok(none())
    }
}
