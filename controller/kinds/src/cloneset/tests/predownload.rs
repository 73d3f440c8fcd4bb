mod nodes;

use std::sync::Arc;

use berth_api::names::{annotation, label};
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::feature_gates::Gate;
use berth_workload::images::predownload::{
    LONGEST_NAME, brings_images, job_name, waits_for_images,
};
use berth_workload::objects::node::image::NodeImage;
use berth_workload::plan::{Action, Plan};
use berth_workload::update::inplace::steps;
use berth_workload::update::revision::{Revision, short};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::Snapshot;
use crate::cloneset::simulation::{World, template};

fn strategy(more: Value) -> Value {
    let mut rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    crate::model::apiserver::merge(&mut rolling, &more);
    json!({"type": "RollingUpdate", "rollingUpdate": rolling})
}

fn world(replicas: i32, more: Value) -> World {
    let mut world = World::settled(replicas, template("web:1"), strategy(more));
    world.gates = world
        .gates
        .with(Gate::PreDownloadImageForInPlaceUpdate, true);
    world
}

fn annotate(world: &mut World, value: &str) {
    let set = Arc::make_mut(&mut world.set);
    let key = annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE.to_owned();
    set.metadata
        .annotations
        .get_or_insert_default()
        .insert(key, value.to_owned());
}

/// The plan after the one that writes the revision.
fn rollout(world: &mut World, image: &str) -> Plan {
    world.set_template(template(image));
    world.step();
    world.step()
}

fn kinds(plan: &Plan) -> Vec<String> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps
        .flat_map(|step| &step.actions)
        .map(|action| action.write().to_string())
        .collect()
}

/// The daemon's report about an image on the one node.
fn pulled(world: &mut World, tag: &str, phase: &str) {
    world.node["spec"]["images"]["web"]["tags"] = json!([{"tag": tag, "createdAt": world.now()}]);
    world.node["status"]["imageStatuses"]["web"]["tags"] = json!([{"tag": tag, "phase": phase}]);
}

#[test]
fn new_revision_gets_one_pull_job_for_each_image() {
    let more = json!({"inPlaceUpdateStrategy": {
        "imagePreDownloadParallelism": "50%", "imagePreDownloadTimeoutSeconds": 60,
    }});
    let mut world = world(4, more);
    let mut new = template("web:2");
    new["metadata"]["annotations"] = json!({"note": "x"});
    new["spec"]["imagePullSecrets"] = json!([{"name": "registry"}]);
    world.edit_template(|old| {
        old["spec"]["imagePullSecrets"] = new["spec"]["imagePullSecrets"].clone()
    });
    world.settle();
    world.set_template(new);
    world.step();
    let plan = world.step();
    let ahead = plan
        .stages
        .iter()
        .find(|stage| stage.name == "pull ahead")
        .unwrap();
    let actions = ahead
        .steps
        .last()
        .unwrap()
        .actions
        .iter()
        .map(|action| action.write().to_string());
    assert_eq!(
        actions.collect::<Vec<_>>(),
        ["CreateImagePullJob", "PatchControllerRevision"]
    );
    let updated = world.status().update_revision;
    let hash = short(&updated).to_owned();
    let job = &world.jobs[&format!("{updated}-main")];
    let expected = [
        ("/spec/image", json!("web:2")),
        ("/spec/parallelism", json!("50%")),
        (
            "/spec/pullPolicy",
            json!({"backoffLimit": 1, "timeoutSeconds": 60}),
        ),
        (
            "/spec/completionPolicy",
            json!({"type": "Always", "ttlSecondsAfterFinished": 600}),
        ),
        ("/spec/pullSecrets", json!(["registry"])),
        ("/spec/podSelector/matchLabels", json!({"app": "web"})),
        (
            "/spec/podSelector/matchExpressions",
            json!([{"key": "controller-revision-hash", "operator": "NotIn", "values": [updated, hash]}]),
        ),
        (
            "/metadata/labels",
            json!({"app": "web", "controller.kubernetes.io/hash": hash}),
        ),
        (
            "/spec/sandboxConfig",
            json!({"labels": {"app": "web", "controller.kubernetes.io/hash": hash}, "annotations": {"note": "x"}}),
        ),
        ("/metadata/ownerReferences/0/uid", json!("set")),
    ];
    for (pointer, value) in expected {
        assert_eq!(job.pointer(pointer), Some(&value), "{pointer}");
    }
    assert_eq!(
        world.revision_labels(label::IMAGE_PREDOWNLOAD_CREATED),
        [updated]
    );
    world.settle();
    assert!(world.jobs.is_empty(), "every pod has the image");
    assert_eq!(world.status().updated_available_replicas, 4);
}

#[test]
fn pull_job_of_any_cloneset_is_within_limits() {
    let mut world = world(
        4,
        json!({"inPlaceUpdateStrategy": {"imagePreDownloadTimeoutSeconds": i32::MAX}}),
    );
    let annotations =
        json!({"large": "x".repeat(20_000), "small": "y", "wide": "z".repeat(16_000)});
    world.edit_template(|old| old["metadata"]["annotations"] = annotations.clone());
    world.settle();
    let mut new = template("web:2");
    new["metadata"]["annotations"] = annotations;
    world.set_template(new);
    world.step();
    world.step();
    let job = &world.jobs[&format!("{}-main", world.status().update_revision)];
    assert_eq!(
        job.pointer("/spec/pullPolicy/timeoutSeconds"),
        Some(&json!(3600))
    );
    let kept: Vec<_> = job["spec"]["sandboxConfig"]["annotations"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(kept, ["small", "wide"]);
    let job: ImagePullJob = serde_json::from_value(job.clone()).unwrap();
    assert_eq!(crate::imagepulljob::validate(&job), Ok(()));
}

#[test]
fn small_rollout_is_marked_ignored_on_its_revision() {
    let small = (3, json!({}), "3 replicas");
    let at_once = (4, json!({"maxUnavailable": "100%"}), "at once");
    let recreated = (
        4,
        json!({"podUpdatePolicy": "ReCreate"}),
        "not updated in place",
    );
    for (replicas, more, why) in [small, at_once, recreated] {
        let mut world = world(replicas, more);
        let plan = rollout(&mut world, "web:2");
        let reasons: Vec<_> = plan
            .stages
            .iter()
            .flat_map(|stage| &stage.steps)
            .map(|step| &step.reason)
            .collect();
        assert!(
            reasons.iter().any(|reason| reason.contains(why)),
            "{why}: {reasons:?}"
        );
        assert!(world.jobs.is_empty(), "{why}");
        assert_eq!(
            world
                .revision_labels(label::IMAGE_PREDOWNLOAD_IGNORED)
                .len(),
            1,
            "{why}"
        );
        world.settle();
    }
    // Changes that cannot be made in place, and changes without an image to pull.
    for change in [
        json!({"spec": {"hostname": "h"}}),
        json!({"metadata": {"labels": {"tier": "x"}}}),
    ] {
        let mut world = world(5, json!({}));
        world.edit_template(|template| crate::model::apiserver::merge(template, &change));
        world.step();
        world.step();
        assert_eq!(
            world
                .revision_labels(label::IMAGE_PREDOWNLOAD_IGNORED)
                .len(),
            1,
            "{change}"
        );
        assert!(world.jobs.is_empty());
    }
}

#[test]
fn partition_with_one_batch_gets_a_pull_job() {
    let mut world = world(4, json!({"maxUnavailable": "100%", "partition": 2}));
    rollout(&mut world, "web:2");
    assert_eq!(world.jobs.len(), 1, "the others go later");
    world.settle();
    assert_eq!(world.jobs.len(), 1, "and they have not gone yet");
}

#[test]
fn without_gate_or_kind_nothing_is_pulled_ahead() {
    let mut off = world(5, json!({}));
    off.gates = off
        .gates
        .with(Gate::PreDownloadImageForInPlaceUpdate, false);
    assert!(!kinds(&rollout(&mut off, "web:2")).contains(&"PatchControllerRevision".to_owned()));
    let mut world = world(5, json!({}));
    world.set_template(template("web:2"));
    world.step();
    let snapshot = Snapshot {
        jobs: None,
        ..world.snapshot()
    };
    assert!(
        !kinds(&crate::cloneset::decide(&snapshot, world.now()))
            .contains(&"CreateImagePullJob".to_owned())
    );
}

#[test]
fn some_pods_must_be_updated_and_ready_first() {
    let mut world = world(
        5,
        json!({"inPlaceUpdateStrategy": {"imagePreDownloadMinUpdatedReadyPods": 2}}),
    );
    let plan = rollout(&mut world, "web:2");
    assert!(
        plan.waiting
            .iter()
            .any(|waiting| waiting.reason.contains("once 2 pods")),
        "{:?}",
        plan.waiting
    );
    assert!(world.jobs.is_empty());
    for _ in 0..20 {
        if !world.jobs.is_empty() {
            break;
        }
        world.run_kubelets();
        world.step();
    }
    assert_eq!(world.jobs.len(), 1);
    let updated = world.status().updated_ready_replicas;
    assert!((2..5).contains(&updated), "{updated}");
}

#[test]
fn pull_jobs_follow_the_update_revision() {
    let mut world = world(5, json!({}));
    rollout(&mut world, "web:2");
    let first: Vec<_> = world.jobs.keys().cloned().collect();
    rollout(&mut world, "web:3");
    assert_eq!(world.jobs.len(), 1);
    assert!(!world.jobs.contains_key(&first[0]));
    rollout(&mut world, "web:2");
    assert!(
        world.jobs.contains_key(&first[0]),
        "pulled ahead again: {:?}",
        world.jobs.keys()
    );
    rollout(&mut world, "web:1");
    assert!(world.jobs.is_empty(), "back where it was");
    world.settle();
    assert_eq!(
        world.revision_labels(label::IMAGE_PREDOWNLOAD_CREATED),
        [""; 0]
    );
}

#[test]
fn a_job_that_is_going_is_waited_for() {
    let mut world = world(5, json!({}));
    rollout(&mut world, "web:2");
    let (name, mut job) = world.jobs.pop_first().unwrap();
    job["metadata"]["deletionTimestamp"] = json!(world.now());
    rollout(&mut world, "web:1");
    world.jobs.insert(name.clone(), job);
    let plan = rollout(&mut world, "web:2");
    assert!(!kinds(&plan).contains(&"CreateImagePullJob".to_owned()));
    assert!(
        plan.waiting
            .iter()
            .any(|waiting| waiting.reason.contains("is being deleted")),
        "{:?}",
        plan.waiting
    );
    world.jobs.clear();
    world.step();
    assert!(world.jobs.contains_key(&name));
}

#[test]
fn names_of_jobs_are_cut_where_an_objects_name_ends() {
    let revision = |name: &str| Revision {
        metadata: berth_workload::objects::pod::Metadata {
            name: name.into(),
            ..berth_workload::objects::pod::Metadata::default()
        },
        revision: 1,
        data: berth_api::text::JsonText::default(),
    };
    assert_eq!(job_name(&revision("web-6d5f"), "main"), "web-6d5f-main");
    let long = job_name(
        &revision(&format!("{}-6d5f", "w".repeat(220))),
        &"c".repeat(63),
    );
    assert!(
        long.len() <= LONGEST_NAME && long.ends_with(&format!("-6d5f-{}", "c".repeat(63))),
        "{long}"
    );
}

#[test]
fn update_waits_for_its_image_until_the_timeout() {
    // At most three replicas, and all at once: pulling ahead is worth its cost, because the update
    // waits.
    let mut world = world(2, json!({"maxUnavailable": 2}));
    annotate(&mut world, "5m");
    let plan = rollout(&mut world, "web:2");
    assert_eq!(
        kinds(&plan),
        ["CreateImagePullJob", "PatchControllerRevision"],
        "nothing before the job is there"
    );
    let plan = world.step();
    assert!(plan.is_idle());
    assert_eq!(plan.look_again.map(|wait| wait.as_secs()), Some(300));
    let waits = |plan: &Plan| {
        plan.waiting
            .iter()
            .filter(|w| w.reason.contains("waits for image web:2 on node node"))
            .count()
    };
    assert_eq!(waits(&plan), 2, "{:?}", plan.waiting);
    world.pass(100);
    pulled(&mut world, "2", "Pulling");
    assert_eq!(
        world.step().look_again.map(|wait| wait.as_secs()),
        Some(200),
        "counted from the job's beginning"
    );
    pulled(&mut world, "2", "Succeeded");
    assert_eq!(
        kinds(&world.step()),
        ["PatchPodStatus", "PatchPod", "PatchPodStatus", "PatchPod"]
    );

    let mut world = self::world(2, json!({"maxUnavailable": 2}));
    annotate(&mut world, "5m");
    rollout(&mut world, "web:2");
    pulled(&mut world, "2", "Failed");
    world.pass(299);
    assert!(
        world.step().is_idle(),
        "a pull that failed is not there either"
    );
    world.pass(1);
    assert_eq!(kinds(&world.step()).len(), 4, "the time is over");
}

/// The apiserver's clock is ahead of the controller's, and the wait is very long.
#[test]
fn the_longest_wait_from_a_time_to_come_is_no_panic() {
    let mut world = world(2, json!({}));
    annotate(&mut world, "2562047788015215h");
    rollout(&mut world, "web:2");
    world
        .jobs
        .values_mut()
        .for_each(|job| job["metadata"]["creationTimestamp"] = json!("2100-01-01T00:00:00Z"));
    let plan = world.step();
    assert!(
        plan.is_idle() && plan.look_again.is_some_and(|wait| wait.is_positive()),
        "{plan:?}"
    );
}

#[test]
fn rollback_waits_for_its_image_until_the_timeout() {
    let mut world = world(5, json!({}));
    rollout(&mut world, "web:2");
    world.settle();
    annotate(&mut world, "5m");
    world.set_template(template("web:1"));
    let plan = world.plan();
    // One write to the revision that becomes the newest; the next write is for the next round.
    assert_eq!(
        kinds(&plan),
        ["RenumberControllerRevision", "PatchControllerRevision"]
    );
    world.step();
    assert_eq!(
        kinds(&world.step()),
        ["CreateImagePullJob", "PatchControllerRevision"]
    );
    assert!(world.step().is_idle());

    let mut world = self::world(5, json!({}));
    annotate(&mut world, "5m");
    world.set_template(template("web:2"));
    world.step();
    assert!(!kinds(&world.plan()).contains(&"PatchPod".to_owned()));
    world.pass(300);
    assert!(
        kinds(&world.plan()).contains(&"PatchPod".to_owned()),
        "it was never made, but the time is over"
    );
}

#[test]
fn update_does_not_wait_where_nothing_is_pulled() {
    let mut world = world(4, json!({}));
    world.gates = world
        .gates
        .with(Gate::PreDownloadImageForInPlaceUpdate, false);
    annotate(&mut world, "5m");
    assert!(kinds(&rollout(&mut world, "web:2")).contains(&"PatchPod".to_owned()));
    // Except for an image that another owner wants on the node.
    let mut world = self::world(4, json!({}));
    world.gates = world
        .gates
        .with(Gate::PreDownloadImageForInPlaceUpdate, false);
    annotate(&mut world, "5m");
    pulled(&mut world, "2", "Pulling");
    assert!(rollout(&mut world, "web:2").is_idle());
    // Nor without a daemon's report.
    let mut world = self::world(4, json!({}));
    world.daemons = false;
    annotate(&mut world, "5m");
    assert!(kinds(&rollout(&mut world, "web:2")).contains(&"PatchPod".to_owned()));
}

#[test]
fn a_time_that_is_none_is_refused_by_name() {
    let mut world = world(4, json!({}));
    annotate(&mut world, "soon");
    let refusal = world.plan().refusal.unwrap();
    for part in [
        "default/web",
        annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE,
        "\"soon\"",
        "5m",
    ] {
        assert!(
            refusal.message.contains(part),
            "{part}: {}",
            refusal.message
        );
    }
}

#[test]
fn pulled_image_triggers_waiting_updates() {
    let mut world = world(1, json!({}));
    let node = |world: &World| -> NodeImage { serde_json::from_value(world.node.clone()).unwrap() };
    pulled(&mut world, "2", "Pulling");
    let before = node(&world);
    pulled(&mut world, "2", "Succeeded");
    let after = node(&world);
    assert!(brings_images(Some(&before), &after) && brings_images(None, &after));
    assert!(!brings_images(Some(&after), &after) && !brings_images(Some(&after), &before));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// In every order of daemons' reports and template changes: the rollout ends, no job is left,
    /// and no update begins on a node without its image before the time is over.
    #[test]
    fn every_rollout_ends_and_leaves_no_job(
        replicas in 1..7_i32,
        unavailable in 1..4_usize,
        rounds in prop::collection::vec((0..4_usize, 0..120_i64, prop::bool::ANY), 0..12),
        patience in prop::option::of(1..150_i64),
    ) {
        let mut world = world(replicas, json!({"maxUnavailable": unavailable}));
        if let Some(seconds) = patience {
            annotate(&mut world, &format!("{seconds}s"));
        }
        for (image, seconds, here) in rounds {
            if image < 3 {
                world.set_template(template(&format!("web:{image}")));
            }
            let wanted = world.template_image();
            pulled(&mut world, wanted.rsplit(':').next().unwrap(), if here { "Succeeded" } else { "Pulling" });
            let before = world.images();
            let idle = world.pods().iter().all(|pod| !steps::is_under_way(pod));
            world.step();
            if patience.is_some() && idle && !here {
                let begun = world.jobs.values().any(|job| job["metadata"]["creationTimestamp"] == json!(world.now()));
                prop_assert!(!begun || world.images() == before, "patched in the round that made the job");
            }
            world.run_kubelets();
            world.pass(seconds);
        }
        for _ in 0..5 {
            world.pass(200);
            world.settle();
        }
        let wanted = world.template_image();
        prop_assert!(world.images().iter().all(|image| *image == wanted));
        prop_assert!(world.jobs.is_empty(), "{:?}", world.jobs.keys());
    }
}
