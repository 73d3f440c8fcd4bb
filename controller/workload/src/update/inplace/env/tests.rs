use serde_json::json;

use super::*;
use crate::feature_gates::{Gate, Gates};
use crate::update::inplace::batches::with_rest;
use crate::update::inplace::brief::Brief;
use crate::update::inplace::change::MAX_VARIABLES;
use crate::update::inplace::change::{self, Change};
use crate::update::inplace::resize::Ability;
use crate::update::inplace::steps::Phase;
use crate::update::revision::Revision;

fn template(tier: Option<&str>, note: &str) -> Value {
    let read = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"example.com/note": note}},
        "spec": {"containers": [
            {"name": "main", "image": "web:1", "env": [read("TIER", "metadata.labels['tier']"), read("APP", "metadata.labels['app']")]},
            {"name": "side", "image": "side:1", "env": [
                read("NOTE", "metadata.annotations['example.com/note']"), read("NODE", "spec.nodeName"),
                read("SIDECARSET_VERSION", "metadata.labels['tier']"),
                read("TIER", "metadata.labels['tier']"), {"name": "TIER", "value": "fixed"},
            ]},
            {"name": "plain", "image": "plain:1"},
        ]},
    });
    if let Some(tier) = tier {
        template["metadata"]["labels"]["tier"] = json!(tier);
    }
    template
}

fn env_between(old: &Value, new: &Value) -> Env {
    match change::between(old, new, Ability::Off) {
        Change::InPlace(patch) => patch.env,
        Change::Recreate { fields } => panic!("{fields:?}"),
    }
}

fn containers(env: &Env) -> Vec<&str> {
    env.containers().map(String::as_str).collect()
}

#[test]
fn containers_that_read_a_changed_value_are_found() {
    let old = template(Some("a"), "x");
    let table = [
        ("nothing", template(Some("a"), "x"), &[][..]),
        ("a label", template(Some("b"), "x"), &["main"][..]),
        ("a label that goes", template(None, "x"), &["main"]),
        ("an annotation", template(Some("a"), "y"), &["side"]),
        ("both", template(Some("b"), "y"), &["main", "side"]),
    ];
    for (what, new, expected) in table {
        assert_eq!(containers(&env_between(&old, &new)), expected, "{what}");
    }
    let mut unread = template(Some("a"), "x");
    unread["metadata"]["labels"]["other"] = json!("1");
    assert!(
        env_between(&old, &unread).is_empty(),
        "no container reads it"
    );
}

#[test]
fn too_many_changed_variables_need_a_new_pod() {
    let change = |variables: usize| {
        let values = (0..variables)
            .map(|n| (format!("V{n}"), "hash".to_owned()))
            .collect();
        let patch = PodPatch {
            env: Env([("main".to_owned(), values)].into()),
            ..PodPatch::default()
        };
        Change::InPlace(patch)
            .gate_variables(Gates::default().with(Gate::InPlaceUpdateEnvFromMetadata, true))
    };
    assert!(matches!(change(MAX_VARIABLES), Change::InPlace(patch) if patch.env.changes()));
    assert!(
        matches!(change(MAX_VARIABLES + 1), Change::Recreate { fields } if fields[0].contains("more than 64"))
    );
}

#[test]
fn changed_container_lists_hashes_of_all_variables() {
    let env = env_between(&template(Some("a"), "x"), &template(Some("b"), "x"));
    let wanted =
        json!({"main": {"TIER": env_hash::of_value("b"), "APP": ""}, "side": {"NOTE": ""}});
    assert_eq!(serde_json::to_value(&env).unwrap(), wanted);
    let gone = env_between(&template(Some("a"), "x"), &template(None, "x"));
    assert_eq!(gone.0["main"]["TIER"], env_hash::of_value(""));
}

#[test]
fn the_gates_decide() {
    let change = || {
        change::between(
            &template(Some("a"), "x"),
            &template(Some("b"), "x"),
            Ability::Off,
        )
    };
    let restarts = |change: Change| matches!(change, Change::InPlace(patch) if patch.restarts());
    assert!(restarts(change().gate_variables(Gates::default())));
    for gate in [Gate::InPlaceUpdateEnvFromMetadata, Gate::KruiseDaemon] {
        assert!(
            !restarts(change().gate_variables(Gates::default().with(gate, false))),
            "{gate:?}"
        );
    }
}

fn time() -> jiff::Timestamp {
    jiff::Timestamp::from_second(7).unwrap()
}

fn pod(state: &State) -> Pod {
    let pod = json!({
        "metadata": {"name": "p", "annotations": {annotation::INPLACE_UPDATE_STATE: state.to_annotation()}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}, {"name": "side", "image": "side:1"}]},
        "status": {"containerStatuses": [
            {"name": "main", "containerID": "containerd://m1", "restartCount": 3},
            {"name": "side", "containerID": "containerd://s1"},
        ]},
    });
    serde_json::from_value(pod).unwrap()
}

fn state() -> State {
    let env = env_between(&template(Some("a"), "x"), &template(Some("b"), "x"));
    State {
        revision: "r".into(),
        update_timestamp: Some(time()),
        env,
        ..State::default()
    }
}

fn created(id: &str, update: &str, tier: &str) -> NodeFacts {
    let created = Created {
        container_id: format!("containerd://{id}"),
        update: update.into(),
        env: [
            ("TIER".to_owned(), env_hash::of_value(tier)),
            ("APP".to_owned(), "any".to_owned()),
        ]
        .into(),
        hash: "ff".into(),
        env_hash: "a".into(),
        ..Created::default()
    };
    NodeFacts {
        created: [("main".to_owned(), created)].into(),
        ..NodeFacts::default()
    }
}

#[test]
fn only_the_nodes_report_proves_new_values() {
    let state = state();
    let pod = pod(&state);
    let update = time().to_string();
    let table = [
        (
            "the node has not said anything",
            NodeFacts::default(),
            "ask",
        ),
        (
            "it answers about the update before",
            created("m1", "before", "b"),
            "ask",
        ),
        (
            "it is stopping the container",
            created("m1", "", "b"),
            "ask",
        ),
        (
            "the container has the value before",
            created("m1", &update, "a"),
            "wait",
        ),
        (
            "a new container, and the kubelet has not told",
            created("m2", &update, "b"),
            "wait",
        ),
        ("the container has it", created("m1", &update, "b"), "exact"),
    ];
    for (what, facts, expected) in table {
        let decision = match crate::update::inplace::exact::judge(&pod, &state, &facts) {
            UpdateDecision::Proven {
                verified_by: "node",
                ..
            } => "exact",
            UpdateDecision::Proven { .. } => "exact by the pod",
            UpdateDecision::Wait(_) => "wait",
            UpdateDecision::NeedsDaemon(_) => "ask",
            UpdateDecision::Resize(_) => "resize",
        };
        assert_eq!(decision, expected, "{what}");
    }
}

#[test]
fn only_containers_of_the_pod_need_a_proof() {
    let state = state();
    for (name, expected) in [("main", "ask"), ("side", "exact")] {
        let mut pod = pod(&state);
        pod.spec.containers = pod
            .spec
            .containers
            .iter()
            .filter(|c| &*c.name == name)
            .cloned()
            .collect();
        let decision =
            match crate::update::inplace::exact::judge(&pod, &state, &NodeFacts::default()) {
                UpdateDecision::Proven { .. } => "exact",
                UpdateDecision::NeedsDaemon(_) => "ask",
                other => panic!("{other:?}"),
            };
        assert_eq!(
            decision, expected,
            "the pod has {name} alone, and main is in the record"
        );
    }
}

#[test]
fn images_and_variables_are_joined() {
    let exact = || UpdateDecision::Proven {
        verified_by: "pod",
        moved_tags: vec!["m".to_owned()],
    };
    let wait = || UpdateDecision::Wait("image".to_owned());
    let ask = || UpdateDecision::NeedsDaemon("image".to_owned());
    let env = |what: &str| what.to_owned();
    let by_node = UpdateDecision::Proven {
        verified_by: "node",
        moved_tags: vec!["m".to_owned()],
    };
    let table = [
        (exact(), ValuesDecision::NotNeeded, exact()),
        (exact(), ValuesDecision::Proven, by_node),
        (
            exact(),
            ValuesDecision::Wait(env("env")),
            UpdateDecision::Wait(env("env")),
        ),
        (
            exact(),
            ValuesDecision::NeedsDaemon(env("env")),
            UpdateDecision::NeedsDaemon(env("env")),
        ),
        (wait(), ValuesDecision::Proven, wait()),
        (wait(), ValuesDecision::Wait(env("env")), wait()),
        (
            wait(),
            ValuesDecision::NeedsDaemon(env("env")),
            UpdateDecision::NeedsDaemon(env("env")),
        ),
        (ask(), ValuesDecision::Wait(env("env")), ask()),
    ];
    for (images, env, expected) in table {
        assert_eq!(joined(images, env), expected);
    }
}

#[test]
fn node_is_queried_until_update_is_proven() {
    let mut state = state();
    let asked = question(&pod(&state));
    let names: Vec<_> = asked
        .iter()
        .map(|env| (env.container.as_str(), env.image.as_str()))
        .collect();
    assert_eq!(
        names,
        [("main", "web:1"), ("side", "side:1")],
        "the annotation needs the other containers"
    );
    assert!(asked.iter().all(|env| env.update == time().to_string()));
    state.verified_by = "node".into();
    assert_eq!(question(&pod(&state)), []);
}

#[test]
fn a_later_change_adds_to_what_is_not_proven() {
    let later = env_between(&template(Some("b"), "x"), &template(Some("b"), "y"));
    let patch = PodPatch {
        env: later,
        ..PodPatch::default()
    };
    let revision: Revision =
        serde_json::from_value(json!({"metadata": {"name": "web-2"}})).unwrap();
    let unproven = Phase::Patched(state(), UpdateDecision::NeedsDaemon(String::new()));
    assert_eq!(
        containers(&with_rest(&unproven, &patch, &Brief::new(&revision)).env),
        ["main", "side"]
    );
    let proven = Phase::Patched(
        state(),
        UpdateDecision::Proven {
            verified_by: "node",
            moved_tags: Vec::new(),
        },
    );
    for phase in [proven, Phase::Idle, Phase::Draining] {
        assert_eq!(
            containers(&with_rest(&phase, &patch, &Brief::new(&revision)).env),
            ["side"]
        );
    }
}

#[test]
fn containers_meta_annotation_equals_openkruises() {
    let state = state();
    let pod = pod(&state);
    let mut action = Action::PatchPod {
        target: crate::update::inplace::steps::target(&pod),
        patch: PodPatch::default(),
    };
    report(
        &mut action,
        &pod,
        &state,
        &created("m1", &time().to_string(), "b"),
    );
    let Action::PatchPod { patch, .. } = action else {
        panic!()
    };
    let text = patch.annotations[annotation::RUNTIME_CONTAINERS_META]
        .clone()
        .unwrap();
    let meta: Value = serde_json::from_str(&text).unwrap();
    let main = json!({
        "name": "main", "containerID": "containerd://m1", "restartCount": 3,
        "hashes": {"plainHash": 255, "extractedEnvFromMetadataHash": 10},
    });
    assert_eq!(meta, json!({"containers": [main]}));
}
