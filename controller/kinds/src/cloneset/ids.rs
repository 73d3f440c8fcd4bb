//! The instance ids of a CloneSet's pods: the last part of their names.

use std::collections::BTreeSet;

use berth_api::names::label;
use berth_workload::pod::Metadata;

use super::Snapshot;

/// Letters and digits that cannot spell a word, as Kubernetes uses for generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of an instance id.
const ID_LENGTH: usize = 5;

/// The instance id of a pod or a claim; empty where there is none.
pub(super) fn instance(metadata: &Metadata) -> &str {
    metadata.label(label::CLONESET_INSTANCE_ID).unwrap_or_default()
}

/// Instance ids that no pod and no claim has, in an order that the seed gives.
pub(super) fn fresh_ids(snapshot: &Snapshot) -> impl Iterator<Item = String> + use<> {
    let pods = snapshot.pods.iter().map(|pod| &pod.metadata);
    let all = pods.chain(snapshot.claims.iter().map(|claim| &claim.metadata));
    let mut taken: BTreeSet<_> = all.map(|metadata| instance(metadata).to_owned()).collect();
    let mut random = fastrand::Rng::with_seed(snapshot.seed);
    let mut letter = move || char::from(ALPHABET[random.usize(..ALPHABET.len())]);
    std::iter::repeat_with(move || (0..ID_LENGTH).map(|_| letter()).collect::<String>())
        .filter(move |id| taken.insert(id.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::simulation::{World, template};
    use super::*;

    #[test]
    fn the_ids_of_two_decisions_differ_and_those_of_one_do_not_repeat() {
        let world = World::settled(2, template("web:1"), json!({}));
        let ids = |seed| fresh_ids(&Snapshot { seed, ..world.snapshot() }).take(1_000).collect::<BTreeSet<_>>();
        assert_eq!(ids(1), ids(1), "a decision can be repeated");
        assert!(ids(1).len() == 1_000 && ids(1).is_disjoint(&ids(2)));
        let taken: BTreeSet<_> = world.pods().iter().map(|pod| instance(&pod.metadata).to_owned()).collect();
        assert!(ids(1).is_disjoint(&taken));
        assert!(ids(3).iter().all(|id| id.len() == ID_LENGTH && id.bytes().all(|b| ALPHABET.contains(&b))));
    }
}
