//! In-place updates of pods with a launch order.

use berth_workload::objects::pod::Pod;
use berth_workload::update::inplace::resize::Ability;
use berth_workload::update::inplace::state::State;

use super::*;

/// `first` starts before `second` and `second` before `third`. The first and the third read the
/// label `tier`.
fn ordered(first: u8, second: u8, third: u8, tier: u8) -> Value {
    let tier = tier.to_string();
    let read = json!([{"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}}]);
    let container =
        |name: &str, tag: u8| json!({"name": name, "image": format!("{name}:{tag}"), "env": read});
    json!({
        "metadata": {
            "labels": {"app": "web", "tier": tier},
            "annotations": {"apps.kruise.io/container-launch-priority": "Ordered"},
        },
        "spec": {"containers": [
            container("first", first), {"name": "second", "image": format!("second:{second}")}, container("third", third),
        ]},
    })
}

/// The same, and `first` has a cpu request.
fn sized(first: u8, second: u8, third: u8, tier: u8, cpu: u8) -> Value {
    let mut template = ordered(first, second, third, tier);
    template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu.to_string()}});
    template
}

fn settled() -> World {
    let mut world = World::new(
        2,
        ordered(1, 1, 1, 1),
        strategy("InPlaceOnly", json!({"maxUnavailable": 2})),
    );
    world.slow = true;
    world.settle();
    world
}

#[test]
fn lower_priority_waits_until_higher_one_is_ready() {
    let mut world = settled();
    world.set_template(ordered(2, 1, 2, 1));
    world.step();
    world.step();
    let wanted = |world: &World| world.wanted_images()[0].clone();
    assert_eq!(wanted(&world), ["first:2", "second:1", "third:1"]);
    let state = world.state();
    assert_eq!(state["nextContainerImages"], json!({"third": "third:2"}));
    assert_eq!(
        state["preCheckBeforeNext"],
        json!({"containersRequiredReady": ["first"]})
    );
    assert_eq!(
        state["containerBatchesRecord"][0]["containers"],
        json!(["first"])
    );
    world.run_kubelets();
    assert!(world.step().is_idle(), "it runs, and is not ready");
    assert!(
        world
            .plan()
            .waiting
            .iter()
            .any(|w| w.reason.contains("first is to be ready")),
        "{:?}",
        world.plan()
    );
    world.run_kubelets();
    assert_eq!(kinds(&world.step()), ["PatchPod"; 2]);
    assert_eq!(wanted(&world), ["first:2", "second:1", "third:2"]);
    let state = world.state();
    assert_eq!(state["nextContainerImages"], Value::Null);
    assert_eq!(
        state["containerBatchesRecord"][1]["containers"],
        json!(["third"])
    );
    assert!(
        world
            .pods()
            .iter()
            .all(|pod| !pod.is_true("InPlaceUpdateReady"))
    );
    world.settle();
    assert_eq!(world.status().updated_available_replicas, 2);
    assert_eq!(world.restarts("second"), [0, 0]);
}

#[test]
fn back_between_two_batches() {
    let mut world = settled();
    world.set_template(ordered(2, 2, 2, 1));
    world.step();
    world.step();
    world.run_kubelets();
    world.run_kubelets();
    world.step();
    assert_eq!(world.wanted_images()[0], ["first:2", "second:2", "third:1"]);
    // The second container stays; the rest of the previous update still happens.
    world.set_template(ordered(1, 2, 2, 1));
    world.settle();
    assert_eq!(
        world.wanted_images(),
        vec![["first:1", "second:2", "third:2"]; 2]
    );
    assert_eq!(world.status().updated_available_replicas, 2);
}

#[test]
fn a_label_restarts_its_readers_in_order() {
    let mut world = settled();
    world.set_template(ordered(1, 1, 1, 2));
    world.step();
    world.step();
    world.run_daemons();
    world.run_kubelets();
    assert_eq!(
        (world.restarts("first"), world.restarts("third")),
        (vec![1, 1], vec![0, 0])
    );
    world.run_daemons();
    world.run_kubelets();
    assert_eq!(
        world.restarts("third"),
        [0, 0],
        "its turn comes with a write"
    );
    world.settle();
    assert_eq!(
        (world.restarts("first"), world.restarts("third")),
        (vec![1, 1], vec![1, 1])
    );
}

#[test]
fn resources_are_resized_and_proven_in_first_batch() {
    let mut world = World::new(
        1,
        sized(1, 1, 1, 1, 1),
        strategy("InPlaceOnly", json!({"maxUnavailable": 1})),
    );
    world.resize = Ability::On;
    world.settle();
    world.set_template(sized(2, 1, 2, 1, 2));
    world.step();
    assert_eq!(
        kinds(&world.step()),
        ["PatchPodStatus", "PatchPod", "ResizePod"]
    );
    assert_eq!(world.wanted_images(), [["first:2", "second:1", "third:1"]]);
    let state = world.state();
    assert_eq!(
        state["berthResources"],
        json!({"first": {"requests": {"cpu": "2"}}})
    );
    assert_eq!(state["nextContainerImages"], json!({"third": "third:2"}));
    world.run_kubelets();
    assert!(
        world.step().is_idle(),
        "the new container runs, and is being resized"
    );
    world.run_kubelets();
    assert_eq!(kinds(&world.step()), ["PatchPod"]);
    assert_eq!(world.wanted_images(), [["first:2", "second:1", "third:2"]]);
    assert_eq!(
        world.state()["berthResources"],
        Value::Null,
        "other writers may change the resources now"
    );
    world.settle();
    assert_eq!(world.status().updated_available_replicas, 1);
}

#[derive(Debug, Clone)]
enum Act {
    Template(u8, u8, u8, u8, u8),
    Daemons,
    OneKubelet(usize),
    Crash(usize),
    Time(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0u8..3, 0u8..3, 0u8..3, 0u8..3, 1u8..3).prop_map(|(a, b, c, d, e)| Act::Template(a, b, c, d, e)),
        4 => Just(Act::Daemons),
        8 => (0usize..2).prop_map(Act::OneKubelet),
        1 => (0usize..2).prop_map(Act::Crash),
        2 => (1i64..4).prop_map(Act::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// In every order of steps: no write of an update changes the image of a container while one of
    /// a higher priority does not run its wanted image, or is not ready. An update may begin with
    /// containers that are not ready, because its change may be the remedy. And every update ends.
    #[test]
    fn the_order_is_kept(acts in prop::collection::vec(act(), 1..40)) {
        let mut world = World::new(2, sized(1, 1, 1, 1, 1), strategy("InPlaceOnly", json!({"maxUnavailable": 2})));
        (world.slow, world.resize) = (true, Ability::On);
        world.settle();
        for act in &acts {
            match act {
                Act::Template(a, b, c, d, e) => world.set_template(sized(*a, *b, *c, *d, *e)),
                Act::Daemons => world.run_daemons(),
                Act::OneKubelet(at) => world.run_kubelet(*at),
                Act::Crash(at) => world.crash(*at),
                Act::Time(seconds) => world.pass(*seconds),
            }
            world.pass(1);
            let states = world.container_states();
            let begun = |pod: &Arc<Pod>| State::of(pod).is_some_and(|state| !state.is_settled());
            let begun: Vec<_> = world.pods().into_iter().filter(begun).map(|pod| pod.metadata.name.clone()).collect();
            let plan = world.step();
            for action in plan.actions() {
                let Action::PatchPod { target, patch } = action else { continue };
                let lower = patch.images.keys().filter_map(|name| states[&target.name].iter().position(|c| c.0 == *name));
                let Some(first) = lower.min() else { continue };
                prop_assert!(patch.images.len() == 1, "one priority at a time: {patch:?}");
                if !begun.iter().any(|name| **name == *target.name) {
                    continue;
                }
                for (name, exact_and_ready) in states[&target.name].iter().take(first) {
                    prop_assert!(*exact_and_ready, "{act:?}: {name} before {patch:?}: {states:?}");
                }
            }
        }
        world.slow = false;
        world.settle();
        let template = world.set.spec.template.value();
        let images = template["spec"]["containers"].as_array().unwrap().iter();
        let images: Vec<String> = images.map(|c| c["image"].as_str().unwrap().to_owned()).collect();
        prop_assert!(world.wanted_images().iter().all(|found| *found == images), "{:?}", world.plan().waiting);
        let tier = json!({"TIER": template["metadata"]["labels"]["tier"]});
        for name in ["first", "third"] {
            prop_assert!(world.environments(name).iter().all(|env| *env == tier), "{name}");
        }
        let cpu = &template["spec"]["containers"][0]["resources"];
        prop_assert!(world.pods.values().all(|pod| pod["status"]["containerStatuses"][0]["resources"] == *cpu));
        prop_assert_eq!(world.status().updated_available_replicas, 2);
    }
}
