//! Causes that block a DaemonSet, in the words that users read.

use std::sync::Arc;

use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Outcome, Plan};
use serde_json::{Value, json};

use super::super::simulation::{World, template};
use super::super::{decide, status};

fn blocked(world: &World) -> Option<(String, String)> {
    let mut conditions = world.status().conditions.into_iter();
    conditions
        .find(|condition| condition.type_ == "Blocked")
        .map(|blocked| (blocked.reason, blocked.message))
}

fn waits(plan: &Plan) -> Vec<&str> {
    plan.waiting
        .iter()
        .map(|waiting| &*waiting.reason)
        .collect()
}

fn change(world: &mut World, pod: &str, status: &Value) {
    let pod = world.pods.get_mut(pod).unwrap();
    for (field, value) in status.as_object().unwrap() {
        pod["status"][field] = value.clone();
    }
}

/// The node refuses its pod, and another one replaces it.
fn refuse(world: &mut World) {
    let pod = world.pod_of("n0");
    world.end(&pod, "Failed");
    change(
        world,
        &pod,
        &json!({"reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}),
    );
    world.step();
}

/// Until the refused pod is replaced, and the new one bound.
fn replace(world: &mut World, refused: &str) {
    while world.pods.contains_key(refused) {
        world.step();
        world.run_kubelets();
        world.pass(1);
    }
    world.step();
    world.run_kubelets();
}

#[test]
fn repeatedly_refused_pods_block_until_one_runs() {
    let mut world = World::settled(2, json!({}));
    for times in 0..4 {
        refuse(&mut world);
        let told = blocked(&world);
        assert_eq!(told.is_some(), times >= 2, "after {times} others: {told:?}");
        if let Some((reason, message)) = told {
            assert_eq!(reason, "PodsFail");
            for words in [
                "pods on node n0",
                "OutOfcpu: Node didn't have enough resource: cpu",
                "make room on the node",
            ] {
                assert!(message.contains(words), "{message}");
            }
        }
        let refused = world.pod_of("n0");
        replace(&mut world, &refused);
        world.step();
        assert_eq!(
            blocked(&world).is_some(),
            times >= 2,
            "the next one is on its way"
        );
    }
    // A controller that has just started knows of no other ended pods, and the condition keeps its
    // cause.
    world.ended.clear();
    refuse(&mut world);
    assert_eq!(blocked(&world).unwrap().0, "PodsFail");
    world.settle();
    assert_eq!(blocked(&world), None, "it runs");
}

#[test]
fn set_without_fitting_node_is_not_blocked() {
    let mut world = World::settled(
        2,
        json!({"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}),
    );
    world.change_node(
        "n1",
        &json!({"metadata": {"labels": {"disk": "fast"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    );
    world.settle();
    let plan = world.plan();
    let words = "no node is to have a pod: of 2, 1 are kept out by a taint, or by their cordon, and 1 by nodeName";
    assert!(
        waits(&plan).iter().any(|reason| reason.starts_with(words)),
        "{plan:?}"
    );
    assert_eq!(blocked(&world), None);
}

#[test]
fn unready_node_is_named_as_cause_of_unready_pod() {
    let mut world = World::settled(2, json!({}));
    let (pod, since) = (world.pod_of("n1"), json!(world.now()));
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": since});
    let conditions = json!([
        condition("ContainersReady", "True"),
        condition("KruisePodReady", "True"),
        condition("Ready", "False")
    ]);
    world.set_ready("n1", false);
    change(&mut world, &pod, &json!({"conditions": conditions}));
    let plan = world.step();
    assert!(
        waits(&plan)
            .iter()
            .any(|reason| reason.contains("when its node n1 is not Ready")),
        "{plan:?}"
    );
    world.pass(61);
    world.step();
    let (reason, message) = blocked(&world).unwrap();
    assert!(
        reason == "PodNotReady" && message.ends_with("see whether the node is up"),
        "{message}"
    );
}

#[test]
fn plan_waits_for_pod_with_unreleased_hook() {
    let labels = json!({"labels": {"app": "log", "keep": "true"}});
    let hook = json!({"preDelete": {"labelsHandler": {"keep": "true"}}});
    let mut world = World::settled(
        2,
        json!({"lifecycle": hook, "template": {"metadata": labels}}),
    );
    world.change_node(
        "n0",
        &json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}}),
    );
    world.settle();
    let plan = world.plan();
    assert_eq!(
        waits(&plan),
        ["is to be deleted (none may run on node n0), and hook preDelete holds it"]
    );
}

/// The scheduler has no node for the pods that are not bound.
fn find_no_room(world: &mut World) {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    for pod in world
        .all_pods()
        .iter()
        .filter(|pod| pod.spec.node_name.is_empty())
    {
        change(
            world,
            &pod.metadata.name,
            &json!({"conditions": [condition]}),
        );
    }
}

#[test]
fn ended_pod_with_unreleased_hook_blocks() {
    let labels = json!({"labels": {"app": "log", "keep": "true"}});
    let hook = json!({"preDelete": {"labelsHandler": {"keep": "true"}}});
    let mut world = World::settled(
        2,
        json!({"lifecycle": hook, "template": {"metadata": labels}}),
    );
    let ended = world.pod_of("n0");
    world.end(&ended, "Failed");
    world.settle();
    world.pass(120);
    world.settle();
    let (reason, message) = blocked(&world).unwrap();
    assert!(
        reason == "HookNotReleased" && message.contains(&ended),
        "{message}"
    );
    world.label(&ended, "keep", "no");
    world.settle();
    assert_eq!(blocked(&world), None);
}

#[test]
fn host_port_with_surge_blocks() {
    let with_port = json!({"ports": [{"containerPort": 80, "hostPort": 8080}]});
    let on_host = json!({"ports": [{"containerPort": 9100}]});
    let table = [
        (
            json!({"maxSurge": 1}),
            false,
            with_port.clone(),
            Some("port 8080 of the host"),
        ),
        (
            json!({"maxSurge": "40%"}),
            false,
            with_port.clone(),
            Some("port 8080 of the host"),
        ),
        (
            json!({"maxSurge": 1}),
            true,
            on_host.clone(),
            Some("port 9100 of the host"),
        ),
        (json!({"maxSurge": 1}), false, on_host, None),
        (
            json!({"maxSurge": 0, "maxUnavailable": 1}),
            false,
            with_port.clone(),
            None,
        ),
        (
            json!({"maxSurge": "0%", "maxUnavailable": 1}),
            false,
            with_port.clone(),
            None,
        ),
        (
            json!({"maxSurge": 1, "paused": true}),
            false,
            with_port.clone(),
            None,
        ),
    ];
    for (rolling, host_network, container, expected) in table {
        let mut template = template("log:0");
        template["spec"]["containers"][0]["ports"] = container["ports"].clone();
        template["spec"]["hostNetwork"] = json!(host_network);
        let fields = json!({"updateStrategy": {"rollingUpdate": rolling}, "template": template});
        let mut world = World::settled(3, fields);
        template["spec"]["containers"][0]["image"] = json!("log:1");
        world.merge(&json!({"template": template}));
        world.step();
        world.step();
        find_no_room(&mut world);
        world.step();
        let told = blocked(&world);
        assert_eq!(told.is_some(), expected.is_some(), "{rolling}: {told:?}");
        if let (Some((reason, message)), Some(words)) = (told, expected) {
            assert_eq!(reason, "HostPortWithSurge");
            assert!(
                message.contains(words) && message.contains("use maxUnavailable"),
                "{message}"
            );
        }
    }
    let on_delete =
        json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}});
    let mut world = World::settled(2, on_delete);
    let mut template = template("log:1");
    template["spec"]["containers"][0]["ports"] = with_port["ports"].clone();
    world.merge(&json!({"template": template}));
    world.step();
    world.delete(&world.pod_of("n0"));
    world.step();
    find_no_room(&mut world);
    world.step();
    assert_eq!(blocked(&world), None, "nothing is updated");
}

/// A set that may surge, whose pods have a host port.
fn surging(nodes: usize) -> World {
    let mut template = template("log:0");
    template["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
    World::new(
        nodes,
        json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}, "template": template}),
    )
}

fn set_image(world: &mut World, image: &str) {
    let container =
        json!({"name": "main", "image": image, "ports": [{"containerPort": 80, "hostPort": 8080}]});
    world.merge(&json!({"template": {"spec": {"containers": [container]}}}));
}

#[test]
fn host_port_blocks_only_if_surge_pod_is_pending() {
    let mut world = surging(2);
    world.step();
    world.step();
    world.run_kubelets();
    for pod in world.pods.keys().cloned().collect::<Vec<_>>() {
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
        let container = json!({"name": "main", "image": "log:0", "ready": false, "state": waiting});
        change(&mut world, &pod, &json!({"containerStatuses": [container]}));
    }
    world.step();
    assert_eq!(
        blocked(&world).map(|told| told.0).as_deref(),
        Some("ImageUnavailable"),
        "a first deployment"
    );

    let mut world = surging(2);
    world.settle();
    world.merge(&json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}}));
    set_image(&mut world, "log:1");
    world.settle();
    assert_eq!(blocked(&world), None, "nothing is to be updated");
    world.add_node("n9");
    for _ in 0..3 {
        world.step();
        assert_eq!(blocked(&world), None, "a node joins");
        find_no_room(&mut world);
    }
    world.run_kubelets();
    world.settle();

    world.merge(&json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}}));
    world.step();
    assert_eq!(blocked(&world), None, "the scheduler has yet to look");
    find_no_room(&mut world);
    world.step();
    assert_eq!(
        blocked(&world).map(|told| told.0).as_deref(),
        Some("HostPortWithSurge")
    );
}

/// If the pods bypass the scheduler, the kubelet refuses the second pod, which is created
/// repeatedly. Between two of them the problem is not solved.
#[test]
fn host_port_condition_stays_between_refused_pods() {
    let refuse_ports = |world: &mut World| {
        let is_new =
            |pod: &&Arc<Pod>| !pod.spec.node_name.is_empty() && &*pod.status.phase != "Running";
        for pod in world.all_pods().iter().filter(is_new) {
            world.end(&pod.metadata.name, "Failed");
            change(
                world,
                &pod.metadata.name,
                &json!({"reason": "NodePorts", "message": "no free ports"}),
            );
        }
    };
    let mut world = surging(2);
    world.settle();
    set_image(&mut world, "log:1");
    let (mut told, mut pods) = (Vec::new(), std::collections::BTreeSet::new());
    for _ in 0..40 {
        world.step();
        told.push(blocked(&world).map(|told| told.0));
        // The first sync binds the pod, and the node's first report is the refusal.
        world.run_kubelets();
        world.step();
        told.push(blocked(&world).map(|told| told.0));
        refuse_ports(&mut world);
        pods.extend(world.pods.keys().cloned());
        world.pass(1);
    }
    assert!(pods.len() > 5, "pods are made again: {pods:?}");
    let first = told.iter().position(Option::is_some).unwrap();
    assert!(
        told[first..]
            .iter()
            .all(|told| told.as_deref() == Some("HostPortWithSurge")),
        "{told:?}"
    );
    // A user deletes the pods, which frees the port.
    for name in world.pods.keys().cloned().collect::<Vec<_>>() {
        world.delete(&name);
    }
    world.settle();
    assert_eq!(
        (world.images(), blocked(&world)),
        (vec!["n0 1".to_owned(), "n1 1".to_owned()], None)
    );
}

#[test]
fn overlapping_selector_is_reported_once() {
    let world = World::settled(1, json!({}));
    let mut snapshot = world.snapshot();
    snapshot.overlapping = vec!["other".to_owned()];
    let plan = decide(&snapshot, world.now());
    assert_eq!(
        plan.events
            .iter()
            .map(|event| event.reason)
            .collect::<Vec<_>>(),
        ["OverlappingSelector"]
    );
    let status = status(&snapshot, &plan, &Outcome::default(), world.now()).unwrap();
    let told = &status.conditions[0];
    assert_eq!(told.reason, "OverlappingSelector");
    assert!(
        told.message
            .contains("\"app=log\" overlaps with that of DaemonSet other"),
        "{}",
        told.message
    );
    Arc::make_mut(&mut snapshot.set).status = Some(status);
    assert_eq!(decide(&snapshot, world.now()).events, []);
}
