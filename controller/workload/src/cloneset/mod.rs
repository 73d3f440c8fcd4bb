//! CloneSet: a number of interchangeable pods, brought to a template one limit at a time.

mod adopt;
mod blocked;
mod claim_hash;
mod claims;
mod decide;
mod hooks;
mod launch;
mod new_pod;
mod overlap;
mod pods_to_delete;
mod predownload;
mod progress;
mod release;
mod resized;
mod revisions;
mod settings;
mod status;
mod unreadable;
mod update;

#[cfg(test)]
mod hooks_tests;
#[cfg(test)]
mod numbers_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod simulation;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod views_tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::NodeImage;

use crate::claim::Claim;
use crate::gates::Gates;
use crate::inplace::exact::NodeFacts;
use crate::inplace::resize::Ability;
use crate::nodeimage::{Node, facts};
use crate::owner::{CLONE_SET, OwnerKey};
use crate::pod::Pod;
use crate::pod::spread::Spread;
use crate::revision::Revision;

pub use adopt::Orphans;
pub use decide::decide;
pub use overlap::overlap;
pub use predownload::{brings_images, waits_for_images};
pub use release::part;
pub use settings::{Settings, settings};
pub use status::status;
pub use unreadable::Unreadable;

/// All that a decision about one CloneSet reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The CloneSet.
    pub set: Arc<CloneSet>,
    /// Every pod that it controls and that its selector matches ([`part`]), those being deleted included.
    pub pods: Vec<Arc<Pod>>,
    /// Those that it controls and that its selector does not match any more.
    pub strays: Vec<Arc<Pod>>,
    /// Claims with an instance id: those that it controls, and those that its pods own.
    pub claims: Vec<Arc<Claim>>,
    /// What nobody controls and a CloneSet of this name may have left.
    pub orphans: Orphans,
    /// Every revision that it controls, sorted oldest first ([`crate::revision::sort`]).
    pub revisions: Vec<Arc<Revision>>,
    /// By node name: what the daemons report, for the nodes of the pods.
    pub nodes: BTreeMap<Box<str>, Arc<NodeImage>>,
    /// Every ImagePullJob that it controls, those being deleted included; `None` where there is no such kind.
    pub jobs: Option<Vec<Arc<ImagePullJob>>>,
    /// Its pods, claims and revisions that exist and cannot be read, by kind and name. The pods among them are in `pods`, too,
    /// as they were last read, if they ever were.
    pub unreadable: Vec<Unreadable>,
    /// Names of the CloneSets of its namespace with which it overlaps ([`overlap`]), sorted.
    pub overlapping: Vec<String>,
    /// By name: the nodes of the pods, where the template says how its pods are spread over them; else empty.
    pub hosts: BTreeMap<Box<str>, Arc<Node>>,
    /// Feature gates.
    pub gates: Gates,
    /// May resources change in place?
    pub resize: Ability,
    /// Where the names of new pods come from: another number for every decision.
    pub seed: u64,
}

/// A CloneSet as the owner of its objects.
pub fn owner_key(set: &CloneSet) -> OwnerKey<'_> {
    let metadata = &set.metadata;
    OwnerKey {
        kind: CLONE_SET,
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
    }
}

impl Snapshot {
    /// Name and namespace, for messages.
    pub fn name(&self) -> String {
        let metadata = &self.set.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
    }

    /// How the pods are to be spread.
    fn spread(&self) -> Spread {
        Spread::new(&self.set.spec.template, &self.hosts)
    }

    /// What the pod's node reports about it; empty where it does not.
    fn facts(&self, pod: &Pod) -> NodeFacts {
        self.nodes.get(&pod.spec.node_name).map(|node| facts(node, &pod.metadata.uid)).unwrap_or_default()
    }
}
