use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::feature_gates::{Gate, Gates};
use crate::objects::node::image::NodeFacts;
use crate::update::inplace::batches;
use crate::update::inplace::change::{Change, between};
use crate::update::inplace::env::question;
use crate::update::inplace::exact::{self, UpdateDecision};
use crate::update::inplace::resize::Ability;
use crate::update::inplace::state::Before;
use berth_api::names::annotation::INPLACE_UPDATE_STATE;

fn template(at: Option<&str>) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {RESTARTED_AT: at, "note": "x"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}, {"name": "side", "image": "side:1"}]},
    })
}

fn restarted(change: Change) -> Vec<String> {
    match change {
        Change::InPlace(patch) => {
            assert_eq!(
                patch.restarts(),
                !patch.restarted.is_empty(),
                "what restarts takes the pod out of service"
            );
            patch.restarted.into_iter().collect()
        }
        Change::Recreate { fields } => panic!("{fields:?}"),
    }
}

#[test]
fn only_a_changed_annotation_restarts_containers() {
    let all = &["main", "side"][..];
    let long = "x".repeat(100_000);
    let table = [
        (
            "the same",
            Some("2026-11-26T12:00:00Z"),
            Some("2026-11-26T12:00:00Z"),
            &[][..],
        ),
        ("it comes", None, Some("2026-11-26T12:00:00Z"), all),
        (
            "a later one",
            Some("2026-11-26T12:00:00Z"),
            Some("2026-11-26T13:00:00Z"),
            all,
        ),
        (
            "an earlier one: a rollback",
            Some("2026-11-26T13:00:00Z"),
            Some("2026-11-26T12:00:00Z"),
            all,
        ),
        ("it goes", Some("2026-11-26T12:00:00Z"), None, all),
        (
            "what no admission lets through",
            Some("2026-11-26T12:00:00Z"),
            Some(&long),
            all,
        ),
        ("and empty", Some("2026-11-26T12:00:00Z"), Some(""), all),
    ];
    for (what, old, new, expected) in table {
        assert_eq!(
            restarted(between(&template(old), &template(new), Ability::Off)),
            expected,
            "{what}"
        );
    }
    let mut other = template(Some("2026-11-26T12:00:00Z"));
    other["metadata"]["annotations"]["note"] = json!("y");
    assert_eq!(
        restarted(between(
            &template(Some("2026-11-26T12:00:00Z")),
            &other,
            Ability::Off
        )),
        [""; 0],
        "another annotation"
    );
}

#[test]
fn impossible_restart_needs_a_new_pod() {
    let fields = |edit: fn(&mut Value)| {
        let mut new = template(Some("2026-11-26T12:00:00Z"));
        edit(&mut new);
        let mut old = new.clone();
        old["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(RESTARTED_AT);
        match between(&old, &new, Ability::Off) {
            Change::InPlace(_) => Vec::new(),
            Change::Recreate { fields } => fields,
        }
    };
    assert_eq!(fields(|_| ()), [""; 0]);
    assert_eq!(
        fields(|new| new["spec"]["containers"][1]["restartPolicy"] = json!("Always")),
        [""; 0]
    );
    assert_eq!(
        fields(|new| new["spec"]["containers"][1]["restartPolicy"] = json!("OnFailure")),
        [
            "template.metadata.annotations[apps.kruise.io/restarted-at] (container side has a restartPolicy, and may not start again)"
        ]
    );
    assert_eq!(
        fields(|new| new["spec"]["containers"] = containers(MAX_RESTARTED)),
        [""; 0]
    );
    assert_eq!(
        fields(|new| new["spec"]["containers"] = containers(MAX_RESTARTED + 1)),
        ["template.metadata.annotations[apps.kruise.io/restarted-at] (more than 64 containers)"]
    );
}

fn containers(count: usize) -> Value {
    (0..count)
        .map(|n| json!({"name": format!("c{n}"), "image": "web:1"}))
        .collect()
}

#[test]
fn without_daemons_only_a_new_pod_has_new_containers() {
    let change = || {
        between(
            &template(None),
            &template(Some("2026-11-26T12:00:00Z")),
            Ability::Off,
        )
    };
    assert_eq!(
        restarted(change().gate_restarts(Gates::default())),
        ["main", "side"]
    );
    let off = Gates::default().with(Gate::KruiseDaemon, false);
    let Change::Recreate { fields } = change().gate_restarts(off) else {
        panic!()
    };
    assert!(
        fields[0].contains("[apps.kruise.io/restarted-at]")
            && fields[0].contains("KruiseDaemon is off"),
        "{fields:?}"
    );
    let same = between(&template(None), &template(None), Ability::Off);
    assert_eq!(
        same.clone().gate_restarts(off),
        same,
        "what restarts nothing needs no daemon"
    );
    let variables = Gates::default().with(Gate::InPlaceUpdateEnvFromMetadata, false);
    assert_eq!(
        restarted(change().gate_restarts(variables)),
        ["main", "side"],
        "that gate is about variables"
    );
}

/// A pod with this status of container `main`, in addition to its name. Its container `side` runs
/// as `s2`.
fn pod(main: Value, record: Option<&State>) -> Pod {
    let mut status = json!({"name": "main"});
    status
        .as_object_mut()
        .unwrap()
        .extend(main.as_object().unwrap().clone());
    let pod = json!({
        "metadata": {"name": "p", "annotations": {INPLACE_UPDATE_STATE: record.map(State::to_annotation).unwrap_or_default()}},
        "spec": {"containers": [{"name": "main", "image": "web:2"}, {"name": "side", "image": "side:1"}]},
        "status": {"containerStatuses": [status, {"name": "side", "containerID": "containerd://s2", "restartCount": 1}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn state() -> State {
    let restarts = [
        ("main".to_owned(), "m1".to_owned()),
        ("side".to_owned(), "s1".to_owned()),
    ]
    .into();
    State {
        revision: "r".into(),
        update_timestamp: Some(Timestamp::UNIX_EPOCH),
        restarts,
        ..State::default()
    }
}

fn short(decision: &UpdateDecision) -> &'static str {
    match decision {
        UpdateDecision::Proven {
            verified_by: "pod", ..
        } => "exact",
        UpdateDecision::Proven { .. } => "exact by another",
        UpdateDecision::Wait(_) => "wait",
        UpdateDecision::NeedsDaemon(_) => "ask",
        UpdateDecision::Resize(_) => "resize",
    }
}

#[test]
fn restart_is_proven_when_each_container_is_new() {
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let ended = json!({"terminated": {"reason": "Completed"}});
    let table = [
        (
            "the one of before",
            json!({"containerID": "containerd://m1"}),
            "ask",
        ),
        (
            "the one of before, which has ended",
            json!({"containerID": "containerd://m1", "state": ended}),
            "wait",
        ),
        (
            "and waits for its back-off",
            json!({"containerID": "containerd://m1", "state": waiting}),
            "wait",
        ),
        ("none yet", json!({}), "wait"),
        (
            "another, which has ended",
            json!({"containerID": "containerd://m2", "state": ended}),
            "wait",
        ),
        (
            "another, which waits",
            json!({"containerID": "containerd://m2", "state": waiting}),
            "wait",
        ),
        (
            "another",
            json!({"containerID": "containerd://m2"}),
            "exact",
        ),
        (
            "another of another runtime",
            json!({"containerID": "cri-o://m2"}),
            "exact",
        ),
        (
            "the one of before, as another runtime spells it",
            json!({"containerID": "cri-o://m1"}),
            "ask",
        ),
    ];
    for (what, main, expected) in table {
        assert_eq!(
            short(&exact::judge(
                &pod(main, None),
                &state(),
                &NodeFacts::default()
            )),
            expected,
            "{what}"
        );
    }
}

#[test]
fn restart_waits_only_for_containers_of_the_pod() {
    let gone = State {
        restarts: [("gone".to_owned(), "g1".to_owned())].into(),
        ..state()
    };
    let first = State {
        restarts: [("main".to_owned(), String::new())].into(),
        ..state()
    };
    let nothing = NodeFacts::default();
    assert_eq!(
        short(&exact::judge(&pod(json!({}), None), &gone, &nothing)),
        "exact"
    );
    assert_eq!(
        short(&exact::judge(&pod(json!({}), None), &first, &nothing)),
        "wait"
    );
    let created = pod(json!({"containerID": "containerd://m1"}), None);
    assert_eq!(short(&exact::judge(&created, &first, &nothing)), "exact");
}

#[test]
fn changed_image_leaves_the_restart_to_the_kubelet() {
    let before = |image: &str| Before {
        container_id: "containerd://m1".into(),
        image: image.into(),
        ..Before::default()
    };
    let with = |image: &str| State {
        last_container_statuses: [("main".to_owned(), before(image))].into(),
        ..state()
    };
    let old = pod(json!({"containerID": "containerd://m1"}), None);
    let table = [
        ("the image changes", "web:1", "wait"),
        (
            "it was taken back before the kubelet saw it",
            "web:2",
            "ask",
        ),
        ("what it was created from is not known", "", "ask"),
    ];
    for (what, image, expected) in table {
        assert_eq!(
            short(&exact::judge(&old, &with(image), &NodeFacts::default())),
            expected,
            "{what}"
        );
    }
}

#[test]
fn node_is_queried_by_container_id_until_proof() {
    let asked = |state: &State| {
        let asked = question(&pod(json!({"containerID": "containerd://m1"}), Some(state)));
        asked
            .into_iter()
            .map(|env| (env.container, env.image, env.container_id, env.values.len()))
            .collect::<Vec<_>>()
    };
    let of =
        |name: &str, image: &str, id: &str| (name.to_owned(), image.to_owned(), id.to_owned(), 0);
    assert_eq!(
        asked(&state()),
        [of("main", "web:2", "m1"), of("side", "side:1", "s1")]
    );
    assert_eq!(
        asked(&State {
            verified_by: "pod".into(),
            ..state()
        }),
        []
    );
    let gone = State {
        restarts: [("gone".to_owned(), "g1".to_owned())].into(),
        ..state()
    };
    assert_eq!(asked(&gone), [], "a container that the pod has not");
    // Every user who may change a pod can write its record. So a name in it counts only if it is
    // one of the pod's own containers.
    let forged = State {
        restarts: [("main".to_owned(), "of-another-pod".to_owned())].into(),
        ..state()
    };
    assert_eq!(asked(&forged), [of("main", "web:2", "of-another-pod")]);
}

#[test]
fn record_keeps_restarts_of_unproven_update() {
    let pod = pod(json!({"containerID": "containerd://m2"}), None);
    let names = |names: &[&str]| {
        names
            .iter()
            .map(ToString::to_string)
            .collect::<BTreeSet<_>>()
    };
    let ids = |restarts: Restarts| {
        restarts
            .into_iter()
            .map(|(name, id)| format!("{name} {id}"))
            .collect::<Vec<_>>()
    };
    let unproven = state();
    let table = [
        ("nothing", &[][..], None, &[][..], &[][..]),
        ("all", &["main", "side"], None, &[], &["main m2", "side s2"]),
        ("one that is not there", &["other"], None, &[], &["other "]),
        (
            "an update before is not proven",
            &[],
            Some(&unproven),
            &[],
            &["main m1", "side s1"],
        ),
        (
            "and another restart comes",
            &["main"],
            Some(&unproven),
            &[],
            &["main m2", "side s1"],
        ),
        (
            "and one's turn comes later",
            &["main"],
            Some(&unproven),
            &["side"],
            &["main m2"],
        ),
    ];
    for (what, now, unproven, later, expected) in table {
        assert_eq!(
            ids(record(&pod, &names(now), unproven, &names(later))),
            expected,
            "{what}"
        );
    }
}

#[test]
fn record_lists_restarts_and_keeps_gate_closed() {
    let state = state();
    assert!(state.restarts_containers() && !state.changes_images_alone());
    let with_image = State {
        last_container_statuses: [("main".to_owned(), Before::default())].into(),
        ..State::default()
    };
    assert!(with_image.changes_images_alone());
    assert!(
        !State {
            restarts: state.restarts.clone(),
            ..with_image
        }
        .changes_images_alone()
    );
    let next = State {
        next_restarts: ["side".to_owned()].into(),
        ..State::default()
    };
    assert!(batches::has_next(&next) && !batches::has_next(&state));
    let text = state.to_annotation();
    assert!(
        text.contains(r#""berthRestarts":{"main":"m1","side":"s1"}"#),
        "{text}"
    );
    assert!(
        !State::default().to_annotation().contains("Restarts"),
        "one that restarts nothing is as before"
    );
}
