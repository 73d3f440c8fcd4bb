//! The messages of a UnitedDeployment about a subset whose pods do not get ready.

use super::world::World;
use super::*;

fn topology(strategy: Value) -> Value {
    json!({"scheduleStrategy": strategy, "subsets": [{"name": "subset-0"}, {"name": "subset-1"}]})
}

fn blocked(world: &World) -> Option<String> {
    let conditions = world.status().conditions;
    conditions
        .into_iter()
        .find(|condition| condition.type_ == "Blocked")
        .map(|blocked| blocked.message)
}

#[test]
fn waiting_pod_of_each_kubernetes_kind_is_named() {
    for field in ["deploymentTemplate", "statefulSetTemplate"] {
        let mut world = World::new(field, 2, topology(json!({})));
        world.cut_off.insert("subset-1");
        for _ in 0..50 {
            world.round();
            world.rest_one_second();
        }
        assert_eq!(blocked(&world), None, "{field}: it may pass by itself");
        world.rest();
        let message = blocked(&world).unwrap();
        let pod = world
            .pods
            .iter()
            .find(|(of, _)| of.contains("subset-1"))
            .unwrap()
            .1["metadata"]["name"]
            .clone();
        for words in [
            format!("pod {}: it has no node", pod.as_str().unwrap()),
            format!("ask for less in spec.template.{field}.spec.template.spec, or make room"),
            "scheduleStrategy.type Adaptive".to_owned(),
        ] {
            assert!(message.contains(&words), "{field}: {words}: {message}");
        }
        world.cut_off.clear();
        world.rest();
        assert_eq!(blocked(&world), None, "{field}");
    }
}

#[test]
fn reserved_pod_that_waits_blocks_nothing() {
    let adaptive = json!({"rescheduleCriticalSeconds": 5, "unschedulableDuration": 5, "reserveUnschedulablePods": true});
    let mut world = World::new(
        "deploymentTemplate",
        2,
        topology(json!({"type": "Adaptive", "adaptive": adaptive})),
    );
    world.cut_off.insert("subset-0");
    world.rest();
    world.now += jiff::SignedDuration::from_secs(120);
    world.rest();
    assert_eq!(
        (world.by_subset(), world.reserved(), blocked(&world)),
        (vec![2, 2], 2, None)
    );
    let status = world.status();
    assert_eq!(
        (
            status.updated_replicas,
            status.replicas,
            status.reserved_pods
        ),
        (2, 2, 2)
    );
}

#[test]
fn workload_message_names_template_and_patch() {
    let mut world = World::new("cloneSetTemplate", 2, topology(json!({})));
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    world.set(
        "/spec/topology/subsets/1",
        json!({"name": "subset-1", "patch": patch}),
    );
    world.rest();
    let at = world.workloads.iter().position(|(_, it)| {
        it["metadata"]["name"]
            .as_str()
            .unwrap()
            .contains("subset-1")
    });
    let (_, set) = &mut world.workloads[at.unwrap()];
    let name = set["metadata"]["name"].as_str().unwrap().to_owned();
    let message = format!(
        "CloneSet default/{name}: pod x: no image; correct spec.template.spec.containers[web].image"
    );
    set["status"]["conditions"] = json!([{"type": "Blocked", "status": "True", "reason": "ImageUnavailable", "message": message}]);
    world.round();
    let wanted = format!(
        "UnitedDeployment default/web: subset subset-1: CloneSet {name}: pod x: no image; correct \
         spec.template.cloneSetTemplate.spec.template.spec.containers[web].image; \
         spec.topology.subsets[subset-1].patch may set the same"
    );
    assert_eq!(blocked(&world), Some(wanted));
}

#[test]
fn refused_pods_of_a_deployment_are_passed_on() {
    let mut world = World::new("deploymentTemplate", 2, topology(json!({})));
    world.rest();
    world.workloads[0].1["status"]["conditions"] = json!([
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"},
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"},
    ]);
    world.round();
    let message = blocked(&world).unwrap();
    let wanted = "exceeded quota; raise the quota or change the policy, or correct spec.template.deploymentTemplate";
    assert!(message.ends_with(wanted), "{message}");
}
