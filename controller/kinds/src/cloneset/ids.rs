//! The instance ids of a CloneSet's pods: the last part of their names.

use berth_api::names::label;
use berth_workload::pod::Metadata;
use berth_workload::podset;

use super::Snapshot;

/// The instance id of a pod or a claim; empty where there is none.
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
    podset::ids::fresh_ids(snapshot.seed, taken)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::super::simulation::{World, template};
    use super::*;

    #[test]
    fn no_id_is_that_of_a_pod() {
        let world = World::settled(2, template("web:1"), json!({}));
        let taken: BTreeSet<_> = world
            .pods()
            .iter()
            .map(|pod| instance(&pod.metadata).to_owned())
            .collect();
        let ids: BTreeSet<_> = fresh_ids(&world.snapshot()).take(1_000).collect();
        assert!(taken.len() == 2 && ids.len() == 1_000 && ids.is_disjoint(&taken));
    }
}
