//! A node as decisions read it.

pub mod image;
pub mod placement;

use std::collections::BTreeMap;

use berth_api::names::taint;
use serde::{Deserialize, Serialize};

use crate::objects::pod::{Metadata, Word};

/// A node, with the fields that decisions read. The feed decodes watch events directly into it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "ReportedNode")]
pub struct Node {
    /// Name, uid, labels.
    pub metadata: Metadata,
    /// Whether its `Ready` condition is True.
    pub ready: bool,
    /// Whether it is cordoned, so that no new pod is scheduled to it.
    pub cordoned: bool,
    /// Its taints.
    pub taints: Box<[Taint]>,
    /// The resources for all of its pods together, as quantities.
    pub allocatable: Box<[(Word, Word)]>,
}

/// A taint of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Its key.
    pub key: Word,
    /// Its value, mostly empty.
    pub value: Word,
    /// NoSchedule, NoExecute or PreferNoSchedule.
    pub effect: Word,
    /// When a NoExecute taint was added, in the apiserver's notation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Box<str>>,
}

impl Taint {
    /// Whether it is the taint that keeps pods away until the node has its images.
    pub fn awaits_images(&self) -> bool {
        [taint::IMAGES_NOT_READY, taint::IMAGES_NOT_READY_AT_STARTUP].contains(&&*self.key)
    }
}

/// The taint of a node whose labels the cloud's controller has not set yet.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

impl Node {
    /// Whether a change of a node matters to its NodeImage. Most do not, because the kubelet renews
    /// its conditions all the time.
    pub fn concerns(old: Option<&Self>, new: &Self) -> bool {
        let facts = |node: &Self| {
            (
                node.ready,
                node.metadata.deletion_timestamp.is_some(),
                node.has_its_labels(),
            )
        };
        old.is_none_or(|old| {
            old.metadata.uid != new.metadata.uid
                || old.metadata.labels != new.metadata.labels
                || facts(old) != facts(new)
        })
    }

    /// Whether all controllers that label a new node have done so.
    pub fn has_its_labels(&self) -> bool {
        !self.taints.iter().any(|taint| &*taint.key == UNINITIALIZED)
    }

    /// Whether a taint keeps pods away until the node has its images.
    pub fn awaits_images(&self) -> bool {
        self.taints.iter().any(Taint::awaits_images)
    }

    /// Whether another service runs the node's pods, without a kubelet and a container runtime.
    pub fn is_virtual(&self) -> bool {
        self.metadata.label("type") == Some("virtual-kubelet")
    }
}

/// A node as the apiserver sends it.
#[derive(Deserialize)]
struct ReportedNode {
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
    taints: Option<Box<[Taint]>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    allocatable: BTreeMap<Word, Word>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl From<ReportedNode> for Node {
    fn from(reported: ReportedNode) -> Self {
        let (spec, status) = (
            reported.spec.unwrap_or_default(),
            reported.status.unwrap_or_default(),
        );
        Self {
            metadata: reported.metadata,
            ready: status
                .conditions
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == "True"),
            cordoned: spec.unschedulable,
            taints: spec.taints.unwrap_or_default(),
            allocatable: status.allocatable.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
