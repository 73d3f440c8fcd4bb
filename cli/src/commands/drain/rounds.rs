//! What a drain of a node would get, pod by pod, and after how many rounds the node is empty.

use berth_api::names::annotation::MIRROR_POD;
use berth_workload::budget::native::{self, NativeBudget, review_evictions};
use berth_workload::objects::pod::Pod;
use serde::Serialize;
use serde_json::Value;

use super::places::Places;
use crate::objects::{controller, items, name, namespace, text};

/// The beginning of the decisions of `berth_controller::plugin` that refuse an eviction.
const REFUSED: &str = "would be refused: ";
/// The beginning of the decisions on pods that a drain leaves.
const LEFT: &str = "would be left where it is: ";
/// Part of the decisions on pods that use nothing of their budget.
const FREE: &str = "and take nothing: ";
/// Part of the refusals that bring a replacement.
pub(super) const REPLACED: &str = "replacement first: ";

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
    /// What follows the eviction, if it is worth a word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) after: String,
    /// Flags of `kubectl drain` without which it refuses the whole node.
    pub(super) flags: Vec<&'static str>,
    /// Whether the pod's DaemonSet recreates it on the node.
    pub(super) returns: bool,
    /// Why no other node takes its replacement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<String>,
    /// The indexes of the budgets that count the pod.
    #[serde(skip)]
    pub(super) budgets: Vec<usize>,
}

impl Row {
    /// The answer, what follows, and the flags that it needs.
    pub(super) fn sentence(&self) -> String {
        let mut sentence = self.message.clone();
        if !self.after.is_empty() {
            sentence = format!("{sentence}; {}", self.after);
        }
        if !self.flags.is_empty() {
            sentence = format!("{sentence} (needs {})", self.flags.join(", "));
        }
        sentence
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
    places: &Places,
) -> Vec<Row> {
    let mut natives = natives.to_vec();
    let mut pods: Vec<_> = pods.iter().collect();
    pods.sort_by_key(|pod| (namespace(pod), name(pod)));
    pods.into_iter()
        .map(|pod| row(pod, decisions, &mut natives, places))
        .collect()
}

fn row(
    pod: &Value,
    decisions: &[Decision],
    natives: &mut [(usize, NativeBudget)],
    places: &Places,
) -> Row {
    let (answer, message, budgets) = match unevicted(pod) {
        Some(why) => (Answer::Stays, format!("stays: {why}"), Vec::new()),
        None if is_going(pod) => {
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
    let has_next = answer != Answer::Stays && !is_going(pod);
    let owner = controller(pod).map_or("", |owner| text(owner, "/kind"));
    let (mut after, mut pending) = (String::new(), None);
    let waits = places.waits_for_uncordon(pod);
    let returns = has_next && owner == "DaemonSet" && !waits;
    match owner {
        _ if !has_next => {}
        "" => after = "no controller recreates it".to_owned(),
        "DaemonSet" if returns => after = "its DaemonSet recreates it on the node".to_owned(),
        "DaemonSet" | "BroadcastJob" => {
            after = format!("its {owner} recreates it once the node is uncordoned");
        }
        _ => pending = places.pending(pod),
    }
    if let Some(why) = &pending {
        after = format!("its replacement would be Pending: {why}");
    }
    Row {
        namespace: namespace(pod).to_owned(),
        pod: name(pod).to_owned(),
        answer,
        message,
        after,
        flags,
        returns,
        pending,
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
    let words = own.first().map_or("would go", |one| one.words.as_str());
    (Answer::Goes, words.to_owned(), budgets)
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

/// Whether the pod has ended, or is on its way out.
fn is_going(pod: &Value) -> bool {
    has_ended(pod) || pod.pointer("/metadata/deletionTimestamp").is_some()
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

/// When the node is empty. In each round, a budget lets go as many pods as may be away. These are
/// the replacements of the previous round that have a node, because they are ready by then.
pub(super) fn rounds(rows: &[Row], budgets: &[Budget]) -> Rounds {
    let never = rows
        .iter()
        .find_map(|row| Some((row, never(row, rows, budgets)?)));
    if let Some((row, message)) = never {
        return Rounds::Never(format!("{}/{}: {message}", row.namespace, row.pod));
    }
    let (mut most, is_replaced) = (0, |row: &Row| row.message.contains(REPLACED));
    for (at, budget) in budgets.iter().enumerate() {
        let counted = rows.iter().filter(|row| row.budgets.contains(&at));
        let counted: Vec<_> = counted.filter(|row| !is_replaced(row)).collect();
        match rounds_of(budget, &counted) {
            Ok(rounds) => most = rounds.max(most),
            Err((row, away)) => {
                return Rounds::Never(format!(
                    "{}/{}: {} waits for the replacement of {}/{}, which would be Pending",
                    row.namespace, row.pod, budget.name, away.namespace, away.pod
                ));
            }
        }
    }
    let any = rows.iter().any(|row| row.answer == Answer::Goes);
    let fewest = if rows.iter().any(is_replaced) {
        2
    } else {
        i64::from(any)
    };
    Rounds::Empty(most.max(fewest))
}

/// Why the eviction of a pod is refused in each round.
fn never(row: &Row, rows: &[Row], budgets: &[Budget]) -> Option<String> {
    if row.answer != Answer::Waits {
        return None;
    }
    if row.message.contains(REPLACED) {
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
        message.to_owned()
    })
}

/// The rounds after which the pods of a budget are gone; otherwise a pod that never goes, and one
/// whose replacement it waits for.
fn rounds_of<'a>(budget: &Budget, pods: &[&'a Row]) -> Result<i64, (&'a Row, &'a Row)> {
    let goes = |row: &&&Row| row.answer == Answer::Goes;
    let mut rounds = i64::from(!pods.is_empty());
    let mut away: Vec<_> = pods.iter().filter(goes).filter(has_no_place).collect();
    let mut waiting = pods
        .iter()
        .filter(|row| row.answer == Answer::Waits)
        .peekable();
    while let Some(next) = waiting.peek() {
        let may = budget.most.max(1) - away.len() as i64;
        if let (..1, Some(first)) = (may, away.first()) {
            return Err((next, first));
        }
        let round = waiting.by_ref().take(usize::try_from(may).unwrap_or(1));
        away.extend(round.filter(has_no_place));
        rounds += 1;
    }
    Ok(rounds)
}

fn has_no_place(row: &&&Row) -> bool {
    row.pending.is_some()
}
