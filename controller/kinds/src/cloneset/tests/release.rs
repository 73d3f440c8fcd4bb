use berth_workload::update::podset::release::split_by_selector;
use serde_json::json;

use super::super::simulation::{World, template};
use super::kinds;

#[test]
fn pod_outside_selector_is_released_and_replaced() {
    let mut world = World::settled(2, template("web:1"), json!({}));
    let stray = world.pods()[0].metadata.name.to_string();
    world.label(0, "app", "debug");
    let plan = world.step();
    assert_eq!(kinds(&plan), ["ReleasePod", "CreatePod"]);
    assert_eq!(world.pods[&stray]["metadata"]["ownerReferences"], json!([]));
    assert_eq!(world.status().replicas, 2, "it is not counted");
    // The controller leaves the pod without an owner alone, in every state of the pod.
    world.settle();
    assert_eq!(
        (world.pods.len(), world.status().available_replicas),
        (3, 2)
    );
    world.label(0, "app", "web");
    assert!(world.step().is_idle());
}

#[test]
fn a_pod_that_is_being_deleted_is_not_released() {
    let mut world = World::settled(2, template("web:1"), json!({}));
    let now = world.now();
    world.label(0, "app", "debug");
    let pod = world.pods.values_mut().next().unwrap();
    pod["metadata"]["deletionTimestamp"] = json!(now);
    assert_eq!(kinds(&world.plan()), ["CreatePod"]);
}

#[test]
fn unreadable_selector_releases_no_pod() {
    let world = World::settled(2, template("web:1"), json!({}));
    for (selector, strays) in [
        (
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
            0,
        ),
        (
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
            2,
        ),
        (
            json!({"matchExpressions": [{"key": "app", "operator": "Odd"}]}),
            0,
        ),
        (json!({}), 0),
    ] {
        let mut set = (*world.set).clone();
        set.spec.selector = serde_json::from_value(selector.clone()).unwrap();
        assert_eq!(
            split_by_selector(&set.spec.selector, world.pods()).1.len(),
            strays,
            "{selector}"
        );
    }
}
