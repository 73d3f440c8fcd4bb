//! The workloads and pods that belong to a UnitedDeployment.

use crate::uniteddeployment::UNITED_DEPLOYMENTS;
use berth_api::names::label::{KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME};
use berth_api::v1beta1::uniteddeployment::Subset;
use berth_workload::objects::owner::{self, OwnerKey};
use berth_workload::objects::pod::Pod;

use crate::uniteddeployment::{Snapshot, SubsetKind, SubsetWorkload, render};

/// Whether the UnitedDeployment controls the workload.
pub(super) fn is_owned(snapshot: &Snapshot, workload: &SubsetWorkload) -> bool {
    let metadata = &snapshot.united.metadata;
    let owner = OwnerKey {
        kind: UNITED_DEPLOYMENTS.owner_kind(),
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
    };
    let namespace = workload
        .object
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default();
    owner::controller(&workload.object.metadata)
        .is_some_and(|reference| owner.owns(namespace, &reference))
}

/// Whether an owned workload belongs to the subset: by its label, or by the name that the
/// controller gives, so that a workload is not lost if a user removes its label.
pub(super) fn is_of_subset(snapshot: &Snapshot, workload: &SubsetWorkload, subset: &str) -> bool {
    workload.object.label(SUBSET_NAME).map_or_else(
        || {
            let metadata = &snapshot.united.metadata;
            let [name, uid] =
                [&metadata.name, &metadata.uid].map(|part| part.as_deref().unwrap_or_default());
            workload.name() == render::name(name, uid, subset, workload.kind, 0)
        },
        |label| label == subset,
    )
}

/// Whether the pod belongs to an earlier workload of the subset, and one of both workloads has pods
/// with identities.
pub(super) fn is_leftover(
    snapshot: &Snapshot,
    subset: &Subset,
    kind: SubsetKind,
    pod: &Pod,
) -> bool {
    let revision = pod
        .metadata
        .label(KRUISE_CONTROLLER_REVISION_HASH)
        .unwrap_or_default();
    let of_stateful = || {
        pod.metadata
            .controller()
            .is_some_and(|owner| *owner.kind == *"StatefulSet")
    };
    pod.metadata.label(SUBSET_NAME) == Some(&subset.name)
        && snapshot
            .revisions
            .iter()
            .any(|one| *one.metadata.name == *revision)
        && !pod.has_finished()
        && (kind.is_stateful() || of_stateful())
}
