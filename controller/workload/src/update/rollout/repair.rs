//! Broken pods first: a rollout that repairs pods must not wait for the pods that it repairs.
//!
//! A pod is broken if its own containers are not ready. It serves no requests, and an update can
//! only improve it. So broken pods are updated before all others, and no limit counts for them.
//! This holds while no pod of the target revision is down. A failing revision gets the pods that
//! were broken anyway, and no serving pod beyond `maxUnavailable`:
//!
//! | broken pods | failing pods of the new revision | updated at once, beyond the limits |
//! |---|---|---|
//! | none | any | none |
//! | some | none | the broken ones |
//! | some | some | none: the limits count for all |
//!
//! A begun update of a broken pod continues in any case, because reverting it would repair nothing.

use crate::objects::pod::Pod;

/// How many broken pods the limits do not count for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repair {
    /// Broken pods that may be updated at once.
    pub free: usize,
    /// Failing pods of the target revision, for which broken pods wait.
    pub fails: usize,
}

impl Repair {
    /// Applies the rule.
    pub fn new(broken: usize, target_fails: usize) -> Self {
        Self {
            free: if target_fails == 0 { broken } else { 0 },
            fails: target_fails,
        }
    }
}

/// Whether the pod's own containers are not ready. A pod that is unready only because of a
/// readiness gate or a lost node is not broken.
pub fn is_broken(pod: &Pod) -> bool {
    let ready = |name: &str| {
        pod.container_status(name)
            .is_some_and(|status| status.ready)
    };
    &*pod.status.phase != "Running"
        || !pod
            .spec
            .containers
            .iter()
            .all(|container| ready(&container.name))
}

#[cfg(test)]
mod tests;
