//! Pulling the images of a new revision ahead, on the nodes that hold pods of other revisions; and, where a workload
//! asks for it, holding an update in place back until its node has the image.
//!
//! ImagePullJobs do the pulling, one for each image that changes. What became of a revision is a label on it, so that its
//! jobs are made once and not again when their time to live is over. Revisions that are not wanted any more lose the
//! label: a rollback pulls their images ahead again.

mod annotated;
mod holding;

use std::sync::Arc;

use berth_api::IntOrString;
use berth_api::fields::inplace::wait_for_image;
use berth_api::names::{GROUP, V1BETA1, annotation, label};
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::{
    ImagePullPhase, ImageTagStatus, MAX_SANDBOX_BYTES, MAX_SANDBOX_PAIRS, MAX_TIMEOUT_SECONDS,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::objects::node::image::NodeImage;
use crate::objects::pod::{Pod, availability};
use crate::objects::resource::IMAGE_PULL_JOBS;
use crate::plan::{Action, Event, IfExists, Plan, Refusal, Step, Target};
use crate::update::inplace::change::{self, Change};
use crate::update::inplace::steps;
use crate::update::podset::history::Revisions;
use crate::update::podset::way::Policy;
use crate::update::podset::{Scene, Workload};
use crate::update::revision::{HASH_LABEL, REVISION_LABEL, Revision, short};

pub use annotated::Annotated;
pub use holding::{Holding, has};

/// With no more replicas than these, nothing is pulled ahead: the update is over as soon as the pull.
pub const TOO_FEW_REPLICAS: usize = 3;
/// Seconds after which a pull has failed on a node, where nothing is said.
const TIMEOUT_SECONDS: i32 = 300;
/// Seconds that a finished job stays to be looked at.
const TTL_SECONDS: i64 = 600;
/// The longest name of an object.
pub const LONGEST_NAME: usize = 253;

/// What the spec of a workload asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Knobs<'a> {
    /// Its feature gate.
    pub enabled: bool,
    /// How pods are updated.
    pub policy: Policy,
    /// Also where new pods bring the images, and however few pods there are.
    pub for_new_pods: bool,
    /// Are they updated by the controller, and not when somebody deletes them?
    pub is_rolling: bool,
    /// Pods that are wanted.
    pub replicas: usize,
    /// Those of them that stay old.
    pub partition: usize,
    /// Those that may be unavailable.
    pub max_unavailable: usize,
    /// Pods of the new revision that are to be ready first.
    pub min_updated_ready: usize,
    /// Nodes that pull at a time.
    pub parallelism: Option<&'a IntOrString>,
    /// Seconds after which a pull has failed on a node.
    pub timeout_seconds: Option<i32>,
}

/// What is to be done about a revision's images.
#[derive(Debug, PartialEq)]
pub enum Stand<'a> {
    /// Nothing: it is not pulled ahead, or there is no new revision.
    Off,
    /// No pods need other images any more: what was pulled for is over.
    Over,
    /// Its label says what was done.
    Done,
    /// Not enough pods of it are ready yet.
    Early {
        /// So many are.
        ready: usize,
        /// So many are to be.
        wanted: usize,
    },
    /// It is not worth it.
    Ignored(&'static str),
    /// By container: the images to pull.
    Due(Vec<(&'a str, &'a str)>),
}

/// Plans the jobs of the new revision, the end of those of others, and the labels that tell of it.
pub fn plan(
    scene: &Scene<'_>,
    knobs: &Knobs<'_>,
    template: &Value,
    revisions: &Revisions,
    stand: Stand<'_>,
    plan: &mut Plan,
) {
    if stand == Stand::Off {
        return;
    }
    let updated = &revisions.updated;
    let mut steps = Vec::new();
    steps.extend(jobs(scene).filter_map(|job| end(job, updated, stand == Stand::Over)));
    steps.extend(
        scene
            .revisions
            .iter()
            .filter_map(|revision| forget(revision, updated)),
    );
    match stand {
        Stand::Due(images) => steps.extend(pull(scene, knobs, template, updated, &images, plan)),
        Stand::Ignored(why) => {
            let action = mark(updated, label::IMAGE_PREDOWNLOAD_IGNORED);
            steps.push(Step::new(
                action,
                format!(
                    "no image of {} is pulled ahead: {why}",
                    updated.metadata.name
                ),
            ));
        }
        Stand::Early { ready, wanted } => {
            let reason = format!(
                "images are pulled ahead once {wanted} pods are updated and ready, {ready} are \
                 (imagePreDownloadMinUpdatedReadyPods)"
            );
            plan.wait(reason);
        }
        Stand::Off | Stand::Over | Stand::Done => {}
    }
    plan.add_stage("pull ahead", steps);
}

/// What is to be done about images of these pods that stay.
pub fn stand<'a>(
    scene: &Scene<'_>,
    knobs: &Knobs<'_>,
    revisions: &'a Revisions,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Stand<'a> {
    if !knobs.enabled || scene.jobs.is_none() {
        return Stand::Off;
    }
    let updated = &revisions.updated;
    if revisions.current.metadata.uid == updated.metadata.uid {
        return Stand::Over;
    }
    if is_told(updated) {
        return Stand::Done;
    }
    let is_ready = |pod: &&Arc<Pod>| {
        let is_ready = availability(pod, scene.workload.min_ready_seconds, now).is_ready();
        is_ready && revisions.is_updated(pod) && !steps::awaits_proof(pod)
    };
    let (ready, wanted) = (
        pods.iter().filter(is_ready).count(),
        knobs.min_updated_ready,
    );
    if ready < wanted {
        return Stand::Early { ready, wanted };
    }
    if !knobs.is_rolling || (knobs.policy == Policy::ReCreate && !knobs.for_new_pods) {
        return Stand::Ignored("pods are not updated in place");
    }
    let waits = patience(scene.workload.metadata).is_some();
    if !waits && !knobs.for_new_pods && knobs.replicas <= TOO_FEW_REPLICAS {
        return Stand::Ignored("there are 3 replicas or fewer");
    }
    if !waits && knobs.partition == 0 && knobs.max_unavailable >= knobs.replicas {
        return Stand::Ignored("all pods are updated at once");
    }
    let (old, new) = (revisions.current_template(), revisions.updated_template());
    if !knobs.for_new_pods && !matches!(change::between(old, new, scene.resize), Change::InPlace(_))
    {
        return Stand::Ignored("the change cannot go in place");
    }
    let old = || pods.iter().filter(|pod| !revisions.is_updated(pod));
    let changes = |(name, image): &(&str, &str)| {
        old().any(|pod| image_of(pod, name).is_some_and(|old| old != *image))
    };
    let images: Vec<_> = images(new).filter(changes).collect();
    if images.is_empty() {
        Stand::Ignored("no image changes")
    } else {
        Stand::Due(images)
    }
}

/// One job for each image, then the label; all in one step, so that the label comes with the last job.
fn pull(
    scene: &Scene<'_>,
    knobs: &Knobs<'_>,
    template: &Value,
    updated: &Revision,
    images: &[(&str, &str)],
    plan: &mut Plan,
) -> Option<Step> {
    let jobs: Vec<_> = images
        .iter()
        .map(|(container, image)| (job_name(updated, container), *image))
        .collect();
    let going = |name: &str| {
        let named = |job: &&Arc<ImagePullJob>| job.metadata.name.as_deref() == Some(name);
        scene
            .jobs
            .into_iter()
            .flatten()
            .filter(named)
            .any(|job| job.metadata.deletion_timestamp.is_some())
    };
    if let Some((name, _)) = jobs.iter().find(|(name, _)| going(name)) {
        let reason = format!(
            "ImagePullJob {name} of an earlier rollout is being deleted, and made again after that"
        );
        plan.wait(reason);
        return None;
    }
    let created: Vec<_> = jobs
        .iter()
        .map(|(name, image)| format!("ImagePullJob {name} for image: {image}"))
        .collect();
    let create = jobs
        .iter()
        .map(|(name, image)| job(scene, knobs, template, updated, name, image));
    let mut actions: Vec<_> = create
        .map(|body| Action::Create {
            resource: IMAGE_PULL_JOBS,
            body,
            if_exists: IfExists::IsOfSameOwner,
        })
        .collect();
    actions.push(mark(updated, label::IMAGE_PREDOWNLOAD_CREATED));
    let created = created.join(", ");
    let event = |warning, reason, message| {
        Some(Event {
            warning,
            reason,
            message,
        })
    };
    Some(Step {
        actions,
        reason: format!("revision {} is new: {created}", updated.metadata.name),
        done: event(false, "CreatedImagePullJob", format!("created {created}")),
        failed: event(
            true,
            "FailedCreateImagePullJob",
            format!("failed to create {created}"),
        ),
    })
}

/// The whole job. It has the labels that all have which belong to the CloneSet.
fn job(
    scene: &Scene<'_>,
    knobs: &Knobs<'_>,
    template: &Value,
    updated: &Revision,
    name: &str,
    image: &str,
) -> Value {
    let workload = &scene.workload;
    let strings = |field: &str| {
        template["metadata"][field]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    let (hash, mut labels) = (hash(updated), strings("labels"));
    labels.insert(HASH_LABEL.to_owned(), json!(hash));
    let secrets = template["spec"]["imagePullSecrets"]
        .as_array()
        .into_iter()
        .flatten();
    let mut selector = serde_json::to_value(workload.selector).unwrap_or_default();
    let others = json!({"key": REVISION_LABEL, "operator": "NotIn", "values": [updated.metadata.name, hash]});
    match selector["matchExpressions"].as_array_mut() {
        Some(expressions) => expressions.push(others),
        None => selector["matchExpressions"] = json!([others]),
    }
    let job = Job {
        name,
        namespace: workload.metadata.namespace.as_deref().unwrap_or_default(),
        owner: workload.reference(),
        image,
        secrets: secrets
            .filter_map(|secret| secret["name"].as_str())
            .collect(),
        selector,
        parallelism: knobs.parallelism,
        timeout_seconds: knobs.timeout_seconds,
        patience: patience(scene.workload.metadata),
        sandbox: sandbox(&labels, &strings("annotations")),
        labels,
    };
    job.body()
}

/// An ImagePullJob that pulls one image ahead.
#[derive(Debug)]
pub struct Job<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where the pods are.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: Map<String, Value>,
    /// The reference to its owner.
    pub owner: Value,
    /// What it pulls.
    pub image: &'a str,
    /// Names of Secrets that it may need for that.
    pub secrets: Vec<&'a str>,
    /// The pods on whose nodes it pulls.
    pub selector: Value,
    /// Nodes that pull at a time; 1 where nothing is said.
    pub parallelism: Option<&'a IntOrString>,
    /// Seconds after which a pull has failed on a node.
    pub timeout_seconds: Option<i32>,
    /// How long updates wait for the image, if they do.
    pub patience: Option<SignedDuration>,
    /// Labels and annotations for runtimes that look at them.
    pub sandbox: Value,
}

impl Job<'_> {
    /// The object.
    pub fn body(self) -> Value {
        // A timeout of 0 is no time to pull in.
        let timeout = self.timeout_seconds.filter(|seconds| *seconds > 0);
        let timeout = timeout.map_or(TIMEOUT_SECONDS, |seconds| seconds.min(MAX_TIMEOUT_SECONDS));
        let ttl = self
            .patience
            .map_or(0, |patience| patience.as_secs())
            .clamp(TTL_SECONDS, i64::from(i32::MAX));
        json!({
            "apiVersion": format!("{GROUP}/{V1BETA1}"),
            "kind": "ImagePullJob",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "labels": self.labels, "ownerReferences": [self.owner],
            },
            "spec": {
                "image": self.image,
                "pullSecrets": self.secrets,
                "podSelector": self.selector,
                "parallelism": self.parallelism.map_or(json!(1), |value| json!(value)),
                "pullPolicy": {"backoffLimit": 1, "timeoutSeconds": timeout},
                "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": ttl},
                "sandboxConfig": self.sandbox,
            },
        })
    }
}

/// The pods' labels and annotations for runtimes that look at them, as far as a job takes them: it is copied to every node.
fn sandbox(labels: &Map<String, Value>, annotations: &Map<String, Value>) -> Value {
    let mut room = MAX_SANDBOX_BYTES;
    let mut fitting = |pairs: &Map<String, Value>| -> Map<String, Value> {
        let fits = |(key, value): &(&String, &Value)| {
            let left = room.checked_sub(key.len() + value.as_str().map_or(0, str::len));
            room = left.unwrap_or(room);
            left.is_some()
        };
        pairs
            .iter()
            .filter(fits)
            .take(MAX_SANDBOX_PAIRS)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    json!({"labels": fitting(labels), "annotations": fitting(annotations)})
}

/// The revision's name and the container's, cut where an object's name ends.
pub fn job_name(updated: &Revision, container: &str) -> String {
    let revision = &*updated.metadata.name;
    let whole = format!("{revision}-{container}");
    if whole.len() <= LONGEST_NAME {
        return whole;
    }
    let tail = format!("-{}-{container}", short(revision));
    let room = LONGEST_NAME.saturating_sub(tail.len());
    let cut = revision
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|at| *at <= room)
        .last()
        .unwrap_or(0);
    format!("{}{tail}", revision[..cut].trim_end_matches(['-', '.']))
}

/// The hash in a revision's name, by which its jobs are known.
pub fn hash(revision: &Revision) -> &str {
    revision
        .metadata
        .label(HASH_LABEL)
        .unwrap_or_else(|| short(&revision.metadata.name))
}

/// Does the revision say what became of its images?
pub fn is_told(revision: &Revision) -> bool {
    let labels = [
        label::IMAGE_PREDOWNLOAD_CREATED,
        label::IMAGE_PREDOWNLOAD_IGNORED,
    ];
    labels
        .iter()
        .any(|label| revision.metadata.label(label).is_some())
}

/// Takes the labels off a revision that is not the new one.
pub fn forget(revision: &Revision, updated: &Revision) -> Option<Step> {
    if revision.metadata.uid == updated.metadata.uid {
        return None;
    }
    let labels = [
        label::IMAGE_PREDOWNLOAD_CREATED,
        label::IMAGE_PREDOWNLOAD_IGNORED,
    ];
    let there = labels
        .into_iter()
        .filter(|label| revision.metadata.label(label).is_some());
    let gone: Map<_, _> = there.map(|label| (label.to_owned(), Value::Null)).collect();
    let patch = json!({"metadata": {"labels": gone}});
    let reason = format!(
        "revision {} is not wanted now: its images are pulled anew next time",
        revision.metadata.name
    );
    (!gone.is_empty()).then(|| {
        Step::new(
            Action::PatchRevision {
                target: revision.target(),
                patch,
            },
            reason,
        )
    })
}

/// Notes on a revision what became of its images.
pub fn mark(revision: &Revision, label: &str) -> Action {
    Action::PatchRevision {
        target: revision.target(),
        patch: json!({"metadata": {"labels": {label: "true"}}}),
    }
}

/// The workload's jobs that stay.
fn jobs<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Arc<ImagePullJob>> + use<'a> {
    scene
        .jobs
        .into_iter()
        .flatten()
        .filter(|job| job.metadata.deletion_timestamp.is_none())
}

/// The end of a job that nobody waits for any more: no pod needs the images of the new revision, or they are another's.
pub fn end(job: &ImagePullJob, updated: &Revision, is_over: bool) -> Option<Step> {
    let why = if is_over {
        "every pod has the new images"
    } else if !is_of(job, updated) {
        "its revision is not wanted any more"
    } else {
        return None;
    };
    let target = Target::from(&job.metadata);
    let reason = format!("ImagePullJob {} goes: {why}", target.name);
    Some(Step::new(
        Action::Delete {
            resource: IMAGE_PULL_JOBS,
            target,
        },
        reason,
    ))
}

/// Does the job pull images of the revision?
pub fn is_of(job: &ImagePullJob, revision: &Revision) -> bool {
    let labels = job.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(HASH_LABEL))
        .is_some_and(|label| label == hash(revision))
}

/// By container: the images of a template.
fn images(template: &Value) -> impl Iterator<Item = (&str, &str)> {
    let containers = template["spec"]["containers"].as_array();
    containers
        .into_iter()
        .flatten()
        .filter_map(|c| Some((c["name"].as_str()?, c["image"].as_str()?)))
}

fn image_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a str> {
    pod.spec
        .containers
        .iter()
        .find(|c| *c.name == *container)
        .map(|c| &*c.image)
}

/// The longest that an update in place waits for its image, by the metadata of what asks for it; `None` where it does not.
pub fn patience(metadata: &ObjectMeta) -> Option<SignedDuration> {
    wait_for_image(annotation(metadata)?).ok()
}

/// What is said of an update that waits for an image, at most for so long.
pub fn waits_for(image: &str, node: &str, left: SignedDuration) -> String {
    format!(
        "waits for image {image} on node {node}, at most {} s more ({})",
        left.as_secs().saturating_add(1),
        annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE
    )
}

fn annotation(metadata: &ObjectMeta) -> Option<&str> {
    metadata
        .annotations
        .as_ref()?
        .get(annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE)
        .map(String::as_str)
}

/// Is the annotation sound?
///
/// # Errors
/// The refusal names the object, the annotation, its value and the remedy.
pub fn check(workload: &Workload<'_>) -> Result<(), Refusal> {
    let Some(text) = annotation(workload.metadata) else {
        return Ok(());
    };
    wait_for_image(text).map(drop).map_err(|problem| Refusal {
        reason: "InvalidSpec",
        message: format!(
            "{workload}: metadata.annotations[{}]: {text:?} {problem}",
            annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE
        ),
    })
}

/// Has a change of a NodeImage brought an image that updates may wait for?
pub fn brings_images(old: Option<&NodeImage>, new: &NodeImage) -> bool {
    let images = new.status.iter().flat_map(|status| &status.image_statuses);
    let mut here = images
        .flat_map(|(name, image)| image.tags.iter().map(move |tag| (name, tag)))
        .filter(|(_, tag)| tag.phase == ImagePullPhase::Succeeded);
    let before = |name: &String, tag: &ImageTagStatus| {
        let status = old.and_then(|old| old.status.as_ref());
        let mut tags = status
            .and_then(|status| status.image_statuses.get(name))
            .into_iter()
            .flat_map(|image| &image.tags);
        tags.any(|old| old.tag == tag.tag && old.version == tag.version && old.phase == tag.phase)
    };
    here.any(|(name, tag)| !before(name, tag))
}

/// Do updates of the workload with this metadata wait for images?
pub fn waits_for_images(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| {
        annotations.contains_key(annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE)
    })
}
