//! Whose pods a budget by `targetRef` holds before the leader has asked the target which those are.

use berth_api::v1beta1::podunavailablebudget::TargetReference;

use crate::objects::owner::group;
use crate::objects::pod::Metadata;

/// Whether a pod may be the target's: its controller is the target, or has the target's name and more, as a ReplicaSet has its
/// Deployment's. Rather one too many than one that goes from a budget that nobody has counted yet.
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
