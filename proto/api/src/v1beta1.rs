//! The stored version.

pub mod broadcastjob;
pub mod cloneset;
pub mod containerrecreaterequest;
pub mod daemonset;
pub mod imagelistpulljob;
pub mod imagepulljob;
pub mod nodeimage;
pub mod persistentpodstate;
pub mod podunavailablebudget;
pub mod sidecarset;
pub mod statefulset;
pub mod uniteddeployment;

pub use broadcastjob::BroadcastJob;
pub use cloneset::CloneSet;
pub use containerrecreaterequest::ContainerRecreateRequest;
pub use daemonset::DaemonSet;
pub use imagelistpulljob::ImageListPullJob;
pub use imagepulljob::ImagePullJob;
pub use nodeimage::NodeImage;
pub use persistentpodstate::PersistentPodState;
pub use podunavailablebudget::PodUnavailableBudget;
pub use sidecarset::SidecarSet;
pub use statefulset::StatefulSet;
pub use uniteddeployment::UnitedDeployment;
