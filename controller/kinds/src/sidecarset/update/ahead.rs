//! Pulls new images of a SidecarSet ahead, and holds updates that wait for them. A container that
//! pulls its image is out of service meanwhile, and with a hot upgrade its pod is.
//!
//! As for workloads, ImagePullJobs pull the images, one for each image and namespace, and a label
//! on the revision says how they ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::image::split;

use berth_api::names::label;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::feature_gates::Gate;
use berth_workload::images::predownload::{
    self, Annotated, Job, TOO_FEW_REPLICAS, has, job_name, patience, waits_for,
};
use berth_workload::objects::owner::controller_reference;
use berth_workload::objects::resource::{IMAGE_PULL_JOBS, SIDECAR_SETS};
use berth_workload::plan::{Action, Event, IfExists, Plan, Step};
use berth_workload::update::revision::{HASH_LABEL, Revision};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};

use super::pods::Member;
use super::settings::Settings;
use crate::sidecarset::Snapshot;
use crate::sidecarset::names::NAME;

/// Most jobs for one revision. Namespaces beyond that pull when their containers start.
const MOST_JOBS: usize = 256;

/// By namespace: the containers and images that pods there do not have yet.
type Wanted<'a> = BTreeMap<&'a str, BTreeSet<(&'a str, &'a str)>>;

/// Plans the jobs of the latest revision, the end of the jobs of other revisions, and the labels
/// that record both.
pub(in crate::sidecarset) fn plan(
    snapshot: &Snapshot,
    latest: &str,
    settings: &Settings,
    members: &[Member<'_>],
    plan: &mut Plan,
) {
    let Some(jobs) = jobs(snapshot).filter(|_| snapshot.updates()) else {
        return;
    };
    let Some(revision) = revision(snapshot, latest) else {
        return;
    };
    let wanted = wanted(snapshot, settings, members);
    let mut steps: Vec<_> = jobs
        .iter()
        .filter_map(|job| predownload::end(job, revision, wanted.is_empty()))
        .collect();
    steps.extend(
        snapshot
            .revisions
            .iter()
            .filter_map(|known| predownload::forget(known, revision)),
    );
    if wanted.is_empty() || predownload::is_recorded(revision) {
        return plan.add_stage("pull ahead", steps);
    }
    let name = &revision.metadata.name;
    if let Some(why) = ignored(snapshot, settings, members.len()) {
        let action = predownload::mark(revision, label::IMAGE_PREDOWNLOAD_IGNORED);
        steps.push(Step::new(
            action,
            format!("no image of {name} is pulled ahead: {why}"),
        ));
        return plan.add_stage("pull ahead", steps);
    }
    let pulls = wanted
        .iter()
        .flat_map(|(namespace, all)| all.iter().map(move |pull| (*namespace, *pull)));
    let pulls: Vec<_> = pulls.take(MOST_JOBS).collect();
    let is_there = |namespace: &str, container: &str| {
        let name = job_name(revision, container);
        jobs.iter().map(|job| &job.metadata).any(|metadata| {
            metadata.namespace.as_deref() == Some(namespace)
                && metadata.name.as_deref() == Some(&*name)
        })
    };
    // A run that was interrupted between many jobs creates only the missing ones.
    let missing = pulls
        .iter()
        .filter(|(namespace, (container, _))| !is_there(namespace, container));
    steps.extend(missing.map(|(namespace, pull)| begin(snapshot, revision, namespace, *pull)));
    plan.add_stage("pull ahead", steps);
    // The revision gets its mark even if one namespace refuses its job: otherwise the other jobs
    // would be created repeatedly.
    let images = pulls.iter().map(|(_, (_, image))| *image).collect();
    plan.add_stage("pulled ahead", vec![mark(revision, pulls.len(), images)]);
}

/// Records on the revision that so many jobs pull these images.
fn mark(revision: &Revision, jobs: usize, images: BTreeSet<&str>) -> Step {
    let images: Vec<_> = images.into_iter().collect();
    let message = format!("{jobs} ImagePullJobs for {}", images.join(", "));
    let reason = format!("revision {} is new: {message}", revision.metadata.name);
    Step {
        done: Some(Event::normal("CreatedImagePullJob", message)),
        ..Step::new(
            predownload::mark(revision, label::IMAGE_PREDOWNLOAD_CREATED),
            reason,
        )
    }
}

/// The jobs of the SidecarSet that stay; `None` if no image is pulled ahead.
fn jobs(snapshot: &Snapshot) -> Option<Vec<&Arc<ImagePullJob>>> {
    let jobs = snapshot
        .jobs
        .as_ref()
        .filter(|_| snapshot.gates.has(Gate::PreDownloadImageForInPlaceUpdate))?;
    Some(
        jobs.iter()
            .filter(|job| job.metadata.deletion_timestamp.is_none())
            .collect(),
    )
}

fn revision<'a>(snapshot: &'a Snapshot, latest: &str) -> Option<&'a Arc<Revision>> {
    snapshot
        .revisions
        .iter()
        .find(|revision| *revision.metadata.name == *latest)
}

fn wanted<'a>(snapshot: &'a Snapshot, settings: &Settings, members: &[Member<'a>]) -> Wanted<'a> {
    let mut wanted = Wanted::new();
    for member in members.iter().filter(|member| settings.reaches(member)) {
        let images: BTreeSet<_> = member.changes(&snapshot.set.spec).collect();
        if !images.is_empty() {
            wanted
                .entry(&member.pod.metadata.namespace)
                .or_default()
                .extend(images);
        }
    }
    wanted
}

/// The reason why pulling ahead is not worth its cost.
fn ignored(snapshot: &Snapshot, settings: &Settings, pods: usize) -> Option<&'static str> {
    if patience(&snapshot.set.metadata).is_some() {
        None
    } else if pods <= TOO_FEW_REPLICAS {
        Some("there are 3 pods or fewer")
    } else {
        settings
            .updates_all_at_once(pods)
            .then_some("all pods are updated at once")
    }
}

fn begin(snapshot: &Snapshot, revision: &Revision, namespace: &str, pull: (&str, &str)) -> Step {
    let (body, image) = (job(snapshot, revision, namespace, pull), pull.1);
    let action = Action::Create {
        resource: IMAGE_PULL_JOBS,
        body,
        if_exists: IfExists::IsOfSameOwner,
    };
    let message = format!("failed to create an ImagePullJob for {image} in namespace {namespace}");
    Step {
        failed: Some(Event::warning("FailedCreateImagePullJob", message)),
        ..Step::new(
            action,
            format!("image {image} is pulled ahead in namespace {namespace}"),
        )
    }
}

fn job(
    snapshot: &Snapshot,
    revision: &Revision,
    namespace: &str,
    (container, image): (&str, &str),
) -> serde_json::Value {
    let set = &snapshot.set;
    let annotated = Annotated::of(&set.metadata);
    let labels = [
        (NAME, snapshot.name()),
        (HASH_LABEL, predownload::hash(revision)),
    ];
    let secrets = set
        .spec
        .image_pull_secrets
        .iter()
        .map(|secret| secret.name.as_str());
    let job = Job {
        name: &job_name(revision, container),
        namespace,
        labels: labels
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .into_iter()
            .collect(),
        owner: controller_reference(&SIDECAR_SETS, &set.metadata),
        image,
        secrets: secrets.filter(|name| !name.is_empty()).collect(),
        selector: serde_json::to_value(&set.spec.selector).unwrap_or_default(),
        parallelism: annotated.parallelism.as_ref(),
        timeout_seconds: annotated.timeout_seconds,
        patience: patience(&snapshot.set.metadata),
        sandbox: json!({"labels": Map::new(), "annotations": Map::new()}),
    };
    job.body()
}

/// The image for which the update of a pod waits, with the longest time that it waits; `None` if it
/// does not. The update does not wait for a node without a job, because that node's kubelet pulls
/// the image as usual.
pub(in crate::sidecarset) fn held(
    snapshot: &Snapshot,
    latest: &str,
    member: &Member<'_>,
    now: Timestamp,
) -> Option<(String, SignedDuration)> {
    let patience = patience(&snapshot.set.metadata)?;
    let jobs = jobs(snapshot)?;
    let revision = revision(snapshot, latest);
    let node = snapshot.node_images.get(&member.pod.spec.node_name)?;
    let left = |image: &str| {
        let job = jobs.iter().find(|job| {
            job.spec.image == image
                && job.metadata.namespace.as_deref() == Some(&*member.pod.metadata.namespace)
                && revision.is_some_and(|revision| predownload::is_of(job, revision))
        });
        let since = job
            .and_then(|job| job.metadata.creation_timestamp.as_ref())
            .map(|time| time.0);
        match since {
            Some(since) => Some(patience.saturating_sub(now.duration_since(since))),
            // The next plan creates its job.
            None => revision
                .is_none_or(|revision| !predownload::is_recorded(revision))
                .then_some(patience),
        }
    };
    let lacks = member
        .changes(&snapshot.set.spec)
        .filter(|(_, image)| split(image).is_ok() && !has(node, image));
    let waits = lacks
        .filter_map(|(_, image)| Some((image, left(image)?)))
        .filter(|(_, left)| left.is_positive());
    let (image, left) = waits.max_by_key(|(_, left)| *left)?;
    let why = waits_for(image, &member.pod.spec.node_name, left);
    Some((why, left))
}

#[cfg(test)]
mod tests;
