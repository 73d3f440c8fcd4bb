//! Which changes matter to a job.

use berth_api::image;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::node::image::entry;
use berth_workload::objects::node::image::room::{PullRequest, room};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::selector::Selector;

use super::round;

/// Whether the snapshot of this job must have pods.
pub fn needs_pods(job: &ImagePullJob) -> bool {
    runs(job) && job.spec.template.pod_selector.is_some()
}

/// Whether a change of a NodeImage matters to the job. `None` is a NodeImage that does not exist.
/// The progress of a pull does not matter, only its begin and its end.
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
    // Most changes are changes of statuses, for which the entries need not be read.
    let same_spec =
        old.metadata.generation > 0 && old.metadata.generation == new.metadata.generation;
    let request = PullRequest::of(job, &image, &tag);
    let other_room = || room(old, &request) != room(new, &request);
    old.metadata.labels != new.metadata.labels
        || at_all(old) != at_all(new)
        || seen(old) != seen(new)
        || !same_spec && other_room()
}

/// Whether a change of a pod matters to the job. `None` is a pod that does not exist.
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
