//! What a drain of a node would get, pod by pod, and after how many rounds the node is empty.

use berth_api::names::annotation::MIRROR_POD;
use berth_workload::budget::native::{self, NativeBudget, review_evictions};
use berth_workload::objects::pod::Pod;
use serde::Serialize;
use serde_json::Value;

use crate::objects::{controller, items, name, namespace, text};

/// The beginning of the decisions of `berth_controller::plugin` that refuse an eviction.
const REFUSED: &str = "would be refused: ";
/// The beginning of the decisions on pods that a drain leaves.
const LEFT: &str = "would be left where it is: ";
/// Part of the decisions on pods that use nothing of their budget.
const FREE: &str = "and take nothing: ";
/// Part of the refusals that bring a replacement.
const REPLACED: &str = "replacement first: ";

/// A budget of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Budget {
    /// Such as `pub default/web`.
    pub(super) name: String,
    /// How many pods may go now.
    pub(super) allowed: i64,
    /// How many pods may be away while all others are ready.
    pub(super) most: i64,
}

/// The decision of a budget of Berth on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    /// The index of the budget.
    pub(super) budget: usize,
    pub(super) namespace: String,
    pub(super) pod: String,
    /// The decision as `berth_controller::plugin` words it.
    pub(super) words: String,
}

/// What happens to a pod in the first round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer {
    /// It is evicted.
    Goes,
    /// The eviction is refused.
    Waits,
    /// A drain leaves the pod.
    Stays,
}

/// A pod of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) answer: Answer,
    /// The answer as a sentence.
    pub(super) message: String,
    /// Flags of `kubectl drain` without which it refuses the whole node.
    pub(super) flags: Vec<&'static str>,
    /// The indexes of the budgets that count the pod.
    #[serde(skip)]
    pub(super) budgets: Vec<usize>,
}

impl Row {
    /// The answer, and the flags that it needs.
    pub(super) fn sentence(&self) -> String {
        if self.flags.is_empty() {
            return self.message.clone();
        }
        format!("{} (needs {})", self.message, self.flags.join(", "))
    }
}

/// When a node is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rounds {
    /// After so many rounds, if replacements become ready.
    Empty(i64),
    /// Never, as long as this message is true.
    Never(String),
}

/// The pods of a node in the order of a drain, each with its answer. `natives` has Kubernetes' own
/// budgets, and their indexes among all budgets.
pub(super) fn rows(
    pods: &[Value],
    decisions: &[Decision],
    natives: &[(usize, NativeBudget)],
) -> Vec<Row> {
    let mut natives = natives.to_vec();
    let mut pods: Vec<_> = pods.iter().collect();
    pods.sort_by_key(|pod| (namespace(pod), name(pod)));
    pods.into_iter()
        .map(|pod| row(pod, decisions, &mut natives))
        .collect()
}

fn row(pod: &Value, decisions: &[Decision], natives: &mut [(usize, NativeBudget)]) -> Row {
    let (answer, message, budgets) = match unevicted(pod) {
        Some(why) => (Answer::Stays, format!("stays: {why}"), Vec::new()),
        None if has_ended(pod) || pod.pointer("/metadata/deletionTimestamp").is_some() => {
            let why = "would go: it has ended, or is on its way out";
            (Answer::Goes, why.to_owned(), Vec::new())
        }
        None => by_budgets(pod, decisions, natives),
    };
    let flags = match answer {
        Answer::Stays if is_of_native_daemon_set(pod) => vec!["--ignore-daemonsets"],
        Answer::Stays => Vec::new(),
        Answer::Goes | Answer::Waits => flags(pod),
    };
    Row {
        namespace: namespace(pod).to_owned(),
        pod: name(pod).to_owned(),
        answer,
        message,
        flags,
        budgets,
    }
}

/// The answer of the budgets, its sentence, and the indexes of the budgets that count the pod.
fn by_budgets(
    pod: &Value,
    decisions: &[Decision],
    natives: &mut [(usize, NativeBudget)],
) -> (Answer, String, Vec<usize>) {
    let own: Vec<_> = decisions
        .iter()
        .filter(|one| one.namespace == namespace(pod) && one.pod == name(pod))
        .collect();
    let (refusal, native_holds) = by_natives(pod, natives);
    let counting = own.iter().filter(|one| !one.words.contains(FREE));
    let native_budgets = native_holds.iter().map(|at| natives[*at].0);
    let budgets = counting
        .map(|one| one.budget)
        .chain(native_budgets)
        .collect();
    if let Some(refused) = own.iter().find(|one| one.words.starts_with(REFUSED)) {
        return (Answer::Waits, refused.words.clone(), budgets);
    }
    if let Some(left) = own.iter().find(|one| one.words.starts_with(LEFT)) {
        return (Answer::Stays, left.words.clone(), Vec::new());
    }
    if let Some(refused) = refusal {
        return (Answer::Waits, format!("{REFUSED}{refused}"), budgets);
    }
    if let Ok(typed) = typed(pod) {
        native_holds
            .iter()
            .for_each(|at| natives[*at].1.take(&typed));
    }
    let mut words = own
        .first()
        .map_or("would go", |one| one.words.as_str())
        .to_owned();
    if controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet") {
        words += "; its DaemonSet recreates it on the node";
    }
    (Answer::Goes, words, budgets)
}

fn typed(pod: &Value) -> Result<Pod, serde_json::Error> {
    serde_json::from_str(&pod.to_string())
}

/// The refusal of Kubernetes' own budgets, and the indexes of those that count the pod.
fn by_natives(pod: &Value, natives: &[(usize, NativeBudget)]) -> (Option<String>, Vec<usize>) {
    let Ok(pod) = typed(pod) else {
        return (Some("the pod cannot be read".to_owned()), Vec::new());
    };
    let of_namespace =
        |native: &NativeBudget| *native.metadata.namespace == *pod.metadata.namespace;
    let holding: Vec<_> = natives
        .iter()
        .enumerate()
        .filter(|(_, (_, native))| of_namespace(native) && native.selects(&pod.metadata))
        .collect();
    let beside: Vec<_> = holding
        .iter()
        .map(|(_, (_, native))| native.clone())
        .collect();
    let refused = native::refused(&pod, &beside).map(|refused| refused.message);
    let counts = holding
        .iter()
        .filter(|_| review_evictions(&pod))
        .map(|(at, _)| *at);
    (refused, counts.collect())
}

fn unevicted(pod: &Value) -> Option<&'static str> {
    let has_mirror = items_of_annotations(pod).any(|name| name == MIRROR_POD);
    if has_mirror {
        Some("it is a mirror pod")
    } else if is_of_native_daemon_set(pod) && !has_ended(pod) {
        Some("it is of a DaemonSet")
    } else {
        None
    }
}

fn items_of_annotations(pod: &Value) -> impl Iterator<Item = &String> {
    let all = pod
        .pointer("/metadata/annotations")
        .and_then(Value::as_object);
    all.into_iter().flat_map(serde_json::Map::keys)
}

fn is_of_native_daemon_set(pod: &Value) -> bool {
    controller(pod).is_some_and(|owner| {
        owner["kind"] == "DaemonSet" && text(owner, "/apiVersion").starts_with("apps/")
    })
}

fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
}

/// The flags without which `kubectl drain` refuses the whole node because of this pod.
fn flags(pod: &Value) -> Vec<&'static str> {
    if has_ended(pod) {
        return Vec::new();
    }
    let mut flags = Vec::new();
    if controller(pod).is_none() {
        flags.push("--force");
    }
    if items(pod, "/spec/volumes").any(|volume| volume.get("emptyDir").is_some()) {
        flags.push("--delete-emptydir-data");
    }
    flags
}

/// When the node is empty. In each round, a budget lets go as many pods as may be away, because the
/// replacements of the previous round are ready by then.
pub(super) fn rounds(rows: &[Row], budgets: &[Budget]) -> Rounds {
    let counts = |at: usize| rows.iter().filter(move |row| row.budgets.contains(&at));
    let gone = |at: usize| counts(at).filter(|row| row.answer == Answer::Goes).count() as i64;
    let is_replaced = |row: &Row| row.message.contains(REPLACED);
    let never = rows.iter().find(|row| {
        let held = |at: &usize| budgets.get(*at);
        let is_passing = |at: &usize| {
            held(at).is_some_and(|budget| budget.most > 0 && gone(*at) >= budget.allowed)
        };
        let none_ever = row
            .budgets
            .iter()
            .filter_map(held)
            .any(|budget| budget.most <= 0);
        row.answer == Answer::Waits
            && !is_replaced(row)
            && (none_ever || !row.budgets.iter().any(is_passing))
    });
    if let Some(row) = never {
        let message = row.message.strip_prefix(REFUSED).unwrap_or(&row.message);
        return Rounds::Never(format!("{}/{}: {message}", row.namespace, row.pod));
    }
    let of_budgets = budgets.iter().enumerate().map(|(at, budget)| {
        let (all, first) = (
            counts(at).filter(|row| !is_replaced(row)).count() as i64,
            gone(at),
        );
        let rest = (all - first).max(0);
        let most = budget.most.max(1);
        i64::from(first > 0 || rest > 0) + (rest + most - 1) / most
    });
    let replaced = rows.iter().any(is_replaced);
    let any = rows.iter().any(|row| row.answer == Answer::Goes);
    let fewest = if replaced { 2 } else { i64::from(any) };
    Rounds::Empty(of_budgets.max().unwrap_or_default().max(fewest))
}

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
pub(super) fn last_round(node: &str, rounds: &Rounds) -> String {
    match rounds {
        Rounds::Empty(0) => format!("{node} has no pod that a drain evicts"),
        Rounds::Empty(1) => format!("{node} is empty after 1 round"),
        Rounds::Empty(rounds) => format!(
            "{node} is empty after {rounds} rounds, if the replacements of each round become ready elsewhere"
        ),
        Rounds::Never(message) => {
            format!("{node} is never empty as long as this stays so: {message}")
        }
    }
}
