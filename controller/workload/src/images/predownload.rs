//! Pulls the images of a new revision ahead on the nodes that run pods of other revisions. If a
//! workload asks for it, an in-place update waits until its node has the image.
//!
//! ImagePullJobs do the pulling, one for each image that changes. A label on the revision records
//! the result, so that the jobs are made once and not again after their time to live. Revisions
//! that are no longer wanted lose the label, so that a rollback pulls their images ahead again.

mod annotated;
mod hold;
mod job;
mod mark;
mod wait;

use std::sync::Arc;

use berth_api::IntOrString;
use berth_api::names::label;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::pod::{Pod, availability};
use crate::objects::resource::IMAGE_PULL_JOBS;
use crate::plan::{Action, Event, IfExists, Plan, Step, Target};
use crate::update::inplace::change::{self, Change};
use crate::update::inplace::steps;
use crate::update::podset::WorkloadView;
use crate::update::podset::history::Revisions;
use crate::update::podset::update_method::Policy;
use crate::update::revision::{HASH_LABEL, REVISION_LABEL, Revision};

pub use annotated::Annotated;
pub use hold::{PredownloadHold, has};
use job::sandbox;
pub use job::{Job, LONGEST_NAME, hash, is_of, job_name};
pub use mark::{forget, is_recorded, mark};
pub use wait::{brings_images, check, patience, waits_for, waits_for_images};

/// At most this many replicas: nothing is pulled ahead, because the update ends as soon as the
/// pull.
pub const TOO_FEW_REPLICAS: usize = 3;

/// The predownload configuration in a workload's spec.
#[derive(Debug, Clone, PartialEq)]
pub struct PredownloadConfig<'a> {
    /// Its feature gate.
    pub enabled: bool,
    /// How pods are updated.
    pub policy: Policy,
    /// Whether to pull also for pods that are replaced by new ones, and for any number of replicas.
    pub for_new_pods: bool,
    /// Whether the controller updates pods, not only after their deletion.
    pub is_rolling: bool,
    /// Wanted replicas.
    pub replicas: usize,
    /// Replicas that stay at the old revision.
    pub partition: usize,
    /// Replicas that may be unavailable.
    pub max_unavailable: usize,
    /// Pods of the new revision that must be ready first.
    pub min_updated_ready: usize,
    /// Nodes that pull at a time.
    pub parallelism: Option<&'a IntOrString>,
    /// Seconds after which a pull has failed on a node.
    pub timeout_seconds: Option<i32>,
}

/// The state of the predownload of a revision.
#[derive(Debug, PartialEq)]
pub enum PredownloadProgress<'a> {
    /// Predownload is off, or there is no new revision.
    Off,
    /// No pod needs other images any more, so that the jobs can be deleted.
    Over,
    /// The revision's label records the result.
    Done,
    /// Too few pods of the revision are ready yet.
    Early {
        /// Ready pods.
        ready: usize,
        /// Pods that must be ready.
        wanted: usize,
    },
    /// The predownload is not worth it, for this reason.
    Ignored(&'static str),
    /// The images to pull, by container.
    Due(Vec<(&'a str, &'a str)>),
}

/// Plans the jobs of the new revision, the deletion of other jobs, and the revision labels.
pub fn plan(
    view: &WorkloadView<'_>,
    config: &PredownloadConfig<'_>,
    template: &Value,
    revisions: &Revisions,
    progress: PredownloadProgress<'_>,
    plan: &mut Plan,
) {
    if progress == PredownloadProgress::Off {
        return;
    }
    let updated = &revisions.updated;
    let mut steps = Vec::new();
    steps.extend(
        jobs(view).filter_map(|job| end(job, updated, progress == PredownloadProgress::Over)),
    );
    steps.extend(
        view.revisions
            .iter()
            .filter_map(|revision| forget(revision, updated)),
    );
    match progress {
        PredownloadProgress::Due(images) => {
            steps.extend(pull(view, config, template, updated, &images, plan))
        }
        PredownloadProgress::Ignored(why) => {
            let action = mark(updated, label::IMAGE_PREDOWNLOAD_IGNORED);
            steps.push(Step::new(
                action,
                format!(
                    "no image of {} is pulled ahead: {why}",
                    updated.metadata.name
                ),
            ));
        }
        PredownloadProgress::Early { ready, wanted } => {
            let reason = format!(
                "images are pulled ahead once {wanted} pods are updated and ready, {ready} are \
                 (imagePreDownloadMinUpdatedReadyPods)"
            );
            plan.wait(reason);
        }
        PredownloadProgress::Off | PredownloadProgress::Over | PredownloadProgress::Done => {}
    }
    plan.add_stage("pull ahead", steps);
}

/// The predownload state for pods that stay.
pub fn progress<'a>(
    view: &WorkloadView<'_>,
    config: &PredownloadConfig<'_>,
    revisions: &'a Revisions,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> PredownloadProgress<'a> {
    if !config.enabled || view.jobs.is_none() {
        return PredownloadProgress::Off;
    }
    let updated = &revisions.updated;
    if revisions.current.metadata.uid == updated.metadata.uid {
        return PredownloadProgress::Over;
    }
    if is_recorded(updated) {
        return PredownloadProgress::Done;
    }
    let is_ready = |pod: &&Arc<Pod>| {
        let is_ready = availability(pod, view.workload.min_ready_seconds, now).is_ready();
        is_ready && revisions.is_updated(pod) && !steps::awaits_proof(pod)
    };
    let (ready, wanted) = (
        pods.iter().filter(is_ready).count(),
        config.min_updated_ready,
    );
    if ready < wanted {
        return PredownloadProgress::Early { ready, wanted };
    }
    if !config.is_rolling || (config.policy == Policy::ReCreate && !config.for_new_pods) {
        return PredownloadProgress::Ignored("pods are not updated in place");
    }
    let waits = patience(view.workload.metadata).is_some();
    if !waits && !config.for_new_pods && config.replicas <= TOO_FEW_REPLICAS {
        return PredownloadProgress::Ignored("there are 3 replicas or fewer");
    }
    if !waits && config.partition == 0 && config.max_unavailable >= config.replicas {
        return PredownloadProgress::Ignored("all pods are updated at once");
    }
    let (old, new) = (revisions.current_template(), revisions.updated_template());
    if !config.for_new_pods && !matches!(change::between(old, new, view.resize), Change::InPlace(_))
    {
        return PredownloadProgress::Ignored("the change cannot go in place");
    }
    let old = || pods.iter().filter(|pod| !revisions.is_updated(pod));
    let changes = |(name, image): &(&str, &str)| {
        old().any(|pod| image_of(pod, name).is_some_and(|old| old != *image))
    };
    let images: Vec<_> = images(new).filter(changes).collect();
    if images.is_empty() {
        PredownloadProgress::Ignored("no image changes")
    } else {
        PredownloadProgress::Due(images)
    }
}

/// One job for each image, then the label; all in one step, so that the label is written after the
/// last job.
fn pull(
    view: &WorkloadView<'_>,
    config: &PredownloadConfig<'_>,
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
        view.jobs
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
        .map(|(name, image)| job(view, config, template, updated, name, image));
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

/// The whole job, with the labels of all objects that belong to the workload.
fn job(
    view: &WorkloadView<'_>,
    config: &PredownloadConfig<'_>,
    template: &Value,
    updated: &Revision,
    name: &str,
    image: &str,
) -> Value {
    let workload = &view.workload;
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
        parallelism: config.parallelism,
        timeout_seconds: config.timeout_seconds,
        patience: patience(view.workload.metadata),
        sandbox: sandbox(&labels, &strings("annotations")),
        labels,
    };
    job.body()
}

/// The workload's jobs that stay.
fn jobs<'a>(view: &WorkloadView<'a>) -> impl Iterator<Item = &'a Arc<ImagePullJob>> + use<'a> {
    view.jobs
        .into_iter()
        .flatten()
        .filter(|job| job.metadata.deletion_timestamp.is_none())
}

/// The step that deletes a job that is no longer needed: no pod needs the new images, or the job is
/// another revision's.
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

/// The images of a template, by container.
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
