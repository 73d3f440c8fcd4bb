//! The place of each kind in the API: data for paths, owner references and names of writes.

use berth_api::kinds::{self, Kind};
use berth_api::name::{InvalidName, Name, Namespace};
use serde::{Serialize, Serializer};

/// The place of a kind in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A kind of object that owns others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerKind {
    /// API group, empty for the core group. The version does not matter.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// False for cluster-scoped kinds, which own objects in any namespace.
    pub namespaced: bool,
}

/// Pods.
pub const PODS: Resource = Resource::new("", "v1", "pods", "Pod");
/// Claims.
pub const CLAIMS: Resource =
    Resource::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
/// Pod templates, created only as a dry run, so that the apiserver validates a workload's template.
pub const POD_TEMPLATES: Resource = Resource::new("", "v1", "podtemplates", "PodTemplate");
/// ConfigMaps.
pub const CONFIG_MAPS: Resource = Resource::new("", "v1", "configmaps", "ConfigMap");
/// Events.
pub const EVENTS: Resource = Resource::new("", "v1", "events", "Event");
/// Namespaces.
pub const NAMESPACES: Resource =
    Resource::new("", "v1", "namespaces", "Namespace").cluster_scoped();
/// Nodes.
pub const NODES: Resource = Resource::new("", "v1", "nodes", "Node").cluster_scoped();
/// Controller revisions.
pub const CONTROLLER_REVISIONS: Resource =
    Resource::new("apps", "v1", "controllerrevisions", "ControllerRevision");
/// ReplicaSets.
pub const REPLICA_SETS: Resource = Resource::new("apps", "v1", "replicasets", "ReplicaSet");
/// Kubernetes' own StatefulSets.
pub const NATIVE_STATEFUL_SETS: Resource =
    Resource::new("apps", "v1", "statefulsets", "StatefulSet");
/// Deployments.
pub const DEPLOYMENTS: Resource = Resource::new("apps", "v1", "deployments", "Deployment");
/// Leases.
pub const LEASES: Resource = Resource::new("coordination.k8s.io", "v1", "leases", "Lease");
/// CloneSets.
pub const CLONE_SETS: Resource = Resource::of(&kinds::CLONE_SET);
/// Advanced StatefulSets.
pub const STATEFUL_SETS: Resource = Resource::of(&kinds::STATEFUL_SET);
/// PersistentPodStates.
pub const PERSISTENT_POD_STATES: Resource = Resource::of(&kinds::PERSISTENT_POD_STATE);
/// PodUnavailableBudgets.
pub const POD_UNAVAILABLE_BUDGETS: Resource = Resource::of(&kinds::POD_UNAVAILABLE_BUDGET);
/// DistributedPodDisruptionBudgets.
pub const DISTRIBUTED_POD_DISRUPTION_BUDGETS: Resource =
    Resource::of(&kinds::DISTRIBUTED_POD_DISRUPTION_BUDGET);
/// Kubernetes' own budgets.
pub const POD_DISRUPTION_BUDGETS: Resource = Resource::new(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
);
/// SidecarSets.
pub const SIDECAR_SETS: Resource = Resource::of(&kinds::SIDECAR_SET);
/// Advanced DaemonSets.
pub const DAEMON_SETS: Resource = Resource::of(&kinds::DAEMON_SET);
/// NodeImages.
pub const NODE_IMAGES: Resource = Resource::of(&kinds::NODE_IMAGE);
/// ContainerRecreateRequests.
pub const CONTAINER_RECREATE_REQUESTS: Resource = Resource::of(&kinds::CONTAINER_RECREATE_REQUEST);
/// ImageListPullJobs.
pub const IMAGE_LIST_PULL_JOBS: Resource = Resource::of(&kinds::IMAGE_LIST_PULL_JOB);
/// ImagePullJobs.
pub const IMAGE_PULL_JOBS: Resource = Resource::of(&kinds::IMAGE_PULL_JOB);

impl Resource {
    /// A namespaced resource.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            plural,
            kind,
            namespaced: true,
        }
    }

    /// Objects of one of Berth's kinds, in the stored version.
    pub const fn of(kind: &Kind) -> Self {
        let Kind {
            group,
            stored,
            plural,
            kind,
            namespaced,
            ..
        } = *kind;
        Self {
            group,
            version: stored.name(),
            plural,
            kind,
            namespaced,
        }
    }

    /// The same resource, cluster-scoped.
    pub const fn cluster_scoped(self) -> Self {
        Self {
            namespaced: false,
            ..self
        }
    }

    /// The kind as owner references name it.
    pub const fn owner_kind(&self) -> OwnerKind {
        OwnerKind {
            group: self.group,
            kind: self.kind,
            namespaced: self.namespaced,
        }
    }

    /// `v1`, `apps/v1`, ….
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of all objects of a namespace, or of all namespaces if it is empty.
    ///
    /// # Errors
    /// The namespace is no DNS label: as part of a path it could ask for something else.
    pub fn collection(&self, namespace: &str) -> Result<String, InvalidName> {
        let root = if self.group.is_empty() {
            "/api"
        } else {
            "/apis/"
        };
        let (group, version, plural) = (self.group, self.version, self.plural);
        Ok(if self.namespaced && !namespace.is_empty() {
            let namespace = Namespace::parse(namespace)?;
            format!("{root}{group}/{version}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}{group}/{version}/{plural}")
        })
    }

    /// The collection with these parameters, but for empty ones.
    ///
    /// # Errors
    /// As for [`Self::collection`].
    pub fn list(
        &self,
        namespace: &str,
        parameters: &[(&str, &str)],
    ) -> Result<String, InvalidName> {
        let path = format!("{}?", self.collection(namespace)?);
        let query_at = path.len();
        let mut uri = form_urlencoded::Serializer::for_suffix(path, query_at);
        uri.extend_pairs(parameters.iter().filter(|(_, value)| !value.is_empty()));
        Ok(uri.finish())
    }

    /// The path of one object.
    ///
    /// # Errors
    /// The namespace is no DNS label, or the name no DNS subdomain: in a path they could name
    /// another resource.
    pub fn path(&self, namespace: &str, name: &str) -> Result<String, InvalidName> {
        Ok(format!(
            "{}/{}",
            self.collection(namespace)?,
            Name::parse(name)?
        ))
    }
}

/// The kind, as messages name it.
impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.kind)
    }
}

#[cfg(test)]
mod tests;
