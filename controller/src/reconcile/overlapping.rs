//! Which workloads of one kind and namespace overlap, from the store.

use std::sync::Arc;

use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Store};
use berth_workload::feature_gates::Gates;
use berth_workload::pod_owner::PodOwner;
use berth_workload::update::podset::overlap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource as _;

use crate::stores::watched::{CustomResource, Watched, by_namespace};

/// Whether the selector of one object selects the pods that the other makes.
fn overlaps<K: PodOwner>(one: &K::Object, other: &K::Object) -> bool {
    let of = |set| K::workload(set, Gates::default());
    overlap::overlap(&of(one), &of(other))
}

/// The names of older workloads that overlap with this one, sorted. An object is never written to
/// because a younger one overlaps with it.
pub(crate) fn older<K: PodOwner<Object: CustomResource>>(
    sets: &Store<Watched<K::Object>>,
    set: &Watched<K::Object>,
) -> Vec<String> {
    let neighbours = sets.by_index(&by_namespace(), set.namespace());
    let overlapping = neighbours
        .iter()
        .filter(|other| age(other) < age(set) && overlaps::<K>(&set.0, &other.0));
    let mut names: Vec<_> = overlapping.map(|other| other.name().to_owned()).collect();
    names.sort();
    names
}

/// The order of age: an older workload is less.
fn age<T: CustomResource>(set: &Watched<T>) -> (Option<&Time>, &str) {
    (set.0.meta().creation_timestamp.as_ref(), set.name())
}

/// Wakes younger workloads that overlap with one that comes, goes or changes its spec, because
/// their status says so.
pub(crate) fn wake<K: PodOwner<Object: CustomResource>>(
    sets: &Arc<Store<Watched<K::Object>>>,
    queue: &Arc<Queue<Key>>,
) {
    // The store owns its hooks. A hook that held the store would be a reference cycle.
    let (queue, of) = (queue.clone(), Arc::downgrade(sets));
    sets.on_change(move |change| {
        let Some(sets) = of.upgrade() else { return };
        // The first list wakes every one of them anyway.
        let changed: Vec<&Arc<Watched<K::Object>>> = match change {
            Change::Applied {
                old: Some(old),
                new,
            } if old.0.meta().generation != new.0.meta().generation => {
                vec![old, new]
            }
            Change::Applied { old: None, new } if sets.is_synced() => vec![new],
            Change::Deleted { old } => vec![old],
            _ => return,
        };
        for set in changed {
            let neighbours = sets.by_index(&by_namespace(), set.namespace());
            let younger = neighbours
                .iter()
                .filter(|other| age(set) < age(other) && overlaps::<K>(&set.0, &other.0));
            younger.for_each(|other| queue.add(Key::of(&**other)));
        }
    });
}
