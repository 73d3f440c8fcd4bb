//! The pods that a kind has chosen to be updated.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;

use super::Uids;
use super::update_method::{UpdateMethod, UpdateMethods};
use crate::objects::pod::Pod;
use crate::update::revision::Revision;
use crate::update::rollout::Repair;

/// Why the update of a pod is held back, and for how long at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The reason, as a message.
    pub reason: String,
    /// After this time it is held back no longer.
    pub left: SignedDuration,
}

/// The pods to update, in order.
pub struct Chosen {
    /// The revision that the pods are updated to.
    pub(super) target: Arc<Revision>,
    /// Whether this is a rollback to the old revision, because the partition was raised.
    pub(super) back: bool,
    /// The pods to update now.
    pub(super) now: Vec<Arc<Pod>>,
    /// The uids of the pods that can be updated.
    uids: Uids,
    /// How pods get there.
    pub(super) methods: UpdateMethods,
    /// The pods in `now` that wait for a reason of their own, by uid.
    pub(super) held: BTreeMap<Box<str>, Held>,
    /// The pods to update later.
    pub(super) later: Vec<Arc<Pod>>,
    /// The pod that those wait for, in place of maxUnavailable.
    pub(super) first: Option<String>,
    /// Their uids.
    uids_later: Uids,
    /// Why broken pods wait too, if they do.
    pub(super) repair: Repair,
    /// The pods that are not updated.
    pub(super) staying: Vec<Arc<Pod>>,
    /// Why not.
    pub(super) stay: &'static str,
}

impl Chosen {
    /// The pods to update to `target` now, in order. A pod whose update is refused or waits is not
    /// left halfway.
    pub fn new(target: Arc<Revision>, methods: UpdateMethods, now: Vec<Arc<Pod>>) -> Self {
        let goes = now.iter().filter(|pod| {
            !matches!(
                methods.of(pod),
                UpdateMethod::Refused(_) | UpdateMethod::Waits(_)
            )
        });
        let uids = goes.map(|pod| pod.metadata.uid.clone()).collect();
        let (later, uids_later, staying) = (Vec::new(), Uids::new(), Vec::new());
        let repair = Repair::default();
        Self {
            target,
            back: false,
            now,
            uids,
            methods,
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

    /// Sets the pods to update when the limits allow it, and how broken pods are repaired
    /// meanwhile.
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

    /// Holds the in-place updates of pods for which `hold` returns a reason.
    pub fn with_held(self, hold: impl Fn(&Pod) -> Option<Held>) -> Self {
        let held = self
            .now
            .iter()
            .filter_map(|pod| Some((pod.metadata.uid.clone(), hold(pod)?)))
            .collect();
        Self { held, ..self }
    }

    /// Sets the pods that keep their revision, and why.
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

    /// Whether the pod's update is wanted, now or when the limits allow it.
    pub(crate) fn waits(&self, pod: &Pod) -> bool {
        self.has(pod) || self.uids_later.contains(&pod.metadata.uid)
    }
}
