//! The workload that a plan belongs to.

use crate::object::Resource;

/// The workload that a plan is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub resource: Resource,
    /// Namespace, empty if cluster-scoped.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid: under it writes are expected.
    pub uid: String,
}

impl Owner {
    /// The object itself as an owner.
    pub fn of<T: crate::Object>(object: &T) -> Self {
        Self {
            resource: T::RESOURCE,
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        }
    }
}
