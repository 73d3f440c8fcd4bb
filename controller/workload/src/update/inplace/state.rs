//! The record of an in-place update in the annotation `apps.kruise.io/inplace-update-state`.
//!
//! The fields are the peer's, so that either controller can finish what the other began; Berth's own are marked.

use std::collections::{BTreeMap, BTreeSet};

pub use berth_api::names::annotation::INPLACE_UPDATE_STATE as ANNOTATION;
use berth_api::names::annotation::INPLACE_UPDATE_STATE_OLD as OLD_ANNOTATION;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch::{Batch, PreCheck, RefMetadata, null_as_empty};
use crate::objects::patch::pod::{Env, Resizes};
use crate::objects::pod::Pod;

/// By container: the id of the one that is to run no more, without the runtime's scheme; empty where none was there.
pub type Restarts = BTreeMap<String, String>;

/// The latest in-place update of a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    /// The revision that the pod is updated to.
    pub revision: String,
    /// When the image patch was decided.
    pub update_timestamp: Option<Timestamp>,
    /// By container name: what ran before, for each container whose image changes.
    #[serde(deserialize_with = "null_as_empty")]
    pub last_container_statuses: BTreeMap<String, Before>,
    /// Images change, not only metadata.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update_images: bool,
    /// A container restarts because a variable of its environment reads a label or annotation that changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update_env_from_metadata: bool,
    /// Berth: the variables that the pod's containers take from its labels and annotations, where any of them changes.
    #[serde(rename = "berthEnv", skip_serializing_if = "Env::is_empty")]
    pub env: Env,
    /// Berth: the containers that the update restarts, as they were when their turn came.
    #[serde(rename = "berthRestarts", skip_serializing_if = "Restarts::is_empty")]
    pub restarts: Restarts,
    /// Berth: the containers that it restarts in later batches.
    #[serde(
        rename = "berthNextRestarts",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    pub next_restarts: BTreeSet<String>,
    /// By container: images of later batches.
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub next_container_images: BTreeMap<String, String>,
    /// Berth: the variables of containers of later batches.
    #[serde(rename = "berthNextEnv", skip_serializing_if = "Env::is_empty")]
    pub next_env: Env,
    /// By container: labels and annotations that OpenKruise left for later batches.
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub next_container_ref_metadata: BTreeMap<String, RefMetadata>,
    /// What must hold before the next batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_check_before_next: Option<PreCheck>,
    /// The batches so far, where the pod has a launch order.
    #[serde(
        deserialize_with = "null_as_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub container_batches_record: Vec<Batch>,
    /// Resources change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update_resources: bool,
    /// Berth: the resources that this update is to give containers, as long as it is not proven that they have them.
    #[serde(rename = "berthResources", skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: Resizes,
    /// Berth: the update before this one was settled when this one began, so that a container with another image can
    /// only be the wanted one.
    #[serde(
        rename = "berthFromSettled",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub from_settled: bool,
    /// Berth: the pod was Ready with its old container once, so its gate stays closed until the update is proven.
    #[serde(rename = "berthGateWaits", skip_serializing_if = "std::ops::Not::not")]
    pub gate_waits: bool,
    /// Berth: the pod was Ready when a SidecarSet patched it. A SidecarSet counts other pods
    /// against `maxUnavailable` for a short time only, because nothing is lost with them.
    #[serde(rename = "berthWasReady", skip_serializing_if = "std::ops::Not::not")]
    pub was_ready: bool,
    /// Berth: containers whose running image is not the one that the node resolves for the wanted name, because a tag
    /// moved after it was pulled. The update is exact all the same.
    #[serde(rename = "berthMovedTags", skip_serializing_if = "Vec::is_empty")]
    pub moved_tags: Vec<String>,
    /// Berth: how the update was proven exact: `pod` or `node`.
    #[serde(rename = "berthVerifiedBy", skip_serializing_if = "String::is_empty")]
    pub verified_by: String,
    /// Fields of the peer's that Berth does not read.
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
    /// Berth: the image name that it is known to have been created from; empty where that is not known.
    #[serde(rename = "berthImage", skip_serializing_if = "String::is_empty")]
    pub image: String,
}

impl Before {
    /// Is it known which container it was, and from which image?
    pub fn is_known(&self) -> bool {
        !self.container_id.is_empty() && !self.image.is_empty()
    }
}

impl State {
    /// The record on the pod, under its name of today or of before OpenKruise 1.0. `None` when there is none or it cannot be
    /// read: then there is nothing to compare with.
    pub fn of(pod: &Pod) -> Option<Self> {
        let annotation = pod
            .metadata
            .annotation(ANNOTATION)
            .or_else(|| pod.metadata.annotation(OLD_ANNOTATION))?;
        serde_json::from_str(annotation).ok()
    }

    /// Does it restart containers, as far as the record says? Then a node can tell something about it.
    pub fn restarts_containers(&self) -> bool {
        !self.last_container_statuses.is_empty() || self.env.changes() || !self.restarts.is_empty()
    }

    /// Does it change images, and neither variables nor resources, and restart no container besides?
    pub fn changes_images_alone(&self) -> bool {
        let alone = !self.env.changes() && !self.update_resources && self.restarts.is_empty();
        !self.last_container_statuses.is_empty() && alone
    }

    /// Proven exact already.
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
    /// `settled` says that the running containers are known to be created from the pod's present spec.
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

/// What is known of the container that runs now. It is created from the present spec if the last update is settled;
/// else it may still be the container before that update, and then what was recorded of it stays true.
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
