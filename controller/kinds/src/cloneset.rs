//! CloneSet: a number of interchangeable pods, which are brought to a template within limits.

mod adopt;
mod blocked;
mod choose;
mod claim_hash;
mod claims;
mod decide;
mod ended;
mod ids;
mod pods_to_delete;
mod progress;
mod settings;
mod status;

#[cfg(test)]
pub(crate) mod simulation;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSet;
use berth_workload::objects::claim::Claim;
use berth_workload::objects::owner::{CLONE_SET, OwnerKey};
use berth_workload::pod_owner;

pub use berth_workload::pod_owner::decide::decide;
pub use berth_workload::pod_owner::status::status;
pub use ended::Ended;
pub use settings::{Settings, settings};

/// All that a decision about one CloneSet reads.
pub type Snapshot = pod_owner::Snapshot<CloneSetOwner>;

/// The parts that only a CloneSet's snapshot has.
#[derive(Debug, Clone, Default)]
pub struct CloneSetOwner {
    /// Claims with an instance id: those that it controls, and those that its pods own.
    pub claims: Vec<Arc<Claim>>,
}

/// A CloneSet as the owner of its objects.
pub fn owner_key(set: &CloneSet) -> OwnerKey<'_> {
    let metadata = &set.metadata;
    OwnerKey {
        kind: CLONE_SET,
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
    }
}
