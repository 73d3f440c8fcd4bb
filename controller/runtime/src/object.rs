//! The common parts of all slim object types: a resource, a name, a uid and a version.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::queue::QueueKey;
use berth_workload::objects::owner::{OwnerKey, Reference};
use berth_workload::objects::pod::Pod;
pub use berth_workload::objects::resource::*;
use serde::de::DeserializeOwned;

/// An object that a [`crate::Store`] can keep. Implement it on a type with only the needed fields.
pub trait Object: DeserializeOwned + Send + Sync + 'static {
    /// The resource that the apiserver serves it as.
    const RESOURCE: Resource;

    /// Namespace, empty for cluster-scoped objects.
    fn namespace(&self) -> &str;
    /// Name.
    fn name(&self) -> &str;
    /// Uid.
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;
    /// True once `metadata.deletionTimestamp` is set.
    fn terminating(&self) -> bool;
}

/// An object with an owner, by which a [`crate::Store`] finds it ([`crate::Store::owned_by`]).
pub trait Owned: Object {
    /// The reference to the owner under which the object is found.
    fn owner(&self) -> Option<Reference<'_>>;
}

/// An object as the owner of others.
pub fn owner_key<T: Object>(object: &T) -> OwnerKey<'_> {
    OwnerKey {
        kind: T::RESOURCE.owner_kind(),
        namespace: object.namespace(),
        uid: object.uid(),
    }
}

impl Owned for Pod {
    fn owner(&self) -> Option<Reference<'_>> {
        self.metadata.controller().map(Reference::from)
    }
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;

    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }
    fn name(&self) -> &str {
        &self.metadata.name
    }
    fn uid(&self) -> &str {
        &self.metadata.uid
    }
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
    fn terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Namespace and name of an object: what a work queue holds. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl QueueKey for Key {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Key {
    /// A key from its parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key of an object.
    pub fn of<T: Object>(object: &T) -> Self {
        Self::new(object.namespace(), object.name())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Compares two resource versions of one resource.
///
/// They are decimal numbers that grow with every write (guaranteed since Kubernetes 1.34, and true
/// before). Other texts can only be compared for equality: then the result is `None`.
pub fn compare_versions(a: &str, b: &str) -> Option<Ordering> {
    if a == b {
        return Some(Ordering::Equal);
    }
    Some(a.parse::<u64>().ok()?.cmp(&b.parse::<u64>().ok()?))
}

#[cfg(test)]
mod tests;
