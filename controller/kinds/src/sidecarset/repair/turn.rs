//! The turns of repair: which pod is replaced next.

use berth_api::v1beta1::sidecarset::SidecarSetRepair;
use berth_workload::objects::pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

use super::super::Snapshot;
use super::super::names::REPAIR;
use super::audit::Lack;
use super::how::How;

/// How long after a refusal repair tries the next pod.
pub(in crate::sidecarset) const REFUSED: SignedDuration = SignedDuration::from_secs(10);

/// Which pods are to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sidecarset) enum Scope {
    /// None.
    None,
    /// Those that were missed.
    Missed,
    /// All that lack something.
    All,
}

impl Scope {
    pub(in crate::sidecarset) fn of(snapshot: &Snapshot) -> Self {
        let annotations = snapshot.set.metadata.annotations.as_ref();
        match annotations
            .and_then(|all| all.get(REPAIR))
            .map(String::as_str)
        {
            Some("Missed") => Self::Missed,
            Some("All") => Self::All,
            _ => Self::None,
        }
    }

    pub(in crate::sidecarset) fn has(self, lack: Lack) -> bool {
        self == Self::All || (self == Self::Missed && lack == Lack::Missed)
    }
}

/// The next turn of repair.
#[derive(Debug)]
pub(in crate::sidecarset) enum Turn<'a> {
    /// The SidecarSet does not ask for repair.
    Off,
    /// No pod that repair could replace lacks anything. The values: one pod that repair leaves
    /// alone, with the reason, and the record that is kept.
    Idle(Option<String>, Option<SidecarSetRepair>),
    /// No turn begins or continues, for this reason.
    Waits(String),
    /// The turn begins after this time, because the workload has just created another pod.
    Soon(SignedDuration),
    /// The turn begins with this record.
    Begins(&'a Arc<Pod>, SidecarSetRepair),
    /// The turn has begun: the pod is replaced in this way.
    Replaces(&'a Arc<Pod>, Lack, How),
    /// The pod was replaced, and the successor is not proven yet. The pod itself ends after this
    /// time at the latest, if it still exists.
    UnderWay(String, Option<SignedDuration>),
    /// The pod was replaced, and its workload owes a successor since this time. Repair waits for it
    /// for this long.
    Missing(String, Timestamp, SignedDuration),
    /// Repair has waited for the successor long enough.
    Lost(String),
    /// The successor would lack the containers, so the pod stays, and another one is next.
    Fruitless(String),
    /// The turn is over.
    Over,
    /// The successor lacks the containers, too: repair takes no other pod of the workload.
    Stops(String),
    /// The same happened in several namespaces: repair takes only pods of these workloads, and
    /// those later.
    Stopped(String),
}

pub(super) fn record(snapshot: &Snapshot) -> Option<&SidecarSetRepair> {
    snapshot.set.status.as_ref()?.repair.as_ref()
}

/// The pods of a workload, including those that a canary takes.
pub(super) fn pods_of<'a>(
    snapshot: &'a Snapshot,
    namespace: &'a str,
    uid: &'a str,
) -> impl Iterator<Item = &'a Arc<Pod>> {
    let all = snapshot.pods.iter().chain(snapshot.taken.values());
    all.filter(move |pod| is_of(pod, namespace, uid))
}

pub(super) fn owner(pod: &Pod) -> &str {
    pod.metadata.controller().map_or("", |owner| &owner.uid)
}

pub(super) fn is_of(pod: &Pod, namespace: &str, uid: &str) -> bool {
    *pod.metadata.namespace == *namespace && owner(pod) == uid
}

/// Whether the pod came after one of this name: it has the name, or it is younger than the newest
/// pod of the workload was.
pub(super) fn is_later(pod: &Pod, name: &str, newest: Option<Timestamp>) -> bool {
    *pod.metadata.name == *name || pod.metadata.creation_timestamp > newest
}
