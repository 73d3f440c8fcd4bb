//! The native budget that a budget of Berth keeps for clients that read no other kind. At most one
//! native budget selects a pod, because the eviction API refuses pods with two.

use berth_api::names::condition::CHILD_PDB;
use berth_api::v1beta1::podunavailablebudget::UnhealthyPodPolicy;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta};
use serde_json::{Value, json};

use crate::budget::native::{EvictionPolicy, NativeBudget};
use crate::objects::condition::condition;
use crate::objects::owner::controller_reference;
use crate::objects::resource::{POD_DISRUPTION_BUDGETS, Resource};
use crate::objects::selector::Selector;
use crate::plan::{Action, IfExists, Step, Target};

/// A budget of Berth that asks for a native budget.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its creation time, kind and name. The oldest budget comes first.
    pub since: (String, &'static str, String),
    /// The pods that it holds.
    pub selector: Selector,
    /// Its uid.
    pub uid: String,
}

/// Why a budget keeps no native budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Without {
    /// Another budget may hold the same pods: its kind and name.
    Overlaps(String),
    /// A native budget of this name belongs to another owner.
    Taken,
    /// The spec does not ask for one.
    NotRequested,
}

impl Without {
    /// The reason in conditions.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Overlaps(_) => "Overlaps",
            Self::Taken => "NameTaken",
            Self::NotRequested => "NotAsked",
        }
    }

    /// The message, with the remedy.
    pub fn message(&self, name: &str) -> String {
        match self {
            Self::Overlaps(other) => format!(
                "no PodDisruptionBudget is kept, because {other} may hold the same pods, and the eviction API refuses pods with two: give the \
                 selectors of both the same label with different values"
            ),
            Self::NotRequested => {
                "no PodDisruptionBudget is kept, because this budget does not request one"
                    .to_owned()
            }
            Self::Taken => {
                format!(
                    "no PodDisruptionBudget is kept, because {name} belongs to another owner: delete it, or rename this budget"
                )
            }
        }
    }
}

/// The condition that says whether the budget keeps a native budget.
pub fn kept_condition(keeps: &Result<(), Without>, name: &str, now: Timestamp) -> Condition {
    let (is_kept, reason, message) = match keeps {
        Ok(()) => {
            let message = format!("PodDisruptionBudget {name} mirrors this budget");
            (true, "Kept", message)
        }
        Err(without) => (false, without.reason(), without.message(name)),
    };
    condition(CHILD_PDB, is_kept, reason, message, now)
}

/// Whether a budget of Berth keeps a native budget. `all` are the budgets of its namespace that ask
/// for one, including this one; `natives` are all native budgets of the namespace.
///
/// # Errors
/// The reason why it keeps none.
pub fn keeps(me: &Candidate, all: &[Candidate], natives: &[&NativeBudget]) -> Result<(), Without> {
    let is_mine = |native: &NativeBudget| controller(native) == Some(me.uid.as_str());
    let is_ours = |native: &NativeBudget| {
        let uid = controller(native);
        all.iter()
            .any(|candidate| uid == Some(candidate.uid.as_str()))
    };
    if let Some(native) = natives
        .iter()
        .find(|native| *native.metadata.name == *me.since.2)
        && !is_mine(native)
    {
        return Err(Without::Taken);
    }
    let overlaps_foreign = |candidate: &Candidate| {
        overlapping(candidate, natives.iter().filter(|native| !is_ours(native)))
    };
    if let Some(other) = overlaps_foreign(me) {
        return Err(Without::Overlaps(other));
    }
    // The oldest budget comes first. A budget that overlaps with an earlier one that keeps a native
    // budget keeps none.
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by(|one, other| one.since.cmp(&other.since));
    let mut keeping: Vec<&Candidate> = Vec::new();
    for candidate in sorted {
        let before = keeping
            .iter()
            .find(|before| !before.selector.excludes(&candidate.selector));
        match before {
            Some(before) if candidate.uid == me.uid => {
                return Err(Without::Overlaps(format!(
                    "{} {}",
                    before.since.1, before.since.2
                )));
            }
            Some(_) => {}
            None if candidate.uid == me.uid => break,
            None if overlaps_foreign(candidate).is_none() => keeping.push(candidate),
            None => {}
        }
    }
    // A native budget that selects the same pods must be deleted first.
    let not_mine = natives.iter().filter(|native| !is_mine(native));
    overlapping(me, not_mine).map_or(Ok(()), |other| Err(Without::Overlaps(other)))
}

/// The first native budget that may select the same pods, as messages name it.
fn overlapping<'a>(
    candidate: &Candidate,
    mut natives: impl Iterator<Item = &'a &'a NativeBudget>,
) -> Option<String> {
    let other = natives.find(|native| {
        native
            .selector()
            .is_some_and(|other| !candidate.selector.excludes(&other))
    })?;
    Some(format!("PodDisruptionBudget {}", other.metadata.name))
}

fn controller(native: &NativeBudget) -> Option<&str> {
    native.metadata.controller().map(|owner| &*owner.uid)
}

/// A budget of Berth, and the native budget that it keeps.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The budget's kind.
    pub resource: &'a Resource,
    /// The budget.
    pub owner: &'a ObjectMeta,
    /// The selector of the native budget.
    pub selector: &'a LabelSelector,
    /// How many of the pods must stay.
    pub min_available: i32,
    /// Whether a pod that does not serve may leave.
    pub unhealthy: UnhealthyPodPolicy,
}

/// The step that makes the native budget as wanted; `None` if it is so already. If `wanted` is
/// `None`, the step deletes it.
pub fn step(wanted: Option<&Wanted<'_>>, found: Option<&NativeBudget>, uid: &str) -> Option<Step> {
    let found = found.filter(|native| controller(native) == Some(uid));
    match (wanted, found) {
        (None, None) => None,
        (None, Some(native)) => {
            let action = Action::Delete {
                resource: POD_DISRUPTION_BUDGETS,
                target: Target::from(&native.metadata),
            };
            Some(Step::new(
                action,
                "no PodDisruptionBudget is kept any more".to_owned(),
            ))
        }
        (Some(wanted), None) => {
            let action = Action::Create {
                resource: POD_DISRUPTION_BUDGETS,
                body: body(wanted),
                if_exists: IfExists::IsOfSameOwner,
            };
            Some(Step::new(
                action,
                "a PodDisruptionBudget tells of the budget".to_owned(),
            ))
        }
        (Some(wanted), Some(native)) => {
            let (queued, policy) = (json!(wanted.min_available), policy(wanted.unhealthy));
            let spec = &native.spec;
            let is_so =
                spec.min_available.as_ref() == Some(&queued) && spec.max_unavailable.is_none();
            if is_so && spec.unhealthy_pod_eviction_policy == policy {
                return None;
            }
            let spec = json!({"minAvailable": queued, "maxUnavailable": Value::Null, "unhealthyPodEvictionPolicy": policy});
            let patch = json!({"spec": spec});
            let target = Target::from(&native.metadata);
            let action = Action::Patch {
                resource: POD_DISRUPTION_BUDGETS,
                target,
                patch,
            };
            Some(Step::new(
                action,
                format!(
                    "{} pods must stay, given what the others have",
                    wanted.min_available
                ),
            ))
        }
    }
}

fn body(
    Wanted {
        resource,
        owner,
        selector,
        min_available,
        unhealthy,
    }: &Wanted<'_>,
) -> Value {
    let reference = controller_reference(resource, owner);
    json!({
        "apiVersion": POD_DISRUPTION_BUDGETS.api_version(), "kind": POD_DISRUPTION_BUDGETS.kind,
        "metadata": {"namespace": owner.namespace, "name": owner.name, "ownerReferences": [reference]},
        "spec": {"minAvailable": min_available, "selector": selector, "unhealthyPodEvictionPolicy": policy(*unhealthy)},
    })
}

/// The policy in a native budget. The eviction API applies its own policy before it calls a
/// webhook.
const fn policy(unhealthy: UnhealthyPodPolicy) -> EvictionPolicy {
    match unhealthy {
        UnhealthyPodPolicy::AlwaysAllow => EvictionPolicy::AlwaysAllow,
        UnhealthyPodPolicy::IfHealthyBudget => EvictionPolicy::IfHealthyBudget,
    }
}
