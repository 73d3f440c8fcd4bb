use serde_json::{Value, json};

use super::*;
use crate::update::inplace::state::Before;
use crate::update::revision::Revision;

const NOW: i64 = 1_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// The state of the pod's readiness gate.
#[derive(Debug, Clone, Copy)]
enum Gate {
    /// It has none.
    None,
    Open,
    /// For so many seconds.
    Closed(i64),
}

/// How the pod's label is.
#[derive(Debug, Clone, Copy)]
enum Label {
    Normal,
    /// For so many seconds.
    Updating(i64),
    /// Without the time since when.
    Timeless,
}

fn pod(gate: Gate, label: Label) -> Pod {
    let (state, since) = match label {
        Label::Normal => (lifecycle::NORMAL, None),
        Label::Updating(seconds) => (lifecycle::UPDATING, Some(at(NOW - seconds).to_string())),
        Label::Timeless => (lifecycle::UPDATING, None),
    };
    let (has, status, seconds) = match gate {
        Gate::None => (false, "True", 0),
        Gate::Open => (true, "True", 0),
        Gate::Closed(seconds) => (true, "False", seconds),
    };
    let gates = if has {
        json!([{"conditionType": gates::IN_PLACE_UPDATE_READY}])
    } else {
        json!([])
    };
    let conditions = json!([
        {"type": "Ready", "status": status},
        {"type": gates::IN_PLACE_UPDATE_READY, "status": status, "lastTransitionTime": at(NOW - seconds)},
    ]);
    let mut pod = json!({
        "metadata": {"name": "web-a", "labels": {lifecycle::STATE_LABEL: state, REVISION_LABEL: "web-1"}},
        "spec": {"readinessGates": gates, "containers": [{"name": "main", "image": "web:1"}]},
        "status": {
            "phase": "Running", "conditions": if has { conditions } else { json!([conditions[0]]) },
            "containerStatuses": [{"name": "main", "imageID": "sha256:1", "containerID": "c://1", "ready": true}],
        },
    });
    if let Some(since) = since {
        pod["metadata"]["annotations"][lifecycle::TIMESTAMP_ANNOTATION] = json!(since);
    }
    serde_json::from_value(pod).unwrap()
}

fn labels() -> PodPatch {
    PodPatch {
        labels: [("tier".to_owned(), Some("front".to_owned()))].into(),
        ..PodPatch::default()
    }
}

fn image() -> PodPatch {
    PodPatch {
        images: [("main".to_owned(), "web:2".to_owned())].into(),
        ..PodPatch::default()
    }
}

fn next(pod: &Pod, phase: &Phase, patch: &PodPatch, grace: i64, announce: bool) -> Next {
    let revision: Revision =
        serde_json::from_value(json!({"metadata": {"name": "web-2"}})).unwrap();
    let grace = SignedDuration::from_secs(grace);
    let update = Update {
        revision: &Brief::new(&revision),
        labels: PodLabels::default(),
        patch,
        grace,
        announce,
    };
    advance(pod, phase, &update, at(NOW))
}

/// The writes as text; a + marks a write that sets the state Updating.
fn told(next: &Next) -> String {
    let actions = match next {
        Next::Wait(time) => return format!("wait {}", time.as_secs()),
        Next::Write(actions) => actions,
    };
    let words = actions.iter().map(|action| {
        let (word, patch) = match action {
            Action::PatchPodStatus { patch, .. } => ("leave", patch),
            Action::PatchPod { patch, .. } => ("patch", patch),
            other => return other.write().to_string(),
        };
        let marked = patch.labels.contains_key(lifecycle::STATE_LABEL);
        format!("{word}{}", if marked { "+" } else { "" })
    });
    words.collect::<Vec<_>>().join(", ")
}

/// An earlier update with something left to prove; without containers if it restarted none.
fn patched(containers: &[&str], decision: UpdateDecision) -> Phase {
    let before = |name: &&str| ((*name).to_owned(), Before::default());
    let state = State {
        last_container_statuses: containers.iter().map(before).collect(),
        ..State::default()
    };
    Phase::Patched(state, decision)
}

fn waiting() -> UpdateDecision {
    UpdateDecision::Wait("it is being resized".to_owned())
}

fn exact() -> UpdateDecision {
    UpdateDecision::Proven {
        verified_by: "pod",
        moved_tags: Vec::new(),
    }
}

#[test]
fn update_without_restart_stays_in_service() {
    let resized = || patched(&[], waiting());
    let table = [
        (
            "in service",
            Phase::Idle,
            Gate::Open,
            Label::Normal,
            false,
            "patch",
        ),
        (
            "the label informs a hook's owner",
            Phase::Idle,
            Gate::Open,
            Label::Normal,
            true,
            "patch+",
        ),
        (
            "without a gate",
            Phase::Idle,
            Gate::None,
            Label::Normal,
            false,
            "patch",
        ),
        (
            "it is resized in service",
            resized(),
            Gate::Open,
            Label::Updating(5),
            false,
            "patch",
        ),
        (
            "it is resized, and told already",
            resized(),
            Gate::Open,
            Label::Updating(5),
            true,
            "patch",
        ),
        (
            "an update without a gate is not proven",
            resized(),
            Gate::None,
            Label::Normal,
            false,
            "patch+",
        ),
        // The pod is out of service for an earlier update, and returns with this one.
        (
            "out of service",
            Phase::Draining,
            Gate::Closed(10),
            Label::Updating(10),
            false,
            "wait 20",
        ),
        (
            "somebody opened its gate",
            Phase::Draining,
            Gate::Open,
            Label::Updating(10),
            false,
            "leave+",
        ),
    ];
    for (what, phase, gate, label, announce, expected) in table {
        assert_eq!(
            told(&next(&pod(gate, label), &phase, &labels(), 30, announce)),
            expected,
            "{what}"
        );
    }
}

#[test]
fn restart_waits_for_out_of_service_and_grace() {
    let running = || patched(&["main"], waiting());
    let (open, closed) = (Gate::Open, Gate::Closed);
    let (normal, updating) = (Label::Normal, Label::Updating);
    let table = [
        (
            "at once",
            Phase::Idle,
            open,
            normal,
            0,
            false,
            "leave, patch+",
        ),
        (
            "at once, and told",
            Phase::Idle,
            open,
            normal,
            0,
            true,
            "leave+, patch",
        ),
        ("with grace", Phase::Idle, open, normal, 30, false, "leave+"),
        (
            "without a gate",
            Phase::Idle,
            Gate::None,
            normal,
            30,
            false,
            "patch+",
        ),
        (
            "resized in service",
            patched(&[], waiting()),
            open,
            updating(5),
            0,
            false,
            "leave, patch",
        ),
        (
            "resized, with grace",
            patched(&[], waiting()),
            open,
            updating(5),
            30,
            false,
            "leave+",
        ),
        (
            "grace has begun",
            Phase::Draining,
            closed(0),
            updating(0),
            30,
            false,
            "wait 30",
        ),
        (
            "grace is not over",
            Phase::Draining,
            closed(29),
            updating(29),
            30,
            false,
            "wait 1",
        ),
        (
            "grace is over",
            Phase::Draining,
            closed(30),
            updating(30),
            30,
            false,
            "patch",
        ),
        (
            "the clock was set back",
            Phase::Draining,
            closed(-9),
            updating(-9),
            30,
            false,
            "patch",
        ),
        // The lifecycle state has the begin of the update; without a state the gate has it.
        (
            "the state is younger",
            Phase::Draining,
            closed(99),
            updating(10),
            30,
            false,
            "wait 20",
        ),
        (
            "the state says no time",
            Phase::Draining,
            closed(10),
            Label::Timeless,
            30,
            false,
            "wait 20",
        ),
        (
            "there is no state",
            Phase::Draining,
            closed(10),
            normal,
            30,
            false,
            "wait 20",
        ),
        (
            "no state, and grace is over",
            Phase::Draining,
            closed(30),
            normal,
            30,
            false,
            "patch+",
        ),
        (
            "another image before the first is proven",
            running(),
            closed(40),
            updating(40),
            30,
            false,
            "patch",
        ),
        (
            "the same without a gate",
            running(),
            Gate::None,
            updating(1),
            30,
            false,
            "patch",
        ),
    ];
    for (what, phase, gate, label, grace, announce, expected) in table {
        assert_eq!(
            told(&next(&pod(gate, label), &phase, &image(), grace, announce)),
            expected,
            "{what}"
        );
    }
}

/// Only then can a container with another image be none but the wanted one.
#[test]
fn record_says_whether_the_pod_was_settled() {
    let table = [
        ("no update", Phase::Idle, true),
        (
            "out of service, and nothing changed yet",
            Phase::Draining,
            true,
        ),
        (
            "an update that restarted nothing",
            patched(&[], waiting()),
            true,
        ),
        (
            "one that did, and is not proven",
            patched(&["main"], waiting()),
            false,
        ),
        (
            "one that did, and is proven",
            patched(&["main"], exact()),
            true,
        ),
    ];
    for (what, phase, settled) in table {
        let Next::Write(actions) = next(
            &pod(Gate::Closed(9), Label::Updating(9)),
            &phase,
            &image(),
            0,
            false,
        ) else {
            panic!("{what}: nothing is written")
        };
        let records = actions.iter().filter_map(|action| match action {
            Action::PatchPod { patch, .. } => patch.annotations.get(state::ANNOTATION)?.as_deref(),
            _ => None,
        });
        let records: Vec<State> = records
            .map(|record| serde_json::from_str(record).unwrap())
            .collect();
        assert_eq!(
            records
                .iter()
                .map(|state| state.from_settled)
                .collect::<Vec<_>>(),
            [settled],
            "{what}"
        );
        assert!(
            records[0].last_container_statuses.contains_key("main"),
            "{what}"
        );
    }
}

#[test]
fn state_and_gate_decide_update_and_service() {
    let table = [
        (Gate::Open, Label::Normal, false, false),
        (Gate::Open, Label::Updating(1), true, true),
        (Gate::Closed(1), Label::Updating(1), true, false),
        (Gate::Closed(1), Label::Normal, true, false),
        // Without a gate, nothing shows whether the pod serves.
        (Gate::None, Label::Updating(1), true, false),
        (Gate::None, Label::Normal, false, false),
    ];
    for (gate, label, under_way, in_service) in table {
        let pod = pod(gate, label);
        assert_eq!(
            (is_under_way(&pod), is_in_service(&pod)),
            (under_way, in_service),
            "{gate:?} {label:?}"
        );
    }
}

/// An update of web:1 to web:2 that changes the image of `main` from container 1 on.
fn record() -> State {
    let before = Before {
        image_id: "sha256:1".into(),
        container_id: "c://1".into(),
        image: "web:0".into(),
    };
    State {
        revision: "web-1".into(),
        last_container_statuses: [("main".to_owned(), before)].into(),
        update_images: true,
        ..State::default()
    }
}

#[test]
fn gate_opens_early_only_for_images_kubelet_has_seen() {
    let changes = |change: &dyn Fn(&mut State)| {
        let mut state = record();
        change(&mut state);
        state
    };
    let (closed, updating) = (Gate::Closed(1), Label::Updating(1));
    let forget = |state: &mut State| {
        state
            .last_container_statuses
            .values_mut()
            .for_each(|before| before.image.clear())
    };
    let next = |state: &mut State| {
        drop(
            state
                .next_container_images
                .insert("side".to_owned(), "side:2".to_owned()),
        )
    };
    let table = [
        ("an image", closed, updating, 2, record(), true),
        ("not seen", closed, updating, 1, record(), false),
        ("open already", Gate::Open, updating, 2, record(), false),
        ("no gate", Gate::None, updating, 2, record(), false),
        (
            "the label would not tell that it is under way",
            closed,
            Label::Normal,
            2,
            record(),
            false,
        ),
        (
            "resources, too",
            closed,
            updating,
            2,
            changes(&|state| state.update_resources = true),
            false,
        ),
        (
            "labels alone",
            closed,
            updating,
            2,
            changes(&|state| state.last_container_statuses.clear()),
            false,
        ),
        (
            "another batch comes",
            closed,
            updating,
            2,
            changes(&next),
            false,
        ),
        (
            "the container of before is not known",
            closed,
            updating,
            2,
            changes(&forget),
            false,
        ),
        (
            "it was Ready too early",
            closed,
            updating,
            2,
            changes(&|state| state.gate_waits = true),
            false,
        ),
    ];
    for (what, gate, label, observed, state, expected) in table {
        let mut pod = pod(gate, label);
        (pod.metadata.generation, pod.status.observed_generation) = (2, observed);
        assert_eq!(opens_early(&pod, &state), expected, "{what}");
    }
}

#[test]
fn old_container_in_open_gate_is_ready_too_early() {
    let updating = Label::Updating(1);
    for (what, gate, label, observed, container, expected) in [
        (
            "the old container",
            Gate::Open,
            updating,
            2,
            "c://1",
            Some("main"),
        ),
        ("another container", Gate::Open, updating, 2, "c://2", None),
        (
            "the image is not seen",
            Gate::Open,
            updating,
            1,
            "c://1",
            None,
        ),
        (
            "the gate is closed, and so it is not Ready",
            Gate::Closed(1),
            updating,
            2,
            "c://1",
            None,
        ),
        (
            "no update is under way",
            Gate::Open,
            Label::Normal,
            2,
            "c://1",
            None,
        ),
    ] {
        let mut pod = pod(gate, label);
        (pod.metadata.generation, pod.status.observed_generation) = (2, observed);
        pod.status.container_statuses[0].container_id = container.into();
        assert_eq!(ready_too_early(&pod, &record()), expected, "{what}");
    }
}

#[test]
fn ready_is_outdated_until_kubelet_has_seen_image() {
    for (what, gate, observed, ready, expected) in [
        ("repeated", Gate::Closed(1), 1, true, true),
        ("not repeated", Gate::Closed(1), 1, false, false),
        ("the image is seen", Gate::Closed(1), 2, true, false),
        ("the gate is open", Gate::Open, 1, true, false),
    ] {
        let mut pod = pod(gate, Label::Updating(1));
        (pod.metadata.generation, pod.status.observed_generation) = (2, observed);
        pod.status
            .conditions
            .iter_mut()
            .filter(|c| &*c.type_ == "Ready")
            .for_each(|c| c.status = if ready { "True" } else { "False" }.into());
        assert_eq!(is_ready_of_before(&pod), expected, "{what}");
    }
}

#[test]
fn finish_opens_closed_gate_and_keeps_proof() {
    let state = State {
        revision: "web-2".into(),
        resources: resizes(),
        ..State::default()
    };
    let decision = UpdateDecision::Proven {
        verified_by: "node",
        moved_tags: vec!["main".to_owned()],
    };
    let table = [
        (Gate::Closed(1), "PatchPodStatus", vec!["True"]),
        (Gate::Open, "PatchPodStatus", vec![]),
        (Gate::None, "PatchPod", vec![]),
    ];
    for (gate, kind, opened) in table {
        let pod = pod(gate, Label::Updating(1));
        let action = finish(
            &pod,
            Some(&state),
            Some(&decision),
            Some(lifecycle::NORMAL),
            at(NOW),
        );
        assert_eq!(action.write().to_string(), kind, "{gate:?}");
        let (conditions, patch) = match action {
            Action::PatchPodStatus {
                conditions, patch, ..
            } => (conditions, patch),
            Action::PatchPod { patch, .. } => (Vec::new(), patch),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            conditions.iter().map(|c| &*c.status).collect::<Vec<_>>(),
            opened,
            "{gate:?}"
        );
        assert_eq!(
            patch.labels[lifecycle::STATE_LABEL].as_deref(),
            Some(lifecycle::NORMAL),
            "{gate:?}"
        );
        let record: Value =
            serde_json::from_str(patch.annotations[state::ANNOTATION].as_deref().unwrap()).unwrap();
        assert_eq!(
            (&record["berthVerifiedBy"], &record["berthMovedTags"]),
            (&json!("node"), &json!(["main"]))
        );
        assert_eq!(
            record["berthResources"],
            Value::Null,
            "later changes of the resources stay"
        );
    }
    // Reverted before anything changed: there is nothing to record.
    let undone = finish(
        &pod(Gate::Closed(1), Label::Normal),
        None,
        None,
        None,
        at(NOW),
    );
    let Action::PatchPodStatus { patch, .. } = undone else {
        panic!("{undone:?}")
    };
    assert_eq!(patch, PodPatch::default());
}

fn resizes() -> Resizes {
    let requests = [("cpu".to_owned(), "1".to_owned())].into();
    [(
        "main".to_owned(),
        resize::Resize {
            requests,
            ..resize::Resize::default()
        },
    )]
    .into()
}
