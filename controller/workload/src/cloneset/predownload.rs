//! Pulling the images of a new revision ahead, on the nodes that hold pods of other revisions; and, where a CloneSet
//! asks for it, holding an update in place back until its node has the image.
//!
//! ImagePullJobs do the pulling, one for each image that changes. What became of a revision is a label on it, so that its
//! jobs are made once and not again when their time to live is over. Revisions that are not wanted any more lose the
//! label: a rollback pulls their images ahead again.

use std::sync::Arc;

use berth_api::inplace::wait_for_image;
use berth_api::names::{GROUP, V1BETA1, annotation, label};
use berth_api::v1beta1::cloneset::{CloneSetPodUpdateStrategyType as Policy, CloneSetUpdateStrategyType};
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::{
    ImagePullPhase, ImageTagStatus, MAX_SANDBOX_BYTES, MAX_SANDBOX_PAIRS, MAX_TIMEOUT_SECONDS, NodeImage,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::Snapshot;
use super::decide::{push, step};
use super::new_pod::owner;
use super::revisions::Revisions;
use super::settings::Settings;
use crate::gates::Gate;
use crate::inplace::change::{self, Change};
use crate::inplace::steps;
use crate::lifecycle;
use crate::nodeimage::entry;
use crate::plan::{Action, Event, IfExists, Plan, Refusal, Step, Target, Waiting};
use crate::pod::{Pod, availability};
use crate::resource::IMAGE_PULL_JOBS;
use crate::revision::{HASH_LABEL, REVISION_LABEL, Revision, short};
use berth_api::image::split;

/// With no more replicas than these, nothing is pulled ahead: the update is over as soon as the pull.
const TOO_FEW_REPLICAS: usize = 3;
/// Seconds after which a pull has failed on a node, where nothing is said.
const TIMEOUT_SECONDS: i32 = 300;
/// Seconds that a finished job stays to be looked at.
const TTL_SECONDS: i64 = 600;
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// What is to be done about a revision's images.
#[derive(Debug, PartialEq)]
pub(super) enum Stand<'a> {
    /// Nothing: it is not pulled ahead, or there is no new revision.
    Off,
    /// No pods need other images any more: what was pulled for is over.
    Over,
    /// Its label says what was done.
    Done,
    /// Not enough pods of it are ready yet.
    Early { ready: usize, wanted: usize },
    /// It is not worth it.
    Ignored(&'static str),
    /// By container: the images to pull.
    Due(Vec<(&'a str, &'a str)>),
}

/// Plans the jobs of the new revision, the end of those of others, and the labels that tell of it.
pub(super) fn plan(snapshot: &Snapshot, template: &Value, revisions: &Revisions, stand: Stand<'_>, plan: &mut Plan) {
    if stand == Stand::Off {
        return;
    }
    let updated = &revisions.updated;
    let mut steps = Vec::new();
    for job in jobs(snapshot) {
        let why = if stand == Stand::Over {
            "every pod has the new images"
        } else if !is_of(job, updated) {
            "its revision is not wanted any more"
        } else {
            continue;
        };
        let target = Target::from(&job.metadata);
        let reason = format!("ImagePullJob {} goes: {why}", target.name);
        steps.push(step(Action::Delete { resource: IMAGE_PULL_JOBS, target }, reason));
    }
    steps.extend(snapshot.revisions.iter().filter_map(|revision| forget(revision, updated)));
    match stand {
        Stand::Due(images) => steps.extend(pull(snapshot, template, updated, &images, plan)),
        Stand::Ignored(why) => {
            let action = mark(updated, label::IMAGE_PREDOWNLOAD_IGNORED);
            steps.push(step(action, format!("no image of {} is pulled ahead: {why}", updated.metadata.name)));
        }
        Stand::Early { ready, wanted } => {
            let reason = format!(
                "images are pulled ahead once {wanted} pods are updated and ready, {ready} are \
                 (imagePreDownloadMinUpdatedReadyPods)"
            );
            plan.waiting.push(Waiting { pod: String::new(), reason });
        }
        Stand::Off | Stand::Over | Stand::Done => {}
    }
    push(plan, "pull ahead", steps);
}

/// What is to be done about images of these pods that stay.
pub(super) fn stand<'a>(
    snapshot: &Snapshot,
    settings: &Settings,
    revisions: &'a Revisions,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Stand<'a> {
    if !snapshot.gates.has(Gate::PreDownloadImageForInPlaceUpdate) || snapshot.jobs.is_none() {
        return Stand::Off;
    }
    let updated = &revisions.updated;
    if revisions.current.metadata.uid == updated.metadata.uid {
        return Stand::Over;
    }
    let labels = [label::IMAGE_PREDOWNLOAD_CREATED, label::IMAGE_PREDOWNLOAD_IGNORED];
    if labels.iter().any(|label| updated.metadata.label(label).is_some()) {
        return Stand::Done;
    }
    let strategy = &snapshot.set.spec.update_strategy;
    let rolling = strategy.rolling_update.as_ref();
    let in_place = rolling.and_then(|rolling| rolling.in_place_update_strategy.as_ref());
    let wanted = in_place.and_then(|in_place| in_place.image_pre_download_min_updated_ready_pods).unwrap_or(0);
    let is_ready = |pod: &&Arc<Pod>| {
        let is_ready = availability(pod, settings.min_ready_seconds, now).is_ready();
        is_ready && revisions.is_updated(pod) && !steps::awaits_proof(pod)
    };
    let (ready, wanted) = (pods.iter().filter(is_ready).count(), usize::try_from(wanted).unwrap_or(0));
    if ready < wanted {
        return Stand::Early { ready, wanted };
    }
    if rolling.is_none()
        || settings.policy == Policy::ReCreate
        || strategy.type_ == CloneSetUpdateStrategyType::OnDelete
    {
        return Stand::Ignored("pods are not updated in place");
    }
    let waits = patience(snapshot).is_some();
    if !waits && settings.wanted.replicas <= TOO_FEW_REPLICAS {
        return Stand::Ignored("there are 3 replicas or fewer");
    }
    if !waits && settings.wanted.partition == 0 && settings.wanted.max_unavailable >= settings.wanted.replicas {
        return Stand::Ignored("all pods are updated at once");
    }
    let (old, new) = (revisions.current_template(), revisions.updated_template());
    if !matches!(change::between(old, new, snapshot.resize), Change::InPlace(_)) {
        return Stand::Ignored("the change cannot go in place");
    }
    let old = || pods.iter().filter(|pod| !revisions.is_updated(pod));
    let changes = |(name, image): &(&str, &str)| old().any(|pod| image_of(pod, name).is_some_and(|old| old != *image));
    let images: Vec<_> = images(new).filter(changes).collect();
    if images.is_empty() { Stand::Ignored("no image changes") } else { Stand::Due(images) }
}

/// One job for each image, then the label; all in one step, so that the label comes with the last job.
fn pull(
    snapshot: &Snapshot,
    template: &Value,
    updated: &Revision,
    images: &[(&str, &str)],
    plan: &mut Plan,
) -> Option<Step> {
    let jobs: Vec<_> = images.iter().map(|(container, image)| (job_name(updated, container), *image)).collect();
    let going = |name: &str| {
        let named = |job: &&Arc<ImagePullJob>| job.metadata.name.as_deref() == Some(name);
        snapshot.jobs.iter().flatten().filter(named).any(|job| job.metadata.deletion_timestamp.is_some())
    };
    if let Some((name, _)) = jobs.iter().find(|(name, _)| going(name)) {
        let reason = format!("ImagePullJob {name} of an earlier rollout is being deleted, and made again after that");
        plan.waiting.push(Waiting { pod: String::new(), reason });
        return None;
    }
    let created: Vec<_> = jobs.iter().map(|(name, image)| format!("ImagePullJob {name} for image: {image}")).collect();
    let create = jobs.iter().map(|(name, image)| job(snapshot, template, updated, name, image));
    let mut actions: Vec<_> = create
        .map(|body| Action::Create { resource: IMAGE_PULL_JOBS, body, if_exists: IfExists::IsOfSameOwner })
        .collect();
    actions.push(mark(updated, label::IMAGE_PREDOWNLOAD_CREATED));
    let created = created.join(", ");
    let event = |warning, reason, message| Some(Event { warning, reason, message });
    Some(Step {
        actions,
        reason: format!("revision {} is new: {created}", updated.metadata.name),
        done: event(false, "CreatedImagePullJob", format!("created {created}")),
        failed: event(true, "FailedCreateImagePullJob", format!("failed to create {created}")),
    })
}

/// The whole job. It has the labels that all have which belong to the CloneSet.
fn job(snapshot: &Snapshot, template: &Value, updated: &Revision, name: &str, image: &str) -> Value {
    let set = &snapshot.set;
    let strings = |field: &str| template["metadata"][field].as_object().cloned().unwrap_or_default();
    let (hash, mut labels) = (hash(updated), strings("labels"));
    labels.insert(HASH_LABEL.to_owned(), json!(hash));
    let secrets = template["spec"]["imagePullSecrets"].as_array().into_iter().flatten();
    let secrets: Vec<_> = secrets.filter_map(|secret| secret["name"].as_str()).collect();
    let mut selector = serde_json::to_value(&set.spec.selector).unwrap_or_default();
    let others = json!({"key": REVISION_LABEL, "operator": "NotIn", "values": [updated.metadata.name, hash]});
    match selector["matchExpressions"].as_array_mut() {
        Some(expressions) => expressions.push(others),
        None => selector["matchExpressions"] = json!([others]),
    }
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    let in_place = rolling.and_then(|rolling| rolling.in_place_update_strategy.clone()).unwrap_or_default();
    let parallelism = in_place.image_pre_download_parallelism.map_or(json!(1), |value| json!(value));
    // A timeout of 0 is no time to pull in.
    let timeout = in_place.image_pre_download_timeout_seconds.filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(TIMEOUT_SECONDS, |seconds| seconds.min(MAX_TIMEOUT_SECONDS));
    let sandbox = sandbox(&labels, &strings("annotations"));
    let ttl = patience(snapshot).map_or(0, |patience| patience.as_secs()).clamp(TTL_SECONDS, i64::from(i32::MAX));
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(set.metadata.namespace));
    metadata.insert("labels".to_owned(), json!(labels));
    metadata.insert("ownerReferences".to_owned(), json!([owner(snapshot)]));
    json!({
        "apiVersion": format!("{GROUP}/{V1BETA1}"),
        "kind": "ImagePullJob",
        "metadata": metadata,
        "spec": {
            "image": image,
            "pullSecrets": secrets,
            "podSelector": selector,
            "parallelism": parallelism,
            "pullPolicy": {"backoffLimit": 1, "timeoutSeconds": timeout},
            "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": ttl},
            "sandboxConfig": sandbox,
        },
    })
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
        pairs.iter().filter(fits).take(MAX_SANDBOX_PAIRS).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    json!({"labels": fitting(labels), "annotations": fitting(annotations)})
}

/// The revision's name and the container's, cut where an object's name ends.
fn job_name(updated: &Revision, container: &str) -> String {
    let revision = &*updated.metadata.name;
    let whole = format!("{revision}-{container}");
    if whole.len() <= LONGEST_NAME {
        return whole;
    }
    let tail = format!("-{}-{container}", short(revision));
    let room = LONGEST_NAME.saturating_sub(tail.len());
    let cut = revision.char_indices().map(|(at, _)| at).take_while(|at| *at <= room).last().unwrap_or(0);
    format!("{}{tail}", revision[..cut].trim_end_matches(['-', '.']))
}

fn hash(revision: &Revision) -> &str {
    revision.metadata.label(HASH_LABEL).unwrap_or_else(|| short(&revision.metadata.name))
}

/// Takes the labels off a revision that is not the new one.
fn forget(revision: &Revision, updated: &Revision) -> Option<Step> {
    if revision.metadata.uid == updated.metadata.uid {
        return None;
    }
    let labels = [label::IMAGE_PREDOWNLOAD_CREATED, label::IMAGE_PREDOWNLOAD_IGNORED];
    let there = labels.into_iter().filter(|label| revision.metadata.label(label).is_some());
    let gone: Map<_, _> = there.map(|label| (label.to_owned(), Value::Null)).collect();
    let patch = json!({"metadata": {"labels": gone}});
    let reason = format!("revision {} is not wanted now: its images are pulled anew next time", revision.metadata.name);
    (!gone.is_empty()).then(|| step(Action::PatchRevision { target: revision.target(), patch }, reason))
}

fn mark(revision: &Revision, label: &str) -> Action {
    Action::PatchRevision { target: revision.target(), patch: json!({"metadata": {"labels": {label: "true"}}}) }
}

/// The CloneSet's jobs that stay.
fn jobs(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<ImagePullJob>> {
    snapshot.jobs.iter().flatten().filter(|job| job.metadata.deletion_timestamp.is_none())
}

fn is_of(job: &ImagePullJob, revision: &Revision) -> bool {
    let labels = job.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(HASH_LABEL)).is_some_and(|label| label == hash(revision))
}

/// By container: the images of a template.
fn images(template: &Value) -> impl Iterator<Item = (&str, &str)> {
    let containers = template["spec"]["containers"].as_array();
    containers.into_iter().flatten().filter_map(|c| Some((c["name"].as_str()?, c["image"].as_str()?)))
}

fn image_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a str> {
    pod.spec.containers.iter().find(|c| *c.name == *container).map(|c| &*c.image)
}

/// The longest that an update in place waits for its image; `None` where it does not.
fn patience(snapshot: &Snapshot) -> Option<SignedDuration> {
    wait_for_image(annotation(snapshot)?).ok()
}

fn annotation(snapshot: &Snapshot) -> Option<&str> {
    let annotations = snapshot.set.metadata.annotations.as_ref()?;
    annotations.get(annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE).map(String::as_str)
}

/// Is the annotation sound?
///
/// # Errors
/// The refusal names the object, the annotation, its value and the remedy.
pub(super) fn check(snapshot: &Snapshot) -> Result<(), Refusal> {
    let Some(text) = annotation(snapshot) else { return Ok(()) };
    wait_for_image(text).map(drop).map_err(|problem| Refusal {
        reason: "InvalidSpec",
        message: format!(
            "CloneSet {}: metadata.annotations[{}]: {text:?} {problem}",
            snapshot.name(),
            annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE
        ),
    })
}

/// Which updates in place are held back for an image.
pub(super) struct Holding<'a> {
    snapshot: &'a Snapshot,
    patience: Option<SignedDuration>,
    images: Vec<(&'a str, &'a str)>,
    updated: &'a Revision,
    /// The jobs are about to be made.
    due: bool,
    now: Timestamp,
}

/// An update that is held back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Held<'a> {
    image: &'a str,
    node: &'a str,
    left: SignedDuration,
}

impl<'a> Holding<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        settings: &Settings,
        revisions: &'a Revisions,
        stand: &Stand<'_>,
        now: Timestamp,
    ) -> Self {
        let updated = &*revisions.updated;
        let patience = patience(snapshot).filter(|_| settings.policy != Policy::ReCreate);
        let due = patience.is_some() && matches!(stand, Stand::Due(_));
        let images = if patience.is_some() { images(revisions.updated_template()).collect() } else { Vec::new() };
        Self { snapshot, patience, images, updated, due, now }
    }

    /// For which image the pod's update is held back, if it is. One that has begun never is, nor one on a node that nobody
    /// asks to pull the image: its kubelet will do so as ever.
    pub(super) fn of(&self, pod: &'a Pod) -> Option<Held<'a>> {
        let begun = steps::is_under_way(pod) || lifecycle::state(pod) == lifecycle::PREPARING_UPDATE;
        let patience = self.patience.filter(|_| !begun)?;
        let node = self.snapshot.nodes.get(&pod.spec.node_name)?;
        let changed = self.images.iter().filter(|(name, image)| image_of(pod, name).is_some_and(|old| old != *image));
        let held = changed.filter(|(_, image)| !has(node, image)).filter_map(|(_, image)| {
            let left = match self.since(node, image)? {
                Since::Now => patience,
                Since::Then(since) => patience.saturating_sub(self.now.duration_since(since)),
            };
            left.is_positive().then_some(Held { image, node: &pod.spec.node_name, left })
        });
        held.max_by_key(|held| held.left)
    }

    /// Puts those last that are held back, so that others do not wait behind them.
    pub(super) fn sort_last(&self, candidates: &mut [Arc<Pod>]) {
        if self.patience.is_some() {
            candidates.sort_by_cached_key(|pod| self.of(pod).is_some());
        }
    }

    /// From when on the time counts: from the job's beginning, so that none waits longer because its node comes late.
    fn since(&self, node: &NodeImage, image: &str) -> Option<Since> {
        let pulls = |job: &&Arc<ImagePullJob>| job.spec.image == image && is_of(job, self.updated);
        let job = jobs(self.snapshot).find(pulls).and_then(|job| job.metadata.creation_timestamp.as_ref());
        let asked = || {
            let (name, tag) = split(image).ok()?;
            entry::find(node, &name, &tag)?.created_at.as_ref()
        };
        if let Some(since) = job.or_else(asked) {
            return Some(Since::Then(since.0));
        }
        // A job that cannot be made holds nothing up for ever. An old revision becomes the newest in the first plan only.
        let newest = self.snapshot.revisions.last().is_some_and(|last| last.metadata.uid == self.updated.metadata.uid);
        let since = || self.updated.metadata.creation_timestamp.map_or(Since::Now, Since::Then);
        self.due.then(|| if newest { since() } else { Since::Now })
    }
}

enum Since {
    Now,
    Then(Timestamp),
}

/// Does the node report the image?
fn has(node: &NodeImage, image: &str) -> bool {
    let Some(status) = &node.status else { return false };
    if status.image_facts.iter().any(|fact| fact.image == image && !fact.image_ids.is_empty()) {
        return true;
    }
    let Ok((name, tag)) = split(image) else { return true };
    let version = entry::find(node, &name, &tag).map(|entry| entry.version);
    let pulls = status.image_statuses.get(&name).into_iter().flat_map(|image| &image.tags);
    pulls
        .filter(|pull| pull.tag == tag)
        .any(|pull| pull.phase == ImagePullPhase::Succeeded && version.is_none_or(|version| version == pull.version))
}

impl Held<'_> {
    /// Says so, and looks again when the time is over.
    pub(super) fn wait(&self, pod: &Pod, plan: &mut Plan) {
        let Self { image, node, left } = self;
        let reason = format!(
            "waits for image {image} on node {node}, at most {} s more ({})",
            left.as_secs().saturating_add(1),
            annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE
        );
        plan.waiting.push(Waiting { pod: pod.metadata.name.to_string(), reason });
        plan.look_again_after(*left);
    }
}

/// Has a change of a NodeImage brought an image that updates may wait for?
pub fn brings_images(old: Option<&NodeImage>, new: &NodeImage) -> bool {
    let images = new.status.iter().flat_map(|status| &status.image_statuses);
    let mut here = images
        .flat_map(|(name, image)| image.tags.iter().map(move |tag| (name, tag)))
        .filter(|(_, tag)| tag.phase == ImagePullPhase::Succeeded);
    let before = |name: &String, tag: &ImageTagStatus| {
        let status = old.and_then(|old| old.status.as_ref());
        let mut tags =
            status.and_then(|status| status.image_statuses.get(name)).into_iter().flat_map(|image| &image.tags);
        tags.any(|old| old.tag == tag.tag && old.version == tag.version && old.phase == tag.phase)
    };
    here.any(|(name, tag)| !before(name, tag))
}

/// Do updates of the CloneSet wait for images?
pub fn waits_for_images(set: &berth_api::v1beta1::CloneSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE))
}

#[cfg(test)]
mod tests;
