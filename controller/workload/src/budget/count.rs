//! How many pods a budget has and must keep, and which entries of its ledger are settled.

use berth_api::names::label::UNAVAILABLE_POD_PREFIX;
use berth_api::v1beta1::podunavailablebudget::{LedgerEntry, ProtectedOperation};
use jiff::Timestamp;

use crate::pod::{Pod, availability};

/// Whether a pod serves, as budgets count: it is available, nobody has said by a label that it is not, and its node is there.
pub fn is_available(pod: &Pod, has_node: bool, now: Timestamp) -> bool {
    has_node
        && availability(pod, 0, now).is_available()
        && !pod.metadata.labels.iter().any(|(key, _)| key.starts_with(UNAVAILABLE_POD_PREFIX))
}

/// What became of what an entry allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The pod is gone, goes, or serves again.
    Over,
    /// Nothing came of it, and nothing can any more.
    Expired,
    /// It is not seen yet.
    Open,
}

/// What became of an entry, by the pod of its name as it is now, and whether that serves. `is_late`: the request that it allowed cannot
/// be carried out any more.
pub fn settled(entry: &LedgerEntry, pod: Option<&Pod>, is_available: bool, is_late: bool) -> Settled {
    let Some(pod) = pod.filter(|pod| *pod.metadata.uid == *entry.uid) else { return Settled::Over };
    if pod.metadata.deletion_timestamp.is_some() || !pod.is_active() {
        return Settled::Over;
    }
    let expires = if is_late { Settled::Expired } else { Settled::Open };
    match entry.operation {
        ProtectedOperation::Delete | ProtectedOperation::Evict => expires,
        ProtectedOperation::Update | ProtectedOperation::Resize => {
            let has_landed = entry.generation.is_none_or(|before| pod.metadata.generation > before);
            let is_seen = pod.status.observed_generation >= pod.metadata.generation;
            match (has_landed, is_seen && is_available) {
                (true, true) if is_replaced(entry, pod) => Settled::Over,
                // What was taken back before a kubelet saw it replaces no container.
                (true, true) => expires,
                // It is out of service, so it is not counted anyway; the entry says why.
                (true, false) => Settled::Open,
                (false, _) => expires,
            }
        }
    }
}

/// Whether none of the containers runs that were to be replaced.
fn is_replaced(entry: &LedgerEntry, pod: &Pod) -> bool {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let mut running = statuses.map(|status| &*status.container_id);
    !running.any(|id| entry.container_ids.iter().any(|old| old == id))
}
