//! Whose turn it is to be replaced.

use berth_api::v1beta1::sidecarset::SidecarSetRepair;
use berth_workload::objects::pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

use super::super::Snapshot;
use super::super::names::REPAIR;
use super::audit::Lack;
use super::how::How;

/// How long after a refusal the next one is asked for.
pub(in crate::sidecarset) const REFUSED: SignedDuration = SignedDuration::from_secs(10);

/// Which pods are to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sidecarset) enum Scope {
    /// None.
    Nobody,
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
            _ => Self::Nobody,
        }
    }

    pub(in crate::sidecarset) fn has(self, lack: Lack) -> bool {
        self == Self::All || (self == Self::Missed && lack == Lack::Missed)
    }
}

/// Whose turn it is.
#[derive(Debug)]
pub(in crate::sidecarset) enum Turn<'a> {
    /// Nobody asks for repair.
    Off,
    /// Nothing that repair could replace lacks anything; of what it leaves alone, one and why; and the record that is kept.
    Idle(Option<String>, Option<SidecarSetRepair>),
    /// No turn begins, or goes on, for this.
    Waits(String),
    /// It begins after this time, for the workload has just made another pod.
    Soon(SignedDuration),
    /// It begins with the record.
    Begins(&'a Arc<Pod>, SidecarSetRepair),
    /// It has begun: this is to be done.
    Replaces(&'a Arc<Pod>, Lack, How),
    /// It is done, and the successor is not proven yet. The pod itself ends after this time at the latest, if it is still there.
    UnderWay(String, Option<SignedDuration>),
    /// It is done, and its workload has something to do since then. For so long it is still waited
    /// for.
    Missing(String, Timestamp, SignedDuration),
    /// It was waited for long enough.
    Lost(String),
    /// The successor would lack the containers, so the pod stays, and another one is next.
    Fruitless(String),
    /// It is over.
    Over,
    /// The successor lacks the containers, too: no other pod of the workload is next.
    Stops(String),
    /// So it is in several namespaces: repair takes no pods but of these workloads, and those
    /// later.
    Stopped(String),
}

pub(super) fn record(snapshot: &Snapshot) -> Option<&SidecarSetRepair> {
    snapshot.set.status.as_ref()?.repair.as_ref()
}

/// The pods of a workload, those that a canary takes among them.
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

/// Did the pod come after one of this name, by its own name or by being younger than the newest of its workload was?
pub(super) fn is_later(pod: &Pod, name: &str, newest: Option<Timestamp>) -> bool {
    *pod.metadata.name == *name || pod.metadata.creation_timestamp > newest
}
