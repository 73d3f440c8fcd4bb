//! What the first round of a drain of a node would get, pod by pod.

use berth_api::names::annotation::MIRROR_POD;
use berth_workload::budget::native::{self, NativeBudget, review_evictions};
use berth_workload::objects::pod::{Metadata, Pod};
use serde::Serialize;
use serde_json::Value;

use super::places::Places;
use crate::budget_limit;
use crate::objects::{controller, items, name, namespace, text};

/// The beginning of the decisions of `berth_controller::plugin` that refuse an eviction.
pub(super) const REFUSED: &str = "would be refused: ";
/// The beginning of the decisions on pods that a drain leaves.
const LEFT: &str = "would be left where it is: ";
/// Part of the decisions on pods that use nothing of their budget.
const FREE: &str = "and take nothing: ";
/// The decisions on pods that are away from their budget already.
const AWAY: [&str; 2] = ["it is not available", "it was allowed to go already"];
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
    /// The indexes of the budgets from which the pod is away already.
    #[serde(skip)]
    pub(super) away: Vec<usize>,
    /// Whether two of Kubernetes' own budgets hold the pod, so that the apiserver never evicts it.
    #[serde(skip)]
    pub(super) is_doubled: bool,
}

/// The answer of all budgets on a pod.
struct Budgeted {
    answer: Answer,
    message: String,
    budgets: Vec<usize>,
    away: Vec<usize>,
    is_doubled: bool,
}

impl Budgeted {
    fn none(answer: Answer, message: String) -> Self {
        Self {
            answer,
            message,
            budgets: Vec::new(),
            away: Vec::new(),
            is_doubled: false,
        }
    }
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
    let Budgeted {
        answer,
        message,
        budgets,
        away,
        is_doubled,
    } = match unevicted(pod) {
        Some(why) => Budgeted::none(Answer::Stays, format!("stays: {why}")),
        None if is_going(pod) => {
            let why = "would go: it has ended, or is on its way out";
            Budgeted::none(Answer::Goes, why.to_owned())
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
        away,
        is_doubled,
    }
}

fn by_budgets(
    pod: &Value,
    decisions: &[Decision],
    natives: &mut [(usize, NativeBudget)],
) -> Budgeted {
    let own: Vec<_> = decisions
        .iter()
        .filter(|one| one.namespace == namespace(pod) && one.pod == name(pod))
        .collect();
    let Ok(typed) = serde_json::from_str::<Pod>(&pod.to_string()) else {
        let why = format!("{REFUSED}the pod cannot be read");
        return Budgeted::none(Answer::Waits, why);
    };
    let holding: Vec<_> = natives
        .iter()
        .enumerate()
        .filter(|(_, (_, native))| {
            *native.metadata.namespace == *typed.metadata.namespace
                && native.selects(&typed.metadata)
        })
        .map(|(at, _)| at)
        .collect();
    let beside: Vec<_> = holding.iter().map(|at| natives[*at].1.clone()).collect();
    let refusal = native::refused(&typed, &beside).map(|refused| match &*beside {
        [one] => uncounted(one).unwrap_or(refused.message),
        _ => refused.message,
    });
    let of_natives = || holding.iter().map(|at| natives[*at].0);
    let of_own = |is: fn(&str) -> bool| {
        let found = own.iter().filter(move |one| is(&one.words));
        found.map(|one| one.budget)
    };
    let is_reviewed = review_evictions(&typed);
    let mut found = Budgeted {
        budgets: of_own(|words| !words.contains(FREE))
            .chain(of_natives().filter(|_| is_reviewed))
            .collect(),
        away: of_own(|words| AWAY.iter().any(|away| words.ends_with(away)))
            .chain(of_natives().filter(|_| !is_reviewed))
            .collect(),
        is_doubled: is_reviewed && holding.len() > 1,
        ..Budgeted::none(Answer::Waits, String::new())
    };
    let refused = own.iter().find(|one| one.words.starts_with(REFUSED));
    let refusal = refusal.map(|why| format!("{REFUSED}{why}"));
    if let Some(why) = refusal.clone().filter(|_| found.is_doubled) {
        found.message = why;
    } else if let Some(refused) = refused {
        found.message.clone_from(&refused.words);
    } else if let Some(left) = own.iter().find(|one| one.words.starts_with(LEFT)) {
        return Budgeted::none(Answer::Stays, left.words.clone());
    } else if let Some(why) = refusal {
        found.message = why;
    } else {
        for at in holding {
            natives[at].1.take(&typed);
        }
        let words = own.first().map_or("would go", |one| one.words.as_str());
        (found.answer, found.message) = (Answer::Goes, words.to_owned());
    }
    found
}

/// Why Kubernetes cannot count the pods of a budget.
fn uncounted(budget: &NativeBudget) -> Option<String> {
    let pods = usize::try_from(budget.status.expected_pods).unwrap_or(0);
    let why = budget_limit::uncounted(budget, pods)?;
    let Metadata {
        namespace, name, ..
    } = &budget.metadata;
    Some(format!("PodDisruptionBudget {namespace}/{name} {why}"))
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
