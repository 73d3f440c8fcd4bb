//! The input of an injection into a pod, and its result.

use berth_api::v1beta1::sidecarset::SidecarSetSpec;
use serde_json::Value;

use crate::sidecarset::history::hash::Hashes;

/// A SidecarSet that matches the pod.
#[derive(Debug, Clone, Copy)]
pub struct Matched<'a> {
    /// Its name.
    pub name: &'a str,
    /// The spec to inject, which may be of an older revision.
    pub spec: &'a SidecarSetSpec,
    /// The name of that revision.
    pub revision: &'a str,
    /// The hashes of that spec.
    pub hashes: &'a Hashes,
}

impl Matched<'_> {
    pub(super) fn refusal(&self, Reason { text, is_of_pod }: Reason) -> Refusal {
        Refusal {
            sidecar_set: self.name.to_owned(),
            reason: text,
            is_of_pod,
        }
    }
}

/// The settings for all SidecarSets.
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    /// The feature gate `EnableSortSidecarContainerByName`: containers of all SidecarSets are
    /// sorted by their names.
    pub sort_containers_by_name: bool,
    /// Whether a SidecarSet, by name, may set an annotation.
    pub allows: &'a dyn Fn(&str, &str) -> bool,
    /// The end of the pod's name, if the name is generated.
    pub suffix: &'a str,
}

/// The result for a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Injected {
    /// The pod with the injected parts.
    pub pod: Value,
    /// Warnings for the client that creates the pod.
    pub warnings: Vec<String>,
    /// The SidecarSets that the pod does not get.
    pub refusals: Vec<Refusal>,
}

/// A SidecarSet that a pod does not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its name.
    pub sidecar_set: String,
    /// Why.
    pub reason: String,
    /// The pod's creator wrote the cause, so the pod is refused under each failure policy.
    pub is_of_pod: bool,
}

/// Why a pod cannot have a SidecarSet.
pub(super) struct Reason {
    pub(super) text: String,
    pub(super) is_of_pod: bool,
}

impl Reason {
    pub(super) fn of_set(text: String) -> Self {
        Self {
            text,
            is_of_pod: false,
        }
    }

    pub(super) fn of_pod(text: String) -> Self {
        Self {
            text,
            is_of_pod: true,
        }
    }
}
