//! The launch priority of a container in a pod.
//!
//! A pod with a launch order has a variable in each container that reads a key of the ConfigMap
//! `<pod>-barrier`. No kubelet starts a container whose key is missing. The key has the priority in
//! its name.

use super::Pod;

/// The ConfigMap that holds back the containers of a pod.
pub fn barrier(pod: &str) -> String {
    format!("{pod}-barrier")
}

/// The key for which containers of this priority wait.
pub fn key(priority: i32) -> String {
    format!("p_{priority}")
}

/// The highest priority of a container that is not ready. Containers of lower priorities wait for
/// it.
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

/// Whether the container must wait until other containers are ready.
pub fn is_held_back(pod: &Pod, container: &str) -> bool {
    let priority = pod
        .spec
        .containers
        .iter()
        .find(|c| &*c.name == container)
        .and_then(|c| c.env.priority());
    priority.is_some_and(|priority| next(pod).is_some_and(|next| priority < next))
}
