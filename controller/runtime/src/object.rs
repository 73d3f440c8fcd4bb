//! What every object has, however slim its type: a resource, a name, a uid and a version.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use berth_workload::pod::Pod;
use serde::de::DeserializeOwned;

/// Where the apiserver serves a kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// Name in paths, lower case plural.
    pub plural: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// False for cluster-scoped objects.
    pub namespaced: bool,
}

/// Pods.
pub const PODS: Resource = Resource::new("", "v1", "pods", "Pod");
/// Claims.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
/// Pod templates, created only as a dry run: the apiserver's own validation of a workload's template.
pub const POD_TEMPLATES: Resource = Resource::new("", "v1", "podtemplates", "PodTemplate");
/// ConfigMaps, written and never read.
pub const CONFIG_MAPS: Resource = Resource::new("", "v1", "configmaps", "ConfigMap");
/// Events.
pub const EVENTS: Resource = Resource::new("", "v1", "events", "Event");
/// Nodes.
pub const NODES: Resource = Resource::new("", "v1", "nodes", "Node").cluster_scoped();
/// Controller revisions.
pub const CONTROLLER_REVISIONS: Resource = Resource::new("apps", "v1", "controllerrevisions", "ControllerRevision");
/// Leases.
pub const LEASES: Resource = Resource::new("coordination.k8s.io", "v1", "leases", "Lease");
/// CloneSets.
pub const CLONE_SETS: Resource = Resource::new("apps.kruise.io", "v1beta1", "clonesets", "CloneSet");
/// NodeImages.
pub const NODE_IMAGES: Resource =
    Resource::new("apps.kruise.io", "v1beta1", "nodeimages", "NodeImage").cluster_scoped();
/// ImageListPullJobs.
pub const IMAGE_LIST_PULL_JOBS: Resource =
    Resource::new("apps.kruise.io", "v1beta1", "imagelistpulljobs", "ImageListPullJob");
/// ImagePullJobs.
pub const IMAGE_PULL_JOBS: Resource = Resource::new("apps.kruise.io", "v1beta1", "imagepulljobs", "ImagePullJob");

impl Resource {
    /// A namespaced resource.
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self { group, version, plural, kind, namespaced: true }
    }

    /// The same, cluster-scoped.
    pub const fn cluster_scoped(self) -> Self {
        Self { namespaced: false, ..self }
    }

    /// `v1`, `apps/v1`, ….
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of all objects of a namespace, or of all namespaces if it is empty.
    pub fn collection(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis/" };
        let (group, version, plural) = (self.group, self.version, self.plural);
        if self.namespaced && !namespace.is_empty() {
            format!("{root}{group}/{version}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}{group}/{version}/{plural}")
        }
    }

    /// The path of one object.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(namespace))
    }
}

/// An object that a [`crate::Store`] can hold. Implement it on a type with only the fields that are read.
pub trait Object: DeserializeOwned + Send + Sync + 'static {
    /// Where the apiserver serves it.
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

impl Key {
    /// A key from its parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of<T: Object>(object: &T) -> Self {
        Self::new(object.namespace(), object.name())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// Compares two resource versions of one resource.
///
/// They are decimal numbers that grow with every write (Kubernetes promises so since 1.34, and it was so before). Anything else
/// can only be compared for equality: `None` then.
pub fn compare_versions(a: &str, b: &str) -> Option<Ordering> {
    if a == b {
        return Some(Ordering::Equal);
    }
    Some(a.parse::<u64>().ok()?.cmp(&b.parse::<u64>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(PODS.collection(""), "/api/v1/pods");
        assert_eq!(PODS.path("a", "b"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(NODES.path("", "n"), "/api/v1/nodes/n");
        assert_eq!(CLONE_SETS.path("a", "b"), "/apis/apps.kruise.io/v1beta1/namespaces/a/clonesets/b");
        assert_eq!(NODE_IMAGES.path("ignored", "n"), "/apis/apps.kruise.io/v1beta1/nodeimages/n");
        assert_eq!((PODS.api_version(), LEASES.api_version()), ("v1".into(), "coordination.k8s.io/v1".into()));
    }

    #[test]
    fn versions_compare_as_numbers_or_not_at_all() {
        assert_eq!(compare_versions("9", "10"), Some(Ordering::Less));
        assert_eq!(compare_versions("10", "10"), Some(Ordering::Equal));
        assert_eq!(compare_versions("x", "x"), Some(Ordering::Equal));
        assert_eq!(compare_versions("x", "10"), None);
        assert_eq!(compare_versions("", "10"), None);
    }
}
