//! The reports of a simulated node's daemon in its NodeImage.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::nodeimage::{
    ImagePullPhase, ImageStatus, ImageTagStatus, InspectedContainer, InspectedPod, NodeImage,
    NodeImageStatus, StopContainer, StopPhase, StoppedContainer,
};
use berth_runtime::object::{NODE_IMAGES, Object, Resource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kubelet::{image_id, restarted};
use crate::pod::Pod;

/// A NodeImage in a store.
#[derive(Debug)]
pub struct Held(pub NodeImage);

impl<'de> Deserialize<'de> for Held {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut image = NodeImage::deserialize(deserializer)?;
        image.metadata.managed_fields = None;
        Ok(Self(image))
    }
}

impl Object for Held {
    const RESOURCE: Resource = NODE_IMAGES;

    fn namespace(&self) -> &str {
        ""
    }
    fn name(&self) -> &str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }
    fn uid(&self) -> &str {
        self.0.metadata.uid.as_deref().unwrap_or_default()
    }
    fn resource_version(&self) -> &str {
        self.0
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }
    fn terminating(&self) -> bool {
        self.0.metadata.deletion_timestamp.is_some()
    }
}

/// The status once every requested pull has ended, and every pod to inspect is reported; `None` if
/// the status says so already. `missing` are images that no registry has; `pods` are the node's
/// pods to inspect.
pub fn answer(
    image: &NodeImage,
    pods: &[&Pod],
    missing: &[String],
    now: &Time,
) -> Option<NodeImageStatus> {
    let before = image.status.clone().unwrap_or_default();
    let mut status = NodeImageStatus {
        image_statuses: BTreeMap::new(),
        ..before.clone()
    };
    status.inspected_pods = pods
        .iter()
        .map(|pod| inspected(pod, &before.inspected_pods, now))
        .collect();
    (
        status.desired,
        status.succeeded,
        status.failed,
        status.pulling,
        status.waiting,
    ) = (0, 0, 0, 0, 0);
    for (name, wanted) in &image.spec.images {
        let told = before
            .image_statuses
            .get(name)
            .map(|status| status.tags.as_slice())
            .unwrap_or_default();
        let mut tags = Vec::new();
        for tag in &wanted.tags {
            let told = told
                .iter()
                .find(|told| told.tag == tag.tag && told.version == tag.version);
            let told = told.filter(|told| {
                matches!(
                    told.phase,
                    ImagePullPhase::Succeeded | ImagePullPhase::Failed
                )
            });
            let pulled = told
                .cloned()
                .unwrap_or_else(|| pull(name, &tag.tag, tag.version, missing, now));
            status.desired += 1;
            if pulled.phase == ImagePullPhase::Failed {
                status.failed += 1
            } else {
                status.succeeded += 1
            }
            tags.push(pulled);
        }
        status
            .image_statuses
            .insert(name.clone(), ImageStatus { tags });
    }
    (status != before).then_some(status)
}

/// A daemon's results of stops: each is done at once, and the next container lasts at once. Also
/// the reports of the kubelet for the pods that had these containers.
pub fn stopped(
    image: &NodeImage,
    pod: impl Fn(&StopContainer) -> Option<Arc<Pod>>,
    now: &str,
) -> (Vec<StoppedContainer>, Vec<(Arc<Pod>, Value)>) {
    let before = image
        .status
        .iter()
        .flat_map(|status| &status.stopped_containers)
        .collect::<Vec<_>>();
    let (mut answers, mut reports) = (Vec::new(), Vec::new());
    for stop in &image.spec.stop_containers {
        if let Some(before) = before.iter().find(|before| stop.is_answered_by(before)) {
            answers.push((*before).clone());
            continue;
        }
        let mut answer = StoppedContainer {
            request: stop.request.clone(),
            container: stop.container.clone(),
            container_id: stop.container_id.clone(),
            phase: if stop.cancelled {
                StopPhase::Cancelled
            } else {
                StopPhase::Gone
            },
            ..StoppedContainer::default()
        };
        let pod = pod(stop).filter(|pod| *pod.metadata.uid == *stop.uid && !stop.cancelled);
        let report = pod.and_then(|pod| {
            let report = restarted(&pod, &stop.container, &stop.container_id, now)?;
            Some((pod, report))
        });
        if let Some((pod, report)) = report {
            answer.phase = StopPhase::Stopped;
            let statuses = report["status"]["containerStatuses"]
                .as_array()
                .into_iter()
                .flatten();
            let next = statuses
                .filter(|status| status["name"] == *stop.container)
                .find_map(|s| s["containerID"].as_str());
            answer.lasting_container_id = next.unwrap_or_default().to_owned();
            reports.push((pod, report));
        }
        answers.push(answer);
    }
    (answers, reports)
}

/// The images that a pod's containers were created from. An inspection that shows nothing new keeps
/// its time.
fn inspected(pod: &Pod, before: &[InspectedPod], now: &Time) -> InspectedPod {
    let statuses = pod
        .status
        .container_statuses
        .iter()
        .filter(|status| !status.container_id.is_empty());
    let container = |status: &crate::pod::ContainerStatus| InspectedContainer {
        name: status.name.to_string(),
        container_id: status.container_id.to_string(),
        // A simulated container is reported under the name that it was created with.
        image: status.image.to_string(),
        image_id: status.image_id.to_string(),
        attempt: Some(status.restart_count),
        ..InspectedContainer::default()
    };
    let containers: Vec<_> = statuses.map(container).collect();
    let same = before
        .iter()
        .find(|before| *before.uid == *pod.metadata.uid && before.containers == containers);
    let observed_at = same.map_or(Some(now.clone()), |same| same.observed_at.clone());
    InspectedPod {
        uid: pod.metadata.uid.to_string(),
        containers,
        observed_at,
    }
}

fn pull(name: &str, tag: &str, version: i64, missing: &[String], now: &Time) -> ImageTagStatus {
    let image = format!("{name}:{tag}");
    let (start_time, completion_time) = (Some(now.clone()), Some(now.clone()));
    let told = ImageTagStatus {
        tag: tag.to_owned(),
        version,
        start_time,
        completion_time,
        ..ImageTagStatus::default()
    };
    if missing.contains(&image) {
        return ImageTagStatus {
            phase: ImagePullPhase::Failed,
            message: "no such image".to_owned(),
            ..told
        };
    }
    ImageTagStatus {
        phase: ImagePullPhase::Succeeded,
        progress: 100,
        image_id: image_id(&image),
        ..told
    }
}

#[cfg(test)]
mod tests;
