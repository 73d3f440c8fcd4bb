//! What is said of pods that their kubelets do not resize.

use crate::inplace::{resize, steps};
use crate::plan::Event;
use crate::podset::Scene;

/// An event for a resize that a node can never do. The condition `Blocked` says whether it was told.
pub fn untold(scene: &Scene<'_>) -> Option<Event> {
    if scene.workload.blocked.is_some_and(|blocked| blocked.reason == resize::INFEASIBLE) {
        return None;
    }
    let pods = scene.pods.iter().filter(|pod| pod.is_active() && steps::is_under_way(pod));
    let message = |pod: &crate::pod::Pod| match resize::refused(pod)? {
        (resize::INFEASIBLE, why) => {
            let workload = &scene.workload;
            Some(format!("{workload}: spec.template.spec.containers.resources: pod {} {why}", pod.metadata.name))
        }
        _ => None,
    };
    let message = pods.into_iter().find_map(|pod| message(pod))?;
    Some(Event { warning: true, reason: resize::INFEASIBLE, message })
}
