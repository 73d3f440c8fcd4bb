//! Broken first: a rollout that repairs is not held up by what it repairs.
//!
//! A pod is broken when its own containers are not ready: it serves nobody, and an update can only better it. So broken
//! pods are updated before all others, and no limit counts for them. This holds as long as no pod of the revision that
//! they are brought to is down. A revision that fails gets the pods that were broken anyway, and no pod that serves
//! beyond `maxUnavailable`:
//!
//! | broken pods | pods of the new revision that should serve and do not | updated at once, whatever the limits say |
//! |---|---|---|
//! | none | any | none |
//! | some | none | the broken ones |
//! | some | some | none: the limits count for all |
//!
//! An update of a broken pod that has begun goes on in any case: to take it back would repair nothing.

use crate::objects::pod::Pod;

/// How many broken pods the limits do not count for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repair {
    /// So many pods, all of them broken, may be updated at once.
    pub free: usize,
    /// Pods of the revision that they would be brought to that keep broken pods waiting.
    pub fails: usize,
}

impl Repair {
    /// The rule.
    pub fn new(broken: usize, target_fails: usize) -> Self {
        Self {
            free: if target_fails == 0 { broken } else { 0 },
            fails: target_fails,
        }
    }
}

/// Are the pod's own containers to blame that it does not serve? A pod that only a readiness gate or a lost node keeps
/// from being ready is not broken.
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
