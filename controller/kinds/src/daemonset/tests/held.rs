//! The revisions on nodes that a rollout leaves out, with the annotation by which such nodes keep
//! theirs.

use berth_api::names::annotation::{DAEMONSET_HOLD_REVISION, DAEMONSET_TEMPLATE_GENERATION};
use serde_json::{Value, json};

use super::super::kept;
use super::super::simulation::World;

fn rolling(fields: &Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": fields}})
}

fn selector() -> Value {
    json!({"selector": {"matchLabels": {"canary": "yes"}}})
}

fn select(world: &mut World, node: &str, yes: bool) {
    world.change_node(
        node,
        &json!({"metadata": {"labels": {"canary": if yes { "yes" } else { "no" }}}}),
    );
}

/// This many nodes, the first of them selected, that keep their revision.
fn holding(nodes: usize, fields: &Value) -> World {
    let mut world = World::settled(nodes, rolling(fields));
    world.annotate(DAEMONSET_HOLD_REVISION, "true");
    select(&mut world, "n0", true);
    world
}

fn roll_to(world: &mut World, image: &str) {
    world.set_image(image);
    world.settle();
}

fn evict(world: &mut World, node: &str) {
    let pod = world.pod_of(node);
    world.delete(&pod);
    world.settle();
}

#[test]
fn excluded_node_keeps_revision_only_by_annotation() {
    let mut world = World::settled(4, rolling(&json!({"partition": 3})));
    roll_to(&mut world, "log:1");
    evict(&mut world, "n0");
    assert_eq!(
        world.images(),
        ["n0 1", "n1 0", "n2 0", "n3 1"],
        "without it, a pod that is made anew is new"
    );
    world.annotate(DAEMONSET_HOLD_REVISION, "true");
    evict(&mut world, "n1");
    assert_eq!(world.images()[1], "n1 0");
}

#[test]
fn node_without_the_selected_label_is_rolled_back() {
    let mut world = holding(3, &selector());
    select(&mut world, "n1", true);
    roll_to(&mut world, "log:1");
    assert_eq!(world.images(), ["n0 1", "n1 1", "n2 0"]);
    select(&mut world, "n0", false);
    world.settle();
    assert_eq!(world.images(), ["n0 0", "n1 1", "n2 0"]);
}

#[test]
fn rolled_back_pod_with_hook_counts_once() {
    let mut fields = rolling(&json!({"maxUnavailable": 2, "selector": selector()["selector"]}));
    fields["template"] = json!({"metadata": {"labels": {"app": "log", "keep": "true"}}});
    let mut world = World::settled(5, fields);
    world.annotate(DAEMONSET_HOLD_REVISION, "true");
    for node in ["n0", "n1", "n2"] {
        select(&mut world, node, true);
    }
    roll_to(&mut world, "log:1");
    assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1", "n3 0", "n4 0"]);
    world.merge(&json!({"lifecycle": {"preDelete": {"labelsHandler": {"keep": "true"}}}}));
    for node in ["n1", "n2"] {
        select(&mut world, node, false);
        world.settle();
        let pod = world.pod_of(node);
        assert_eq!(
            world.pods[&pod]["metadata"]["labels"]["lifecycle.apps.kruise.io/state"],
            "PreparingDelete",
            "{node}"
        );
    }
}

/// A rollback to the revision of left-out nodes: nothing happens to them, and their new pods have
/// the same revision.
#[test]
fn rolled_back_canary_reaches_no_excluded_node() {
    for (fields, canary) in [
        (selector(), ["n0 1", "n1 0", "n2 0"]),
        (json!({"partition": 2}), ["n0 0", "n1 0", "n2 1"]),
    ] {
        let mut world = holding(3, &fields);
        roll_to(&mut world, "log:1");
        assert_eq!(world.images(), canary, "{fields}");
        let left_out: Vec<_> = canary
            .iter()
            .filter(|one| one.ends_with('0'))
            .map(|one| &one[..2])
            .collect();
        let before: Vec<_> = left_out.iter().map(|node| world.pod_of(node)).collect();
        roll_to(&mut world, "log:0");
        assert_eq!(world.images(), ["n0 0", "n1 0", "n2 0"], "{fields}");
        let after: Vec<_> = left_out.iter().map(|node| world.pod_of(node)).collect();
        assert_eq!(after, before, "{fields}: they are not touched");
        for node in left_out {
            evict(&mut world, node);
            assert_eq!(
                world.images(),
                ["n0 0", "n1 0", "n2 0"],
                "{fields}: {node} was evicted"
            );
        }
    }
}

#[test]
fn unlabelled_canary_stays_alone_after_rollback() {
    let mut world = holding(3, &selector());
    roll_to(&mut world, "log:1");
    select(&mut world, "n0", false);
    roll_to(&mut world, "log:0");
    assert_eq!(world.images(), ["n0 1", "n1 0", "n2 0"]);
    evict(&mut world, "n2");
    evict(&mut world, "n0");
    assert_eq!(world.images(), ["n0 0", "n1 0", "n2 0"]);
}

#[test]
fn only_excluded_node_gets_no_rolled_back_canary() {
    let mut world = holding(2, &selector());
    roll_to(&mut world, "log:1");
    roll_to(&mut world, "log:0");
    evict(&mut world, "n1");
    assert_eq!(world.images(), ["n0 0", "n1 0"]);
}

#[test]
fn rollback_of_the_canary_keeps_the_other_nodes() {
    let mut world = holding(3, &json!({}));
    roll_to(&mut world, "log:1");
    world.merge(&rolling(&selector()));
    roll_to(&mut world, "log:0");
    assert_eq!(world.images(), ["n0 0", "n1 1", "n2 1"]);
    evict(&mut world, "n1");
    assert_eq!(world.images(), ["n0 0", "n1 1", "n2 1"]);
}

/// Nodes that are left out after the end of a rollout keep the update, and none goes back.
#[test]
fn partition_after_a_rollout_reverts_no_node() {
    for fields in [json!({"partition": 2}), json!({"partition": 3}), selector()] {
        let mut world = holding(3, &json!({}));
        roll_to(&mut world, "log:1");
        let before: Vec<_> = world.pods.keys().cloned().collect();
        world.merge(&rolling(&fields));
        world.settle();
        assert_eq!(
            world.pods.keys().cloned().collect::<Vec<_>>(),
            before,
            "{fields}"
        );
        evict(&mut world, "n1");
        assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1"], "{fields}");
    }
}

/// One node that lags behind must not bring all others back to its revision.
#[test]
fn selector_after_partial_rollout_reverts_no_node() {
    let mut world = holding(4, &json!({"partition": 1}));
    roll_to(&mut world, "log:1");
    world.merge(&rolling(
        &json!({"partition": 0, "selector": {"matchLabels": {"canary": "none"}}}),
    ));
    world.settle();
    assert_eq!(world.images(), ["n0 0", "n1 1", "n2 1", "n3 1"]);
    evict(&mut world, "n0");
    assert_eq!(
        world.images()[0],
        "n0 1",
        "the others are all that is left to go by"
    );
}

#[test]
fn excluded_node_keeps_most_common_old_revision() {
    let mut world = holding(4, &selector());
    roll_to(&mut world, "log:1");
    select(&mut world, "n0", false);
    select(&mut world, "n3", true);
    roll_to(&mut world, "log:2");
    assert_eq!(world.images(), ["n0 1", "n1 0", "n2 0", "n3 2"]);
    evict(&mut world, "n1");
    assert_eq!(world.images(), ["n0 1", "n1 0", "n2 0", "n3 2"]);
}

/// The update may run on a node that does not match the old revision: no pod of the old revision is
/// created there, and nothing waits for it.
#[test]
fn node_that_fits_only_update_waits_for_partition() {
    let in_zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let terms =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [in_zone]}});
    let tolerates = json!([{"key": "cp", "operator": "Exists"}]);
    let strategies = [
        json!({}),
        json!({"maxSurge": 1, "maxUnavailable": 0}),
        json!({"rollingUpdateType": "InPlaceIfPossible"}),
    ];
    for (before, after) in [
        (json!({}), json!({"tolerations": tolerates})),
        (
            json!({"tolerations": tolerates, "nodeSelector": {"zone": "a"}}),
            json!({"nodeSelector": null}),
        ),
        (
            json!({"tolerations": tolerates, "affinity": {"nodeAffinity": terms}}),
            json!({"affinity": null}),
        ),
    ] {
        for strategy in &strategies {
            let mut world = World::new(3, rolling(strategy));
            world.merge(&json!({"template": {"spec": before}}));
            world.annotate(DAEMONSET_HOLD_REVISION, "true");
            world.change_node(
                "n0",
                &json!({"spec": {"taints": [{"key": "cp", "effect": "NoSchedule"}]}}),
            );
            for node in ["n1", "n2"] {
                world.change_node(node, &json!({"metadata": {"labels": {"zone": "a"}}}));
            }
            world.settle();
            assert_eq!(
                world.images(),
                ["n0", "n1 0", "n2 0"],
                "{before} {strategy}"
            );
            world.merge(&rolling(&json!({"partition": 2})));
            world.merge(&json!({"template": {"spec": after}}));
            roll_to(&mut world, "log:1");
            assert_eq!(
                world.images(),
                ["n0", "n1 0", "n2 1"],
                "{before} {strategy}"
            );
            assert!(
                world.status().conditions.is_empty(),
                "{:?}",
                world.status().conditions
            );
            let waits = world.plan().waiting;
            assert!(
                waits
                    .iter()
                    .any(|one| one.reason.starts_with("1 nodes get no pod before")),
                "{waits:?}"
            );
            evict(&mut world, "n1");
            assert_eq!(
                world.images(),
                ["n0", "n1 0", "n2 1"],
                "{before} {strategy}"
            );
            world.merge(&rolling(&json!({"partition": 0})));
            world.settle();
            assert_eq!(
                world.images(),
                ["n0 1", "n1 1", "n2 1"],
                "{before} {strategy}"
            );
        }
    }
}

#[test]
fn node_that_starts_to_fit_gets_the_old_revision() {
    let mut world = World::new(2, rolling(&json!({})));
    let taint = json!([{"key": "cp", "effect": "NoSchedule"}]);
    world.annotate(DAEMONSET_HOLD_REVISION, "true");
    world.change_node("n0", &json!({"spec": {"taints": taint}}));
    world.settle();
    world.merge(&rolling(&json!({"partition": 2})));
    world.merge(&json!({"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}));
    roll_to(&mut world, "log:1");
    assert_eq!(world.images(), ["n0", "n1 0"]);
    world.change_node("n0", &json!({"spec": {"taints": []}}));
    world.settle();
    assert_eq!(world.images(), ["n0 0", "n1 0"]);
}

/// A set that was one of Kubernetes' own has a number, and pods with that are updated.
#[test]
fn recreated_old_pod_lacks_generation_of_the_update() {
    for labels in [json!({}), json!({"pod-template-generation": "4"})] {
        let mut world = World::settled(3, rolling(&json!({"partition": 2})));
        world.annotate(DAEMONSET_HOLD_REVISION, "true");
        world.merge(&json!({"template": {"metadata": {"labels": labels}}}));
        world.merge(&rolling(&json!({"partition": 0})));
        world.settle();
        world.merge(&rolling(&json!({"partition": 2})));
        roll_to(&mut world, "log:1");
        for pod in world.pods.keys().cloned().collect::<Vec<_>>() {
            world.label(&pod, "pod-template-generation", "3");
        }
        world.annotate(DAEMONSET_TEMPLATE_GENERATION, "4");
        for (node, image, number) in [("n0", "n0 0", None), ("n2", "n2 1", Some("4"))] {
            evict(&mut world, node);
            assert!(
                world.images().iter().any(|one| one == image),
                "{:?}",
                world.images()
            );
            let pods = world.all_pods();
            let made = pods
                .iter()
                .find(|pod| *pod.metadata.name == *world.pod_of(node))
                .unwrap();
            assert_eq!(
                made.metadata.label("pod-template-generation"),
                number,
                "{node} {labels}"
            );
        }
        assert_eq!(world.status().updated_number_scheduled, 1, "{labels}");
        world.merge(&rolling(&json!({"partition": 0})));
        world.settle();
        assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1"], "{labels}");
    }
}

/// The revisions that a node may get when it joins in the middle of a rollout.
#[test]
fn kept_revisions_are_those_of_pods_or_the_newest() {
    let mut world = holding(3, &json!({"partition": 2}));
    let of = |world: &World| {
        let snapshot = world.snapshot();
        let templates: Vec<_> = kept(&snapshot.pods, &snapshot.revisions)
            .iter()
            .map(|revision| revision.template())
            .collect();
        let image = |template: &Value| {
            template["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        templates.iter().map(image).collect::<Vec<_>>()
    };
    assert_eq!(of(&world), ["log:0"]);
    roll_to(&mut world, "log:1");
    roll_to(&mut world, "log:2");
    assert_eq!(of(&world), ["log:0", "log:2"]);
    world.pods.clear();
    assert_eq!(of(&world), ["log:2", "log:1"]);
}
