//! The time when the readiness gate of a pod opens whose image changes in place.

use std::sync::Arc;

use berth_workload::objects::pod::lifecycle::{NORMAL, PREPARING_DELETE, UPDATING};
use berth_workload::plan::Plan;
use berth_workload::update::podset::update::MOST_OPENED_EARLY;
use serde_json::json;

use super::super::simulation::owner::LABEL;
use super::super::simulation::{World, template};
use super::{kinds, strategy};

/// This many pods, all of them out of service, with another image that no kubelet has seen.
fn patched(pods: i32) -> World {
    let all_at_once = json!({"maxUnavailable": "100%"});
    let mut world = World::settled(
        pods,
        template("web:1"),
        strategy("InPlaceIfPossible", all_at_once),
    );
    world.set_template(template("web:2"));
    world.step();
    world.step();
    world
}

fn events(plan: &Plan) -> Vec<&'static str> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps
        .filter_map(|step| step.done.as_ref())
        .map(|event| event.reason)
        .collect()
}

#[test]
fn gate_opens_early_and_pod_counts_when_proven() {
    let mut world = patched(1);
    assert_eq!(
        kinds(&world.step()),
        [""; 0],
        "the kubelet has not seen the image"
    );
    world.acknowledge(0);
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    let (pods, available) = (world.pods(), world.tally().available);
    assert!(
        pods[0].is_true("InPlaceUpdateReady") && !pods[0].is_true("Ready"),
        "the old container still runs"
    );
    assert_eq!(
        (
            pods[0].metadata.label("lifecycle.apps.kruise.io/state"),
            available
        ),
        (Some("Updating"), 0)
    );
    assert_eq!(kinds(&world.step()), [""; 0], "the gate is opened once");
    world.run_kubelets();
    assert!(world.pods()[0].is_true("Ready"));
    assert_eq!(world.tally().available, 0, "it is Ready, and not proven");
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    assert_eq!(world.tally().available, 1);
    assert_eq!(world.settle(), 0);
}

#[test]
fn large_updates_open_gates_only_with_proof() {
    for (more, opened) in [(0, MOST_OPENED_EARLY), (1, 0)] {
        let pods = MOST_OPENED_EARLY + more;
        let mut world = patched(i32::try_from(pods).unwrap());
        (0..pods).for_each(|at| world.acknowledge(at));
        assert_eq!(kinds(&world.step()).len(), opened, "{pods} pods");
        world.run_kubelets();
        world.settle();
        assert_eq!(world.tally().available, pods);
    }
}

#[test]
fn repeated_ready_behind_closed_gate_is_reverted() {
    let mut world = patched(1);
    world.repeat_ready(0);
    let plan = world.step();
    assert_eq!(kinds(&plan), ["PatchPodStatus"]);
    assert_eq!(events(&plan), [""; 0], "nothing went wrong");
    assert!(!world.pods()[0].is_true("Ready") && !world.pods()[0].is_true("InPlaceUpdateReady"));
    assert_eq!(kinds(&world.step()), [""; 0], "it is taken back once");
    world.settle();
    assert_eq!(world.tally().available, 1);
}

#[test]
fn gate_closes_if_pod_is_ready_with_old_container() {
    let mut world = patched(1);
    world.acknowledge(0);
    world.step();
    // The kubelet died before it ended the old container, and the next kubelet reports the old
    // container.
    world.acknowledge(0);
    assert!(world.pods()[0].is_true("Ready"));
    let plan = world.step();
    assert_eq!(kinds(&plan), ["PatchPodStatus"]);
    assert_eq!(events(&plan), ["ReadyWithOldContainer"]);
    assert!(!world.pods()[0].is_true("Ready") && !world.pods()[0].is_true("InPlaceUpdateReady"));
    world.acknowledge(0);
    assert_eq!(
        kinds(&world.step()),
        [""; 0],
        "it stays closed until the update is proven"
    );
    world.run_kubelets();
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    assert_eq!(world.state()["berthGateWaits"], json!(null));
    world.settle();
    assert_eq!(world.tally().available, 1);
}

#[test]
fn ready_but_unproven_pod_is_not_updated_ready() {
    let mut world = patched(1);
    world.acknowledge(0);
    world.step();
    world.run_kubelets();
    let status = world.status();
    assert_eq!(
        (
            status.ready_replicas,
            status.updated_ready_replicas,
            status.available_replicas
        ),
        (1, 0, 0)
    );
    world.settle();
    assert_eq!(
        (
            world.status().updated_ready_replicas,
            world.status().available_replicas
        ),
        (1, 1)
    );
}

#[test]
fn rescaled_pod_behind_open_gate_resumes_its_update() {
    let mut world = patched(1);
    world.hold(0, true, false);
    world.set_lifecycle(json!({"preDelete": {"labelsHandler": {LABEL: "on"}}}));
    world.acknowledge(0);
    world.step();
    Arc::make_mut(&mut world.set).spec.replicas = Some(0);
    world.step();
    assert_eq!(world.states(), [PREPARING_DELETE]);
    Arc::make_mut(&mut world.set).spec.replicas = Some(1);
    world.step();
    assert_eq!(world.states(), [UPDATING], "its containers are not proven");
    world.settle();
    assert_eq!(
        (world.states(), world.state()["berthVerifiedBy"].clone()),
        (vec![NORMAL.to_owned()], json!("node"))
    );
}

#[test]
fn failing_pod_gets_next_image_without_second_grace() {
    let grace = json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 60}});
    let mut world = World::settled(1, template("web:1"), strategy("InPlaceIfPossible", grace));
    world.set_template(template("bad:2"));
    world.step();
    world.step();
    world.pass(60);
    world.step();
    world.acknowledge(0);
    world.step();
    assert!(world.pods()[0].is_true("InPlaceUpdateReady") && !world.pods()[0].is_true("Ready"));
    world.set_template(template("web:3"));
    world.step();
    assert_eq!(world.images(), ["bad:2"], "the revision first");
    assert_eq!(kinds(&world.step()), ["PatchPodStatus", "PatchPod"]);
    assert_eq!(world.images(), ["web:3"]);
}

#[test]
fn reclosed_gate_stays_closed_when_labels_change() {
    let mut world = patched(1);
    world.acknowledge(0);
    world.step();
    world.acknowledge(0);
    world.step();
    assert_eq!(world.state()["berthGateWaits"], true);
    world.edit_template(|template| template["metadata"]["labels"]["tier"] = json!("front"));
    world.step();
    world.step();
    assert_eq!(world.state()["berthGateWaits"], true);
    assert!(!world.pods()[0].is_true("InPlaceUpdateReady"));
    world.settle();
    assert_eq!(world.tally().available, 1);
}

#[test]
fn silent_daemon_is_reported_behind_open_gate() {
    let all_at_once = json!({"maxUnavailable": "100%"});
    let mut world = World::settled(
        1,
        template("same:1"),
        strategy("InPlaceIfPossible", all_at_once),
    );
    world.daemons = false;
    world.set_template(template("same:2"));
    world.step();
    world.step();
    world.acknowledge(0);
    world.step();
    world.run_kubelets();
    assert!(world.pods()[0].is_true("Ready"), "two tags of one digest");
    world.pass(90);
    world.step();
    let blocked = world
        .status()
        .conditions
        .into_iter()
        .find(|c| c.type_ == "Blocked")
        .unwrap();
    assert_eq!(blocked.reason, "DaemonSilent");
}
