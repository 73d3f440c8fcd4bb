//! Which CloneSets of a namespace overlap, from the store.

use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSet;
use berth_kinds::cloneset::overlap;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Index, Key, Object, Store};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::watched::Watched;

/// CloneSets by namespace.
pub(crate) const BY_NAMESPACE: Index<Watched<CloneSet>> = Index::new("namespace", |set| Some(set.namespace()));

/// The names of older ones that overlap with this one, sorted. Nothing is written to an object because another came after it.
pub(crate) fn older(sets: &Store<Watched<CloneSet>>, set: &Watched<CloneSet>) -> Vec<String> {
    let neighbours = sets.by_index(&BY_NAMESPACE, set.namespace());
    let overlapping = neighbours.iter().filter(|other| age(other) < age(set) && overlap(&set.0, &other.0));
    let mut names: Vec<_> = overlapping.map(|other| other.name().to_owned()).collect();
    names.sort();
    names
}

/// Who came first is less.
fn age(set: &Watched<CloneSet>) -> (Option<&Time>, &str) {
    (set.0.metadata.creation_timestamp.as_ref(), set.name())
}

/// Wakes younger ones that overlap with one that comes, goes or changes its spec: they say so, or no longer do.
pub(crate) fn wake(sets: &Arc<Store<Watched<CloneSet>>>, queue: &Arc<Queue<Key>>) {
    // The store holds its hooks, so a hook must not hold the store.
    let (queue, of) = (queue.clone(), Arc::downgrade(sets));
    sets.on_change(move |change| {
        let Some(sets) = of.upgrade() else { return };
        // The first list wakes every one of them anyway.
        let changed: Vec<&Arc<Watched<CloneSet>>> = match change {
            Change::Applied { old: Some(old), new } if old.0.metadata.generation != new.0.metadata.generation => {
                vec![old, new]
            }
            Change::Applied { old: None, new } if sets.is_synced() => vec![new],
            Change::Deleted { old } => vec![old],
            _ => return,
        };
        for set in changed {
            let neighbours = sets.by_index(&BY_NAMESPACE, set.namespace());
            let younger = neighbours.iter().filter(|other| age(set) < age(other) && overlap(&set.0, &other.0));
            younger.for_each(|other| queue.add(Key::of(&**other)));
        }
    });
}
