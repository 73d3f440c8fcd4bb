//! SidecarSet: containers that pods get when they are created, and that are updated in place
//! afterwards.
//!
//! The form of a pod is a pure function of the pod, as untyped JSON, and of the SidecarSets that
//! match it ([`inject`]). Applied to its own result, the function changes nothing. A pod records
//! its containers by two hashes of the SidecarSet ([`history::hash`]). They equal OpenKruise's to
//! the byte, so that neither takes the other's pods for outdated.

mod decide;
pub mod history;
pub mod inject;
pub mod names;
mod on_pod;
pub mod records;
pub mod repair;
pub mod sidecar;
mod status;
mod update;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::sidecarset::{
    SidecarSet, SidecarSetCondition, SidecarSetUpdateStrategyType,
};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::pod::Pod;
use berth_workload::update::revision::Revision;
use jiff::Timestamp;

pub use decide::{annotations_to_read, decide, keeps_annotations};
pub use history::hash::{Hashes, hashes};
pub use history::wanted::{Wanted, base_of, wanted, without_bases};
pub use inject::faults::faults;
pub use on_pod::{has_container, is_injected};
pub use status::condition::{forget, speaks_of, spoken_of};
pub use status::events::{blocked_event, pod_events};
pub use status::reach::{LeftOut, Reach};
pub use status::status;
pub use update::turns::Turns;

/// All that a decision about one SidecarSet reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The SidecarSet.
    pub set: Arc<SidecarSet>,
    /// Its hashes.
    pub hashes: Hashes,
    /// The pods that its selectors match, without those into which no webhook ever injects.
    pub pods: Vec<Arc<Pod>>,
    /// By uid: pods that it selects, and that a canary would take if they were created now. Those
    /// that have its own containers are among `pods`, too.
    pub taken: BTreeMap<Box<str>, Arc<Pod>>,
    /// By namespace of the pods: when the labels were written by which it selects the namespace, if
    /// that was later than the namespace's creation.
    pub labelled: BTreeMap<Box<str>, Timestamp>,
    /// Pods that it does not select, and whose condition names it ([`speaks_of`]).
    pub strangers: Vec<Arc<Pod>>,
    /// The pod that its status names as being replaced, regardless of the pod's present labels.
    pub repaired: Option<Arc<Pod>>,
    /// Its revisions, sorted oldest first ([`berth_workload::update::revision::sort`]).
    pub revisions: Vec<Arc<Revision>>,
    /// By node name: what the daemons report, for the nodes of the pods.
    pub node_images: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// Its ImagePullJobs; `None` if the apiserver does not serve that kind.
    pub jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// Feature gates.
    pub gates: Gates,
    /// Annotations of its patchPodMetadata that administrators allow.
    pub allowed: BTreeSet<String>,
    /// By uid: annotations of the pods that are updated next, if their new annotations depend on
    /// them ([`annotations_to_read`]).
    pub annotations: BTreeMap<Box<str>, BTreeMap<String, String>>,
    /// The controller's namespace, which holds the revisions.
    pub own_namespace: String,
    /// The namespaces that it selects.
    pub reach: Reach,
    /// Whether the apiserver calls the webhook for new pods.
    pub injection_calls: InjectionCalls,
    /// The reason why the successor of the pod under repair would lack the containers, by a dry run
    /// of its creation.
    pub fruitless: Option<String>,
    /// The turns so far, and the pods whose last change failed.
    pub turns: Arc<Turns>,
    /// By uid: the pods that cannot be read in the version that they have now, each with the cause.
    /// The other fields have the version that the controller read last.
    pub unreadable: BTreeMap<Box<str>, String>,
}

/// Whether the apiserver calls the webhook for new pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InjectionCalls {
    /// A dry run of a pod's creation reached a replica, which answered.
    Yes,
    /// The apiserver has no webhook configuration yet.
    NotYet,
    /// Dry runs fail repeatedly, with this cause.
    Unanswered(String),
    /// No dry run has succeeded yet, and too few have failed.
    Unknown,
    /// No replica serves the webhook.
    Never,
}

impl InjectionCalls {
    /// The value that the status records, for a program that only reads.
    pub fn from_status(set: &SidecarSet) -> Self {
        let conditions = set.status.iter().flat_map(|status| &status.conditions);
        let is_ready = |known: &SidecarSetCondition| {
            known.type_ == names::INJECTION_READY && known.status == "True"
        };
        if conditions.into_iter().any(is_ready) {
            Self::Yes
        } else {
            Self::Unknown
        }
    }
}

impl Snapshot {
    pub(crate) fn name(&self) -> &str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether the SidecarSet updates pods that have the containers.
    pub(crate) fn updates(&self) -> bool {
        self.set.spec.update_strategy.type_ == SidecarSetUpdateStrategyType::RollingUpdate
    }
}
