//! Makes an in-place update wait until its node has the new image.

use std::sync::Arc;

use berth_api::image::split;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::ImagePullPhase;
use jiff::{SignedDuration, Timestamp};

use super::{
    PredownloadConfig, PredownloadProgress, image_of, images, is_of, jobs, patience, waits_for,
};
use crate::objects::node::image::NodeImage;
use crate::objects::node::image::entry;
use crate::objects::pod::Pod;
use crate::objects::pod::lifecycle;
use crate::update::inplace::steps;
use crate::update::podset::WorkloadView;
use crate::update::podset::chosen::Held;
use crate::update::podset::history::Revisions;
use crate::update::podset::update_method::Policy;
use crate::update::revision::Revision;

/// The in-place updates that wait for an image.
pub struct PredownloadHold<'a> {
    view: WorkloadView<'a>,
    patience: Option<SignedDuration>,
    images: Vec<(&'a str, &'a str)>,
    updated: &'a Revision,
    /// Whether this plan creates the jobs.
    due: bool,
    now: Timestamp,
}

impl<'a> PredownloadHold<'a> {
    /// The images of the updated revision that its pods wait for, if the workload asks for that.
    pub fn new(
        view: &WorkloadView<'a>,
        config: &PredownloadConfig<'_>,
        revisions: &'a Revisions,
        progress: &PredownloadProgress<'_>,
        now: Timestamp,
    ) -> Self {
        let updated = &*revisions.updated;
        let patience =
            patience(view.workload.metadata).filter(|_| config.policy != Policy::ReCreate);
        let due = patience.is_some() && matches!(progress, PredownloadProgress::Due(_));
        let images = if patience.is_some() {
            images(revisions.updated_template()).collect()
        } else {
            Vec::new()
        };
        Self {
            view: *view,
            patience,
            images,
            updated,
            due,
            now,
        }
    }

    /// The image that the pod's update waits for, if it waits. An update that has begun never
    /// waits. Nor does an update on a node that no job asks to pull the image: its kubelet pulls
    /// it.
    pub fn of(&self, pod: &Pod) -> Option<Held> {
        let begun =
            steps::is_under_way(pod) || lifecycle::state(pod) == lifecycle::PREPARING_UPDATE;
        let patience = self.patience.filter(|_| !begun)?;
        let node = self.view.node_images.get(&pod.spec.node_name)?;
        let changed = self
            .images
            .iter()
            .filter(|(name, image)| image_of(pod, name).is_some_and(|old| old != *image));
        let held = changed
            .filter(|(_, image)| !has(node, image))
            .filter_map(|(_, image)| {
                let left = match self.since(node, image)? {
                    Since::Now => patience,
                    Since::Then(since) => patience.saturating_sub(self.now.duration_since(since)),
                };
                left.is_positive().then_some((left, image))
            });
        let (left, image) = held.max_by_key(|(left, _)| *left)?;
        Some(Held {
            reason: waits_for(image, &pod.spec.node_name, left),
            left,
        })
    }

    /// Sorts waiting pods last, so that other pods do not wait behind them.
    pub fn sort_last(&self, candidates: &mut [Arc<Pod>]) {
        if self.patience.is_some() {
            candidates.sort_by_cached_key(|pod| self.of(pod).is_some());
        }
    }

    /// The start of the wait, which is the job's creation, so that no pod waits longer because its
    /// node starts late.
    fn since(&self, node: &NodeImage, image: &str) -> Option<Since> {
        let pulls = |job: &&Arc<ImagePullJob>| job.spec.image == image && is_of(job, self.updated);
        let job = jobs(&self.view)
            .find(pulls)
            .and_then(|job| job.metadata.creation_timestamp.as_ref());
        let requested = || {
            let (name, tag) = split(image).ok()?;
            entry::find(node, &name, &tag)?.created_at.as_ref()
        };
        if let Some(since) = job.or_else(requested) {
            return Some(Since::Then(since.0));
        }
        // A job that cannot be created must not block updates forever. In its first plan, an old
        // revision becomes the newest one.
        let newest = self
            .view
            .revisions
            .last()
            .is_some_and(|last| last.metadata.uid == self.updated.metadata.uid);
        let since = || {
            self.updated
                .metadata
                .creation_timestamp
                .map_or(Since::Now, Since::Then)
        };
        self.due.then(|| if newest { since() } else { Since::Now })
    }
}

enum Since {
    Now,
    Then(Timestamp),
}

/// Whether the node reports the image.
pub fn has(node: &NodeImage, image: &str) -> bool {
    let Some(status) = &node.status else {
        return false;
    };
    if status
        .image_facts
        .iter()
        .any(|fact| fact.image == image && !fact.image_ids.is_empty())
    {
        return true;
    }
    let Ok((name, tag)) = split(image) else {
        return true;
    };
    let version = entry::find(node, &name, &tag).map(|entry| entry.version);
    let pulls = status
        .image_statuses
        .get(&name)
        .into_iter()
        .flat_map(|image| &image.tags);
    pulls.filter(|pull| pull.tag == tag).any(|pull| {
        pull.phase == ImagePullPhase::Succeeded
            && version.is_none_or(|version| version == pull.version)
    })
}
