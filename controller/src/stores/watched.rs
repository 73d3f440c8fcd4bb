//! The objects that the controller watches, in the form that the stores hold: our kinds, whose own
//! files say how each is kept, and Kubernetes' own.

use std::sync::Arc;

use berth_api::names::label;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_runtime::object::owner_key;
use berth_runtime::store::{Index, pods};
use berth_runtime::{Object, Owned, Resource, Store, object};
use berth_workload::budget::native::NativeBudget;
use berth_workload::objects::claim::Claim;
use berth_workload::objects::namespace::Namespace;
use berth_workload::objects::node::Node;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::owner::{self, Reference};
use berth_workload::objects::pod::{self, Metadata, Owner, Pod};
use berth_workload::objects::untyped_workload::stateful::StatefulWorkload;
use berth_workload::objects::untyped_workload::{UntypedWorkload, is_united};
use berth_workload::update::revision::{self, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};

use crate::stores::configuration::Configuration;
use crate::stores::read::Read;

/// An object in a store, shared with the snapshots that are made of it.
#[derive(Debug)]
pub(crate) struct Watched<T>(pub(crate) Arc<T>);

/// A kind that is watched.
pub(crate) trait Kind: DeserializeOwned + Send + Sync + 'static {
    /// Where it is served.
    const RESOURCE: Resource;

    /// Namespace, name, uid and resource version; empty where missing.
    fn identity(&self) -> [&str; 4];
    /// It is being deleted.
    fn terminating(&self) -> bool;

    /// Removes the fields that no decision reads, if the type has more.
    ///
    /// # Errors
    /// The rest exceeds a bound.
    fn slim(&mut self) -> Result<(), String> {
        Ok(())
    }
}

impl<'de, T: Kind> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = T::deserialize(deserializer)?;
        object.slim().map_err(D::Error::custom)?;
        Ok(Self(Arc::new(object)))
    }
}

impl<T: Kind> Object for Watched<T> {
    const RESOURCE: Resource = T::RESOURCE;

    fn namespace(&self) -> &str {
        self.0.identity()[0]
    }
    fn name(&self) -> &str {
        self.0.identity()[1]
    }
    fn uid(&self) -> &str {
        self.0.identity()[2]
    }
    fn resource_version(&self) -> &str {
        self.0.identity()[3]
    }
    fn terminating(&self) -> bool {
        self.0.terminating()
    }
}

fn identity(metadata: &ObjectMeta) -> [&str; 4] {
    [
        &metadata.namespace,
        &metadata.name,
        &metadata.uid,
        &metadata.resource_version,
    ]
    .map(|part| part.as_deref().unwrap_or_default())
}

/// The workload of a kind of ours that manages an object of this plural, if one does.
fn managing_workload<'a>(metadata: &'a Metadata, plural: &str) -> Option<Reference<'a>> {
    metadata
        .controller()
        .map(Reference::from)
        .filter(|reference| owner::is_owner_of(reference, plural))
}

/// Does a workload that the store has manage the object? In the object's namespace, with the uid
/// that the owner reference names.
pub(crate) fn is_managed<T: Object>(workloads: &Store<T>, metadata: &Metadata) -> bool {
    let Some(reference) = metadata.controller().map(Reference::from) else {
        return false;
    };
    let workload = workloads.get(&metadata.namespace, reference.name);
    workload.is_some_and(|workload| owner_key(&*workload).owns(&metadata.namespace, &reference))
}

impl Owned for Watched<Revision> {
    fn owner(&self) -> Option<Reference<'_>> {
        managing_workload(&self.0.metadata, object::CONTROLLER_REVISIONS.plural)
    }
}

/// The workload that manages the claim, else the pod with which it is deleted.
impl Owned for Watched<Claim> {
    fn owner(&self) -> Option<Reference<'_>> {
        let mut owners = self.0.metadata.owner_references.iter().map(Reference::from);
        managing_workload(&self.0.metadata, object::CLAIMS.plural)
            .or_else(|| owners.find(|reference| owner::POD.is_of(reference)))
    }
}

/// A kind of ours. Its controller's file implements this for its type.
pub(crate) trait CustomResource:
    kube::Resource + DeserializeOwned + Send + Sync + 'static
{
    /// Where it is served.
    const RESOURCE: Resource;
}

impl<T: CustomResource> Kind for T {
    const RESOURCE: Resource = <T as CustomResource>::RESOURCE;

    fn identity(&self) -> [&str; 4] {
        identity(self.meta())
    }
    fn terminating(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
    fn slim(&mut self) -> Result<(), String> {
        pod::slim(self.meta_mut())
    }
}

macro_rules! slim {
    ($kind:ty, $resource:expr) => {
        impl Kind for $kind {
            const RESOURCE: Resource = $resource;

            fn identity(&self) -> [&str; 4] {
                let metadata = &self.metadata;
                [
                    &metadata.namespace,
                    &metadata.name,
                    &metadata.uid,
                    &metadata.resource_version,
                ]
                .map(|part| &**part)
            }
            fn terminating(&self) -> bool {
                self.metadata.deletion_timestamp.is_some()
            }
        }
    };
}

slim!(Revision, object::CONTROLLER_REVISIONS);
slim!(Claim, object::CLAIMS);
slim!(Node, object::NODES);
slim!(NodeImage, object::NODE_IMAGES);
slim!(Namespace, object::NAMESPACES);
slim!(StatefulWorkload, object::NATIVE_STATEFUL_SETS);
slim!(NativeBudget, object::POD_DISRUPTION_BUDGETS);
slim!(Configuration, object::CONFIG_MAPS);

impl Read for Pod {
    fn store() -> Arc<Store<Self>> {
        Store::with_owners(&[
            pods::BY_NODE,
            pods::BY_NAMESPACE,
            pods::ORPHANS,
            pods::BY_DAEMON_SET,
        ])
    }
}

/// By the uid of a SidecarSet: its revisions. The SidecarSet is in no namespace, and its revisions
/// are in the controller's.
const REVISIONS_OF_SIDECAR_SETS: Index<Watched<Revision>> = Index::new("sidecarsets", |revision| {
    managing_set(&revision.0.metadata).map(|owner| &*owner.uid)
});

/// The SidecarSet's revisions in this namespace, sorted oldest first.
pub(crate) fn sidecar_set_revisions(
    revisions: &Store<Watched<Revision>>,
    set: &Watched<SidecarSet>,
    own_namespace: &str,
) -> Vec<Arc<Revision>> {
    let of_set = revisions.by_index(&REVISIONS_OF_SIDECAR_SETS, set.uid());
    let here = of_set
        .iter()
        .filter(|revision| revision.namespace() == own_namespace);
    let mut revisions: Vec<_> = here.map(|revision| revision.0.clone()).collect();
    revision::sort(&mut revisions);
    revisions
}

/// The SidecarSet that manages the object, if one does.
pub(crate) fn managing_set(metadata: &Metadata) -> Option<&Owner> {
    metadata.controller().filter(|owner| {
        object::SIDECAR_SETS
            .owner_kind()
            .is_of(&Reference::from(*owner))
    })
}

impl Read for Watched<Revision> {
    fn store() -> Arc<Store<Self>> {
        Store::with_owners(&[ORPHANED_REVISIONS, REVISIONS_OF_SIDECAR_SETS])
    }

    /// Revisions of other workloads are not kept: each workload has as many as ten. Revisions
    /// without a controller are kept, because they may be adopted.
    fn is_kept(&self) -> bool {
        self.owner().is_some()
            || has_no_controller(&self.0.metadata)
            || managing_set(&self.0.metadata).is_some()
    }
}

/// All claims, of any owner: a StatefulSet knows its pods' claims by their names alone.
impl Read for Watched<Claim> {
    fn store() -> Arc<Store<Self>> {
        Store::with_owners(&[ORPHANED_CLAIMS])
    }
}

impl Read for Watched<Node> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[])
    }
}

impl Read for Watched<StatefulWorkload> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[SUBSET_NATIVE_SETS])
    }
}

impl Kind for UntypedWorkload {
    const RESOURCE: Resource = object::DEPLOYMENTS;

    fn identity(&self) -> [&str; 4] {
        identity(&self.metadata)
    }
    fn terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Deployments; only those of subsets are kept.
impl Read for Watched<UntypedWorkload> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[SUBSET_DEPLOYMENTS])
    }

    fn is_kept(&self) -> bool {
        let is_orphan = || owner::controller(&self.0.metadata).is_none();
        is_united(&self.0.metadata) || self.0.label(label::SUBSET_NAME).is_some() && is_orphan()
    }
}

impl Read for Watched<NodeImage> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[])
    }
}

impl Read for Watched<Namespace> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[])
    }
}

impl Read for Watched<NativeBudget> {
    fn store() -> Arc<Store<Self>> {
        Store::new(&[by_namespace()])
    }
}

/// Objects by namespace.
pub(crate) const fn by_namespace<T: Kind>() -> Index<Watched<T>> {
    Index::new("namespace", |object| Some(object.namespace()))
}

/// By namespace: revisions without a controller.
pub(crate) const ORPHANED_REVISIONS: Index<Watched<Revision>> = Index::new("orphans", |revision| {
    has_no_controller(&revision.0.metadata).then(|| revision.namespace())
});
/// By namespace: claims of CloneSets' pods that neither a workload nor a pod owns.
pub(crate) const ORPHANED_CLAIMS: Index<Watched<Claim>> = Index::new("orphans", |claim| {
    let metadata = &claim.0.metadata;
    let is_of_clone_set = metadata.label(label::CLONESET_INSTANCE_ID).is_some();
    (is_of_clone_set && claim.owner().is_none() && has_no_controller(metadata))
        .then(|| claim.namespace())
});

/// CloneSets with a subset's name, by namespace.
pub(crate) const SUBSET_CLONE_SETS: Index<Watched<CloneSet>> =
    Index::new("subsets", |set| namespace_of_subset(&set.0.metadata));
/// Advanced StatefulSets with a subset's name, by namespace.
pub(crate) const SUBSET_STATEFUL_SETS: Index<Watched<StatefulSet>> =
    Index::new("subsets", |set| namespace_of_subset(&set.0.metadata));
/// Kubernetes' StatefulSets with a subset's name, by namespace.
pub(crate) const SUBSET_NATIVE_SETS: Index<Watched<StatefulWorkload>> =
    Index::new("subsets", |set| {
        set.0
            .subset
            .as_ref()
            .and_then(|set| namespace_of_subset(&set.metadata))
    });
/// Deployments with a subset's name, by namespace.
pub(crate) const SUBSET_DEPLOYMENTS: Index<Watched<UntypedWorkload>> =
    Index::new("subsets", |deployment| {
        namespace_of_subset(&deployment.0.metadata)
    });

/// The namespace of a subset's workload, or of another object with a subset's name.
pub(crate) fn namespace_of_subset(metadata: &ObjectMeta) -> Option<&str> {
    let has_name = || {
        metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.contains_key(label::SUBSET_NAME))
    };
    metadata
        .namespace
        .as_deref()
        .filter(|_| is_united(metadata) || has_name())
}

fn has_no_controller(metadata: &Metadata) -> bool {
    metadata.controller().is_none()
}

#[cfg(test)]
mod tests;
