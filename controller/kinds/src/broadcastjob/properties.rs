//! Properties of a job in every order of steps around it.

use berth_api::v1beta1::broadcastjob::phase;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::simulation::World;

#[derive(Debug, Clone)]
enum Change {
    Join(usize),
    Leave(usize),
    Cordon(usize, bool),
    Label(usize, bool),
    Taint(usize, Value),
    Ready(usize, bool),
    Start(usize),
    StartAll,
    Finish(usize, bool),
    /// Its container restarts this many times.
    Restart(usize, u8),
    Evict(usize),
    Pressure(usize),
    Delete(usize),
    /// The kubelet, or the garbage collector of pods, ends a pod that is being deleted.
    End(usize, bool),
    Collect,
    Time(i64),
    Pause(bool),
    Parallelism(u8),
    SeePods(usize),
    SeeNodes,
    SeeJob,
    Round,
    Crash(usize),
}

const NODES: usize = 5;

fn change() -> impl Strategy<Value = Change> {
    let node = 0..NODES;
    let pod = || 0..8usize;
    let taint = prop_oneof![
        Just(json!([])),
        Just(json!([{"key": "k", "effect": "NoSchedule"}])),
        Just(json!([{"key": "k", "effect": "NoExecute"}])),
    ];
    prop_oneof![
        1 => node.clone().prop_map(Change::Join),
        1 => node.clone().prop_map(Change::Leave),
        1 => (node.clone(), any::<bool>()).prop_map(|(n, on)| Change::Cordon(n, on)),
        1 => (node.clone(), any::<bool>()).prop_map(|(n, on)| Change::Label(n, on)),
        1 => (node.clone(), taint).prop_map(|(n, taint)| Change::Taint(n, taint)),
        1 => (node, any::<bool>()).prop_map(|(n, on)| Change::Ready(n, on)),
        2 => pod().prop_map(Change::Start),
        3 => Just(Change::StartAll),
        4 => (pod(), prop::bool::weighted(0.8)).prop_map(|(n, good)| Change::Finish(n, good)),
        1 => (pod(), 1u8..4).prop_map(|(n, times)| Change::Restart(n, times)),
        1 => pod().prop_map(Change::Evict),
        1 => pod().prop_map(Change::Pressure),
        2 => pod().prop_map(Change::Delete),
        2 => (pod(), any::<bool>()).prop_map(|(n, ends)| Change::End(n, ends)),
        1 => Just(Change::Collect),
        2 => prop_oneof![1i64..20, Just(40i64)].prop_map(Change::Time),
        1 => any::<bool>().prop_map(Change::Pause),
        1 => (0u8..4).prop_map(Change::Parallelism),
        3 => (1usize..4).prop_map(Change::SeePods),
        3 => Just(Change::SeeNodes),
        3 => Just(Change::SeeJob),
        8 => Just(Change::Round),
        1 => (0usize..4).prop_map(Change::Crash),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    let parallelism = prop_oneof![Just(json!(1)), Just(json!(2)), Just(json!(9))];
    let completion =
        prop_oneof![3 => Just(json!({"type": "Always"})), 1 => Just(json!({"type": "Never"}))];
    let failure = prop_oneof![Just("Continue"), Just("Pause"), Just("FailFast")];
    let restarts = prop_oneof![Just("Never"), Just("OnFailure")];
    (parallelism, completion, failure, restarts).prop_map(|(parallelism, completion, failure, restarts)| {
        json!({
            "parallelism": parallelism, "completionPolicy": completion,
            "failurePolicy": {"type": failure, "restartLimit": 1}, "template": {"spec": {"restartPolicy": restarts}},
        })
    })
}

fn node(n: usize) -> String {
    format!("n{n}")
}

fn apply(world: &mut World, change: &Change) {
    if let Change::Join(n) = change {
        if !world.nodes.contains_key(&node(*n)) {
            world.join(&node(*n));
        }
        return;
    }
    if on_node(world, change) || on_pod(world, change) {
        return;
    }
    match change {
        Change::StartAll => world.names().iter().for_each(|name| world.start(name)),
        Change::Collect => collect(world),
        Change::Time(seconds) => world.pass(*seconds),
        Change::Pause(on) => world.edit_job(&json!({"spec": {"paused": on}})),
        Change::Parallelism(most) => world.edit_job(&json!({"spec": {"parallelism": most}})),
        Change::SeePods(most) => world.see_pods(*most),
        Change::SeeNodes => world.see_nodes(),
        Change::SeeJob => world.see_job(),
        Change::Round => round(world),
        Change::Crash(writes) if !world.would_forget() => {
            world.round(Some(*writes));
            world.restart();
        }
        _ => {}
    }
}

/// Applies a change of a node; false for other changes.
fn on_node(world: &mut World, change: &Change) -> bool {
    let (n, edit) = match change {
        Change::Leave(n) => (n, None),
        Change::Cordon(n, on) => (n, Some(json!({"spec": {"unschedulable": on}}))),
        Change::Label(n, on) => (
            n,
            Some(json!({"metadata": {"labels": {"use": if *on { "yes" } else { "no" }}}})),
        ),
        Change::Taint(n, taint) => (n, Some(json!({"spec": {"taints": taint}}))),
        Change::Ready(n, on) => {
            let status = if *on { "True" } else { "False" };
            (
                n,
                Some(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})),
            )
        }
        _ => return false,
    };
    match edit {
        Some(edit) if world.nodes.contains_key(&node(*n)) => world.edit_node(&node(*n), &edit),
        None => drop(world.nodes.remove(&node(*n))),
        _ => {}
    }
    true
}

/// Applies a change of a pod; false for other changes.
fn on_pod(world: &mut World, change: &Change) -> bool {
    let (Change::Start(n)
    | Change::Finish(n, _)
    | Change::Restart(n, _)
    | Change::Evict(n)
    | Change::Pressure(n)
    | Change::Delete(n)
    | Change::End(n, _)) = change
    else {
        return false;
    };
    let Some(name) = world.names().get(*n).cloned() else {
        return true;
    };
    match change {
        Change::Start(_) => world.start(&name),
        Change::Finish(_, good) => world.finish(&name, if *good { "Succeeded" } else { "Failed" }),
        Change::Restart(_, times) => {
            let restarted =
                json!({"status": {"containerStatuses": [{"name": "main", "restartCount": times}]}});
            world.edit_pod(&name, &restarted);
        }
        Change::Evict(_) => {
            world.disrupt(&name, &json!({}));
            world.delete_pod(&name);
        }
        Change::Pressure(_) => world.disrupt(&name, &json!({"status": {"phase": "Failed"}})),
        Change::Delete(_) => world.delete_pod(&name),
        Change::End(_, ends) if !world.pods[&name]["metadata"]["deletionTimestamp"].is_null() => {
            if *ends {
                world.edit_pod(&name, &json!({"status": {"phase": "Failed"}}));
            }
            world.set_pod(&name, None);
        }
        _ => {}
    }
    true
}

/// Removes pods on nodes that are gone, as the garbage collector does.
fn collect(world: &mut World) {
    for name in world.names() {
        let on = world.pods[&name]["spec"]["nodeName"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if !on.is_empty() && !world.nodes.contains_key(&on) {
            world.set_pod(&name, None);
        }
    }
}

fn round(world: &mut World) {
    let before = world.status();
    let most = world
        .snapshot()
        .map_or(0, |snapshot| match &snapshot.job.spec.parallelism {
            Some(berth_api::IntOrString::Int(most)) => usize::try_from(*most).unwrap(),
            _ => usize::MAX,
        });
    let wanted = world.snapshot().map(|snapshot| snapshot.nodes);
    let created = world.round(None);
    assert!(
        created == 0 || world.running() <= most,
        "{} pods run, and {most} may",
        world.running()
    );
    if before.phase != phase::COMPLETED && world.status().phase == phase::COMPLETED {
        for node in wanted.unwrap_or_default() {
            let is_wanted = node.metadata.label("use") == Some("yes")
                && !node.cordoned
                && node.taints.is_empty();
            let has_ended = world.ended.contains(&*node.metadata.uid);
            assert!(
                !is_wanted || has_ended,
                "the job is completed without node {}",
                node.metadata.name
            );
        }
    }
}

/// All components do their work, all nodes are healthy, and the job is not paused.
fn rest(world: &mut World) {
    for n in 0..NODES {
        if !world.nodes.contains_key(&node(n)) {
            world.join(&node(n));
        }
        let well = json!({"metadata": {"labels": {"use": "yes"}}, "spec": {"unschedulable": false, "taints": []},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        world.edit_node(&node(n), &well);
    }
    for _ in 0..60 {
        world.pass(40);
        world.edit_job(&json!({"spec": {"paused": false, "parallelism": 2}}));
        world.settle();
        collect(world);
        for name in world.names() {
            if !world.pods[&name]["metadata"]["deletionTimestamp"].is_null() {
                world.set_pod(&name, None);
                continue;
            }
            world.start(&name);
            world.finish(&name, "Succeeded");
        }
    }
    world.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_node_runs_once_and_the_job_ends(spec in spec(), changes in prop::collection::vec(change(), 1..120)) {
        let mut world = World::new(3, spec.clone());
        world.see();
        for change in &changes {
            apply(&mut world, change);
        }
        rest(&mut world);
        let status = world.status();
        let ends = spec["completionPolicy"]["type"] == "Always";
        if status.phase == phase::FAILED {
            prop_assert_eq!(&spec["failurePolicy"]["type"], "FailFast");
        } else if status.phase == phase::COMPLETED {
            prop_assert!(ends);
        } else {
            prop_assert!(!ends, "it does not end: {:?} {:?}", status, world.pods);
            prop_assert_eq!((status.active, status.desired), (0, status.succeeded + status.failed));
            prop_assert_eq!(status.desired, 5);
        }
    }
}
