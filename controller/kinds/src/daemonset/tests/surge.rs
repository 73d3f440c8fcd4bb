//! New pods beside old ones.

use berth_api::names::annotation::DAEMONSET_IGNORE_NOT_READY;
use jiff::SignedDuration;
use serde_json::json;

use super::super::simulation::World;
use super::update::{history, rolling};
use crate::model::apiserver::set_condition;
use crate::model::unknown;

#[test]
fn surge_creates_new_pod_before_deleting_the_old() {
    let mut world = World::settled(3, rolling(json!({"maxSurge": 1})));
    world.set_image("log:1");
    let all = history(&mut world);
    assert_eq!(all[1], "n0 0, n1 0, n2 0 1");
    assert_eq!(all.last().unwrap(), "n0 1, n1 1, n2 1");
    assert!(
        all.iter()
            .all(|images| images.split(", ").all(|one| one.len() > 2)),
        "none is ever without: {all:?}"
    );
    let both = |images: &String| images.split(", ").filter(|one| one.len() > 4).count();
    assert!(all.iter().all(|images| both(images) <= 1), "{all:?}");
}

#[test]
fn second_update_during_surge_keeps_two_pods_at_most() {
    let mut world = World::settled(2, rolling(json!({"maxSurge": 2})));
    world.set_image("log:1");
    world.step();
    world.step();
    world.set_image("log:2");
    let all = history(&mut world);
    assert_eq!(all.last().unwrap(), "n0 2, n1 2");
    let active = |one: &str| {
        one.split(' ')
            .skip(1)
            .filter(|image| !image.starts_with('('))
            .count()
    };
    assert!(
        all.iter()
            .all(|images| images.split(", ").all(|one| active(one) <= 2)),
        "{all:?}"
    );
}

#[test]
fn ignored_unready_node_uses_no_surge() {
    let mut fields = rolling(json!({"maxSurge": 1}));
    fields["lifecycle"] = json!({"preDelete": {"labelsHandler": {"keep": "true"}}});
    fields["template"] = json!({"metadata": {"labels": {"app": "log", "keep": "true"}}});
    let mut world = World::settled(3, fields);
    let counts = |world: &World| {
        world
            .images()
            .iter()
            .map(|one| one.split(' ').count() - 1)
            .collect::<Vec<_>>()
    };
    world.set_image("log:1");
    history(&mut world);
    assert_eq!(
        counts(&world),
        [1, 1, 2],
        "the old pod is held, and keeps the one place"
    );
    world.set_ready("n2", false);
    history(&mut world);
    assert_eq!(counts(&world), [1, 1, 2]);
    world.annotate(DAEMONSET_IGNORE_NOT_READY, "true");
    history(&mut world);
    assert_eq!(counts(&world), [1, 2, 2]);
}

#[test]
fn unready_node_keeps_both_surge_pods() {
    let mut world = World::settled(2, rolling(json!({"maxSurge": 1})));
    let two_of_last = |world: &mut World, image: &str| {
        world.set_image(image);
        world.step();
        world.step();
        assert!(
            world.images()[1].split(' ').count() == 3,
            "a new one that is not ready beside: {:?}",
            world.images()
        );
    };
    two_of_last(&mut world, "log:1");
    let both = world.images().join(", ");
    let all: Vec<_> = world.pods.keys().cloned().collect();
    for pod in all {
        set_condition(
            world.pods.get_mut(&pod).unwrap(),
            json!({"type": "ContainersReady", "status": "True"}),
        );
    }
    world.set_ready("n1", false);
    assert_eq!(
        history(&mut world),
        std::slice::from_ref(&both),
        "the old one serves, or will when its node is back"
    );
    // The kubelet reports the node as ready before it reports the pods as ready.
    world.set_ready("n1", true);
    world.step();
    assert_eq!(world.images().join(", "), both);
    assert_eq!(history(&mut world).last().unwrap(), "n0 1, n1 1");
}

#[test]
fn unready_old_surge_pod_is_deleted_after_15_s() {
    for (told, rest) in [
        (Some(json!({"status": "False", "ago": 0})), 15),
        (Some(json!({"status": "False", "ago": 14})), 1),
        (Some(json!({"status": "False", "ago": 15})), 0),
        (Some(json!({"status": "False"})), 0),
        (Some(json!({"status": "True", "ago": 0})), 0),
        (None, 0),
    ] {
        let mut world = World::settled(2, rolling(json!({"maxSurge": 1})));
        let old = world.pod_of("n1");
        world.set_image("log:1");
        world.step();
        world.step();
        assert_eq!(
            world.images()[1].split(' ').count(),
            3,
            "a new one that is not ready beside: {:?}",
            world.images()
        );
        world.break_pod(&old);
        let now = world.now();
        if let Some(told) = &told {
            let since = told["ago"]
                .as_i64()
                .map(|ago| now - SignedDuration::from_secs(ago));
            // A readiness gate that is not open keeps a pod with ready containers from being ready.
            let pod = world.pods.get_mut(&old).unwrap();
            pod["spec"]["readinessGates"] = json!([{"conditionType": "never"}]);
            set_condition(
                pod,
                json!({"type": "ContainersReady", "status": told["status"], "lastTransitionTime": since}),
            );
        }
        let goes = |world: &mut World| {
            let plan = world.step();
            (world.images()[1].contains("(0)"), plan.look_again)
        };
        let (is_going, again) = goes(&mut world);
        assert_eq!(is_going, rest == 0, "{told:?}");
        if rest > 0 {
            assert!(
                again.is_some_and(|again| again <= SignedDuration::from_secs(rest)),
                "{told:?} {again:?}"
            );
            world.pass(rest);
            assert!(goes(&mut world).0, "{told:?}");
        }
    }
}

#[test]
fn unknown_fields_reach_pods_and_replace_them() {
    for limits in [json!({"maxSurge": 1}), json!({"maxUnavailable": 1})] {
        let mut rolling = rolling(limits.clone());
        rolling["updateStrategy"]["rollingUpdate"]["rollingUpdateType"] =
            json!("InPlaceIfPossible");
        let mut world = World::settled(2, rolling);
        for number in [1, 2] {
            let before: Vec<_> = world.pods.keys().cloned().collect();
            world.merge(&json!({"template": unknown::template("log:0", &unknown::value(number))}));
            history(&mut world);
            let lacking: Vec<_> = world
                .pods
                .values()
                .map(|pod| unknown::lacking(pod, &unknown::value(number)))
                .collect();
            assert_eq!(lacking, [[""; 0]; 2], "{limits}");
            assert!(
                world.pods.keys().all(|name| !before.contains(name)),
                "{limits}: other pods"
            );
        }
    }
}
