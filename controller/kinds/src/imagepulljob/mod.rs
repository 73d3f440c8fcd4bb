//! ImagePullJob: an image pulled on many nodes, so many at a time.
//!
//! The job asks nodes by putting entries into their NodeImages' specs, and reads in their statuses what came of it. Its
//! entries are exactly those of its nodes and its image; while it has any that are not over, it has a finalizer.

mod decide;
mod round;
mod status;

#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod simulation;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::image;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::gates::Gates;
use berth_workload::node::image::NodeImage;
use berth_workload::node::image::entry;
use berth_workload::node::image::room::{Wish, room};
use berth_workload::plan::Refusal;
use berth_workload::pod::Pod;
use berth_workload::pull;
use berth_workload::selector::Selector;

pub use decide::decide;
pub use status::{MAX_FAILED_NODES, status};

/// All that a decision about one job reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The job.
    pub job: Arc<ImagePullJob>,
    /// Every NodeImage, in any order.
    pub node_images: Vec<Arc<NodeImage>>,
    /// The names of the NodeImages that cannot be read.
    pub unreadable: Vec<String>,
    /// The pods of the job's namespace, if it [needs them](needs_pods).
    pub pods: Vec<Arc<Pod>>,
    /// Where the job is being deleted: the uids of all jobs that are. Their entries go along: each write of a NodeImage makes
    /// the others of it begin anew.
    pub leaving: BTreeSet<String>,
    /// Feature gates.
    pub gates: Gates,
}

/// Does the spec make sense? A job whose spec does not is not acted on.
///
/// # Errors
/// The refusal names the object, the field, the value and the remedy.
pub fn validate(job: &ImagePullJob) -> Result<(), Refusal> {
    pull::settings(job).map(drop)
}

/// Must the snapshot of this job have pods?
pub fn needs_pods(job: &ImagePullJob) -> bool {
    runs(job) && job.spec.template.pod_selector.is_some()
}

/// Does a change of a NodeImage matter to the job? `None` before it was created, and after it was deleted. How a pull gets
/// on does not, only that it begins and ends.
pub fn concerns(job: &ImagePullJob, old: Option<&NodeImage>, new: Option<&NodeImage>) -> bool {
    if !runs(job) {
        return false;
    }
    let (Some(old), Some(new)) = (old, new) else {
        return true;
    };
    let Ok((image, tag)) = image::split(&job.spec.image) else {
        return false;
    };
    let facts = |node| {
        entry::find(node, &image, &tag).map(|entry| (entry, entry::status(node, &image, entry)))
    };
    let seen = |node| facts(node).map(|(entry, status)| (entry, status.map(|status| status.phase)));
    let at_all = |node: &NodeImage| {
        (
            node.metadata.deletion_timestamp.is_some(),
            node.status.is_none(),
        )
    };
    // Most changes are of statuses, and need no look at all entries.
    let same_spec =
        old.metadata.generation > 0 && old.metadata.generation == new.metadata.generation;
    let wish = Wish::of(job, &image, &tag);
    let other_room = || room(old, &wish) != room(new, &wish);
    old.metadata.labels != new.metadata.labels
        || at_all(old) != at_all(new)
        || seen(old) != seen(new)
        || !same_spec && other_room()
}

/// Does a change of a pod matter to the job? `None` before it was created, and after it was deleted.
pub fn concerns_pod(job: &ImagePullJob, old: Option<&Pod>, new: Option<&Pod>) -> bool {
    if !needs_pods(job) {
        return false;
    }
    let by_pod = job.spec.template.pod_selector.as_ref();
    let Some(Ok(selector)) = by_pod.map(|by_pod| Selector::new(&by_pod.label_selector)) else {
        return false;
    };
    let node = |pod: Option<&Pod>| {
        let counts = pod.filter(|pod| {
            let namespace = &pod.metadata.namespace;
            pod.is_active()
                && round::in_namespace(job, namespace)
                && selector.matches(|key| pod.metadata.label(key))
        });
        counts.map_or_else(String::new, |pod| pod.spec.node_name.to_string())
    };
    node(old) != node(new)
}

/// Neither finished nor being deleted.
fn runs(job: &ImagePullJob) -> bool {
    job.metadata.deletion_timestamp.is_none()
        && job
            .status
            .as_ref()
            .is_none_or(|status| status.completion_time.is_none())
}

fn uid(job: &ImagePullJob) -> &str {
    job.metadata.uid.as_deref().unwrap_or_default()
}
