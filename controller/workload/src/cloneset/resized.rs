//! What is said of pods that their kubelets do not resize.

use berth_api::names::condition;

use super::Snapshot;
use crate::inplace::{resize, steps};
use crate::plan::Event;

/// An event for a resize that a node can never do. The condition `Blocked` says whether it was told.
pub(super) fn untold(snapshot: &Snapshot) -> Option<Event> {
    let mut conditions = snapshot.set.status.iter().flat_map(|status| &status.conditions);
    if conditions.any(|c| c.type_ == condition::BLOCKED && c.reason == resize::INFEASIBLE) {
        return None;
    }
    let pods = snapshot.pods.iter().filter(|pod| pod.is_active() && steps::is_under_way(pod));
    let message = |pod: &crate::pod::Pod| match resize::refused(pod)? {
        (resize::INFEASIBLE, why) => {
            let set = snapshot.name();
            Some(format!("CloneSet {set}: spec.template.spec.containers.resources: pod {} {why}", pod.metadata.name))
        }
        _ => None,
    };
    let message = pods.into_iter().find_map(|pod| message(pod))?;
    Some(Event { warning: true, reason: resize::INFEASIBLE, message })
}

#[cfg(test)]
mod tests;
