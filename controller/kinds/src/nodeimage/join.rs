//! The images that a node pulls when it joins: those of jobs that never end, which add their
//! entries themselves, and those of workloads with the annotation for it. When all of them are
//! listed, the NodeImage's spec says so to the daemon.

use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_api::v1beta1::imagepulljob::{CompletionPolicyType, ImagePullJob};
use berth_workload::feature_gates::Gates;
use berth_workload::images::{prepull, pull};
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::node::image::entry::{self, Standing};
use berth_workload::objects::node::image::room::{PullRequest, room};
use berth_workload::objects::node::placement::Placement;
use berth_workload::objects::resource::{CLONE_SETS, DAEMON_SETS, Resource};
use berth_workload::update::revision::Revision;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// The objects whose images a joining node pulls.
#[derive(Debug, Clone, Default)]
pub struct Join {
    /// The ImagePullJobs. Only jobs that never end count.
    pub jobs: Vec<Arc<ImagePullJob>>,
    /// The CloneSets that ask for it, each with its current revision if that is not the revision of
    /// its template.
    pub clone_sets: Vec<(Arc<CloneSet>, Option<Arc<Revision>>)>,
    /// The DaemonSets that ask for it, each with the revisions that its rollout leaves on nodes.
    pub daemon_sets: Vec<(Arc<DaemonSet>, Vec<Arc<Revision>>)>,
    /// Feature gates.
    pub gates: Gates,
}

/// The merge patch of `spec.images`, if entries of workloads are missing.
pub(super) struct Listed {
    /// ImagePullJobs that have not added their entries yet, by namespace and name.
    pub(super) images: Option<Value>,
    /// ImagePullJobs that have yet to ask, by namespace and name.
    pub(super) awaited: Vec<String>,
    /// Whether all entries are listed once the patch is written.
    pub(super) is_all: bool,
}

/// Whether the list of images that the node pulls first is still open. It is open before the node
/// has a NodeImage, and closed once the NodeImage reports how the first pulls ended.
pub fn is_joining(image: Option<&NodeImage>) -> bool {
    image.is_none_or(|image| {
        let has_reported = image
            .status
            .as_ref()
            .is_some_and(|status| status.first_sync_status.is_some());
        !image.spec.first_pulls_listed
            && !has_reported
            && image.metadata.deletion_timestamp.is_none()
    })
}

/// Whether the job adds entries to joining nodes.
fn serves_joining(job: &ImagePullJob) -> bool {
    let ends = job.spec.template.completion_policy.type_ == CompletionPolicyType::Always;
    let is_over = job
        .status
        .as_ref()
        .is_some_and(|status| status.completion_time.is_some());
    !ends && !is_over && job.metadata.deletion_timestamp.is_none()
}

/// Whether the change of a job may mean that joining nodes no longer wait for it. The entries that
/// a job adds to nodes change NodeImages, and those changes trigger a decision anyway.
pub fn may_end_a_wait(old: &ImagePullJob, new: Option<&ImagePullJob>) -> bool {
    serves_joining(old)
        && new.is_none_or(|new| {
            let facts = |job: &ImagePullJob| {
                (
                    job.metadata.generation,
                    job.metadata.deletion_timestamp.is_some(),
                )
            };
            facts(old) != facts(new)
        })
}

/// The entries that the node's NodeImage lacks.
pub(super) fn list(join: &Join, node: &Node, image: &NodeImage, now: Timestamp) -> Listed {
    // The labels must be there, because jobs and workloads select nodes by them.
    if !node.has_its_labels() {
        return Listed {
            images: None,
            awaited: Vec::new(),
            is_all: false,
        };
    }
    let is_open = pull::closed(join.gates).is_none();
    let to_ask = join
        .jobs
        .iter()
        .filter(|job| is_open && is_awaited(job, image, now));
    let awaited: Vec<_> = to_ask.map(|job| pull::full_name(job)).collect();
    let mut new = image.clone();
    if is_open {
        add_workloads(join, node, &mut new, now);
    }
    Listed {
        images: entry::added(image, &new),
        is_all: awaited.is_empty(),
        awaited,
    }
}

/// Whether the node waits for the job to add its entry. A job that is paused, or for which the
/// NodeImage has no capacity, adds none, so the node does not wait for it.
fn is_awaited(job: &ImagePullJob, image: &NodeImage, now: Timestamp) -> bool {
    if !serves_joining(job) {
        return false;
    }
    let Ok(settings) = pull::settings(job) else {
        return false;
    };
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    settings.parallelism(1) > 0
        && settings.nodes.have(image)
        && entry::standing(image, &settings.image, &settings.tag, uid, now)
            == Standing::NotRequested
        && room(image, &PullRequest::of(job, &settings.image, &settings.tag)).is_ok()
}

fn add_workloads(join: &Join, node: &Node, image: &mut NodeImage, now: Timestamp) {
    let mut add =
        |metadata: &ObjectMeta, resource: &Resource, placement: Placement, template: &Value| {
            let could_run =
                metadata.deletion_timestamp.is_none() && placement.fits_once_started(node);
            let pulls = if could_run {
                prepull::pulls(metadata, template)
            } else {
                Vec::new()
            };
            pulls
                .iter()
                .for_each(|job| prepull::add(image, job, resource, now));
        };
    for (set, current) in &join.clone_sets {
        let templates = [
            Some(set.spec.template.value()),
            current.as_ref().map(|revision| revision.template()),
        ];
        for template in templates.iter().flatten() {
            add(
                &set.metadata,
                &CLONE_SETS,
                Placement::of(template),
                template,
            );
        }
    }
    for (set, kept) in &join.daemon_sets {
        let of_kept = kept.iter().map(|revision| revision.template());
        for template in std::iter::once(set.spec.template.value()).chain(of_kept) {
            add(
                &set.metadata,
                &DAEMON_SETS,
                Placement::of_daemons(&template),
                &template,
            );
        }
    }
}
