//! The record of an in-place update in the annotation `apps.kruise.io/inplace-update-state`.
//!
//! The fields are OpenKruise's, so that either controller can finish an update of the other.
//! Berth's own fields are marked.

use std::collections::{BTreeMap, BTreeSet};

pub use berth_api::names::annotation::INPLACE_UPDATE_STATE as ANNOTATION;
use berth_api::names::annotation::INPLACE_UPDATE_STATE_OLD as OLD_ANNOTATION;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch::{Batch, PreCheck, RefMetadata, null_as_empty};
use crate::objects::patch::pod::{Env, Resizes};
use crate::objects::pod::Pod;

/// The id of the container to stop, by container name and without the runtime's scheme; empty if
/// there was no container.
pub type Restarts = BTreeMap<String, String>;

/// The latest in-place update of a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// The revision that the pod is updated to.
    pub revision: String,
    /// When the image patch was decided.
    pub update_timestamp: Option<Timestamp>,
    /// The container before the update, by name, for each container whose image changes.
    #[serde(deserialize_with = "null_as_empty")]
    pub last_container_statuses: BTreeMap<String, Before>,
    /// Whether images change, and not only metadata.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update_images: bool,
    /// Whether a container restarts because a variable of its environment reads a changed label or
    /// annotation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update_env_from_metadata: bool,
    /// Berth: the variables that read the pod's labels and annotations, if any of them changes.
    #[serde(rename = "berthEnv", skip_serializing_if = "Env::is_empty")]
    pub env: Env,
    /// Berth: the containers that the update restarts, as they were when their batch began.
    #[serde(rename = "berthRestarts", skip_serializing_if = "Restarts::is_empty")]
    pub restarts: Restarts,
    /// Berth: the containers that the update restarts in later batches.
    #[serde(
        rename = "berthNextRestarts",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    pub next_restarts: BTreeSet<String>,
    /// The images of later batches, by container.
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub next_container_images: BTreeMap<String, String>,
    /// Berth: the variables of containers of later batches.
    #[serde(rename = "berthNextEnv", skip_serializing_if = "Env::is_empty")]
    pub next_env: Env,
    /// The labels and annotations that OpenKruise left for later batches, by container.
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub next_container_ref_metadata: BTreeMap<String, RefMetadata>,
    /// The condition for the next batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_check_before_next: Option<PreCheck>,
    /// The batches so far, if the pod has a launch order.
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub container_batches_record: Vec<Batch>,
    /// Whether resources change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update_resources: bool,
    /// Berth: the resources of this update, until it is proven that the containers have them.
    #[serde(rename = "berthResources", skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: Resizes,
    /// Berth: whether the earlier update was settled when this one began, so that a container with
    /// another image can only be the wanted one.
    #[serde(
        rename = "berthFromSettled",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub from_settled: bool,
    /// Berth: whether the pod was Ready with its old container once, so that its gate stays closed
    /// until the update is proven.
    #[serde(rename = "berthGateWaits", skip_serializing_if = "std::ops::Not::not")]
    pub gate_waits: bool,
    /// Berth: the pod was Ready when a SidecarSet patched it. A SidecarSet counts other pods
    /// against `maxUnavailable` for a short time only, because nothing is lost with them.
    #[serde(rename = "berthWasReady", skip_serializing_if = "std::ops::Not::not")]
    pub was_ready: bool,
    /// Berth: containers whose image differs from the one that the wanted name has on the node,
    /// because a tag moved after the pull. The update is exact nevertheless.
    #[serde(rename = "berthMovedTags", skip_serializing_if = "Vec::is_empty")]
    pub moved_tags: Vec<String>,
    /// Berth: the source of the proof: `pod` or `node`.
    #[serde(rename = "berthVerifiedBy", skip_serializing_if = "String::is_empty")]
    pub verified_by: String,
    /// Fields of OpenKruise that Berth does not read.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// A container before its image was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Before {
    /// The image id that it ran.
    #[serde(rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// Berth: its container id.
    #[serde(rename = "berthContainerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// Berth: the image name that the container was created from; empty if unknown.
    #[serde(rename = "berthImage", skip_serializing_if = "String::is_empty")]
    pub image: String,
}

impl Before {
    /// Whether the container and the image that it was created from are known.
    pub fn is_known(&self) -> bool {
        !self.container_id.is_empty() && !self.image.is_empty()
    }
}

impl State {
    /// The record on the pod, under its present name or the one from before OpenKruise 1.0. `None`
    /// if it is missing or unreadable, so that there is nothing to compare with.
    pub fn of(pod: &Pod) -> Option<Self> {
        let annotation = pod
            .metadata
            .annotation(ANNOTATION)
            .or_else(|| pod.metadata.annotation(OLD_ANNOTATION))?;
        serde_json::from_str(annotation).ok()
    }

    /// Whether the update restarts containers, by the record. Only then a node's daemon can prove
    /// it.
    pub fn restarts_containers(&self) -> bool {
        !self.last_container_statuses.is_empty() || self.env.changes() || !self.restarts.is_empty()
    }

    /// Whether the update changes images only: no variables, no resources, and no other restarts.
    pub fn changes_images_alone(&self) -> bool {
        let alone = !self.env.changes() && !self.update_resources && self.restarts.is_empty();
        !self.last_container_statuses.is_empty() && alone
    }

    /// Whether the update is proven exact.
    pub fn is_settled(&self) -> bool {
        !self.verified_by.is_empty()
    }

    /// The annotation's value.
    pub fn to_annotation(&self) -> String {
        // A map with string keys always serialises.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The record for an update to `revision` that changes the images of `containers`.
    ///
    /// `settled` says that the running containers were created from the pod's present spec.
    pub fn begin<'a>(
        pod: &Pod,
        revision: &str,
        containers: impl Iterator<Item = &'a String>,
        settled: bool,
        now: Timestamp,
    ) -> Self {
        let previous = Self::of(pod);
        let before =
            |name: &String| Some((name.clone(), before(pod, previous.as_ref(), name, settled)?));
        let last_container_statuses: BTreeMap<_, _> = containers.filter_map(before).collect();
        Self {
            revision: revision.to_owned(),
            update_timestamp: Some(now),
            update_images: !last_container_statuses.is_empty(),
            last_container_statuses,
            from_settled: settled,
            ..Self::default()
        }
    }
}

/// The known facts about the running container. It was created from the present spec if the last
/// update is settled. Otherwise it may still be the container before that update, and the facts
/// recorded then stay true.
fn before(pod: &Pod, previous: Option<&State>, name: &str, settled: bool) -> Option<Before> {
    let status = pod.container_status(name)?;
    let recorded = previous.and_then(|state| state.last_container_statuses.get(name));
    let image = match recorded {
        Some(recorded)
            if !recorded.container_id.is_empty()
                && *recorded.container_id == *status.container_id =>
        {
            recorded.image.clone()
        }
        _ if settled => pod.container(name)?.image.to_string(),
        _ => String::new(),
    };
    Some(Before {
        image_id: status.image_id.to_string(),
        container_id: status.container_id.to_string(),
        image,
    })
}

#[cfg(test)]
mod tests;
