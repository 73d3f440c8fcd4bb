use serde_json::{Value, json};

use super::*;
use crate::sidecarset::decide;
use crate::sidecarset::names::{HASH_WITHOUT_IMAGE, INPLACE_UPDATE_STATE};
use crate::sidecarset::tests::{pod, snapshot};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn speaking(mut pod: Value, status: &str, message: &str) -> Arc<Pod> {
    let condition = json!({"type": UPGRADABLE, "status": status, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    pod["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(condition);
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// The conditions that a plan writes, as status, reason and message.
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
fn deleted_sidecarset_is_removed_from_condition() {
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
fn not_update_only_removes_outdated_condition_entries() {
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
fn unselected_or_bare_pod_loses_its_condition_entry() {
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
fn names_in_a_foreign_message_are_bounded() {
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
