//! The operation of an action and the kind of its object, for messages, conditions and logs.

use std::fmt;

use super::Action;
use crate::objects::resource::{
    CLAIMS, CONFIG_MAPS, CONTROLLER_REVISIONS, POD_TEMPLATES, PODS, Resource,
};

/// The operation of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Writes nothing: the apiserver says whether it would accept the object.
    Validate,
    /// Writes nothing: reads the object.
    Confirm,
    /// Creates an object.
    Create,
    /// Changes metadata or spec.
    Patch,
    /// Changes the status.
    PatchStatus,
    /// Changes resources of a pod's containers.
    Resize,
    /// Changes the number of a revision.
    Renumber,
    /// Sets the owner of an object.
    Adopt,
    /// Removes an owner from an object.
    Release,
    /// Deletes an object.
    Delete,
    /// Deletes a pod if the disruption budgets allow it.
    Evict,
}

/// A verb and a kind of object. As text: `CreatePod`, `PatchPodStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deed {
    /// The operation.
    pub verb: Verb,
    /// The kind of object.
    pub resource: Resource,
}

impl Deed {
    /// An operation on an object of this kind.
    pub const fn of(verb: Verb, resource: Resource) -> Self {
        Self { verb, resource }
    }

    /// Whether the write is to a pod or a claim.
    pub fn is_for_pods(&self) -> bool {
        self.resource == PODS || self.resource == CLAIMS
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verb {
            Verb::PatchStatus => write!(f, "Patch{}Status", self.resource.kind),
            verb => write!(f, "{verb:?}{}", self.resource.kind),
        }
    }
}

impl Action {
    /// The operation and the kind of its object.
    pub fn deed(&self) -> Deed {
        match self {
            Self::ValidateTemplate { .. } => Deed::of(Verb::Validate, POD_TEMPLATES),
            Self::CreateRevision { .. } => Deed::of(Verb::Create, CONTROLLER_REVISIONS),
            Self::RenumberRevision { .. } => Deed::of(Verb::Renumber, CONTROLLER_REVISIONS),
            Self::PatchRevision { .. } => Deed::of(Verb::Patch, CONTROLLER_REVISIONS),
            Self::DeleteRevision { .. } => Deed::of(Verb::Delete, CONTROLLER_REVISIONS),
            Self::AdoptRevision { .. } => Deed::of(Verb::Adopt, CONTROLLER_REVISIONS),
            Self::CreatePod { .. } => Deed::of(Verb::Create, PODS),
            Self::DeletePod { .. } => Deed::of(Verb::Delete, PODS),
            Self::EvictPod { .. } => Deed::of(Verb::Evict, PODS),
            Self::ReleasePod { .. } => Deed::of(Verb::Release, PODS),
            Self::AdoptPod { .. } => Deed::of(Verb::Adopt, PODS),
            Self::PatchPod { .. } => Deed::of(Verb::Patch, PODS),
            Self::ResizePod { .. } => Deed::of(Verb::Resize, PODS),
            Self::PatchPodStatus { .. } => Deed::of(Verb::PatchStatus, PODS),
            Self::CreateClaim { .. } => Deed::of(Verb::Create, CLAIMS),
            Self::PatchClaim { .. } => Deed::of(Verb::Patch, CLAIMS),
            Self::DeleteClaim { .. } => Deed::of(Verb::Delete, CLAIMS),
            Self::OpenBarrier { .. } => Deed::of(Verb::Patch, CONFIG_MAPS),
            Self::Create { resource, .. } => Deed::of(Verb::Create, *resource),
            Self::Patch { resource, .. } => Deed::of(Verb::Patch, *resource),
            Self::Delete { resource, .. } => Deed::of(Verb::Delete, *resource),
            Self::Confirm { resource, .. } => Deed::of(Verb::Confirm, *resource),
        }
    }
}

#[cfg(test)]
mod tests;
