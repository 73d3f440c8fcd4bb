//! Whose an object is: the namespace, group, kind and uid of its owner, never the uid alone.
//!
//! Whoever may look at an object knows its uid, and whoever may create objects can write that uid into their owner
//! references, in a namespace of their own. So a reference counts only where garbage collection would honour it: for an
//! owner in the namespace of the object, or for a cluster-scoped one, of the group and kind that the reference names.

use berth_api::kinds::{KINDS, Kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use crate::objects::pod::{Metadata, Owner};
use crate::objects::resource::{self, Resource};

pub use crate::objects::resource::OwnerKind;

/// CloneSets own pods, claims, revisions and ImagePullJobs.
pub const CLONE_SET: OwnerKind = resource::CLONE_SETS.owner_kind();
/// Pods own the claims that are deleted with them.
pub const POD: OwnerKind = resource::PODS.owner_kind();

/// The API group of a group and version, empty for the core group.
pub fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The owner reference of what an object makes and manages.
pub fn controller_reference(resource: &Resource, metadata: &ObjectMeta) -> Value {
    json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The owner that manages an object.
pub fn controller(metadata: &ObjectMeta) -> Option<Reference<'_>> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners
        .find(|owner| owner.controller == Some(true))
        .map(Reference::from)
}

/// Whether the reference names a kind of ours that owns pods.
pub fn is_workload(reference: &Reference<'_>) -> bool {
    is_owner_of(reference, resource::PODS.plural)
}

/// Whether the reference names a kind of ours that owns objects of this plural.
pub fn is_owner_of(reference: &Reference<'_>, plural: &str) -> bool {
    let owns = |kind: &&Kind| kind.owns.contains(&plural);
    KINDS
        .iter()
        .filter(owns)
        .any(|kind| Resource::of(kind).owner_kind().is_of(reference))
}

impl OwnerKind {
    /// Is the owner that the reference names of this kind?
    pub fn is_of(&self, reference: &Reference<'_>) -> bool {
        group(reference.api_version) == self.group && reference.kind == self.kind
    }
}

/// An owner, as owner references are compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerKey<'a> {
    /// Its kind.
    pub kind: OwnerKind,
    /// Its namespace, empty for cluster-scoped owners.
    pub namespace: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

impl OwnerKey<'_> {
    /// Does a reference on an object in this namespace name this owner?
    pub fn owns(&self, namespace: &str, reference: &Reference<'_>) -> bool {
        let is_in_reach = !self.kind.namespaced || namespace == self.namespace;
        is_in_reach
            && !self.uid.is_empty()
            && reference.uid == self.uid
            && self.kind.is_of(reference)
    }

    /// Does this owner manage the object?
    pub fn controls(&self, metadata: &Metadata) -> bool {
        metadata
            .controller()
            .is_some_and(|owner| self.owns(&metadata.namespace, &owner.into()))
    }
}

/// What an owner reference says of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Name.
    pub name: &'a str,
    /// Uid.
    pub uid: &'a str,
}

impl<'a> From<&'a Owner> for Reference<'a> {
    fn from(owner: &'a Owner) -> Self {
        Self {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
        }
    }
}

impl<'a> From<&'a OwnerReference> for Reference<'a> {
    fn from(owner: &'a OwnerReference) -> Self {
        Self {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
        }
    }
}

#[cfg(test)]
mod tests;
