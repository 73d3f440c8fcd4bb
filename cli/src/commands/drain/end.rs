//! After how many rounds a drained node is empty, or why it never is.

use super::rounds::{Answer, Budget, REFUSED, REPLACED, Row};

/// When a node is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rounds {
    /// After so many rounds, if replacements become ready.
    Empty(i64),
    /// Never, as long as these messages are true: one for each pod that does not go.
    Never(Vec<String>),
}

/// When the node is empty. In each round, a budget lets go as many pods as may be away. These are
/// the replacements of the previous round that have a node, because they are ready by then.
pub(super) fn rounds(rows: &[Row], budgets: &[Budget]) -> Rounds {
    let (mut causes, mut waiting) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| row.answer == Answer::Waits) {
        match never(row, rows, budgets) {
            Some(why) => causes.push((row, why)),
            None if is_replaced(row) => {}
            None => waiting.push(row),
        }
    }
    let mut most = if rows.iter().any(is_replaced) {
        2
    } else {
        i64::from(rows.iter().any(|row| row.answer == Answer::Goes))
    };
    for (at, budget) in budgets.iter().enumerate() {
        let is_its = |row: &&Row| row.budgets.contains(&at);
        let going = rows.iter().filter(|row| row.answer == Answer::Goes);
        let going: Vec<_> = going
            .filter(|row| is_its(row) || row.away.contains(&at))
            .collect();
        let waiting: Vec<_> = waiting.iter().copied().filter(is_its).collect();
        match rounds_of(budget, &going, &waiting) {
            Ok(rounds) => most = rounds.max(most),
            Err((rest, away)) => causes.extend(rest.iter().map(|row| {
                let why = format!(
                    "{} waits for the replacement of {}/{}, which would be Pending",
                    budget.name, away.namespace, away.pod
                );
                (*row, why)
            })),
        }
    }
    if causes.is_empty() {
        return Rounds::Empty(most);
    }
    let causes = causes
        .into_iter()
        .map(|(row, why)| format!("{}/{}: {why}", row.namespace, row.pod));
    Rounds::Never(causes.collect())
}

fn is_replaced(row: &Row) -> bool {
    row.message.contains(REPLACED)
}

/// Why the eviction of a pod that waits is refused in each round.
fn never(row: &Row, rows: &[Row], budgets: &[Budget]) -> Option<String> {
    if row.is_doubled {
        let holding = row.budgets.iter().filter_map(|at| budgets.get(*at));
        let natives = holding.filter(|budget| budget.name.starts_with("pdb "));
        let natives: Vec<_> = natives.map(|budget| budget.name.as_str()).collect();
        return Some(format!(
            "{} hold it, and the apiserver evicts no pod of two PodDisruptionBudgets",
            natives.join(" and ")
        ));
    }
    if is_replaced(row) {
        let why = row.pending.as_ref()?;
        return Some(format!("its replacement would be Pending: {why}"));
    }
    let gone = |at: usize| {
        let goes = |one: &&Row| one.answer == Answer::Goes && one.budgets.contains(&at);
        rows.iter().filter(goes).count() as i64
    };
    let held = |at: &usize| budgets.get(*at);
    let is_passing =
        |at: &usize| held(at).is_some_and(|budget| budget.most > 0 && gone(*at) >= budget.allowed);
    let holding = || row.budgets.iter().filter_map(held);
    let none_ever = holding().any(|budget| budget.most <= 0);
    (none_ever || !row.budgets.iter().any(is_passing)).then(|| {
        let message = row.message.strip_prefix(REFUSED).unwrap_or(&row.message);
        // Another try changes nothing.
        let why = message.split_once("; try again").map(|(why, _)| why);
        why.unwrap_or(message).to_owned()
    })
}

/// The rounds after which the pods of a budget are gone; otherwise the pods that never go, and one
/// whose replacement they wait for.
fn rounds_of<'a, 'r>(
    budget: &Budget,
    going: &[&'r Row],
    waiting: &'a [&'r Row],
) -> Result<i64, (&'a [&'r Row], &'r Row)> {
    let has_no_place = |row: &&&Row| row.pending.is_some();
    let mut rounds = i64::from(!going.is_empty() || !waiting.is_empty());
    let mut away: Vec<_> = going.iter().filter(has_no_place).copied().collect();
    // Without one replacement that becomes ready, the budget lets no other pod go.
    let none_returns = away.len() == going.len();
    let mut rest = waiting;
    while !rest.is_empty() {
        let may = budget.most.max(1) - away.len() as i64;
        if let (Some(first), true) = (away.first(), may < 1 || none_returns) {
            return Err((rest, first));
        }
        let next = usize::try_from(may).unwrap_or(1).min(rest.len());
        let (round, later) = rest.split_at(next);
        away.extend(round.iter().filter(has_no_place));
        rest = later;
        rounds += 1;
    }
    Ok(rounds)
}
