//! The instance ids of a CloneSet's pods: the last part of their names.

use berth_api::names::label;
use berth_workload::objects::pod::Metadata;
use berth_workload::update::podset;

use super::Snapshot;

/// The instance id of a pod or a claim; empty if it has none.
pub(super) fn instance(metadata: &Metadata) -> &str {
    metadata
        .label(label::CLONESET_INSTANCE_ID)
        .unwrap_or_default()
}

/// Instance ids that no pod and no claim has, in an order that the seed gives.
pub(super) fn fresh_ids(snapshot: &Snapshot) -> impl Iterator<Item = String> + use<> {
    let pods = snapshot.pods.iter().map(|pod| &pod.metadata);
    let all = pods.chain(snapshot.own.claims.iter().map(|claim| &claim.metadata));
    let taken = all.map(|metadata| instance(metadata).to_owned()).collect();
    podset::new_pod::fresh_ids(snapshot.seed, taken)
}

#[cfg(test)]
mod tests;
