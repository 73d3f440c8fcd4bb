//! The claims of CloneSets' pods: which are watched, whose they are, and whom they wake.
//!
//! Only claims with an instance id are asked for, so those of everybody else cost nothing, not even on the wire.

use std::sync::Arc;

use berth_runtime::{Index, Store};
use berth_workload::claim::Claim;
use berth_workload::pod::{Metadata, Pod};

use crate::stores::is_ours;
use crate::watched::Watched;

/// Claims by the uid of the CloneSet or pod that owns them.
pub(crate) const CLAIMS_BY_OWNER: Index<Watched<Claim>> =
    Index::new("owner", |claim| owner(&claim.0.metadata).map(|owner| &*owner.uid));

/// A CloneSet's, or a pod's that takes it along.
pub(crate) fn is_kept(claim: &Watched<Claim>) -> bool {
    owner(&claim.0.metadata).is_some()
}

fn owner(metadata: &Metadata) -> Option<&berth_workload::pod::Owner> {
    if is_ours(metadata) {
        return metadata.controller();
    }
    metadata.owner_references.iter().find(|owner| &*owner.kind == "Pod" && &*owner.api_version == "v1")
}

/// Those of the CloneSet and of its pods.
pub(crate) fn of(claims: &Store<Watched<Claim>>, set: &str, pods: &[Arc<Pod>]) -> Vec<Arc<Claim>> {
    let owners = std::iter::once(set).chain(pods.iter().map(|pod| &*pod.metadata.uid));
    let claims = owners.flat_map(|uid| claims.by_index(&CLAIMS_BY_OWNER, uid));
    claims.map(|claim| claim.0.clone()).collect()
}
