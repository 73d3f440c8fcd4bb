//! The owner of an object: its namespace, group, kind and uid, never the uid alone.
//!
//! Every user who may read an object knows its uid. A user who may create objects can write that
//! uid into their owner references, in another namespace. So a reference counts only where garbage
//! collection would honour it: for an owner in the namespace of the object, or for a cluster-scoped
//! owner, of the group and kind that the reference names.

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

/// The owner reference for objects that the object creates and manages.
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

/// Whether the reference names one of Berth's kinds that own pods.
pub fn is_workload(reference: &Reference<'_>) -> bool {
    is_owner_of(reference, resource::PODS.plural)
}

/// Whether the reference names one of Berth's kinds that own objects of this plural.
pub fn is_owner_of(reference: &Reference<'_>, plural: &str) -> bool {
    let owns = |kind: &&Kind| kind.owns.contains(&plural);
    KINDS
        .iter()
        .filter(owns)
        .any(|kind| Resource::of(kind).owner_kind().is_of(reference))
}

impl OwnerKind {
    /// Whether the reference names an owner of this kind.
    pub fn is_of(&self, reference: &Reference<'_>) -> bool {
        group(reference.api_version) == self.group && reference.kind == self.kind
    }
}

/// An owner, in the form that owner references are compared with.
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
    /// Whether a reference of an object in this namespace names this owner.
    pub fn owns(&self, namespace: &str, reference: &Reference<'_>) -> bool {
        let is_in_reach = !self.kind.namespaced || namespace == self.namespace;
        is_in_reach
            && !self.uid.is_empty()
            && reference.uid == self.uid
            && self.kind.is_of(reference)
    }

    /// Whether this owner is the object's controller.
    pub fn controls(&self, metadata: &Metadata) -> bool {
        metadata
            .controller()
            .is_some_and(|owner| self.owns(&metadata.namespace, &owner.into()))
    }
}

/// The fields of an owner reference.
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
