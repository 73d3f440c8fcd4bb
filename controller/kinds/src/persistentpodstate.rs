//! PersistentPodState: where the pods of a workload ran last.

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
    /// It, if it is there.
    pub state: Option<Arc<PersistentPodState>>,
    /// Its workload.
    pub target: Target,
    /// The workloads of its name, which may ask for it by annotations.
    pub generators: Vec<Generator>,
    /// The pods that its workload controls.
    pub pods: Vec<Arc<Pod>>,
    /// The names, among those of its records, that pods of its namespace have, whosever they are.
    pub present: BTreeSet<String>,
    /// The nodes of those pods and of the records, by name.
    pub nodes: BTreeMap<Box<str>, Arc<Node>>,
    /// By uid of the pod: annotations that it names and the feed does not keep, as they were read when the pod was ready.
    pub annotations: BTreeMap<Box<str>, BTreeMap<String, String>>,
    /// The older one of the same workload: that one counts.
    pub rival: Option<String>,
    /// Why it keeps no records, where its namespace has too many that are older.
    pub beyond: Option<String>,
    /// The one of the workload of another group that had the same kind and name before, such as Kubernetes' own StatefulSet.
    pub predecessor: Option<Arc<PersistentPodState>>,
    /// Who pins pods by the records.
    pub pinning: Pinning,
}

/// The workload of a PersistentPodState.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Target {
    /// Of a kind of which no records are kept.
    #[default]
    Unsupported,
    /// Of a kind of which nothing was seen yet.
    Unseen,
    /// There is none.
    Gone,
    /// It is there. Which ordinals its pods are to have, if its spec can be read.
    Set(Option<Ordinals>),
}

/// Who pins pods of the workload by their records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pinning {
    /// The controller that makes them.
    #[default]
    AtCreation,
    /// A MutatingAdmissionPolicy.
    Policy,
    /// The pod webhook, which is called for the workload's pods.
    Webhook,
    /// The pod webhook, which is not called for them yet.
    NotYet,
    /// Nobody: it is turned off.
    Off,
    /// Nobody: the webhook's configuration has no place for such a workload.
    TooMany,
    /// Nobody: neither the policy nor the webhook sees pods of protected namespaces.
    Protected,
}
