//! The ImagePullJobs of a list: the wanted ones, and the existing ones that match.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::names::label;
use berth_api::v1beta1::imagelistpulljob::ImageListPullJob;
use berth_api::v1beta1::imagepulljob::{ImagePullJob, ImagePullJobSpec, ImagePullJobTemplate};
use berth_api::v1beta1::nodeimage::{MAX_BACKOFF_LIMIT, MAX_TIMEOUT_SECONDS};
use berth_workload::objects::owner::controller_reference;
use berth_workload::objects::resource::IMAGE_LIST_PULL_JOBS;
use berth_workload::update::revision::{hash, revision_name};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::Snapshot;

/// The existing jobs compared with the list.
#[derive(Debug, Default)]
pub(super) struct Children<'a> {
    /// By image of the list: the job that pulls it.
    pub(super) kept: BTreeMap<&'a str, &'a ImagePullJob>,
    /// Jobs that are not wanted, with the reason.
    pub(super) unwanted: Vec<(&'a ImagePullJob, &'static str)>,
    /// Images without a job.
    pub(super) missing: Vec<&'a str>,
}

impl<'a> Children<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let list = &snapshot.list;
        let wanted = template(list);
        let version = version(&wanted);
        let mut jobs: Vec<&ImagePullJob> = snapshot
            .jobs
            .iter()
            .map(Arc::as_ref)
            .filter(|job| !is_going(job))
            .collect();
        // If two jobs pull one image, the older one stays.
        jobs.sort_by_key(|job| {
            (
                job.metadata.creation_timestamp.as_ref().map(|time| time.0),
                &job.metadata.name,
            )
        });
        let mut children = Self::default();
        for job in jobs {
            let image = job.spec.image.as_str();
            let why = if !list.spec.images.iter().any(|listed| listed == image) {
                "its image is not listed any more"
            } else if children.kept.contains_key(image) {
                "another job pulls its image"
            } else if !is_of(job, &version, &wanted) {
                "the list's template has changed"
            } else {
                children.kept.insert(image, job);
                continue;
            };
            children.unwanted.push((job, why));
        }
        let listed = list.spec.images.iter().map(String::as_str);
        children.missing = listed
            .filter(|image| !children.kept.contains_key(image))
            .collect();
        children
    }
}

/// The template of the list's jobs. If a job expired while others still pull, it would count as one
/// that never existed. So only the list has a time to live, and its jobs are deleted with it.
fn template(list: &ImageListPullJob) -> ImagePullJobTemplate {
    of_a_job(&list.spec.template)
}

/// Removes the time to live, and reduces limits to the apiserver's maxima, because a list may be
/// older than these maxima.
fn of_a_job(template: &ImagePullJobTemplate) -> ImagePullJobTemplate {
    let mut template = template.clone();
    let completion = &mut template.completion_policy;
    completion.ttl_seconds_after_finished = None;
    completion.active_deadline_seconds = completion
        .active_deadline_seconds
        .map(|seconds| seconds.min(i32::MAX.into()));
    if let Some(pull) = &mut template.pull_policy {
        pull.timeout_seconds = pull
            .timeout_seconds
            .map(|seconds| seconds.min(MAX_TIMEOUT_SECONDS));
        pull.backoff_limit = pull.backoff_limit.map(|tries| tries.min(MAX_BACKOFF_LIMIT));
    }
    template
}

/// A hash that tells one template from another, as the value of a label.
fn version(template: &ImagePullJobTemplate) -> String {
    // Plain data with string keys always serialises.
    hash(&serde_json::to_value(template).unwrap_or_default(), 0)
}

/// Whether the job was created from this template. Jobs from OpenKruise have another value in their
/// label, and the same template.
fn is_of(job: &ImagePullJob, version: &str, wanted: &ImagePullJobTemplate) -> bool {
    let labels = job.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(label::CONTROLLER_REVISION_HASH))
        .is_some_and(|label| label == version)
        || of_a_job(&job.spec.template) == *wanted
}

/// Whether the job is being deleted.
pub(super) fn is_going(job: &ImagePullJob) -> bool {
    job.metadata.deletion_timestamp.is_some()
}

/// The job for an image, with the namespace and name of the list.
pub(super) fn job(
    list: &ImageListPullJob,
    image: &str,
    template: ImagePullJobTemplate,
) -> ImagePullJob {
    let mut job = ImagePullJob::new(
        "",
        ImagePullJobSpec {
            image: image.to_owned(),
            template,
        },
    );
    job.metadata.namespace = list.metadata.namespace.clone();
    job.metadata.name = list.metadata.name.clone();
    job
}

/// The whole object for an image. Its name depends on image and template, so that repeated tries
/// create one job. `None` while a job of that name is still being deleted.
pub(super) fn new_job(snapshot: &Snapshot, image: &str) -> Option<Value> {
    let list = &snapshot.list;
    let metadata = &list.metadata;
    let mut job = job(list, image, template(list));
    let template = serde_json::to_value(&job.spec.template).unwrap_or_default();
    let name = |collision| {
        let hash = hash(&json!([image, template]), collision);
        revision_name(metadata.name.as_deref().unwrap_or_default(), &hash)
    };
    let named = |name: &str| {
        snapshot
            .jobs
            .iter()
            .find(|job| job.metadata.name.as_deref() == Some(name))
    };
    let is_free = |name: &String| named(name).is_none_or(|other| other.spec.image == image);
    let name = (0..100).map(name).find(is_free)?;
    if named(&name).is_some() {
        return None;
    }
    job.metadata.name = Some(name);
    let labels = [(
        label::CONTROLLER_REVISION_HASH.to_owned(),
        version(&job.spec.template),
    )];
    job.metadata.labels = Some(labels.into());
    let mut body = serde_json::to_value(&job).unwrap_or_default();
    body["metadata"]["ownerReferences"] =
        json!([controller_reference(&IMAGE_LIST_PULL_JOBS, metadata)]);
    Some(body)
}

/// The name of an object; empty if it has none.
pub(super) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}
