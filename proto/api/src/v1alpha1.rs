//! The version of older manifests. What is the same in [`crate::v1beta1`] is taken from there.

pub mod cloneset;
pub mod daemonset;
pub mod distributedpoddisruptionbudget;
pub mod nodeimage;
pub mod persistentpodstate;
pub mod sidecarset;
pub mod uniteddeployment;

pub use crate::v1beta1::{
    BroadcastJob, ContainerRecreateRequest, ImageListPullJob, ImagePullJob, NodeImage,
    PodUnavailableBudget, StatefulSet, broadcastjob, containerrecreaterequest, imagelistpulljob,
    imagepulljob, podunavailablebudget, statefulset,
};
pub use cloneset::CloneSet;
pub use daemonset::DaemonSet;
pub use distributedpoddisruptionbudget::DistributedPodDisruptionBudget;
pub use persistentpodstate::PersistentPodState;
pub use sidecarset::SidecarSet;
pub use uniteddeployment::UnitedDeployment;
