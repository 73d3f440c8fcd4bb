//! Containers that read their pod's labels and annotations.

use berth_api::names::annotation::RUNTIME_CONTAINERS_META;
use berth_workload::update::inplace::steps;

use super::*;

/// `main` reads the label `tier`, `side` the annotation `note`.
fn reading(image: &str, tier: &str, note: &str) -> Value {
    let read = |name: &str, path: &str| json!([{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}]);
    json!({
        "metadata": {"labels": {"app": "web", "tier": tier}, "annotations": {"note": note}},
        "spec": {"containers": [
            {"name": "main", "image": image, "env": read("TIER", "metadata.labels['tier']")},
            {"name": "side", "image": "side:1", "env": read("NOTE", "metadata.annotations['note']")},
        ]},
    })
}

fn settled(more: Value) -> World {
    World::settled(
        2,
        reading("web:1", "a", "x"),
        strategy("InPlaceIfPossible", more),
    )
}

#[test]
fn the_container_that_reads_it_restarts_and_no_other() {
    let mut world = settled(json!({}));
    let before = world.identities();
    for (tier, note, restarts) in [("b", "x", (1, 0)), ("b", "y", (1, 1)), ("c", "z", (2, 2))] {
        world.set_template(reading("web:1", tier, note));
        world.settle();
        assert_eq!(world.identities(), before, "the same pods");
        assert_eq!(world.environments("main"), vec![json!({"TIER": tier}); 2]);
        assert_eq!(world.environments("side"), vec![json!({"NOTE": note}); 2]);
        assert_eq!(
            (world.restarts("main"), world.restarts("side")),
            (vec![restarts.0; 2], vec![restarts.1; 2])
        );
        assert_eq!(world.status().updated_available_replicas, 2);
    }
    let meta: Value = serde_json::from_str(
        world.annotations(RUNTIME_CONTAINERS_META)[0]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        meta["containers"][0]["containerID"],
        world.containers()[0].trim_matches('"')
    );
}

#[test]
fn pod_is_out_of_service_until_the_node_proves_it() {
    let mut world = settled(json!({"maxUnavailable": 1}));
    world.set_template(reading("web:1", "b", "x"));
    world.step();
    assert_eq!(kinds(&world.step()), ["PatchPodStatus", "PatchPod"]);
    for _ in 0..5 {
        world.run_kubelets();
        world.pass(1);
        assert!(
            world.step().is_idle(),
            "nothing restarts it but its node's daemon"
        );
    }
    assert!(
        world
            .plan()
            .waiting
            .iter()
            .any(|w| w.reason.contains("another TIER")),
        "{:?}",
        world.plan().waiting
    );
    world.run_daemons();
    assert!(world.step().is_idle());
    world.settle();
    assert_eq!(world.environments("main"), vec![json!({"TIER": "b"}); 2]);
}

#[test]
fn the_grace_period_comes_first() {
    let grace = json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 30}, "maxUnavailable": 2});
    let mut world = settled(grace);
    world.set_template(reading("web:1", "b", "x"));
    world.step();
    assert_eq!(
        kinds(&world.step()),
        ["PatchPodStatus"; 2],
        "out of service"
    );
    world.run_daemons();
    world.pass(31);
    assert_eq!(kinds(&world.step()), ["PatchPod"; 2]);
    world.settle();
    assert_eq!(world.restarts("main"), [1, 1]);
}

#[test]
fn back_before_the_daemon_saw_it_restarts_nothing() {
    let mut world = settled(json!({"maxUnavailable": 2}));
    world.set_template(reading("web:1", "b", "x"));
    world.step();
    world.step();
    world.set_template(reading("web:1", "a", "x"));
    world.settle();
    assert_eq!(world.restarts("main"), [0, 0]);
    assert_eq!(world.status().updated_available_replicas, 2);
}

#[test]
fn rollback_during_restart_waits_for_new_container() {
    let mut world = settled(json!({"maxUnavailable": 2}));
    world.set_template(reading("web:1", "b", "x"));
    world.step();
    world.step();
    world.run_daemons();
    world.set_template(reading("web:1", "a", "x"));
    for _ in 0..4 {
        world.pass(1);
        world.step();
        assert!(
            world.pods().iter().all(|pod| steps::is_under_way(pod)),
            "the container is about to end"
        );
    }
    world.settle();
    assert_eq!(world.environments("main"), vec![json!({"TIER": "a"}); 2]);
    assert_eq!(world.restarts("main"), [1, 1]);
}

#[test]
fn with_an_image_the_kubelet_restarts_it_and_once() {
    let mut world = settled(json!({}));
    world.set_template(reading("web:2", "b", "x"));
    world.settle();
    assert_eq!(world.environments("main"), vec![json!({"TIER": "b"}); 2]);
    assert_eq!(world.restarts("main"), [1, 1]);
}

#[derive(Debug, Clone)]
enum Act {
    Tier(u8),
    Note(u8),
    Image(u8),
    Daemons,
    OneKubelet(usize),
    Crash(usize),
    Time(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0u8..3).prop_map(Act::Tier),
        2 => (0u8..3).prop_map(Act::Note),
        2 => (0u8..3).prop_map(Act::Image),
        4 => Just(Act::Daemons),
        6 => (0usize..3).prop_map(Act::OneKubelet),
        2 => (0usize..3).prop_map(Act::Crash),
        2 => (1i64..4).prop_map(Act::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    /// A pod in service has the variables of its metadata, in every order of steps.
    #[test]
    fn pods_in_service_have_values_of_their_metadata(acts in prop::collection::vec(act(), 1..40)) {
        let mut world = World::settled(3, reading("web:0", "0", "0"), strategy("InPlaceIfPossible", json!({"maxUnavailable": 2})));
        let before = world.identities();
        for act in &acts {
            match act {
                Act::Tier(n) => world.edit_template(|t| t["metadata"]["labels"]["tier"] = json!(n.to_string())),
                Act::Note(n) => world.edit_template(|t| t["metadata"]["annotations"]["note"] = json!(n.to_string())),
                Act::Image(n) => {
                    world.edit_template(|t| t["spec"]["containers"][0]["image"] = json!(format!("web:{n}")));
                }
                Act::Daemons => world.run_daemons(),
                Act::OneKubelet(at) => world.run_kubelet(*at),
                Act::Crash(at) => world.crash(*at),
                Act::Time(seconds) => world.pass(*seconds),
            }
            world.pass(1);
            world.step();
            let (main, pods) = (world.environments("main"), world.pods());
            for (env, pod) in main.iter().zip(&pods) {
                let tier = pod.metadata.label("tier").unwrap();
                let serves = pod.is_true("InPlaceUpdateReady");
                prop_assert!(!serves || env["TIER"] == tier, "{act:?}: {env} {tier}");
            }
        }
        world.settle();
        prop_assert_eq!(world.identities(), before);
        let template = world.set.spec.template.value();
        let tier = json!({"TIER": template["metadata"]["labels"]["tier"]});
        let note = json!({"NOTE": template["metadata"]["annotations"]["note"]});
        prop_assert!(world.environments("main").iter().all(|env| *env == tier));
        prop_assert!(world.environments("side").iter().all(|env| *env == note));
    }
}
