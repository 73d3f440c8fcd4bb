//! The pods that a budget with `targetRef` may hold before the leader has read the target's
//! selector.

use berth_api::v1beta1::podunavailablebudget::TargetReference;

use crate::objects::owner::group;
use crate::objects::pod::Metadata;

/// Whether a pod may belong to the target: its controller is the target, or its controller's name
/// starts with the target's name, as the name of a Deployment's ReplicaSet does. A pod that matches
/// wrongly does less harm than a pod that an uncounted budget misses.
pub fn may_be_of(pod: &Metadata, target: &TargetReference) -> bool {
    let Some(owner) = pod.controller() else {
        return false;
    };
    match owner.name.strip_prefix(target.name.as_str()) {
        Some("") => {
            *owner.kind == *target.kind && group(&owner.api_version) == group(&target.api_version)
        }
        Some(rest) => rest.starts_with('-') && *owner.kind != *target.kind,
        None => false,
    }
}

#[cfg(test)]
mod tests;
