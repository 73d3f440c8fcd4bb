//! The version of older manifests. What is the same in [`crate::v1beta1`] is taken from there.

pub mod cloneset;
pub mod containerrecreaterequest;
pub mod daemonset;
pub mod distributedpoddisruptionbudget;
pub mod nodeimage;
pub mod persistentpodstate;
pub mod podunavailablebudget;
pub mod sidecarset;
pub mod uniteddeployment;

pub use crate::v1beta1::{
    BroadcastJob, ImageListPullJob, ImagePullJob, StatefulSet, broadcastjob, imagelistpulljob,
    imagepulljob, statefulset,
};
pub use cloneset::CloneSet;
pub use containerrecreaterequest::ContainerRecreateRequest;
pub use daemonset::DaemonSet;
pub use distributedpoddisruptionbudget::DistributedPodDisruptionBudget;
pub use nodeimage::NodeImage;
pub use persistentpodstate::PersistentPodState;
pub use podunavailablebudget::PodUnavailableBudget;
pub use sidecarset::SidecarSet;
pub use uniteddeployment::UnitedDeployment;
