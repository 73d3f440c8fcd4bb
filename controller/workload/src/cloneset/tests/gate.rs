//! When the readiness gate of a pod opens whose image changes in place.

use serde_json::json;

use super::super::simulation::{World, template};
use super::super::update::MOST_OPENED_EARLY;
use super::{kinds, strategy};
use crate::plan::Plan;

/// So many pods, all of them out of service, with another image that no kubelet has seen.
fn patched(pods: i32) -> World {
    let all_at_once = json!({"maxUnavailable": "100%"});
    let mut world = World::settled(pods, template("web:1"), strategy("InPlaceIfPossible", all_at_once));
    world.set_template(template("web:2"));
    world.step();
    world.step();
    world
}

fn events(plan: &Plan) -> Vec<&'static str> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps.filter_map(|step| step.done.as_ref()).map(|event| event.reason).collect()
}

#[test]
fn gate_opens_when_the_kubelet_has_seen_the_image_and_the_pod_counts_when_it_is_proven() {
    let mut world = patched(1);
    assert_eq!(kinds(&world.step()), [""; 0], "the kubelet has not seen the image");
    world.acknowledge(0);
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    let (pods, available) = (world.pods(), world.tally().available);
    assert!(pods[0].is_true("InPlaceUpdateReady") && !pods[0].is_true("Ready"), "the old container still runs");
    assert_eq!((pods[0].metadata.label("lifecycle.apps.kruise.io/state"), available), (Some("Updating"), 0));
    assert_eq!(kinds(&world.step()), [""; 0], "the gate is opened once");
    world.run_kubelets();
    assert!(world.pods()[0].is_true("Ready"));
    assert_eq!(world.tally().available, 0, "it is Ready, and not proven");
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    assert_eq!(world.tally().available, 1);
    assert_eq!(world.settle(), 0);
}

#[test]
fn gates_open_with_the_proof_where_more_pods_are_updated_than_are_waited_for() {
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
fn gate_closes_again_when_the_pod_is_ready_with_its_old_container() {
    let mut world = patched(1);
    world.acknowledge(0);
    world.step();
    // The kubelet died before it ended the old container, and the next one judges by what runs.
    world.acknowledge(0);
    assert!(world.pods()[0].is_true("Ready"));
    let plan = world.step();
    assert_eq!(kinds(&plan), ["PatchPodStatus"]);
    assert_eq!(events(&plan), ["ReadyWithOldContainer"]);
    assert!(!world.pods()[0].is_true("Ready") && !world.pods()[0].is_true("InPlaceUpdateReady"));
    world.acknowledge(0);
    assert_eq!(kinds(&world.step()), [""; 0], "it stays closed until the update is proven");
    world.run_kubelets();
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"]);
    assert_eq!(world.state()["berthGateWaits"], json!(null));
    world.settle();
    assert_eq!(world.tally().available, 1);
}
