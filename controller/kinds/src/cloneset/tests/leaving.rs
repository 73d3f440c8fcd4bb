//! Pods that are deleted.

use berth_workload::objects::node::Node;
use berth_workload::objects::pod::lifecycle;

use super::*;
use crate::cloneset::decide;

fn scale(world: &mut World, replicas: i32) {
    Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
}

/// Two pods. One is updated in place: its new container runs, and no kubelet has reported that yet.
fn about_to_serve() -> World {
    let mut world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.set_template(template("web:2"));
    world.step();
    assert_eq!(kinds(&world.step()), ["PatchPodStatus", "PatchPod"]);
    world.run_kubelets();
    world
}

#[test]
fn pod_to_delete_is_not_put_back_into_service() {
    let mut world = about_to_serve();
    assert_eq!(kinds(&world.plan())[0], "PatchPodStatus", "it would be");
    let updated = world
        .images()
        .iter()
        .position(|image| image == "web:2")
        .unwrap();
    world.ask_to_go(updated);
    // The pod serves no traffic, so the limits let it be deleted.
    assert_eq!(kinds(&world.plan()), ["DeletePod"]);
    // A hook that holds the pod before its deletion gets its state, and the pod otherwise stays as
    // it is.
    for at in 0..2 {
        world.label(at, "x.io/hook", "on");
    }
    world.set_lifecycle(json!({"preDelete": {"labelsHandler": {"x.io/hook": "on"}}}));
    let plan = world.plan();
    let Action::PatchPodStatus {
        patch, conditions, ..
    } = &plan.stages[0].steps[0].actions[0]
    else {
        panic!()
    };
    assert_eq!(
        patch.labels[lifecycle::STATE_LABEL].as_deref(),
        Some(lifecycle::PREPARING_DELETE)
    );
    assert_eq!((kinds(&plan).len(), conditions.len()), (1, 0));
}

#[test]
fn pod_deleted_by_others_is_not_written() {
    let mut world = about_to_serve();
    let now = world.now();
    let updated = world
        .pods
        .values_mut()
        .find(|pod| pod["spec"]["containers"][0]["image"] == "web:2")
        .unwrap();
    updated["metadata"]["deletionTimestamp"] = json!(now);
    assert_eq!(kinds(&world.plan()), ["CreatePod"]);
}

#[test]
fn requested_deletions_stay_within_max_unavailable() {
    for (max_unavailable, now) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
        let more = json!({"maxUnavailable": max_unavailable});
        let mut world = World::settled(5, template("web:1"), strategy("InPlaceIfPossible", more));
        (0..3).for_each(|at| world.ask_to_go(at));
        let plan = world.plan();
        assert_eq!(
            kinds(&plan),
            vec!["DeletePod"; now],
            "maxUnavailable {max_unavailable}"
        );
        let waits = "is to be deleted (its deletion was asked for), and waits for maxUnavailable";
        let waiting = plan
            .waiting
            .iter()
            .filter(|waiting| waiting.reason == waits)
            .count();
        assert_eq!(waiting, 3 - now, "maxUnavailable {max_unavailable}");
    }
}

#[test]
fn broken_pods_are_deleted_despite_max_unavailable() {
    let mut world = World::settled(
        4,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({"maxUnavailable": 1})),
    );
    (0..3).for_each(|at| world.ask_to_go(at));
    world.break_pod(0);
    world.break_pod(1);
    // The two broken pods use up `maxUnavailable`, and the third waits for others.
    assert_eq!(kinds(&world.plan()), ["DeletePod"; 2]);
}

#[test]
fn the_pods_that_stay_are_spread_as_the_template_says() {
    let mut spread = template("web:1");
    spread["spec"]["topologySpreadConstraints"] =
        json!([{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]);
    let mut world = World::settled(
        3,
        spread,
        strategy("InPlaceIfPossible", json!({"maxUnavailable": 3})),
    );
    scale(&mut world, 2);
    let zones = [("n1", "east"), ("n2", "east"), ("n3", "west")];
    // The pod that is alone in its zone stays.
    for alone in 0..3 {
        let mut snapshot = world.snapshot();
        let mut others = ["n1", "n2"].into_iter();
        for (at, pod) in snapshot.pods.iter_mut().enumerate() {
            let node = if at == alone {
                "n3"
            } else {
                others.next().unwrap()
            };
            Arc::make_mut(pod).spec.node_name = node.into();
        }
        let host = |(name, zone): (&str, &str)| -> (Box<str>, Arc<Node>) {
            let node = json!({"metadata": {"name": name, "labels": {"zone": zone}}});
            (name.into(), Arc::new(serde_json::from_value(node).unwrap()))
        };
        snapshot.nodes = zones.into_iter().map(host).collect();
        let plan = decide(&snapshot, world.now());
        let steps = plan.actions();
        let gone: Vec<_> = steps
            .filter_map(|action| match action {
                Action::DeletePod { target } => Some(target.name.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(gone.len(), 1, "{plan:?}");
        assert_ne!(
            *gone[0], *snapshot.pods[alone].metadata.name,
            "it is alone in its zone"
        );
    }
}
