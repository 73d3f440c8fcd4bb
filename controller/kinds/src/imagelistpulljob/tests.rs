use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::imagelistpulljob::{ImageListPullJob, ImageListPullJobStatus};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::resource::{IMAGE_LIST_PULL_JOBS, IMAGE_PULL_JOBS};
use berth_workload::plan::{Action, IfExists, Outcome, Plan};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Snapshot, decide, status};
use crate::model::apiserver::merge;

/// An apiserver that applies plans; a test advances the jobs.
struct World {
    list: ImageListPullJob,
    jobs: BTreeMap<String, Value>,
    now: Timestamp,
    gates: Gates,
    deleted: bool,
    counter: u32,
}

impl World {
    fn new(spec: Value) -> Self {
        let list = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImageListPullJob",
            "metadata": {"name": "list", "namespace": "default", "uid": "list-uid"}, "spec": spec,
        });
        Self {
            list: serde_json::from_value(list).unwrap(),
            jobs: BTreeMap::new(),
            now: Timestamp::from_second(1_000_000).unwrap(),
            gates: Gates::default().with(Gate::ImagePullJob, true),
            deleted: false,
            counter: 0,
        }
    }

    fn edit(&mut self, patch: &Value) {
        let mut spec = serde_json::to_value(&self.list.spec).unwrap();
        merge(&mut spec, patch);
        self.list.spec = serde_json::from_value(spec).unwrap();
    }

    fn snapshot(&self) -> Snapshot {
        let jobs = self
            .jobs
            .values()
            .map(|job| Arc::new(serde_json::from_value(job.clone()).unwrap()));
        Snapshot {
            list: Arc::new(self.list.clone()),
            jobs: jobs.collect(),
            gates: self.gates,
        }
    }

    fn plan(&self) -> Plan {
        decide(&self.snapshot(), self.now)
    }

    fn step(&mut self) -> Plan {
        let (snapshot, plan) = (self.snapshot(), self.plan());
        for action in plan.actions() {
            match action {
                Action::Create {
                    resource: IMAGE_PULL_JOBS,
                    body,
                    if_exists: IfExists::IsOfSameOwner,
                } => {
                    self.counter += 1;
                    let mut job = body.clone();
                    job["metadata"]["uid"] = json!(format!("job-{}", self.counter));
                    job["metadata"]["creationTimestamp"] = json!(self.now);
                    let name = job["metadata"]["name"].as_str().unwrap().to_owned();
                    assert!(
                        self.jobs.insert(name, job).is_none(),
                        "a name is taken once"
                    );
                }
                Action::Delete {
                    resource: IMAGE_PULL_JOBS,
                    target,
                } => {
                    assert_eq!(
                        self.jobs.remove(&target.name).unwrap()["metadata"]["uid"],
                        json!(target.uid)
                    );
                }
                Action::Delete {
                    resource: IMAGE_LIST_PULL_JOBS,
                    ..
                } => self.deleted = true,
                other => panic!("no list writes {}", other.write()),
            }
        }
        self.list.status = Some(status(&snapshot, &plan, &Outcome::default(), self.now));
        plan
    }

    fn status(&self) -> ImageListPullJobStatus {
        self.list.status.clone().unwrap_or_default()
    }

    /// The job of an image is as far as this: desired, active, succeeded and failed.
    fn job(&mut self, image: &str, [desired, active, succeeded, failed]: [i32; 4]) {
        let ended = desired == succeeded + failed
            && self.list.spec.template.completion_policy.type_ == Default::default();
        let job = self
            .jobs
            .values_mut()
            .find(|job| job["spec"]["image"] == image)
            .unwrap();
        job["status"] = json!({
            "startTime": self.now, "desired": desired, "active": active, "succeeded": succeeded, "failed": failed,
            "failedNodes": (0..failed).map(|n| format!("n{n}")).collect::<Vec<_>>(),
        });
        if ended {
            job["status"]["completionTime"] = json!(self.now);
        }
    }

    fn images(&self) -> Vec<&str> {
        let mut images: Vec<_> = self
            .jobs
            .values()
            .map(|job| job["spec"]["image"].as_str().unwrap())
            .collect();
        images.sort_unstable();
        images
    }
}

#[test]
fn each_image_has_a_job_and_the_status_sums_them_up() {
    let template =
        json!({"images": ["a:1", "b:1", "c:1"], "parallelism": 2, "selector": {"names": ["n1"]}});
    let mut world = World::new(template);
    world.step();
    assert_eq!(world.images(), ["a:1", "b:1", "c:1"]);
    let job = world.jobs.values().next().unwrap();
    assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], "list-uid");
    assert_eq!(
        (
            &job["spec"]["parallelism"],
            &job["spec"]["selector"]["names"][0]
        ),
        (&json!(2), &json!("n1"))
    );
    assert!(world.step().is_idle());
    assert_eq!(
        (
            world.status().desired,
            world.status().active,
            world.status().completed
        ),
        (3, 0, 0)
    );
    world.job("a:1", [3, 0, 3, 0]);
    world.job("b:1", [3, 1, 1, 1]);
    world.step();
    let status = world.status();
    assert_eq!(
        (status.active, status.completed, status.succeeded),
        (1, 1, 1)
    );
    let failed = &status.failed_image_statuses[0];
    assert_eq!(
        (failed.name.as_str(), status.failed_image_statuses.len()),
        ("b:1", 1)
    );
    assert!(
        failed.message.contains("1 of 3 nodes") && failed.message.contains(&failed.image_pull_job),
        "{failed:?}"
    );
    world.job("b:1", [3, 0, 2, 1]);
    world.job("c:1", [3, 0, 3, 0]);
    let plan = world.step();
    assert_eq!(plan.events[0].reason, "Completed");
    let status = world.status();
    assert_eq!(
        (status.desired, status.completed, status.succeeded),
        (3, 3, 2)
    );
    assert!(status.completion_time.is_some());
}

#[test]
fn finished_list_is_deleted_after_its_ttl() {
    let mut world =
        World::new(json!({"images": ["a:1"], "completionPolicy": {"ttlSecondsAfterFinished": 50}}));
    world.step();
    let job = world.jobs.values().next().unwrap();
    assert!(
        job["spec"]["completionPolicy"]["ttlSecondsAfterFinished"].is_null(),
        "it goes with the list"
    );
    world.job("a:1", [1, 0, 1, 0]);
    world.step();
    assert_eq!(world.step().look_again, Some(SignedDuration::from_secs(50)));
    world.edit(&json!({"images": ["b:1"]}));
    assert!(world.step().is_idle(), "what has ended stays so");
    world.now += SignedDuration::from_secs(50);
    world.step();
    assert!(world.deleted);
}

#[test]
fn endless_list_counts_and_creates_further_jobs() {
    let mut world = World::new(json!({"images": ["a:1"], "completionPolicy": {"type": "Never"}}));
    world.step();
    world.job("a:1", [2, 0, 2, 0]);
    world.step();
    assert_eq!((world.status().completed, world.status().succeeded), (1, 1));
    assert!(world.status().completion_time.is_none());
    world.edit(&json!({"images": ["a:1", "b:1"]}));
    world.step();
    assert_eq!(world.images(), ["a:1", "b:1"]);
}

#[test]
fn jobs_follow_the_list_and_its_template() {
    let mut world = World::new(json!({"images": ["a:1", "b:1"]}));
    world.step();
    let uid = |world: &World, image: &str| {
        world
            .jobs
            .values()
            .find(|job| job["spec"]["image"] == image)
            .unwrap()["metadata"]["uid"]
            .clone()
    };
    let before = uid(&world, "b:1");
    world.edit(&json!({"images": ["b:1", "c:1"]}));
    world.step();
    assert_eq!(world.images(), ["b:1", "c:1"]);
    assert_eq!(uid(&world, "b:1"), before);
    world.edit(&json!({"completionPolicy": {"ttlSecondsAfterFinished": 9}}));
    assert!(
        world.step().is_idle(),
        "its time to live is no matter of the jobs"
    );
    world.edit(&json!({"parallelism": 7}));
    world.step();
    assert_eq!(world.images(), ["b:1", "c:1"]);
    assert_ne!(uid(&world, "b:1"), before);
    assert!(world.step().is_idle());
}

#[test]
fn list_with_too_high_limits_creates_job_at_maximum() {
    let long = json!({"timeoutSeconds": i32::MAX, "backoffLimit": i32::MAX});
    let mut world = World::new(json!({"images": ["a:1"], "pullPolicy": long}));
    world.step();
    let job = world.jobs.values().next().unwrap();
    assert_eq!(
        job["spec"]["pullPolicy"],
        json!({"timeoutSeconds": 3600, "backoffLimit": 100})
    );
    assert!(world.step().is_idle(), "and is the job that the list wants");
}

#[test]
fn job_of_openkruise_is_adopted_and_second_is_deleted() {
    let mut world =
        World::new(json!({"images": ["a:1"], "completionPolicy": {"ttlSecondsAfterFinished": 60}}));
    let job = |name: &str, at: &str| {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
            "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": at,
                         "labels": {"controller-revision-hash": "of-another-kind"}},
            "spec": {"image": "a:1", "completionPolicy": {"ttlSecondsAfterFinished": 60}},
        })
    };
    world
        .jobs
        .insert("list-x1".to_owned(), job("list-x1", "2026-01-01T00:00:00Z"));
    world
        .jobs
        .insert("list-x0".to_owned(), job("list-x0", "2026-01-02T00:00:00Z"));
    world.step();
    assert_eq!(world.jobs.keys().collect::<Vec<_>>(), ["list-x1"]);
}

#[test]
fn list_waits_for_terminating_job() {
    let mut world = World::new(json!({"images": ["a:1"]}));
    world.step();
    let name = world.jobs.keys().next().unwrap().clone();
    world.jobs.get_mut(&name).unwrap()["metadata"]["deletionTimestamp"] = json!(world.now);
    let plan = world.step();
    assert!(
        plan.is_idle() && plan.waiting[0].reason.contains("being deleted"),
        "{plan:?}"
    );
    world.jobs.clear();
    world.step();
    assert!(world.jobs.contains_key(&name));
}

#[test]
fn invalid_spec_is_refused_with_its_field() {
    let many: Vec<_> = (0..256).map(|n| format!("a:{n}")).collect();
    let cases = [
        (json!({"images": []}), "at least one"),
        (json!({"images": ["a:1", "a:1"]}), "\"a:1\" twice"),
        (json!({"images": ["a:1", "A B"]}), "spec.images[1]"),
        (json!({"images": many}), "256 images"),
        (
            json!({"images": ["a:1"], "completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 1}}),
            "spec.completionPolicy",
        ),
    ];
    for (spec, says) in cases {
        let message = World::new(spec).plan().refusal.unwrap().message;
        assert!(
            message.contains(says) && message.contains("default/list"),
            "{says}: {message}"
        );
    }
    let mut world = World::new(json!({"images": ["a:1"]}));
    world.gates = Gates::default();
    let plan = world.step();
    assert!(
        plan.is_idle() && plan.events[0].message.contains("ImagePullJobGate=true"),
        "{plan:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// In every order of changes of the list and its jobs: in the end each image has exactly one
    /// job, and nothing more is done.
    #[test]
    fn each_image_ends_with_one_job(
        edits in prop::collection::vec((prop::collection::btree_set(0..5_u8, 1..5), 0..3, prop::bool::ANY), 1..8),
    ) {
        let mut world = World::new(json!({"images": ["i:0"]}));
        for (images, parallelism, going) in edits {
            let images: Vec<_> = images.iter().map(|n| format!("i:{n}")).collect();
            world.edit(&json!({"images": images, "parallelism": parallelism}));
            if going && let Some(job) = world.jobs.values_mut().next() {
                job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            world.step();
            prop_assert!(world.status().desired as usize == images.len());
        }
        world.jobs.retain(|_, job| job["metadata"]["deletionTimestamp"].is_null());
        world.step();
        let listed: Vec<_> = world.list.spec.images.iter().map(String::as_str).collect();
        prop_assert_eq!(world.images(), listed);
        prop_assert!(world.step().is_idle());
    }
}
