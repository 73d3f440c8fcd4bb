//! The cost of a decision by itself: about one CloneSet of many pods, at each point of a rollout in
//! place. Nothing runs beside it, and nothing is written: the plan's writes are applied to the pods
//! as the apiserver and a kubelet would do it.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use berth_api::names::{condition, label};
use berth_api::v1beta1::cloneset::CloneSet;
use berth_e2e::objects;
use berth_kinds::cloneset::{CloneSetOwner, Snapshot, decide, status};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::pod::Condition;
use berth_workload::plan::{Action, Outcome, Plan, PodPatch};
use berth_workload::update::inplace::resize::Ability;
use berth_workload::update::podset::Phases;
use berth_workload::update::podset::adopt::Orphans;
use berth_workload::update::revision::Revision;
use clap::Args;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::median::median;

/// How many pods, and how many decisions.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pods of the CloneSet.
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// Decisions at each point.
    #[arg(long, default_value_t = 20)]
    times: usize,
}

const NAME: &str = "web";
const SINCE: &str = "2026-01-01T00:00:00Z";

/// Measures, and prints a line for each point.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut world = World::new(options.pods)?;
    println!(
        "{} pods; milliseconds, the median of {} and the longest",
        options.pods, options.times
    );
    println!(
        "| point | decision | longest | status | longest | writes |\n|---|--:|--:|--:|--:|--:|"
    );
    world.measure("nothing to do", options)?;
    world.set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    world.set["metadata"]["generation"] = json!(2);
    world.add_revision()?;
    let begin = world.measure("a quarter begins its update", options)?;
    world.carry_out(&begin);
    world.measure("that quarter is under way", options)?;
    world.run_new_containers();
    let proven = world.measure("that quarter is proven", options)?;
    world.carry_out(&proven);
    world.become_ready();
    world.measure("the next quarter begins", options)?;
    Ok(())
}

/// The objects in the apiserver.
struct World {
    set: Value,
    revisions: Vec<Value>,
    pods: Vec<Value>,
}

impl World {
    /// A CloneSet with all its pods, available.
    fn new(pods: usize) -> Result<Self> {
        let rolling_update =
            json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "25%"});
        let mut set = objects::clone_set(NAME, pods, "web:1", &rolling_update);
        set["metadata"] =
            json!({"name": NAME, "namespace": "default", "uid": "set", "generation": 1});
        let mut world = Self {
            set,
            revisions: Vec::new(),
            pods: Vec::new(),
        };
        world.add_revision()?;
        let plan = decide(&world.snapshot()?, Timestamp::now());
        let mut bodies = plan.actions().filter_map(|action| match action {
            Action::CreatePod { body } => Some(body.value()),
            _ => None,
        });
        let made = bodies.next().context("the plan creates no pod")?;
        world.pods = (0..pods).map(|number| available(&made, number)).collect();
        Ok(world)
    }

    /// Creates the revision of the plan.
    fn add_revision(&mut self) -> Result<()> {
        let plan = decide(&self.snapshot()?, Timestamp::now());
        let mut bodies = plan.actions().filter_map(|action| match action {
            Action::CreateRevision { body } => Some(body.value()),
            _ => None,
        });
        let mut revision = bodies.next().context("the plan creates no revision")?;
        revision["metadata"]["uid"] = json!(format!("revision-{}", self.revisions.len()));
        self.revisions.push(revision);
        Ok(())
    }

    fn snapshot(&self) -> Result<Snapshot> {
        let set: CloneSet = serde_json::from_value(self.set.clone())?;
        let revisions: Vec<Arc<Revision>> = read(&self.revisions)?;
        Ok(Snapshot {
            set: Arc::new(set),
            pods: read(&self.pods)?,
            strays: Vec::new(),
            own: CloneSetOwner::default(),
            orphans: Orphans::default(),
            revisions,
            node_images: [].into(),
            jobs: None,
            unreadable: Vec::new(),
            overlapping: Vec::new(),
            nodes: [].into(),
            ended: None,
            phases: Phases::default(),
            gates: Gates::default(),
            resize: Ability::Off,
            seed: 1,
        })
    }

    /// Decides so often, and returns the plan. The earlier status is that of the first decision.
    fn measure(&mut self, point: &str, options: &Options) -> Result<Plan> {
        let snapshot = self.snapshot()?;
        let (now, outcome) = (Timestamp::now(), Outcome::default());
        let (mut deciding, mut telling) = (Vec::new(), Vec::new());
        let mut plan = Plan::default();
        ensure!(options.times > 0, "--times is to be 1 or more");
        for _ in 0..options.times {
            let began = Instant::now();
            plan = decide(&snapshot, now);
            deciding.push(began.elapsed().as_secs_f64() * 1000.0);
            let began = Instant::now();
            self.set["status"] = json!(status(&snapshot, &plan, &outcome, now));
            telling.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        println!(
            "| {point} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
            median(deciding.clone()),
            longest(&deciding),
            median(telling.clone()),
            longest(&telling),
            plan.actions().count(),
        );
        Ok(plan)
    }

    /// Applies the plan's writes to the pods.
    fn carry_out(&mut self, plan: &Plan) {
        for action in plan.actions() {
            let (target, conditions, patch) = match action {
                Action::PatchPod { target, patch } => (target, &[] as &[Condition], patch),
                Action::PatchPodStatus {
                    target,
                    conditions,
                    patch,
                } => (target, &**conditions, patch),
                _ => continue,
            };
            let number: Option<usize> = target
                .uid
                .strip_prefix("pod-")
                .and_then(|number| number.parse().ok());
            if let Some(pod) = number.and_then(|number| self.pods.get_mut(number)) {
                note(pod, conditions, patch);
            }
        }
    }

    /// The kubelets have seen the writes, and run the containers that the pods name.
    fn run_new_containers(&mut self) {
        for pod in &mut self.pods {
            let image = pod["spec"]["containers"][0]["image"].clone();
            let status = &mut pod["status"]["containerStatuses"][0];
            if status["image"] != image {
                *status = container(&image, "after");
                pod["status"]["observedGeneration"] = pod["metadata"]["generation"].clone();
            }
        }
    }

    /// Their kubelets have seen that the gates are open.
    fn become_ready(&mut self) {
        for pod in &mut self.pods {
            let conditions = pod["status"]["conditions"]
                .as_array_mut()
                .into_iter()
                .flatten();
            conditions.for_each(|condition| condition["status"] = json!("True"));
        }
    }
}

fn read<T: DeserializeOwned>(objects: &[Value]) -> Result<Vec<Arc<T>>> {
    objects
        .iter()
        .map(|object| Ok(Arc::new(T::deserialize(object)?)))
        .collect()
}

/// A pod as it was created, scheduled and ready by now.
fn available(made: &Value, number: usize) -> Value {
    let mut pod = made.clone();
    let metadata = &mut pod["metadata"];
    metadata["name"] = json!(format!("{NAME}-{number:05}"));
    metadata["uid"] = json!(format!("pod-{number}"));
    metadata["resourceVersion"] = json!("1");
    metadata["generation"] = json!(1);
    metadata["creationTimestamp"] = json!(SINCE);
    metadata["labels"][label::LIFECYCLE_STATE] = json!("Normal");
    pod["spec"]["nodeName"] = json!(format!("node-{}", number % 100));
    let is_true =
        |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": SINCE});
    let kubelet = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(is_true);
    let conditions: Vec<_> = kubelet
        .into_iter()
        .chain([condition::INPLACE_UPDATE_READY, condition::KRUISE_POD_READY].map(is_true))
        .collect();
    let containers = [container(&pod["spec"]["containers"][0]["image"], "before")];
    pod["status"] = json!({
        "phase": "Running", "observedGeneration": 1, "conditions": conditions, "containerStatuses": containers,
    });
    pod
}

fn container(image: &Value, id: &str) -> Value {
    let image_id = format!("registry/web@sha256:{id}");
    json!({
        "name": objects::CONTAINER, "image": image, "imageID": image_id, "containerID": format!("containerd://{id}"),
        "ready": true, "restartCount": 0, "state": {"running": {"startedAt": SINCE}},
    })
}

/// Applies a write to a pod.
fn note(pod: &mut Value, conditions: &[Condition], patch: &PodPatch) {
    for (field, changes) in [
        ("labels", &patch.labels),
        ("annotations", &patch.annotations),
    ] {
        let Some(has) = pod["metadata"][field].as_object_mut() else {
            continue;
        };
        for (key, value) in changes {
            match value {
                Some(value) => drop(has.insert(key.clone(), json!(value))),
                None => drop(has.remove(key)),
            }
        }
    }
    if let Some(image) = patch.images.get(objects::CONTAINER) {
        pod["spec"]["containers"][0]["image"] = json!(image);
        pod["metadata"]["generation"] = json!(2);
    }
    for condition in conditions {
        let mut has = pod["status"]["conditions"]
            .as_array_mut()
            .into_iter()
            .flatten();
        if let Some(has) = has.find(|has| has["type"] == *condition.type_) {
            *has = json!(condition);
        }
    }
}
