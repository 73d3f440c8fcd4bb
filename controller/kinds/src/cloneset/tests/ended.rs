//! Ended pods: they are deleted with their claims, once each, and not faster than new pods can run.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::fields::template::VolumeClaimTemplate;
use berth_workload::objects::pod::availability;
use berth_workload::plan::Plan;
use serde_json::json;

use super::super::simulation::{World, template};

/// A settled CloneSet whose pods have a claim each.
fn world(replicas: i32, reuse: bool) -> World {
    let mut world = World::new(replicas, template("web:1"), json!({}));
    let claim = json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let spec = &mut Arc::make_mut(&mut world.set).spec;
    spec.volume_claim_templates = vec![VolumeClaimTemplate::from(&claim)];
    spec.scale_strategy.enable_pvc_reuse = reuse;
    world.settle();
    world.pass(3600);
    world
}

fn names(world: &World) -> Vec<String> {
    world.pods.keys().cloned().collect()
}

fn claims(world: &World) -> BTreeSet<String> {
    world
        .claims
        .seen()
        .iter()
        .map(|claim| claim.metadata.name.to_string())
        .collect()
}

/// Verbs and kinds of a plan's writes.
fn writes(plan: &Plan) -> Vec<String> {
    plan.actions()
        .map(|action| action.write().to_string())
        .collect()
}

fn count(plan: &Plan, write: &str) -> usize {
    writes(plan).iter().filter(|told| *told == write).count()
}

fn why(plan: &Plan, pod: &str) -> String {
    let waiting = plan.waiting.iter().filter(|waiting| waiting.pod == pod);
    waiting
        .map(|waiting| waiting.reason.clone())
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn ended_pod_is_deleted_and_reuse_decides_its_claim() {
    let table = [
        (
            "Failed",
            "Evicted",
            "it has ended (Failed: Evicted)",
            "RecreatingFailedPod",
            " has failed (Evicted): ",
        ),
        (
            "Failed",
            "",
            "it has ended (Failed)",
            "RecreatingFailedPod",
            " has failed: ",
        ),
        (
            "Succeeded",
            "",
            "it has ended (Succeeded)",
            "SuccessfulDelete",
            "succeed to delete pod ",
        ),
    ];
    for (phase, reason, told, event, words) in table {
        for reuse in [false, true] {
            let case = format!("{phase} {reason} reuse {reuse}");
            let mut world = world(3, reuse);
            let (pods, kept) = (names(&world), claims(&world));
            world.end(&pods[0], phase, reason);
            let plan = world.step();
            let step = plan
                .stages
                .iter()
                .flat_map(|stage| &stage.steps)
                .find(|step| step.reason.contains(told));
            let step = step.unwrap_or_else(|| panic!("{case}: {plan:?}"));
            let done = step.done.as_ref().unwrap();
            assert_eq!(
                (done.reason, done.message.contains(words)),
                (event, true),
                "{case}: {}",
                done.message
            );
            assert_eq!(count(&plan, "DeletePod"), 1, "{case}");
            assert!(!world.pods.contains_key(&pods[0]), "{case}");
            world.settle();
            let (status, now) = (world.status(), names(&world));
            assert_eq!(
                (status.replicas, status.available_replicas, now.len()),
                (3, 3, 3),
                "{case}"
            );
            assert!(
                pods[1..].iter().all(|pod| now.contains(pod)),
                "{case}: others stay"
            );
            // The next one has the claim, and its id, or neither.
            assert_eq!(
                (claims(&world) == kept, now == pods),
                (reuse, reuse),
                "{case}"
            );
            assert_eq!(claims(&world).len(), 3, "{case}");
        }
    }
}

#[test]
fn ended_pods_are_no_replicas() {
    let mut world = world(3, false);
    let pods = names(&world);
    Arc::make_mut(&mut world.set).spec.replicas = Some(2);
    world.end(&pods[1], "Failed", "Evicted");
    let plan = world.step();
    assert_eq!(
        (count(&plan, "DeletePod"), count(&plan, "CreatePod")),
        (1, 0),
        "the others are as many as wanted"
    );
    assert_eq!(names(&world), [pods[0].clone(), pods[2].clone()]);
    assert_eq!((world.status().replicas, claims(&world).len()), (2, 2));
}

#[test]
fn many_ended_pods_are_deleted_in_portions() {
    let mut world = world(2, false);
    let pods = names(&world);
    let before = (world.identities(), world.containers());
    for n in 0..300 {
        let (name, mut pod) = (format!("web-old{n}"), world.pods[&pods[0]].clone());
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["uid"] = json!(name);
        pod["metadata"]["labels"]["apps.kruise.io/cloneset-instance-id"] = json!(format!("old{n}"));
        world.pods.insert(name.clone(), pod);
        world.end(&name, "Failed", "Evicted");
    }
    let first = world.step();
    assert_eq!(
        (count(&first, "DeletePod"), count(&first, "CreatePod")),
        (256, 0)
    );
    assert!(first.look_again.is_some_and(|wait| wait.as_secs() <= 1));
    assert_eq!(
        count(&world.step(), "DeletePod"),
        44,
        "they are not the next ones of the others"
    );
    world.settle();
    assert_eq!(
        (world.identities(), world.containers()),
        before,
        "nothing else is touched"
    );
}

#[test]
fn pods_that_fail_at_once_are_made_ever_more_rarely() {
    for (replicas, reuse) in [(1, false), (4, false), (4, true)] {
        let case = format!("{replicas} replicas, reuse {reuse}");
        let mut world = world(replicas, reuse);
        let (mut made, start) = (0, world.now());
        while world.now().duration_since(start).as_secs() < 3600 {
            for pod in names(&world) {
                world.end(&pod, "Failed", "OutOfcpu");
            }
            let plan = world.step();
            made += count(&plan, "CreatePod");
            let ended = world
                .pods
                .values()
                .filter(|pod| pod["status"]["phase"] == "Failed")
                .count();
            let most = usize::try_from(replicas).unwrap();
            assert!(
                ended <= most && world.pods.len() <= most,
                "{case}: {ended} of {}",
                world.pods.len()
            );
            world.pass(plan.look_again.map_or(1, |wait| wait.as_secs().max(1)));
        }
        // 1 + 2 + 4 + … s between two of each place.
        let most = 13 * usize::try_from(replicas).unwrap();
        assert!((8..=most).contains(&made), "{case}: {made} pods in an hour");
        let told = world
            .status()
            .conditions
            .into_iter()
            .find(|c| c.type_ == "Blocked")
            .unwrap();
        assert_eq!(told.reason, "PodsFail", "{case}");
        let words = "pods fail one after the other; node node says: OutOfcpu; make room on the node, or change";
        assert!(told.message.contains(words), "{case}: {}", told.message);
        // Another template is tried at once.
        world.set_template(template("web:2"));
        world.step();
        let plan = world.step();
        assert_eq!(
            count(&plan, "DeletePod"),
            usize::try_from(replicas).unwrap(),
            "{case}"
        );
        world.settle();
        assert_eq!(
            (world.status().available_replicas, world.status().conditions),
            (replicas, vec![]),
            "{case}"
        );
    }
}

#[test]
fn pods_that_end_by_themselves_are_deleted_at_once() {
    let mut world = world(6, false);
    for pod in names(&world) {
        world.end(&pod, "Failed", "Terminated");
        let plan = world.step();
        assert_eq!(
            (count(&plan, "DeletePod"), count(&plan, "CreatePod")),
            (1, 1),
            "{pod}"
        );
        world.run_kubelets();
        world.pass(1);
    }
    world.settle();
    assert_eq!(world.status().available_replicas, 6);
}

#[test]
fn resting_pod_holds_its_own_place_alone() {
    for reuse in [false, true] {
        let mut world = world(2, reuse);
        for _ in 0..6 {
            let name = names(&world)[0].clone();
            world.end(&name, "Failed", "Evicted");
            let wait = world.step().look_again.map_or(1, |wait| wait.as_secs());
            world.pass(wait.max(1));
            world.settle();
        }
        // The youngest pod is the successor of those before it.
        let youngest = world
            .pods()
            .into_iter()
            .max_by_key(|pod| pod.metadata.creation_timestamp)
            .unwrap();
        world.end(&youngest.metadata.name, "Failed", "Evicted");
        Arc::make_mut(&mut world.set).spec.replicas = Some(4);
        let plan = world.step();
        assert_eq!(
            (count(&plan, "CreatePod"), count(&plan, "DeletePod")),
            (2, 0),
            "reuse {reuse}: {plan:?}"
        );
        let said = why(&plan, &youngest.metadata.name);
        assert!(
            said.starts_with("is replaced in ")
                && said.contains("(Failed: Evicted) soon after others"),
            "{said}"
        );
        assert!(plan.look_again.is_some(), "reuse {reuse}");
        world.settle();
        let now = world.now();
        let serving = world
            .pods()
            .iter()
            .filter(|pod| availability(pod, 0, now).is_available())
            .count();
        assert_eq!((serving, world.pods.len()), (4, 4), "reuse {reuse}");
    }
}

#[test]
fn hook_holds_ended_pod_and_it_counts_once() {
    let mut world = world(2, false);
    let pods = names(&world);
    world.set_lifecycle(json!({"preDelete": {"labelsHandler": {"x.io/hook": "on"}}}));
    world.label(0, "x.io/hook", "on");
    world.end(&pods[0], "Failed", "Evicted");
    let plan = world.step();
    assert!(
        writes(&plan).contains(&"PatchPodStatus".to_owned()) && count(&plan, "CreatePod") == 1,
        "{plan:?}"
    );
    assert_eq!(world.ended.unwrap().count.times, 1);
    for _ in 0..3 {
        let plan = world.step();
        assert_eq!(count(&plan, "DeletePod"), 0);
        assert_eq!(
            why(&plan, &pods[0]),
            "is to be deleted (it has ended (Failed: Evicted)), and hook preDelete holds it"
        );
        world.run_kubelets();
    }
    assert_eq!(
        (world.status().replicas, world.pods.len()),
        (2, 3),
        "it is no replica"
    );
    world.label(0, "x.io/hook", "off");
    assert_eq!(count(&world.step(), "DeletePod"), 1);
    world.settle();
    assert_eq!(
        (
            world.ended.unwrap().count.times,
            world.pods.len(),
            claims(&world).len()
        ),
        (1, 2, 2)
    );
}

#[test]
fn pod_that_is_going_is_not_deleted_again() {
    let mut world = world(2, false);
    let pods = names(&world);
    world.end(&pods[0], "Failed", "Evicted");
    let now = world.now();
    let metadata = &mut world.pods.get_mut(&pods[0]).unwrap()["metadata"];
    metadata["deletionTimestamp"] = json!(now);
    metadata["finalizers"] = json!(["x.io/held"]);
    let plan = world.step();
    assert_eq!(
        (count(&plan, "DeletePod"), count(&plan, "CreatePod")),
        (0, 1),
        "{plan:?}"
    );
    assert_eq!(world.ended, None);
}
