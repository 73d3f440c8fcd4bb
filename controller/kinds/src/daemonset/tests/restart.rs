//! Containers that are restarted because the template asks for it.

use berth_api::names::annotation::RESTARTED_AT;
use serde_json::{Value, json};

use super::super::simulation::{World, template};

fn restarted(at: &str) -> Value {
    let mut template = template("log:0");
    template["metadata"]["annotations"] = json!({RESTARTED_AT: at});
    json!({"template": template})
}

fn world(rolling: Value) -> World {
    World::settled(3, json!({"updateStrategy": {"rollingUpdate": rolling}}))
}

/// Node by node: the pod's uid, and how often its container was restarted.
fn told(world: &World) -> Vec<(String, u64)> {
    let mut of_nodes: Vec<_> = world.nodes.keys().collect();
    of_nodes.sort();
    let of = |node: &&String| {
        let pod = &world.pods[&world.pod_of(node)];
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"]
            .as_u64()
            .unwrap();
        (
            pod["metadata"]["uid"].as_str().unwrap().to_owned(),
            restarts,
        )
    };
    of_nodes.iter().map(of).collect()
}

#[test]
fn restart_keeps_pods_and_stops_at_the_partition() {
    let mut world = world(json!({"rollingUpdateType": "InPlaceIfPossible", "partition": 2}));
    let before = told(&world);
    world.merge(&restarted("2026-11-26T12:00:00Z"));
    world.settle();
    let restarts = |world: &World| {
        told(world)
            .into_iter()
            .map(|(_, restarts)| restarts)
            .collect::<Vec<_>>()
    };
    assert_eq!(restarts(&world), [0, 0, 1]);
    world.merge(&json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}}));
    for _ in 0..60 {
        world.step();
        assert!(world.available() >= 2, "one node at a time");
        world.run_daemons();
        world.run_kubelets();
        world.pass(1);
    }
    assert_eq!(restarts(&world), [1, 1, 1]);
    assert!(
        before
            .iter()
            .zip(told(&world))
            .all(|((uid, _), (now, _))| *uid == now),
        "the same pods"
    );
    assert_eq!(world.status().updated_number_scheduled, 3);
}

#[test]
fn standard_update_replaces_pods_on_restart() {
    let mut world = world(json!({}));
    let before = told(&world);
    world.merge(&restarted("2026-11-26T12:00:00Z"));
    world.settle();
    let after = told(&world);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|((uid, _), (now, restarts))| uid != now && *restarts == 0),
        "{after:?}"
    );
}

#[test]
fn unready_node_starts_no_restart() {
    let mut world = world(json!({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 3}));
    world.set_ready("n1", false);
    world.merge(&restarted("2026-11-26T12:00:00Z"));
    world.settle();
    let restarts: Vec<_> = told(&world)
        .into_iter()
        .map(|(_, restarts)| restarts)
        .collect();
    assert_eq!(restarts, [1, 0, 1]);
}
