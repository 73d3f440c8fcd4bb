//! The cause that blocks the updates of a SidecarSet, as its condition `Blocked` reports it.

use berth_workload::blocked::NO_IMAGE;
use berth_workload::plan::{Failure, Outcome, Verb};
use serde_json::Value;

use crate::sidecarset::history::revisions;
use crate::sidecarset::names::REPAIR;
use crate::sidecarset::update::choose;
use crate::sidecarset::update::pods::{Failure as Failing, Member};
use crate::sidecarset::update::settings::{self, Settings};
use crate::sidecarset::{Snapshot, Turns, on_pod};

/// The reason if no pod may be out of service.
pub(in crate::sidecarset) const NO_BUDGET: &str = "NoBudget";
/// The reason if the apiserver refuses the update of a pod.
pub(in crate::sidecarset) const REFUSED: &str = "UpdateRefused";
/// The reason if the controller cannot read pods as they are now.
const UNREADABLE: &str = "Unreadable";
/// The reason if pods differ in more than images.
pub(in crate::sidecarset) const NOT_UPGRADABLE: &str = "UpdateImmutableField";

/// The cause that the condition reports, as a reason and a message; `None` if nothing blocks the
/// updates. A budget passes by itself, so a cause that a user must mend comes before it.
pub(in crate::sidecarset) fn cause(
    snapshot: &Snapshot,
    members: &[Member<'_>],
    settings: Result<&Settings, &String>,
    (outcome, turns): (&Outcome, &Turns),
) -> Option<(&'static str, String)> {
    let refused = || {
        Some((
            REFUSED,
            turns.aside_message(snapshot.name(), &snapshot.hashes.hash)?,
        ))
    };
    of_spec_and_pods(snapshot, members, settings)
        .or_else(refused)
        .or_else(|| of_budgets(snapshot, outcome))
}

/// The first pod, by its place, that a disruption budget does not let go out of service.
fn of_budgets(snapshot: &Snapshot, outcome: &Outcome) -> Option<(&'static str, String)> {
    let held = outcome
        .failures
        .iter()
        .filter(|failure| failure.is_of_budget() && failure.write.verb == Verb::Patch);
    let held = held.map(
        |Failure {
             namespace,
             object,
             message,
             ..
         }| (namespace, object, message),
    );
    let (namespace, pod, message) = held.min()?;
    Some((
        NO_BUDGET,
        format!(
            "SidecarSet {}: the update of pod {namespace}/{pod} waits; {message}",
            snapshot.name()
        ),
    ))
}

/// The cause without budgets, which refuse pods only when a plan is carried out.
pub(in crate::sidecarset) fn of_spec_and_pods(
    snapshot: &Snapshot,
    members: &[Member<'_>],
    settings: Result<&Settings, &String>,
) -> Option<(&'static str, String)> {
    let settings = match settings {
        Ok(settings) => settings,
        Err(message) => return Some(("InvalidSpec", message.clone())),
    };
    let mut failing: Vec<_> = members
        .iter()
        .filter_map(|member| Some((member.pod, member.failing.as_ref()?)))
        .collect();
    failing.sort_by(|(one, _), (other, _)| one.metadata.name.cmp(&other.metadata.name));
    if let Some((pod, failure)) = failing.first() {
        let metadata = &pod.metadata;
        let (namespace, name, node) = (&metadata.namespace, &metadata.name, &pod.spec.node_name);
        let message = format!(
            "pod {namespace}/{name} on node {node}: {}",
            of_container(snapshot, failure)
        );
        return Some((reason(failure), message));
    }
    if settings.waits.is_some() {
        return None;
    }
    if settings.has_no_budget() && members.iter().any(|member| settings.reaches(member)) {
        return Some((NO_BUDGET, choose::NO_BUDGET.to_owned()));
    }
    let mut unreadable: Vec<_> = members
        .iter()
        .filter(|member| settings.reaches(member))
        .filter_map(|member| {
            Some((
                &member.pod.metadata.namespace,
                &member.pod.metadata.name,
                member.unreadable?,
            ))
        })
        .collect();
    unreadable.sort();
    if let Some((namespace, pod, why)) = unreadable.first() {
        let more = if unreadable.len() > 1 {
            format!(" and {} more", unreadable.len() - 1)
        } else {
            String::new()
        };
        let what = settings::unreadable(why);
        return Some((
            UNREADABLE,
            format!(
                "SidecarSet {}: pod {namespace}/{pod}{more} {what}; other pods go on",
                snapshot.name()
            ),
        ));
    }
    not_upgradable(snapshot, members, settings)
}

/// The message for a container that fails.
pub(in crate::sidecarset) fn of_container(snapshot: &Snapshot, failure: &Failing) -> String {
    let Failing {
        container,
        image,
        reason,
        message,
    } = failure;
    let words = if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    };
    let set = snapshot.name();
    format!(
        "container {container} of SidecarSet {set} is to run image {image}, and does not ({reason}){words}; correct the image or the container in \
         spec.containers, or what it needs on the node"
    )
}

/// The reason, by the name that the conditions of all kinds use.
fn reason(failure: &Failing) -> &'static str {
    match failure.reason {
        reason if NO_IMAGE.contains(&reason) => "ImageUnavailable",
        "CrashLoopBackOff" => "ContainerCrashLooping",
        _ => "ContainerCannotStart",
    }
}

fn not_upgradable(
    snapshot: &Snapshot,
    members: &[Member<'_>],
    settings: &Settings,
) -> Option<(&'static str, String)> {
    let is_one = |member: &&Member<'_>| {
        !member.is_updated && !member.is_upgradable && settings.selects(member.pod)
    };
    let mut all: Vec<_> = members
        .iter()
        .filter(is_one)
        .map(|member| member.pod)
        .collect();
    all.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    let first = all.first()?;
    let record = on_pod::record(first, snapshot.name()).unwrap_or_default();
    let revision = snapshot
        .revisions
        .iter()
        .find(|known| *known.metadata.name == *record.controller_revision);
    let field = revision.and_then(|known| {
        difference(
            &known.data.value()["spec"],
            &revisions::data(&snapshot.set.spec)["spec"],
            "spec",
        )
    });
    let field = field.map_or_else(
        || "in more than images".to_owned(),
        |field| format!("in {field}"),
    );
    let message = format!(
        "{} pods, {}/{} among them, differ from the SidecarSet {field}, which no update in place can change: replace them, or have \
         metadata.annotations[{REPAIR}] All do it",
        all.len(),
        first.metadata.namespace,
        first.metadata.name
    );
    Some((NOT_UPGRADABLE, message))
}

/// The path of the first field, other than an image, that differs.
fn difference(old: &Value, new: &Value, path: &str) -> Option<String> {
    match (old, new) {
        _ if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let keys = old
                .keys()
                .chain(new.keys().filter(|key| !old.contains_key(*key)));
            let of = |key: &String| old.get(key).unwrap_or(&Value::Null);
            let to = |key: &String| new.get(key).unwrap_or(&Value::Null);
            let mut keys = keys.filter(|key| *key != "image");
            keys.find_map(|key| difference(of(key), to(key), &format!("{path}.{key}")))
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let mut pairs = old.iter().zip(new).enumerate();
            pairs.find_map(|(at, (old, new))| difference(old, new, &format!("{path}[{at}]")))
        }
        _ => Some(path.to_owned()),
    }
}

#[cfg(test)]
mod tests;
