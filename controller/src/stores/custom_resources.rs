//! The stores of our kinds: where a kind is served, and by which keys its objects are found.

use std::sync::Arc;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1beta1::broadcastjob::BroadcastJob;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_api::v1beta1::imagelistpulljob::ImageListPullJob;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_api::v1beta1::statefulset::StatefulSet;
use berth_api::v1beta1::uniteddeployment::UnitedDeployment;
use berth_api::v1beta1::{ContainerRecreateRequest, PodUnavailableBudget};
use berth_kinds::broadcastjob::BROADCAST_JOBS;
use berth_kinds::uniteddeployment::UNITED_DEPLOYMENTS;
use berth_runtime::{Index, Object, Owned, Resource, Store, object};
use berth_workload::images::prepull;
use berth_workload::objects::owner::{self, Reference};
use berth_workload::objects::resource;

use crate::stores::read::Read;
use crate::stores::watched::{
    CustomResource, SUBSET_CLONE_SETS, SUBSET_STATEFUL_SETS, Watched, by_namespace,
};

macro_rules! stores {
    ($($kind:ty: $resource:expr, $make:ident [$($index:expr),*];)*) => {$(
        impl CustomResource for $kind {
            const RESOURCE: Resource = $resource;
        }

        impl Read for Watched<$kind> {
            fn store() -> Arc<Store<Self>> {
                Store::$make(&[$($index),*])
            }
        }
    )*};
}

stores! {
    BroadcastJob: BROADCAST_JOBS, new [];
    CloneSet: object::CLONE_SETS, new [by_namespace(), PREPULLED_CLONE_SETS, SUBSET_CLONE_SETS];
    ContainerRecreateRequest: resource::CONTAINER_RECREATE_REQUESTS, new [REQUESTS_BY_POD];
    DaemonSet: object::DAEMON_SETS, new [by_namespace(), PREPULLED_DAEMON_SETS];
    DistributedPodDisruptionBudget: resource::DISTRIBUTED_POD_DISRUPTION_BUDGETS,
        new [by_namespace()];
    ImageListPullJob: resource::IMAGE_LIST_PULL_JOBS, new [];
    ImagePullJob: resource::IMAGE_PULL_JOBS, with_owners [JOBS_OF_SIDECAR_SETS];
    PersistentPodState: object::PERSISTENT_POD_STATES, new [STATES_BY_TARGET, by_namespace()];
    PodUnavailableBudget: resource::POD_UNAVAILABLE_BUDGETS, new [by_namespace()];
    SidecarSet: object::SIDECAR_SETS, new [];
    StatefulSet: object::STATEFUL_SETS, new [SUBSET_STATEFUL_SETS];
    UnitedDeployment: UNITED_DEPLOYMENTS, new [by_namespace()];
}

/// The only key of `PREPULLED_CLONE_SETS` and `PREPULLED_DAEMON_SETS`.
pub(crate) const PREPULLED: &str = "true";
/// CloneSets whose images are pulled by nodes that join.
pub(crate) const PREPULLED_CLONE_SETS: Index<Watched<CloneSet>> = Index::new("prepulled", |set| {
    prepull::is_requested(&set.0.metadata).then_some(PREPULLED)
});
/// DaemonSets whose images are pulled by nodes that join.
pub(crate) const PREPULLED_DAEMON_SETS: Index<Watched<DaemonSet>> =
    Index::new("prepulled", |set| {
        prepull::is_requested(&set.0.metadata).then_some(PREPULLED)
    });

/// ContainerRecreateRequests by the name of their pod, in all namespaces.
const REQUESTS_BY_POD: Index<Watched<ContainerRecreateRequest>> =
    Index::new("pod", |request| Some(&*request.0.spec.pod_name));

/// The ContainerRecreateRequests that name the pod.
pub(crate) fn requests_of_pod(
    requests: &Store<Watched<ContainerRecreateRequest>>,
    namespace: &str,
    pod: &str,
) -> Vec<Arc<ContainerRecreateRequest>> {
    let of_name = requests.by_index(&REQUESTS_BY_POD, pod);
    let of_pod = of_name
        .iter()
        .filter(|request| request.namespace() == namespace);
    of_pod.map(|request| request.0.clone()).collect()
}

/// PersistentPodStates by the name of their workload, in all namespaces.
pub(crate) const STATES_BY_TARGET: Index<Watched<PersistentPodState>> =
    Index::new("target", |state| Some(&*state.0.spec.target_ref.name));

/// ImagePullJobs by the uid of their SidecarSet.
pub(crate) const JOBS_OF_SIDECAR_SETS: Index<Watched<ImagePullJob>> =
    Index::new("sidecarsets", |job| {
        let owner = job.owner()?;
        object::SIDECAR_SETS
            .owner_kind()
            .is_of(&owner)
            .then_some(owner.uid)
    });

impl Owned for Watched<ImagePullJob> {
    fn owner(&self) -> Option<Reference<'_>> {
        owner::controller(&self.0.metadata)
    }
}
