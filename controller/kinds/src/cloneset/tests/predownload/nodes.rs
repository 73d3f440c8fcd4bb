//! The images on nodes, and the updates that wait for them.

use berth_workload::images::predownload::has;
use berth_workload::objects::pod::lifecycle::PREPARING_UPDATE;

use super::*;
use crate::cloneset::decide;

/// The writes to pods and the names of the pods, in the plan's order.
fn updated(plan: &Plan) -> Vec<String> {
    let actions = plan.actions();
    let name = |action: &Action| match action {
        Action::PatchPod { target, .. } => Some(target.name.clone()),
        _ => None,
    };
    actions.filter_map(name).collect()
}

fn node(spec: &Value, status: &Value) -> NodeImage {
    serde_json::from_value(json!({"metadata": {"name": "node"}, "spec": spec, "status": status}))
        .unwrap()
}

fn pulls(tags: Value) -> Value {
    json!({"imageStatuses": {"web": {"tags": tags}}})
}

#[test]
fn node_has_image_if_it_reports_same_tag_and_version() {
    let asked =
        |version: i64| json!({"images": {"web": {"tags": [{"tag": "2", "version": version}]}}});
    let fact = |image: &str, ids: Value| json!({"imageFacts": [{"image": image, "imageIDs": ids}]});
    let one = |tag: &str, phase: &str, version: i64| {
        pulls(json!([{"tag": tag, "phase": phase, "version": version}]))
    };
    let table = [
        ("it says nothing", json!({}), json!({}), false),
        (
            "it knows the image",
            json!({}),
            fact("web:2", json!(["sha256:2"])),
            true,
        ),
        (
            "it knows another image",
            json!({}),
            fact("web:1", json!(["sha256:1"])),
            false,
        ),
        (
            "it knows that it has it not",
            json!({}),
            fact("web:2", json!([])),
            false,
        ),
        ("it has pulled it", asked(0), one("2", "Succeeded", 0), true),
        (
            "it has pulled it, and no owner wants it any more",
            json!({}),
            one("2", "Succeeded", 3),
            true,
        ),
        ("it is pulling", asked(0), one("2", "Pulling", 0), false),
        (
            "it has pulled another tag",
            asked(0),
            one("1", "Succeeded", 0),
            false,
        ),
        // The node pulls again, because the tag may have moved.
        (
            "it has pulled it a round before",
            asked(1),
            one("2", "Succeeded", 0),
            false,
        ),
    ];
    for (what, spec, status, expected) in table {
        assert_eq!(has(&node(&spec, &status), "web:2"), expected, "{what}");
    }
    assert!(
        has(&node(&json!({}), &json!({})), "no image"),
        "what cannot be pulled is not waited for"
    );
}

#[test]
fn only_newly_pulled_image_triggers_reconcile() {
    let now = pulls(json!([{"tag": "1", "phase": "Succeeded", "version": 1}]));
    let table = [
        (
            "the same",
            "web",
            json!({"tag": "1", "phase": "Succeeded", "version": 1}),
            false,
        ),
        (
            "it was being pulled",
            "web",
            json!({"tag": "1", "phase": "Pulling", "version": 1}),
            true,
        ),
        (
            "a round before",
            "web",
            json!({"tag": "1", "phase": "Succeeded", "version": 0}),
            true,
        ),
        (
            "another tag",
            "web",
            json!({"tag": "0", "phase": "Succeeded", "version": 1}),
            true,
        ),
        (
            "another image",
            "api",
            json!({"tag": "1", "phase": "Succeeded", "version": 1}),
            true,
        ),
    ];
    for (what, image, tag, wakes) in table {
        let before = json!({"imageStatuses": {image: {"tags": [tag]}}});
        let (before, now) = (node(&json!({}), &before), node(&json!({}), &now));
        assert_eq!(brings_images(Some(&before), &now), wakes, "{what}");
    }
    let failed = pulls(json!([{"tag": "1", "phase": "Failed"}]));
    assert!(
        !brings_images(None, &node(&json!({}), &failed)),
        "a pull that failed brings nothing"
    );
}

#[test]
fn only_a_cloneset_that_says_so_waits_for_images() {
    let mut world = world(1, json!({}));
    assert!(!waits_for_images(&world.set.metadata));
    Arc::make_mut(&mut world.set).metadata.annotations =
        Some([("note".to_owned(), "x".to_owned())].into());
    assert!(!waits_for_images(&world.set.metadata));
    annotate(&mut world, "5m");
    assert!(waits_for_images(&world.set.metadata));
}

#[test]
fn an_update_that_has_begun_waits_for_no_image() {
    // The pod is out of service for the grace period.
    let mut world = world(
        4,
        json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 30}}),
    );
    let plan = rollout(&mut world, "web:2");
    assert!(
        kinds(&plan).contains(&"PatchPodStatus".to_owned()),
        "{plan:?}"
    );
    annotate(&mut world, "5m");
    pulled(&mut world, "2", "Pulling");
    world.pass(30);
    assert_eq!(updated(&world.step()).len(), 1);

    // A hook was notified of the update, and has let the pod go.
    let mut world = self::world(4, json!({}));
    (0..4).for_each(|at| world.hold(at, true, false));
    world.set_lifecycle(json!({"inPlaceUpdate": {"labelsHandler": {"x.io/hook": "on"}}}));
    rollout(&mut world, "web:2");
    let held = world
        .states()
        .iter()
        .position(|state| state == PREPARING_UPDATE)
        .unwrap();
    annotate(&mut world, "5m");
    pulled(&mut world, "2", "Pulling");
    world.hold(held, false, false);
    assert_eq!(
        updated(&world.step()),
        [world.pods()[held].metadata.name.to_string()]
    );
}

#[test]
fn pod_with_pulled_image_does_not_wait_for_others() {
    let mut world = world(4, json!({}));
    annotate(&mut world, "5m");
    rollout(&mut world, "web:2");
    world.pass(1);
    // Any pod may come first: only the node of the last one has the image.
    for here in 0..4 {
        let mut snapshot = world.snapshot();
        let report = |phase: &str| {
            let tags = json!([{"tag": "2", "phase": phase}]);
            Arc::new(node(
                &json!({"images": {"web": {"tags": [{"tag": "2"}]}}}),
                &pulls(tags),
            ))
        };
        snapshot.node_images = [
            ("here".into(), report("Succeeded")),
            ("there".into(), report("Pulling")),
        ]
        .into();
        for (at, pod) in snapshot.pods.iter_mut().enumerate() {
            Arc::make_mut(pod).spec.node_name = if at == here { "here" } else { "there" }.into();
        }
        let plan = decide(&snapshot, world.now());
        assert_eq!(
            updated(&plan),
            [snapshot.pods[here].metadata.name.to_string()],
            "{:?}",
            plan.waiting
        );
    }
}
