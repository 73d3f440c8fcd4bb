//! The condition of a pod that says which SidecarSets can update it in place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::name::Name;
use berth_workload::plan::{Action, Plan, PodPatch, Step, Target};
use berth_workload::pod::{Condition, Pod};
use jiff::Timestamp;

use super::Snapshot;
use super::names::UPGRADABLE;

/// The longest message that is read, and the most names of it that are asked for at once: whoever may write a pod's status writes it.
const MOST_BYTES: usize = 16 * 1024;
const MOST_NAMES: usize = 64;

fn said(pod: &Pod) -> BTreeMap<String, bool> {
    let message = pod
        .condition(UPGRADABLE)
        .map(|condition| &condition.message);
    let read = message
        .filter(|text| text.len() <= MOST_BYTES)
        .and_then(|text| serde_json::from_str(text).ok());
    read.unwrap_or_default()
}

/// What the condition says of this SidecarSet.
pub(super) fn says(pod: &Pod, set: &str) -> Option<bool> {
    said(pod).get(set).copied()
}

/// Does the condition say anything of this SidecarSet?
pub fn speaks_of(pod: &Pod, set: &str) -> bool {
    // Of the many pods that there are most speak of others: no name has to be unescaped.
    let may = pod
        .condition(UPGRADABLE)
        .is_some_and(|condition| condition.message.contains(&format!("\"{set}\"")));
    may && says(pod, set).is_some()
}

/// The SidecarSets of which the condition speaks.
pub fn spoken_of(pod: &Pod) -> Vec<String> {
    let names = said(pod)
        .into_keys()
        .filter(|name| Name::parse(name).is_ok());
    names.take(MOST_NAMES).collect()
}

/// What makes the condition say so of this SidecarSet; `None` if it says so already.
pub(super) fn step(pod: &Pod, set: &str, can: bool, now: Timestamp) -> Option<Step> {
    let mut sets = said(pod);
    if sets.insert(set.to_owned(), can) == Some(can) {
        return None;
    }
    Some(write(
        pod,
        &sets,
        if can {
            "can be updated in place"
        } else {
            "differs in more than images"
        },
        now,
    ))
}

/// What makes the condition say nothing of this SidecarSet; `None` if it does not.
fn without(pod: &Pod, set: &str, now: Timestamp) -> Option<Step> {
    if !speaks_of(pod, set) || !pod.is_active() {
        return None;
    }
    let mut sets = said(pod);
    sets.remove(set)?;
    Some(write(
        pod,
        &sets,
        &format!("has nothing of SidecarSet {set} any more, of which its condition speaks"),
        now,
    ))
}

fn write(pod: &Pod, sets: &BTreeMap<String, bool>, what: &str, now: Timestamp) -> Step {
    let old = pod.condition(UPGRADABLE);
    let all = sets.values().all(|can| *can);
    let (status, reason) = if all {
        ("True", "AllSidecarsetUpgradable")
    } else {
        ("False", "UpdateImmutableField")
    };
    let since = old
        .filter(|condition| &*condition.status == status)
        .and_then(|condition| condition.last_transition_time);
    let condition = Condition {
        type_: UPGRADABLE.into(),
        status: status.into(),
        last_transition_time: since.or(Some(now)),
        reason: reason.into(),
        // A map with string keys always serialises.
        message: serde_json::to_string(&sets).unwrap_or_default().into(),
    };
    let target = Target::as_seen(&pod.metadata);
    let action = Action::PatchPodStatus {
        target,
        conditions: vec![condition],
        patch: PodPatch::default(),
    };
    Step::new(
        action,
        format!(
            "pod {}/{} {what}",
            pod.metadata.namespace, pod.metadata.name
        ),
    )
}

/// What a SidecarSet that is gone leaves to do: the conditions of these pods speak of it no more.
pub fn forget<'a>(set: &str, pods: impl IntoIterator<Item = &'a Arc<Pod>>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    plan.add_stage(
        "conditions of pods",
        pods.into_iter()
            .filter_map(|pod| without(pod, set, now))
            .collect(),
    );
    plan
}

/// The same for pods that a SidecarSet does not select any more, or that do not have its containers, but for those that are written
/// otherwise in this round.
pub(super) fn forget_strangers(
    snapshot: &Snapshot,
    members: &BTreeSet<&str>,
    written: &BTreeSet<Option<String>>,
    (plan, now): (&mut Plan, Timestamp),
) {
    let bare = snapshot
        .pods
        .iter()
        .filter(|pod| !members.contains(&*pod.metadata.uid));
    let strangers = snapshot.strangers.iter().chain(bare);
    let strangers = strangers.filter(|pod| !written.contains(&Some(pod.metadata.uid.to_string())));
    plan.stages
        .extend(forget(snapshot.name(), strangers, now).stages);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::decide;
    use super::super::names::{HASH_WITHOUT_IMAGE, INPLACE_UPDATE_STATE};
    use super::super::tests::{pod, snapshot};
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn speaking(mut pod: Value, status: &str, message: &str) -> Arc<Pod> {
        let condition = json!({"type": UPGRADABLE, "status": status, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        pod["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(condition);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// What a plan writes into conditions, as status, reason and message.
    fn written(plan: &Plan) -> Vec<[String; 3]> {
        let of = |action: &Action| match action {
            Action::PatchPodStatus {
                target, conditions, ..
            } => {
                assert!(target.resource_version.is_some(), "only as it was seen");
                let Condition {
                    status,
                    reason,
                    message,
                    ..
                } = &conditions[0];
                Some([status.to_string(), reason.to_string(), message.to_string()])
            }
            _ => None,
        };
        plan.actions().filter_map(of).collect()
    }

    #[test]
    fn a_sidecar_set_that_is_gone_is_taken_out_and_the_rest_is_worked_out_anew() {
        let immutable = "UpdateImmutableField";
        let upgradable = "AllSidecarsetUpgradable";
        for (status, message, expected) in [
            (
                "False",
                r#"{"log":false}"#,
                Some(["True", upgradable, "{}"]),
            ),
            (
                "False",
                r#"{"log":false,"mesh":true}"#,
                Some(["True", upgradable, r#"{"mesh":true}"#]),
            ),
            (
                "False",
                r#"{"log":true,"mesh":false}"#,
                Some(["False", immutable, r#"{"mesh":false}"#]),
            ),
            ("True", r#"{"log":true}"#, Some(["True", upgradable, "{}"])),
            ("False", r#"{"logs":false}"#, None),
            ("False", "no JSON", None),
        ] {
            let pod = speaking(pod("a", "h1", true), status, message);
            let plan = forget("log", [&pod], NOW);
            let expected: Vec<_> = expected
                .map(|texts| texts.map(str::to_owned))
                .into_iter()
                .collect();
            assert_eq!(written(&plan), expected, "{message}");
        }
        let mut ending = pod("a", "h1", true);
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(forget("log", [&speaking(ending, "False", r#"{"log":false}"#)], NOW).is_idle());
    }

    #[test]
    fn where_pods_are_not_updated_the_condition_takes_back_what_is_true_no_more_and_says_nothing_new()
     {
        let of = |hash: &str, without_image: &str, said: Option<&str>| {
            let mut pod = pod("a", hash, true);
            let record = json!({"log": {"hash": without_image}}).to_string();
            pod["metadata"]["annotations"][HASH_WITHOUT_IMAGE] = json!(record);
            pod["metadata"]["annotations"][INPLACE_UPDATE_STATE] =
                json!(json!({"log": {"revision": hash}}).to_string());
            match said {
                Some(said) => speaking(pod, "False", said),
                None => Arc::new(serde_json::from_value(pod).unwrap()),
            }
        };
        let (both, other) = (r#"{"log":false,"mesh":false}"#, r#"{"mesh":false}"#);
        let taken_back = Some((
            "False",
            "UpdateImmutableField",
            r#"{"log":true,"mesh":false}"#,
        ));
        for (what, pod, updating, not_updating) in [
            (
                "reverted, and its images are of before",
                of("h1", "w", Some(both)),
                taken_back,
                taken_back,
            ),
            (
                "reverted",
                of("h2", "w", Some(both)),
                taken_back,
                taken_back,
            ),
            ("it still differs", of("h1", "x", Some(both)), None, None),
            (
                "it differs",
                of("h1", "x", Some(other)),
                Some(("False", "UpdateImmutableField", both)),
                None,
            ),
            (
                "it was updated",
                of("h2", "w", None),
                Some(("True", "AllSidecarsetUpgradable", r#"{"log":true}"#)),
                None,
            ),
        ] {
            for (type_, expected) in [("RollingUpdate", updating), ("NotUpdate", not_updating)] {
                let strategy = json!({"/spec/updateStrategy": {"type": type_, "paused": true}});
                let plan = decide(
                    &Snapshot {
                        pods: vec![pod.clone()],
                        ..snapshot(&strategy, &[])
                    },
                    NOW,
                );
                let expected: Vec<_> = expected.into_iter().collect();
                let written = written(&plan);
                let written: Vec<_> = written.iter().map(|[a, b, c]| (&**a, &**b, &**c)).collect();
                assert_eq!(written, expected, "{what}, {type_}");
            }
        }
    }

    #[test]
    fn a_pod_that_is_not_selected_any_more_or_has_no_containers_is_spoken_of_no_more() {
        let stranger = speaking(
            pod("a", "h1", true),
            "False",
            r#"{"log":false,"mesh":false}"#,
        );
        let mut snapshot = snapshot(&json!({}), &[]);
        snapshot.strangers = vec![stranger];
        assert_eq!(written(&decide(&snapshot, NOW))[0][2], r#"{"mesh":false}"#);
        let mut bare = pod("b", "h1", true);
        bare["metadata"]["annotations"] = json!({});
        snapshot.strangers = Vec::new();
        snapshot.pods = vec![speaking(bare, "False", r#"{"log":false}"#)];
        assert_eq!(written(&decide(&snapshot, NOW))[0][2], "{}");
    }

    #[test]
    fn of_a_message_that_anybody_wrote_names_are_read_within_bounds() {
        let many: BTreeMap<String, bool> = (0..200).map(|n| (format!("set-{n}"), false)).collect();
        let long = format!("{{{:?}:false}}", "x".repeat(MOST_BYTES));
        for (message, expected) in [
            (json!(many).to_string(), MOST_NAMES),
            (r#"{"a/../b":false,"":true,"log":false}"#.to_owned(), 1),
            (long, 0),
            ("[]".to_owned(), 0),
        ] {
            let pod = speaking(pod("a", "h1", true), "False", &message);
            assert_eq!(spoken_of(&pod).len(), expected, "{:.80}", message);
        }
    }
}
