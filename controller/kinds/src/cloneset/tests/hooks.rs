mod between;
mod events;

use std::sync::Arc;

use berth_api::names::label::SPECIFIED_DELETE;
use berth_workload::feature_gates::Gate;
use berth_workload::objects::pod::lifecycle::{
    self, NORMAL, PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED,
};
use berth_workload::objects::pod::{Pod, availability, unready};
use berth_workload::plan::{Action, Plan};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::simulation::owner::{FINALIZER, LABEL};
use super::super::simulation::{World, template};

fn strategy(more: Value) -> Value {
    let mut rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    for (key, value) in more.as_object().unwrap() {
        rolling[key] = value.clone();
    }
    json!({"type": "RollingUpdate", "rollingUpdate": rolling})
}

fn by_label(mark: bool) -> Value {
    json!({"labelsHandler": {LABEL: "on"}, "markPodNotReady": mark})
}

/// A settled world of pods that have the hooks' label.
fn held(replicas: i32, rolling: Value, lifecycle: Value) -> World {
    let mut world = World::settled(replicas, template("web:1"), strategy(rolling));
    for at in 0..world.pods().len() {
        world.hold(at, true, false);
    }
    world.set_lifecycle(lifecycle);
    world
}

fn kinds(plan: &Plan) -> Vec<String> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps
        .flat_map(|step| &step.actions)
        .map(|action| action.write().to_string())
        .collect()
}

fn at(world: &World, state: &str) -> Vec<usize> {
    let states = world.states();
    (0..states.len())
        .filter(|at| states[*at] == state)
        .collect()
}

fn one(world: &World, state: &str) -> usize {
    let found = at(world, state);
    assert_eq!(found.len(), 1, "one pod in {state}: {:?}", world.states());
    found[0]
}

fn waits(world: &World) -> String {
    world
        .plan()
        .waiting
        .iter()
        .map(|w| format!("{}: {}\n", w.pod, w.reason))
        .collect()
}

fn scale(world: &mut World, replicas: i32) {
    Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
}

#[test]
fn a_new_pod_begins_in_preparing_normal_and_says_when() {
    let mut world = World::new(1, template("web:1"), strategy(json!({})));
    world.step();
    let plan = world.step();
    let Some(Action::CreatePod { body }) =
        plan.stages.last().map(|stage| &stage.steps[0].actions[0])
    else {
        panic!()
    };
    let body = body.value();
    assert_eq!(
        body["metadata"]["labels"][lifecycle::STATE_LABEL],
        PREPARING_NORMAL
    );
    assert!(body["metadata"]["annotations"][lifecycle::TIMESTAMP_ANNOTATION].is_string());
}

#[test]
fn new_pod_is_available_once_pre_normal_is_complete() {
    let mut world = World::new(1, template("web:1"), strategy(json!({})));
    let hook = json!({"labelsHandler": {LABEL: "on"}, "finalizersHandler": [FINALIZER]});
    world.set_lifecycle(json!({"preNormal": hook}));
    world.settle();
    for (label, finalizer) in [(false, false), (true, false), (false, true)] {
        world.hold(0, label, finalizer);
        world.settle();
        assert_eq!(world.states(), [PREPARING_NORMAL]);
        let status = world.status();
        assert_eq!((status.ready_replicas, status.available_replicas), (1, 0));
    }
    assert!(
        waits(&world).contains("waits for hook preNormal: until the pod has label x.io/hook=on"),
        "{}",
        waits(&world)
    );
    world.hold(0, true, true);
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    assert_eq!(
        (world.states(), world.status().available_replicas),
        (vec![NORMAL.to_owned()], 1)
    );
}

#[test]
fn surplus_pod_waits_for_pre_delete_and_is_reused() {
    let mut world = held(3, json!({}), json!({"preDelete": by_label(false)}));
    scale(&mut world, 2);
    let plan = world.step();
    assert_eq!(kinds(&plan), ["PatchPodStatus"]);
    let held = one(&world, PREPARING_DELETE);
    world.settle();
    assert_eq!(
        (world.pods().len(), world.states()[held].as_str()),
        (3, PREPARING_DELETE),
        "no other pod goes for it"
    );
    assert!(world.pods()[held].is_true("Ready"), "it serves meanwhile");
    assert!(
        waits(&world)
            .contains("waits for hook preDelete: as long as the pod has label x.io/hook=on")
    );
    assert_eq!(world.status().available_replicas, 2);
    // The replicas are wanted again: the same pod comes back, and none is created.
    let before = world.identities();
    scale(&mut world, 3);
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    world.settle();
    assert_eq!((world.identities(), at(&world, NORMAL).len()), (before, 3));
    // The replica is no longer wanted, and the hook lets the pod go.
    scale(&mut world, 2);
    world.settle();
    world.hold(one(&world, PREPARING_DELETE), false, false);
    assert_eq!(kinds(&world.step()), ["DeletePod"]);
    world.settle();
    assert_eq!(
        (world.pods().len(), world.status().available_replicas),
        (2, 2)
    );
}

#[test]
fn a_pod_that_comes_back_waits_for_pre_normal_again() {
    let pre_normal = json!({"labelsHandler": {LABEL: "back"}});
    let mut world = held(
        2,
        json!({}),
        json!({"preDelete": by_label(false), "preNormal": pre_normal}),
    );
    scale(&mut world, 1);
    world.settle();
    scale(&mut world, 2);
    world.settle();
    one(&world, PREPARING_NORMAL);
    assert_eq!(world.status().available_replicas, 1);
}

#[test]
fn pod_marked_not_ready_is_replaced_and_not_reused() {
    for which in ["preDelete", "inPlaceUpdate"] {
        let mut world = held(3, json!({}), json!({"preDelete": by_label(false)}));
        let mut lifecycle = json!({"preDelete": by_label(false)});
        lifecycle[which] = by_label(true);
        world.set_lifecycle(lifecycle);
        scale(&mut world, 2);
        world.settle();
        let held = one(&world, PREPARING_DELETE);
        let pod = world.pods()[held].clone();
        assert_eq!(pod.is_true("Ready"), which != "preDelete", "{which}");
        if which == "preDelete" {
            assert_eq!(unready::reasons(&pod), [unready::BEFORE_DELETE]);
        }
        scale(&mut world, 3);
        world.settle();
        assert_eq!(
            (world.pods().len(), world.states()[held].as_str()),
            (3, PREPARING_DELETE),
            "{which}"
        );
        // The pod counts as long as it exists; once the hook lets it go, a new pod replaces it.
        world.hold(held, false, false);
        world.settle();
        assert_eq!(
            (world.pods().len(), world.status().available_replicas),
            (3, 3),
            "{which}"
        );
        assert!(
            world
                .pods()
                .iter()
                .all(|left| left.metadata.uid != pod.metadata.uid),
            "{which}"
        );
    }
}

#[test]
fn pods_to_delete_are_replaced_as_strategy_says() {
    for exclude in [false, true] {
        let mut world = held(3, json!({}), json!({"preDelete": by_label(false)}));
        let name = world.pods()[1].metadata.name.to_string();
        let scale = &mut Arc::make_mut(&mut world.set).spec.scale_strategy;
        scale.pods_to_delete = vec![name.clone()];
        scale.exclude_preparing_delete = exclude;
        world.settle();
        let state = |world: &World| {
            world
                .pods()
                .iter()
                .find(|p| *p.metadata.name == *name)
                .map(|p| lifecycle::state(p).to_owned())
        };
        assert_eq!(state(&world).as_deref(), Some(PREPARING_DELETE));
        assert_eq!(world.pods().len(), if exclude { 4 } else { 3 });
        let held = world
            .pods()
            .iter()
            .position(|pod| *pod.metadata.name == *name)
            .unwrap();
        world.hold(held, false, false);
        world.settle();
        assert_eq!(
            (
                state(&world),
                world.pods().len(),
                world.status().available_replicas
            ),
            (None, 3, 3)
        );
    }
}

#[test]
fn in_place_update_waits_for_hook_before_and_after() {
    for mark in [false, true] {
        let mut world = held(2, json!({}), json!({"inPlaceUpdate": by_label(mark)}));
        world.set_template(template("web:2"));
        world.step();
        assert_eq!(
            kinds(&world.step()),
            ["PatchPodStatus"],
            "state, reason and Ready in one write"
        );
        let first = one(&world, PREPARING_UPDATE);
        world.settle();
        assert_eq!(
            at(&world, PREPARING_UPDATE),
            [first],
            "it counts in maxUnavailable, marked not ready or not"
        );
        assert_eq!(world.images(), ["web:1", "web:1"]);
        assert_eq!(world.pods()[first].is_true("Ready"), !mark);
        let (status, ready) = (world.status(), if mark { 1 } else { 2 });
        assert_eq!(
            (status.ready_replicas, status.available_replicas),
            (ready, 1)
        );
        assert!(
            waits(&world).contains(
                "waits for hook inPlaceUpdate: as long as the pod has label x.io/hook=on"
            )
        );

        world.hold(first, false, false);
        assert_eq!(kinds(&world.step()), ["PatchPodStatus", "PatchPod"]);
        world.settle();
        assert_eq!(
            (world.images()[first].as_str(), one(&world, UPDATED)),
            ("web:2", first)
        );
        assert!(
            world.pods()[first].is_true("Ready"),
            "ready again once it is updated"
        );
        assert_eq!(world.status().available_replicas, 1, "but not available");
        assert!(
            waits(&world).contains(
                "waits for hook inPlaceUpdate: until the pod has again label x.io/hook=on"
            )
        );

        world.hold(first, true, false);
        world.step();
        assert_eq!(
            (
                world.states()[first].as_str(),
                world.status().available_replicas
            ),
            (NORMAL, 2)
        );
        world.settle_with_owner();
        assert_eq!(
            (world.images(), world.status().updated_available_replicas),
            (vec!["web:2".to_owned(); 2], 2)
        );
    }
}

#[test]
fn updated_pod_is_held_again_by_its_next_update() {
    let hook = json!({"labelsHandler": {LABEL: "on"}, "finalizersHandler": [FINALIZER], "markPodNotReady": true});
    let mut world = held(1, json!({}), json!({"inPlaceUpdate": hook}));
    world.set_template(template("web:2"));
    world.settle();
    world.hold(0, false, false);
    world.settle();
    assert_eq!(world.states(), [UPDATED]);
    world.set_template(template("web:3"));
    world.settle();
    let pod = world.pods()[0].clone();
    assert_eq!(
        (lifecycle::state(&pod), pod.metadata.label(LABEL)),
        (PREPARING_UPDATE, Some("on"))
    );
    assert_eq!(
        (&*pod.metadata.finalizers, pod.is_true("Ready")),
        (&[FINALIZER.into()][..], false)
    );
    assert_eq!(world.images(), ["web:2"]);
    world.settle_with_owner();
    assert_eq!(
        (world.images(), world.states()),
        (vec!["web:3".to_owned()], vec![NORMAL.to_owned()])
    );
}

#[test]
fn an_update_that_is_not_wanted_any_more_is_undone() {
    type Edit = fn(&mut World);
    let edits: [(&str, Edit); 3] = [
        ("rolled back", |world| world.set_template(template("web:1"))),
        ("inside the partition", |world| {
            world.edit_rolling_update("partition", json!(2))
        }),
        ("paused", |world| {
            world.edit_rolling_update("paused", json!(true))
        }),
    ];
    for (what, edit) in edits {
        for (label, state) in [(true, NORMAL), (false, UPDATED)] {
            let mut world = held(2, json!({}), json!({"inPlaceUpdate": by_label(true)}));
            world.set_template(template("web:2"));
            world.settle();
            let first = one(&world, PREPARING_UPDATE);
            world.hold(first, label, false);
            edit(&mut world);
            world.settle();
            assert_eq!(world.states()[first], state, "{what}");
            assert!(
                world.pods()[first].is_true("Ready"),
                "{what}: no reason is left behind"
            );
            assert_eq!(world.images(), ["web:1", "web:1"], "{what}");
        }
    }
}

#[test]
fn labels_alone_are_held_as_well_and_restart_nothing() {
    let mut world = held(1, json!({}), json!({"inPlaceUpdate": by_label(false)}));
    let containers = world.containers();
    let mut new = template("web:1");
    new["metadata"]["labels"]["tier"] = json!("front");
    world.set_template(new);
    world.settle();
    assert_eq!(world.states(), [PREPARING_UPDATE]);
    assert_eq!(world.pods()[0].metadata.label("tier"), None);
    world.hold(0, false, false);
    world.settle();
    assert_eq!(world.states(), [UPDATED]);
    world.settle_with_owner();
    assert_eq!(
        (world.states(), world.containers()),
        (vec![NORMAL.to_owned()], containers)
    );
    assert_eq!(world.pods()[0].metadata.label("tier"), Some("front"));
}

#[test]
fn replaced_pod_waits_only_for_pre_delete_hook() {
    let mut world = held(
        2,
        json!({"podUpdatePolicy": "ReCreate"}),
        json!({"preDelete": by_label(false)}),
    );
    world.set_template(template("web:2"));
    world.step();
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    let first = one(&world, PREPARING_DELETE);
    assert_eq!(
        world.pods()[first].metadata.label(SPECIFIED_DELETE),
        Some("true"),
        "it does not come back"
    );
    assert_eq!(world.settle(), 0);
    assert_eq!(at(&world, PREPARING_DELETE), [first]);
    world.settle_with_owner();
    assert_eq!(
        (world.images(), world.status().available_replicas),
        (vec!["web:2".to_owned(); 2], 2)
    );
}

#[test]
fn rescaled_pod_resumes_its_interrupted_update() {
    let mut world = held(
        2,
        json!({"maxUnavailable": 2}),
        json!({"preDelete": by_label(false)}),
    );
    world.set_template(template("web:2"));
    world.step();
    world.step();
    assert_eq!(
        world.images(),
        ["web:2", "web:2"],
        "patched, but no kubelet has run"
    );
    scale(&mut world, 1);
    world.step();
    let held = one(&world, PREPARING_DELETE);
    scale(&mut world, 2);
    world.step();
    assert_eq!(world.states()[held], lifecycle::UPDATING);
    world.settle();
    assert_eq!(
        (
            world.status().updated_available_replicas,
            at(&world, NORMAL).len()
        ),
        (2, 2)
    );
}

#[test]
fn scale_down_of_preparing_pod_depends_on_the_gate() {
    let stays = |gate: bool, partition: i32| {
        let mut world = held(
            3,
            json!({"partition": 2}),
            json!({"inPlaceUpdate": by_label(false)}),
        );
        world.gates = world.gates.with(Gate::PreparingUpdateAsUpdate, gate);
        world.set_template(template("web:2"));
        world.settle();
        let held = world.pods()[one(&world, PREPARING_UPDATE)]
            .metadata
            .uid
            .clone();
        world.edit_rolling_update("partition", json!(partition));
        scale(&mut world, 2);
        world.step();
        assert_eq!(world.pods().len(), 2);
        world.pods().iter().any(|pod| pod.metadata.uid == held)
    };
    // As an updated pod it is one too many, or the only one.
    assert_eq!((stays(true, 2), stays(true, 1)), (false, true));
    assert_eq!(
        stays(false, 2),
        stays(false, 1),
        "as an old one it is one of three"
    );
}

#[test]
fn unready_reasons_of_others_are_kept() {
    let mut world = held(1, json!({}), json!({"inPlaceUpdate": by_label(true)}));
    world.set_template(template("web:2"));
    world.settle();
    let other = unready::Reason {
        user_agent: "Other".into(),
        key: "why".into(),
    };
    world.add_reason(0, &other);
    world.settle_with_owner();
    assert_eq!(world.states(), [NORMAL]);
    assert_eq!(unready::reasons(&world.pods()[0]), [other]);
    assert!(!world.pods()[0].is_true("KruisePodReady"));
}

#[test]
fn hooks_that_are_taken_out_of_the_spec_hold_nothing() {
    for (mark, scaled) in [(true, true), (true, false), (false, true)] {
        let lifecycle = json!({"inPlaceUpdate": by_label(mark), "preDelete": by_label(mark)});
        let mut world = held(3, json!({}), lifecycle);
        world.set_template(template("web:2"));
        if scaled {
            scale(&mut world, 2);
        }
        world.settle();
        world.set_lifecycle(Value::Null);
        world.settle();
        let replicas = if scaled { 2 } else { 3 };
        assert_eq!(
            world.status().updated_available_replicas,
            replicas,
            "{mark} {scaled}"
        );
    }
}

#[derive(Debug, Clone)]
enum Change {
    Image(u8),
    Env(u8),
    Label(u8),
    Replicas(i32),
    Partition(i32),
    Pause(bool),
    Ask(usize),
    Kubelets,
    OneKubelet(usize),
    Time(i64),
    Hold(usize, bool, bool),
    Owner,
    Die(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0u8..4).prop_map(Change::Image),
        1 => (0u8..2).prop_map(Change::Env),
        1 => (0u8..3).prop_map(Change::Label),
        2 => (0i32..6).prop_map(Change::Replicas),
        2 => (0i32..6).prop_map(Change::Partition),
        1 => any::<bool>().prop_map(Change::Pause),
        1 => (0usize..6).prop_map(Change::Ask),
        4 => Just(Change::Kubelets),
        2 => (0usize..8).prop_map(Change::OneKubelet),
        2 => (0i64..5).prop_map(Change::Time),
        4 => (0usize..8, any::<bool>(), any::<bool>()).prop_map(|(at, a, b)| Change::Hold(at, a, b)),
        3 => Just(Change::Owner),
        3 => (0usize..4).prop_map(Change::Die),
    ]
}

fn apply(world: &mut World, change: &Change) {
    match change {
        Change::Image(n) => {
            world.edit_template(|t| t["spec"]["containers"][0]["image"] = json!(format!("web:{n}")))
        }
        Change::Env(n) => {
            world.edit_template(|t| {
                t["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": n.to_string()}])
            });
        }
        Change::Label(n) => {
            world.edit_template(|t| t["metadata"]["labels"]["tier"] = json!(n.to_string()))
        }
        Change::Replicas(n) => scale(world, *n),
        Change::Partition(n) => world.edit_rolling_update("partition", json!(n)),
        Change::Pause(paused) => world.edit_rolling_update("paused", json!(paused)),
        Change::Ask(at) => {
            let name = world
                .pods()
                .get(*at)
                .map(|pod| pod.metadata.name.to_string());
            Arc::make_mut(&mut world.set)
                .spec
                .scale_strategy
                .pods_to_delete = name.into_iter().collect();
        }
        Change::Kubelets => world.run_kubelets(),
        Change::OneKubelet(at) => world.run_kubelet(*at),
        Change::Time(seconds) => world.pass(*seconds),
        Change::Hold(at, label, finalizer) => world.hold(*at, *label, *finalizer),
        Change::Owner => {
            world.serve_hooks();
        }
        Change::Die(after) => world.die_after(*after),
    }
}

fn hooks() -> impl Strategy<Value = Value> {
    let hook = || {
        let parts = prop_oneof![
            Just(json!({"labelsHandler": {LABEL: "on"}})),
            Just(json!({"finalizersHandler": [FINALIZER]})),
            Just(json!({"labelsHandler": {LABEL: "on"}, "finalizersHandler": [FINALIZER]})),
            Just(json!({})),
        ];
        prop::option::of((parts, any::<bool>()).prop_map(|(mut hook, mark)| {
            hook["markPodNotReady"] = json!(mark);
            hook
        }))
    };
    (hook(), hook(), hook())
        .prop_map(|(before, around, after)| json!({"preDelete": before, "inPlaceUpdate": around, "preNormal": after}))
}

/// Active pods, available ones, and old ones that are not being deleted.
fn tally(world: &World) -> (usize, usize, usize) {
    let pods = world.pods();
    let active = |pod: &&Arc<Pod>| pod.is_active();
    let available = pods
        .iter()
        .filter(active)
        .filter(|pod| availability(pod, 0, world.now()).is_available())
        .count();
    let updated = world.status().update_revision;
    let old = |pod: &&Arc<Pod>| {
        let label = pod
            .metadata
            .label(berth_workload::update::revision::REVISION_LABEL)
            .unwrap_or_default();
        lifecycle::state(pod) != PREPARING_DELETE
            && !berth_workload::update::revision::same(label, &updated)
    };
    (
        pods.iter().filter(active).count(),
        available,
        pods.iter().filter(active).filter(old).count(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    /// In every order of the hook owner's steps, and whenever the controller dies: no hook is
    /// skipped (the world checks each write), the limits hold at every instant, and once the owner
    /// does its work every rollout ends.
    #[test]
    fn hooks_are_honoured_and_every_rollout_ends(
        changes in prop::collection::vec(change(), 1..40),
        hooks in hooks(),
        policy in prop_oneof![3 => Just("InPlaceIfPossible"), 1 => Just("ReCreate")],
        (max_unavailable, max_surge) in (1i32..3, 0i32..3),
        grace in prop_oneof![Just(0), Just(3)],
        (exclude, as_update) in (any::<bool>(), any::<bool>()),
    ) {
        let mut world = World::settled(4, template("web:0"), strategy(json!({
            "maxUnavailable": max_unavailable, "maxSurge": max_surge, "podUpdatePolicy": policy,
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": grace},
        })));
        world.gates = world.gates.with(Gate::PreparingUpdateAsUpdate, as_update);
        Arc::make_mut(&mut world.set).spec.scale_strategy.exclude_preparing_delete = exclude;
        world.set_lifecycle(hooks);
        world.serve_hooks();
        for change in &changes {
            apply(&mut world, change);
            let before = tally(&world);
            let paused = world.plan();
            world.step();
            let after = tally(&world);
            let replicas = usize::try_from(world.set.spec.replicas.unwrap()).unwrap();
            let floor = replicas.saturating_sub(usize::try_from(max_unavailable).unwrap());
            prop_assert!(after.1 >= before.1.min(floor), "{change:?}: {before:?} -> {after:?} {paused:#?}");
            let held = at(&world, PREPARING_DELETE).len();
            let ceiling = replicas + usize::try_from(max_surge).unwrap() + if exclude { held } else { 0 };
            prop_assert!(after.0 <= before.0.max(ceiling), "{change:?}: {before:?} -> {after:?} {paused:#?}");
        }
        world.edit_rolling_update("paused", json!(false));
        world.edit_rolling_update("partition", json!(0));
        Arc::make_mut(&mut world.set).spec.scale_strategy.pods_to_delete.clear();
        world.settle_with_owner();
        let status = world.status();
        let replicas = world.set.spec.replicas.unwrap();
        prop_assert_eq!(
            (status.replicas, status.updated_replicas, status.updated_available_replicas),
            (replicas, replicas, replicas)
        );
        prop_assert!(world.states().iter().all(|state| state == NORMAL), "{:?}", world.states());
        prop_assert!(world.pods().iter().all(|pod| pod.is_true("Ready") && unready::reasons(pod).is_empty()));
        let image = world.template_image();
        prop_assert!(world.created_from().iter().all(|i| *i == image), "what runs is what the spec says");
    }
}
