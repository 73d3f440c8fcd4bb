//! Creation and deletion: in order, or in parallel.

use serde_json::json;

use super::super::simulation::{World, written};

/// The names of the pods.
fn names(world: &World) -> Vec<&str> {
    world.pods.keys().map(String::as_str).collect()
}

#[test]
fn ordered_pod_is_created_when_lower_ones_available() {
    let mut world = World::new(
        3,
        json!({"updateStrategy": {"rollingUpdate": {"minReadySeconds": 5}}}),
    );
    world.step();
    world.step();
    assert_eq!(names(&world), ["db-0"]);
    world.run_kubelets();
    world.step();
    world.run_kubelets();
    assert!(
        world.step().look_again.is_some(),
        "it looks again when it is available"
    );
    assert_eq!(names(&world), ["db-0"], "not ready for long enough");
    world.pass(6);
    world.step();
    assert_eq!(names(&world), ["db-0", "db-1"]);
    world.settle();
    assert_eq!(names(&world), ["db-0", "db-1", "db-2"]);
    let status = world.status();
    assert_eq!(
        (
            status.replicas,
            status.ready_replicas,
            status.available_replicas
        ),
        (3, 3, 3)
    );
    assert_eq!((status.current_replicas, status.updated_replicas), (3, 3));
    assert_eq!(status.current_revision, status.update_revision);
}

#[test]
fn parallel_pods_are_created_and_deleted_at_once() {
    let mut world = World::new(3, json!({"podManagementPolicy": "Parallel"}));
    world.step();
    world.step();
    assert_eq!(names(&world), ["db-0", "db-1", "db-2"]);
    world.settle();
    world.edit(|spec| spec.replicas = Some(1));
    assert_eq!(written(&world.step()), ["DeletePod db-2", "DeletePod db-1"]);
}

#[test]
fn parallel_creation_keeps_scale_max_unavailable() {
    let fields = json!({"podManagementPolicy": "Parallel", "scaleStrategy": {"maxUnavailable": 2}});
    let mut world = World::new(5, fields);
    world.step();
    world.step();
    assert_eq!(names(&world), ["db-0", "db-1"]);
    world.settle();
    assert_eq!(world.pods.len(), 5);
    // An ended pod is created anew, regardless of the number.
    world.edit(|spec| {
        spec.scale_strategy.as_mut().unwrap().max_unavailable = Some(berth_api::IntOrString::Int(1))
    });
    world.fail("db-3");
    world.settle();
    assert_eq!(world.available(), 5);
}

#[test]
fn ordered_scale_down_deletes_highest_ordinal_first() {
    let mut world = World::settled(4, json!({}));
    world.break_pod("db-0");
    world.edit(|spec| spec.replicas = Some(2));
    assert_eq!(
        written(&world.step()),
        Vec::<String>::new(),
        "db-0 is waited for"
    );
    let mut world = World::settled(4, json!({}));
    world.edit(|spec| spec.replicas = Some(2));
    assert_eq!(written(&world.step()), ["DeletePod db-3"]);
    assert_eq!(
        written(&world.step()),
        Vec::<String>::new(),
        "it has not ended yet"
    );
    world.run_kubelets();
    assert_eq!(written(&world.step()), ["DeletePod db-2"]);
}

#[test]
fn ordered_scale_down_waits_for_lower_broken_pod() {
    let mut world = World::settled(4, json!({}));
    world.break_pod("db-3");
    world.edit(|spec| spec.replicas = Some(1));
    let mut both = World::settled(4, json!({}));
    both.break_pod("db-3");
    both.break_pod("db-2");
    both.edit(|spec| spec.replicas = Some(1));
    assert_eq!(
        written(&both.step()),
        Vec::<String>::new(),
        "db-3 waits for db-2, and db-2 for its turn"
    );
    assert_eq!(
        written(&world.step()),
        ["DeletePod db-3"],
        "no lower one is unhealthy"
    );
}

#[test]
fn reserved_ordinal_is_deleted_after_its_replacement() {
    let mut world = World::settled(3, json!({}));
    world.merge(&json!({"reserveOrdinals": [1, "5-9"]}));
    assert_eq!(written(&world.step()), ["CreatePod db-3"]);
    world.run_kubelets();
    assert_eq!(
        written(&world.step()),
        ["PatchPodStatus db-3"],
        "its gates open"
    );
    world.run_kubelets();
    assert_eq!(written(&world.step()), ["DeletePod db-1"]);
    world.settle();
    assert_eq!(names(&world), ["db-0", "db-2", "db-3"]);
    world.merge(&json!({"ordinals": {"start": 3}, "replicas": 2}));
    world.settle();
    assert_eq!(names(&world), ["db-3", "db-4"]);
}

#[test]
fn ended_pod_is_replaced() {
    for policy in ["OrderedReady", "Parallel"] {
        let mut world = World::settled(3, json!({"podManagementPolicy": policy}));
        let before = world.uid("db-1");
        world.fail("db-1");
        assert_eq!(written(&world.step()), ["DeletePod db-1"], "{policy}");
        world.settle();
        assert!(
            world.available() == 3 && world.uid("db-1") != before,
            "{policy}"
        );
    }
}

#[test]
fn orphan_is_adopted_only_if_its_labels_match() {
    let mut world = World::settled(2, json!({}));
    let uid = world.uid("db-1");
    world.pods.get_mut("db-1").unwrap()["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(written(&world.step()), ["AdoptPod db-1"]);
    world.settle();
    assert_eq!(world.uid("db-1"), uid);
    world.label("db-1", "app", "other");
    assert_eq!(written(&world.step()), ["ReleasePod db-1"]);
    world.step();
    assert_eq!(
        written(&world.plan()),
        Vec::<String>::new(),
        "its name is taken"
    );
    let blocked = world
        .status()
        .conditions
        .into_iter()
        .find(|c| c.type_ == "Blocked")
        .unwrap();
    assert_eq!(blocked.reason, "NameTaken", "{}", blocked.message);
    world.pods.remove("db-1");
    world.settle();
    assert_eq!(
        (world.available(), world.status().conditions),
        (2, Vec::new())
    );
}

#[test]
fn a_set_that_is_being_deleted_does_nothing() {
    let mut world = World::settled(2, json!({}));
    let now = world.now();
    std::sync::Arc::make_mut(&mut world.set)
        .metadata
        .deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    world.delete("db-1");
    world.run_kubelets();
    assert!(world.plan().is_idle());
}

#[test]
fn pods_have_their_identity() {
    let world = World::settled(1, json!({}));
    let pod = &world.pods["db-0"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-0");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "0");
    assert_eq!(
        labels["controller-revision-hash"],
        json!(world.status().update_revision)
    );
    assert_eq!(labels["lifecycle.apps.kruise.io/state"], "Normal");
    assert!(labels["pod-template-hash"].is_null());
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("db-0"), &json!("db"))
    );
}

#[test]
fn reserved_range_without_free_ordinals_is_refused() {
    let mut world = World::new(1, json!({"reserveOrdinals": ["0-2147483647"]}));
    let plan = world.step();
    assert!(
        plan.refusal
            .unwrap()
            .message
            .contains("spec.reserveOrdinals: leaves no 1 ordinals")
    );
}
