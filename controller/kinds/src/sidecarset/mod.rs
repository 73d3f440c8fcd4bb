//! SidecarSet: containers that pods get when they are created, and that are updated in place afterwards.
//!
//! What a pod gets is a pure function of the pod, as untyped JSON, and of the SidecarSets that match it ([`inject`]).
//! It is called twice for a pod that another webhook changes in between, and then changes nothing. Pods know which
//! containers they have by two hashes of the SidecarSet ([`hash`]), which are OpenKruise's to the byte, so that neither
//! takes the pods of the other for outdated.

mod ahead;
pub mod allowed;
mod audit;
mod blocked;
mod choose;
mod condition;
mod decide;
mod drift;
mod events;
pub mod expression;
mod faults;
pub mod hash;
mod hot;
pub mod inject;
pub mod names;
mod on_pod;
pub mod pattern;
mod pods;
pub mod records;
pub mod refused;
mod repair;
pub mod resources;
mod revisions;
pub mod sidecar;
mod status;
mod wanted;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::sidecarset::{SidecarSet, SidecarSetUpdateStrategyType};
use berth_workload::gates::Gates;
use berth_workload::node::image::NodeImage;
use berth_workload::pod::Pod;
use berth_workload::revision::Revision;
use jiff::Timestamp;

pub use condition::{forget, speaks_of, spoken_of};
pub use decide::{annotations_to_read, decide, keeps_annotations};
pub use events::pod_events;
pub use faults::faults;
pub use hash::{Hashes, hashes};
pub use on_pod::is_injected;
pub use status::status;
pub use wanted::{Wanted, base_of, wanted, without_bases};

/// All that a decision about one SidecarSet reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The SidecarSet.
    pub set: Arc<SidecarSet>,
    /// Its hashes.
    pub hashes: Hashes,
    /// The pods that its selectors match, but for those into which nobody would ever inject.
    pub pods: Vec<Arc<Pod>>,
    /// By uid: pods that it selects, and that a canary would take, were they created now. Those that have its own containers are among
    /// the pods, too.
    pub taken: BTreeMap<Box<str>, Arc<Pod>>,
    /// By namespace of the pods: when labels were written by which it selects the namespace, where that was later than the namespace.
    pub labelled: BTreeMap<Box<str>, Timestamp>,
    /// Pods that it does not select, and whose condition speaks of it ([`speaks_of`]).
    pub strangers: Vec<Arc<Pod>>,
    /// The pod that its status says is replaced, whatever its labels are by now.
    pub repaired: Option<Arc<Pod>>,
    /// Its revisions, sorted oldest first ([`berth_workload::revision::sort`]).
    pub revisions: Vec<Arc<Revision>>,
    /// By node name: what the daemons report, for the nodes of the pods.
    pub node_images: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// Its ImagePullJobs; `None` where that kind is not served.
    pub jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// What is turned on.
    pub gates: Gates,
    /// Annotations of its patchPodMetadata that administrators allow.
    pub allowed: BTreeSet<String>,
    /// By uid: annotations of the pods that are updated next, where these count for what they become ([`annotations_to_read`]).
    pub annotations: BTreeMap<Box<str>, BTreeMap<String, String>>,
    /// The controller's namespace, where revisions are.
    pub own_namespace: String,
    /// Does the apiserver ask for the pods that are created?
    pub asked: Asked,
}

/// Does the apiserver ask for the pods that are created?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It does.
    Yes,
    /// It was not told to yet.
    NotYet,
    /// This replica has led too short to know.
    Unknown,
    /// Nobody injects.
    Never,
}

impl Snapshot {
    pub(crate) fn name(&self) -> &str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }

    /// Pods that have the containers are changed.
    pub(crate) fn updates(&self) -> bool {
        self.set.spec.update_strategy.type_ == SidecarSetUpdateStrategyType::RollingUpdate
    }
}
