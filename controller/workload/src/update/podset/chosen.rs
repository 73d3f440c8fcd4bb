//! The pods that a kind has chosen to be updated.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;

use super::Uids;
use super::way::{Way, Ways};
use crate::objects::pod::Pod;
use crate::update::revision::Revision;
use crate::update::rollout::Repair;

/// Why the update of a pod is held back, and for how long at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// In words.
    pub reason: String,
    /// After this time it is held back no longer.
    pub left: SignedDuration,
}

/// The pods to update, in order.
pub struct Chosen {
    /// Where they are brought.
    pub(super) target: Arc<Revision>,
    /// That is back to where they came from: the partition was raised.
    pub(super) back: bool,
    /// Those whose turn it is.
    pub(super) now: Vec<Arc<Pod>>,
    /// The uids of those that can get there.
    uids: Uids,
    /// How pods get there.
    pub(super) ways: Ways,
    /// Those of them that wait for something of their own.
    pub(super) held: BTreeMap<Box<str>, Held>,
    /// Those whose turn comes later.
    pub(super) later: Vec<Arc<Pod>>,
    /// The pod that those wait for, in place of maxUnavailable.
    pub(super) first: Option<String>,
    /// Their uids.
    uids_later: Uids,
    /// Why broken pods wait too, if they do.
    pub(super) repair: Repair,
    /// Those that are not brought there.
    pub(super) staying: Vec<Arc<Pod>>,
    /// Why not.
    pub(super) stay: &'static str,
}

impl Chosen {
    /// Those to bring to `target` now, in order. Of those that cannot go on none is left halfway.
    pub fn new(target: Arc<Revision>, ways: Ways, now: Vec<Arc<Pod>>) -> Self {
        let goes = now
            .iter()
            .filter(|pod| !matches!(ways.of(pod), Way::Refused(_) | Way::Waits(_)));
        let uids = goes.map(|pod| pod.metadata.uid.clone()).collect();
        let (later, uids_later, staying) = (Vec::new(), Uids::new(), Vec::new());
        let repair = Repair::default();
        Self {
            target,
            back: false,
            now,
            uids,
            ways,
            held: BTreeMap::new(),
            later,
            first: None,
            uids_later,
            repair,
            staying,
            stay: "",
        }
    }

    /// The target is where the others came from.
    pub fn back(self, back: bool) -> Self {
        Self { back, ..self }
    }

    /// Those whose turn comes when the limits allow it; and how broken pods are repaired meanwhile.
    pub fn with_later(self, later: Vec<Arc<Pod>>, repair: Repair) -> Self {
        let uids_later = later.iter().map(|pod| pod.metadata.uid.clone()).collect();
        Self {
            later,
            uids_later,
            repair,
            ..self
        }
    }

    /// The pod that those whose turn comes later wait for, in place of maxUnavailable.
    pub fn with_first(self, first: Option<String>) -> Self {
        Self { first, ..self }
    }

    /// Those whose update in place is held back for now.
    pub fn with_held(self, hold: impl Fn(&Pod) -> Option<Held>) -> Self {
        let held = self
            .now
            .iter()
            .filter_map(|pod| Some((pod.metadata.uid.clone(), hold(pod)?)))
            .collect();
        Self { held, ..self }
    }

    /// Those that stay where they are, and why.
    pub fn with_staying(self, staying: Vec<Arc<Pod>>, why: &'static str) -> Self {
        Self {
            staying,
            stay: why,
            ..self
        }
    }

    pub(crate) fn has(&self, pod: &Pod) -> bool {
        self.uids.contains(&pod.metadata.uid)
    }

    /// Is the pod's update wanted, now or when the limits allow it?
    pub(crate) fn waits(&self, pod: &Pod) -> bool {
        self.has(pod) || self.uids_later.contains(&pod.metadata.uid)
    }
}
