//! The launch priority of a container, as it is written in a pod.
//!
//! A pod with a launch order has a variable in each container that reads a key of the ConfigMap `<pod>-barrier`: no
//! kubelet starts a container whose key is missing. The key names the priority.

use super::Pod;

/// The ConfigMap that holds back the containers of a pod.
pub fn barrier(pod: &str) -> String {
    format!("{pod}-barrier")
}

/// The key for which containers of this priority wait.
pub fn key(priority: i32) -> String {
    format!("p_{priority}")
}

/// The highest priority that a container has that is not ready: those below wait for it.
pub fn next(pod: &Pod) -> Option<i32> {
    let ready = |name: &str| {
        pod.container_status(name)
            .is_some_and(|status| status.ready)
    };
    let waiting = pod
        .spec
        .containers
        .iter()
        .filter(|container| !ready(&container.name));
    waiting
        .filter_map(|container| container.env.priority())
        .max()
}

/// Does the container wait for others to be ready before it may start?
pub fn is_held_back(pod: &Pod, container: &str) -> bool {
    let priority = pod
        .spec
        .containers
        .iter()
        .find(|c| &*c.name == container)
        .and_then(|c| c.env.priority());
    priority.is_some_and(|priority| next(pod).is_some_and(|next| priority < next))
}
