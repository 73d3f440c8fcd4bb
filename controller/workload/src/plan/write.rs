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
pub struct Write {
    /// The operation.
    pub verb: Verb,
    /// The kind of object.
    pub resource: Resource,
}

impl Write {
    /// An operation on an object of this kind.
    pub const fn of(verb: Verb, resource: Resource) -> Self {
        Self { verb, resource }
    }

    /// Whether the write is to a pod or a claim.
    pub fn is_for_pods(&self) -> bool {
        self.resource == PODS || self.resource == CLAIMS
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verb {
            Verb::PatchStatus => write!(f, "Patch{}Status", self.resource.kind),
            verb => write!(f, "{verb:?}{}", self.resource.kind),
        }
    }
}

impl Action {
    /// The operation and the kind of its object.
    pub fn write(&self) -> Write {
        match self {
            Self::ValidateTemplate { .. } => Write::of(Verb::Validate, POD_TEMPLATES),
            Self::CreateRevision { .. } => Write::of(Verb::Create, CONTROLLER_REVISIONS),
            Self::RenumberRevision { .. } => Write::of(Verb::Renumber, CONTROLLER_REVISIONS),
            Self::PatchRevision { .. } => Write::of(Verb::Patch, CONTROLLER_REVISIONS),
            Self::DeleteRevision { .. } => Write::of(Verb::Delete, CONTROLLER_REVISIONS),
            Self::AdoptRevision { .. } => Write::of(Verb::Adopt, CONTROLLER_REVISIONS),
            Self::CreatePod { .. } => Write::of(Verb::Create, PODS),
            Self::DeletePod { .. } => Write::of(Verb::Delete, PODS),
            Self::EvictPod { .. } => Write::of(Verb::Evict, PODS),
            Self::ReleasePod { .. } => Write::of(Verb::Release, PODS),
            Self::AdoptPod { .. } => Write::of(Verb::Adopt, PODS),
            Self::PatchPod { .. } => Write::of(Verb::Patch, PODS),
            Self::ResizePod { .. } => Write::of(Verb::Resize, PODS),
            Self::PatchPodStatus { .. } => Write::of(Verb::PatchStatus, PODS),
            Self::CreateClaim { .. } => Write::of(Verb::Create, CLAIMS),
            Self::PatchClaim { .. } => Write::of(Verb::Patch, CLAIMS),
            Self::DeleteClaim { .. } => Write::of(Verb::Delete, CLAIMS),
            Self::OpenBarrier { .. } => Write::of(Verb::Patch, CONFIG_MAPS),
            Self::Create { resource, .. } => Write::of(Verb::Create, *resource),
            Self::Patch { resource, .. } => Write::of(Verb::Patch, *resource),
            Self::Delete { resource, .. } => Write::of(Verb::Delete, *resource),
            Self::Confirm { resource, .. } => Write::of(Verb::Confirm, *resource),
        }
    }
}

#[cfg(test)]
mod tests;
