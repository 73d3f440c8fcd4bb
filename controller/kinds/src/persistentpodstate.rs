//! PersistentPodState: the places where the pods of a workload ran last.

mod decide;
mod explain;
mod generate;
mod moved;
mod records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::persistentpodstate::PersistentPodState;
use berth_workload::objects::node::Node;
use berth_workload::objects::ordinals::Ordinals;
use berth_workload::objects::pod::Pod;

pub use decide::decide;
pub use explain::explain;
pub use generate::Generator;
pub use records::{LONGEST_ANNOTATION, is_outside, status, wanted_annotations};

/// All that a decision about one PersistentPodState reads.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The PersistentPodState, if it exists.
    pub state: Option<Arc<PersistentPodState>>,
    /// Its workload.
    pub target: Target,
    /// The workloads of its name, which may ask for a PersistentPodState by annotations.
    pub generators: Vec<Generator>,
    /// The pods that its workload controls.
    pub pods: Vec<Arc<Pod>>,
    /// The pod names in its records that exist in its namespace, regardless of the pods' owners.
    pub present: BTreeSet<String>,
    /// The nodes of those pods and of the records, by name.
    pub nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// By uid of the pod: annotations that the spec names and the cache does not keep, as the
    /// controller read them when the pod was ready.
    pub annotations: BTreeMap<Box<str>, BTreeMap<String, String>>,
    /// The name of an older PersistentPodState for the same workload: the older one counts.
    pub rival: Option<String>,
    /// The reason why it keeps no records, if too many in its namespace are older.
    pub beyond: Option<String>,
    /// The PersistentPodState for the workload that had the same kind and name before in another
    /// group, such as Kubernetes' own StatefulSet.
    pub predecessor: Option<Arc<PersistentPodState>>,
    /// The component that pins pods by the records.
    pub pinning: Pinning,
}

/// The workload of a PersistentPodState.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Target {
    /// Its kind is one for which no records are kept.
    #[default]
    Unsupported,
    /// The controller has not listed its kind yet.
    Unseen,
    /// It does not exist.
    Gone,
    /// It exists. The value has the ordinals that its pods must have, if its spec can be read.
    Set(Option<Ordinals>),
}

/// The component that pins pods of the workload by their records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pinning {
    /// The controller that creates the pods.
    #[default]
    AtCreation,
    /// A MutatingAdmissionPolicy.
    Policy,
    /// The pod webhook, which is called for the workload's pods.
    Webhook,
    /// The pod webhook, which is not called for them yet.
    NotYet,
    /// None: pinning is turned off.
    Off,
    /// None: the webhook's configuration has no space for another such workload.
    TooMany,
    /// None: neither the policy nor the webhook sees pods of protected namespaces.
    Protected,
}
