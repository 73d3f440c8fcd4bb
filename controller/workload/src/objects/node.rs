//! A node as decisions see it.

pub mod image;
pub mod placement;

use std::collections::BTreeMap;

use berth_api::names::taint;
use serde::{Deserialize, Serialize};

use crate::objects::pod::{Metadata, Word};

/// A node, stripped to what decisions read. The feed decodes watch events straight into it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Told")]
pub struct Node {
    /// Name, uid, labels.
    pub metadata: Metadata,
    /// Its `Ready` condition is True.
    pub ready: bool,
    /// `kubectl cordon`: no new pod is scheduled to it.
    pub cordoned: bool,
    /// What keeps pods away from it.
    pub taints: Box<[Taint]>,
    /// What its pods can have together, by resource, as quantities.
    pub allocatable: Box<[(Word, Word)]>,
}

/// What keeps pods away from a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Its key.
    pub key: Word,
    /// Its value, mostly empty.
    pub value: Word,
    /// NoSchedule, NoExecute or PreferNoSchedule.
    pub effect: Word,
    /// When one of NoExecute was added, as the apiserver says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Box<str>>,
}

impl Taint {
    /// Is it the one that keeps pods away until the node has its images?
    pub fn awaits_images(&self) -> bool {
        [taint::IMAGES_NOT_READY, taint::IMAGES_NOT_READY_AT_STARTUP].contains(&&*self.key)
    }
}

/// The cloud's own controller has yet to give the node its labels.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

impl Node {
    /// Does a change of a node matter to its NodeImage? Most do not: the kubelet renews its conditions all the time.
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

    /// Has everybody who labels a new node done so?
    pub fn has_its_labels(&self) -> bool {
        !self.taints.iter().any(|taint| &*taint.key == UNINITIALIZED)
    }

    /// Is there a taint that keeps pods away until the node has its images?
    pub fn awaits_images(&self) -> bool {
        self.taints.iter().any(Taint::awaits_images)
    }

    /// No kubelet and no container runtime stand behind the node, but another service.
    pub fn is_virtual(&self) -> bool {
        self.metadata.label("type") == Some("virtual-kubelet")
    }
}

/// A node as the apiserver tells it.
#[derive(Deserialize)]
struct Told {
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

impl From<Told> for Node {
    fn from(told: Told) -> Self {
        let (spec, status) = (
            told.spec.unwrap_or_default(),
            told.status.unwrap_or_default(),
        );
        Self {
            metadata: told.metadata,
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
