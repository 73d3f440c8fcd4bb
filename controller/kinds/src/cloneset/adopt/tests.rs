use std::sync::Arc;

use berth_workload::objects::resource::PODS;
use berth_workload::pod_owner::orphans;
use berth_workload::update::podset::adopt::Orphans;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::super::CloneSetOwner;
use super::super::simulation::{World, template};
use super::*;

const IN_PLACE: &str = "InPlaceIfPossible";

/// A change of a pod's metadata that gives the pod to another owner.
type Change = fn(&mut Value);

/// Up-to-date pods with claims, as an earlier CloneSet left them; the new CloneSet has the same
/// spec.
fn left(replicas: i32) -> World {
    let rolling = json!({"rollingUpdate": {"podUpdatePolicy": IN_PLACE, "maxUnavailable": 1}});
    let mut world = World::new(replicas, template("web:1"), rolling);
    let claim = json!({"metadata": {"name": "data"}, "spec": {}});
    Arc::make_mut(&mut world.set).spec.volume_claim_templates =
        vec![serde_json::from_value(claim).unwrap()];
    world.settle();
    world.orphan("set-2");
    world
}

fn kinds(plan: &Plan) -> Vec<String> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps
        .flat_map(|step| &step.actions)
        .map(|action| action.write().to_string())
        .collect()
}

/// Everything that is written until nothing is left to do.
fn written(world: &mut World) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..100 {
        let plan = world.step();
        all.extend(kinds(&plan));
        world.run_daemons();
        world.run_kubelets();
        world.pass(1);
        if plan.is_idle() && plan.look_again.is_none() {
            return all;
        }
    }
    panic!("it does not come to rest: {all:?}");
}

#[test]
fn reapplied_set_adopts_revision_then_pods_and_claims() {
    let mut world = left(2);
    let (pods, containers) = (world.identities(), world.containers());
    let revision = world.step();
    assert_eq!(
        kinds(&revision),
        ["ConfirmCloneSet", "AdoptControllerRevision"]
    );
    assert!(
        revision.stages[0].required,
        "nothing is given to a CloneSet that is not there"
    );
    let plan = world.step();
    assert_eq!(
        kinds(&plan),
        [
            "ConfirmCloneSet",
            "AdoptPod",
            "PatchPersistentVolumeClaim",
            "AdoptPod",
            "PatchPersistentVolumeClaim"
        ]
    );
    assert_eq!(written(&mut world), Vec::<&str>::new());
    assert_eq!((world.identities(), world.containers()), (pods, containers));
    let status = world.status();
    assert_eq!((status.replicas, status.updated_available_replicas), (2, 2));
    for claim in world.claims.stored().values() {
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "set-2");
    }
}

#[test]
fn adopted_pods_of_old_template_update_in_place() {
    let mut world = left(2);
    let pods = world.identities();
    world.set_template(template("web:2"));
    let all = written(&mut world);
    assert!(
        !all.contains(&"CreatePod".to_owned()) && !all.contains(&"DeletePod".to_owned()),
        "{all:?}"
    );
    assert_eq!(world.identities(), pods);
    assert_eq!(world.created_from(), ["web:2", "web:2"]);
}

#[test]
fn adoption_creates_missing_and_keeps_surplus_pods() {
    for (replicas, adopted, created) in [(4, 2, 2), (1, 1, 0), (0, 0, 0)] {
        let mut world = left(2);
        Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
        let all = written(&mut world);
        let count = |kind: &str| all.iter().filter(|other| **other == kind).count();
        assert_eq!(
            (count("AdoptPod"), count("CreatePod"), count("DeletePod")),
            (adopted, created, 0),
            "{replicas}"
        );
        assert_eq!(world.status().replicas, replicas);
    }
}

#[test]
fn pods_of_no_predecessor_are_not_adopted() {
    let changes: [(&str, Change); 7] = [
        ("younger than the set", |m| {
            m["creationTimestamp"] = json!("2999-01-01T00:00:00Z")
        }),
        ("going", |m| {
            m["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
        }),
        ("somebody's", |m| {
            m["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]);
        }),
        ("of another name", |m| m["name"] = json!("other-a")),
        ("out of the selector", |m| {
            m["labels"]["app"] = json!("debug")
        }),
        ("elsewhere", |m| m["namespace"] = json!("stranger")),
        ("without an instance id", |m| {
            m["labels"]
                .as_object_mut()
                .unwrap()
                .remove(berth_api::names::label::CLONESET_INSTANCE_ID);
        }),
    ];
    for (what, change) in changes {
        let world = left(1);
        let mut pod = world.pods.values().next().unwrap().clone();
        let adoptable = |pod: &Value| {
            let all = Orphans {
                pods: vec![Arc::new(serde_json::from_value(pod.clone()).unwrap())],
                ..Orphans::default()
            };
            orphans::<CloneSetOwner>(&world.set, all).pods.len()
        };
        assert_eq!(adoptable(&pod), 1);
        change(&mut pod["metadata"]);
        assert_eq!(adoptable(&pod), 0, "{what}");
    }
}

#[test]
fn pod_of_unknown_revision_is_not_adopted() {
    let mut world = left(1);
    for pod in world.pods.values_mut() {
        pod["metadata"]["labels"][REVISION_LABEL] = json!("web-unknown");
    }
    let all = written(&mut world);
    assert!(
        all.contains(&"CreatePod".to_owned()) && !all.contains(&"AdoptPod".to_owned()),
        "{all:?}"
    );
    assert_eq!(world.pods.len(), 2);
}

#[test]
fn empty_selector_or_creation_time_adopts_nothing() {
    let mut world = left(1);
    Arc::make_mut(&mut world.set).metadata.creation_timestamp = None;
    assert_eq!(world.snapshot().orphans.pods.len(), 0);
    Arc::make_mut(&mut world.set).metadata.creation_timestamp = Some(Time(world.now()));
    assert_eq!(world.snapshot().orphans.pods.len(), 1);
    Arc::make_mut(&mut world.set).spec.selector = serde_json::from_value(json!({})).unwrap();
    assert_eq!(world.snapshot().orphans.pods.len(), 0);
}

#[test]
fn refused_adoption_is_reported_and_delays_no_pod() {
    use super::super::{decide, status};
    use berth_workload::plan::{Failure, Outcome, Verb, Write};
    let mut world = left(1);
    world.step();
    Arc::make_mut(&mut world.set).spec.replicas = Some(2);
    let (snapshot, now) = (world.snapshot(), world.now());
    let plan = decide(&snapshot, now);
    assert!(kinds(&plan).contains(&"CreatePod".to_owned()), "{plan:#?}");
    let failure = Failure {
        write: Write::of(Verb::Adopt, PODS),
        namespace: "default".to_owned(),
        object: "web-a".to_owned(),
        message: "denied".to_owned(),
        code: 403,
        permanent: true,
        outdated: false,
        taken: false,
        infeasible: false,
    };
    let told = status(
        &snapshot,
        &plan,
        &Outcome {
            failures: vec![failure],
        },
        now,
    )
    .unwrap();
    let reason = |type_: &str| {
        told.conditions
            .iter()
            .find(|c| c.type_ == type_)
            .map(|c| c.reason.clone())
    };
    assert_eq!(reason("Blocked").as_deref(), Some("AdoptionRefused"));
    assert_eq!(reason("FailedScale").as_deref(), Some(""));
}
