//! The result of a drain in sentences.

use std::collections::BTreeSet;

use super::end::Rounds;
use super::rounds::{Answer, Budget, REPLACED, Row};

/// Most pods that a sentence names.
const NAMED: usize = 5;
/// Most causes that a sentence names.
const CAUSES: usize = 3;

/// The sentence on the first round.
pub(super) fn first_round(rows: &[Row], budgets: &[Budget]) -> String {
    let number = |answer| rows.iter().filter(|row| row.answer == answer).count();
    let pods = |number| {
        if number == 1 {
            "1 pod goes".to_owned()
        } else {
            format!("{number} pods go")
        }
    };
    let mut parts = vec![pods(number(Answer::Goes))];
    let mut held: Vec<(String, usize)> = Vec::new();
    for row in rows.iter().filter(|row| row.answer == Answer::Waits) {
        let is_used_up = |at: &&usize| {
            let gone = rows
                .iter()
                .filter(|row| row.answer == Answer::Goes && row.budgets.contains(at));
            budgets
                .get(**at)
                .is_some_and(|budget| gone.count() as i64 >= budget.allowed)
        };
        let by = row.budgets.iter().find(is_used_up).or(row.budgets.first());
        let by = by.and_then(|at| budgets.get(*at));
        let state = match by {
            _ if row.is_doubled => "stays, held by two PodDisruptionBudgets".to_owned(),
            _ if row.message.contains(REPLACED) => "waits for a replacement".to_owned(),
            Some(budget) if budget.most > 0 => {
                format!("waits for {} until replacements are ready", budget.name)
            }
            Some(budget) => format!("stays, held by {}", budget.name),
            None => "stays, held by a budget".to_owned(),
        };
        match held.iter_mut().find(|(name, _)| *name == state) {
            Some((_, number)) => *number += 1,
            None => held.push((state, 1)),
        }
    }
    for (state, number) in held {
        // The plural of the verb.
        let state = if number == 1 {
            state
        } else {
            state
                .replacen("waits", "wait", 1)
                .replacen("stays", "stay", 1)
        };
        parts.push(format!("{number} {state}"));
    }
    format!("1st round: {}", parts.join("; "))
}

/// The sentence on the end.
pub(super) fn last_round(node: &str, rounds: &Rounds, rows: &[Row]) -> String {
    let stays = |row: &Row| row.answer == Answer::Stays;
    let number = |is: fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
    let except = match (number(stays), number(|row| row.returns)) {
        (0, 0) => "",
        (1, 0) => ", except for the pod that stays",
        (_, 0) => ", except for the pods that stay",
        (0, 1) => ", except for the pod that comes back",
        (0, _) => ", except for the pods that come back",
        _ => ", except for the pods that stay or come back",
    };
    match rounds {
        Rounds::Empty(0) => format!("{node} has no pod that a drain evicts"),
        Rounds::Empty(1) => format!("{node} is empty after 1 round{except}"),
        Rounds::Empty(rounds) => format!(
            "{node} is empty after {rounds} rounds, if the replacements of each round become ready elsewhere{except}"
        ),
        Rounds::Never(causes) => {
            let causes = listed(causes);
            format!("{node} is never empty as long as this stays so: {causes}")
        }
    }
}

/// The first causes, and how many more there are.
fn listed(causes: &[String]) -> String {
    let first: Vec<_> = causes.iter().take(CAUSES).map(String::as_str).collect();
    let first = first.join("; ");
    match causes.len().saturating_sub(CAUSES) {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

/// Whether a drain of the node ends with an empty node and without Pending pods; otherwise why not.
pub(super) fn drainable(rounds: &Rounds, rows: &[Row]) -> String {
    match (rounds, pending(rows)) {
        (Rounds::Never(causes), _) => format!("no: {}", listed(causes)),
        (Rounds::Empty(_), Some(pending)) => format!("no: {pending}"),
        (Rounds::Empty(0 | 1), None) => "yes".to_owned(),
        (Rounds::Empty(rounds), None) => format!("yes, in {rounds} rounds"),
    }
}

/// The pods that stay, those that come back, and those whose replacements would be Pending, in a
/// sentence each.
pub(super) fn remains(rows: &[Row]) -> Vec<String> {
    let stays = sentence(
        rows,
        |row| row.answer == Answer::Stays,
        ("1 pod stays", "pods stay"),
    );
    let returns = sentence(
        rows,
        |row| row.returns,
        (
            "1 pod comes back, because its DaemonSet recreates it on the node",
            "pods come back, because their DaemonSets recreate them on the node",
        ),
    );
    let all = [stays, returns, pending(rows)];
    all.into_iter().flatten().collect()
}

/// The sentence on the pods whose replacements would be Pending.
fn pending(rows: &[Row]) -> Option<String> {
    let words = (
        "1 pod would be Pending, because no other node takes it",
        "pods would be Pending, because no other node takes them",
    );
    sentence(rows, is_pending, words)
}

/// A sentence in singular or plural that names some of the pods.
fn sentence(rows: &[Row], is: fn(&Row) -> bool, (one, many): (&str, &str)) -> Option<String> {
    let found: Vec<_> = rows.iter().filter(|row| is(row)).collect();
    let mut named: Vec<_> = found
        .iter()
        .take(NAMED)
        .map(|row| format!("{}/{}", row.namespace, row.pod))
        .collect();
    if found.len() > NAMED {
        named.push(format!("{} more", found.len() - NAMED));
    }
    let named = named.join(", ");
    match found.len() {
        0 => None,
        1 => Some(format!("{one}: {named}")),
        some => Some(format!("{some} {many}: {named}")),
    }
}

/// Whether the replacement of a pod that goes, now or later, has no node.
pub(super) fn is_pending(row: &Row) -> bool {
    row.pending.is_some()
}

/// The sentence on the flags that `kubectl drain` needs.
pub(super) fn flags(rows: &[Row]) -> Option<String> {
    let flags: BTreeSet<_> = rows
        .iter()
        .flat_map(|row| row.flags.iter().copied())
        .collect();
    let flags: Vec<_> = flags.into_iter().collect();
    let words = "flags that kubectl drain needs for these pods";
    (!flags.is_empty()).then(|| format!("{words}: {}", flags.join(" ")))
}
