//! Which pods have entries of requests in their readiness gates.

use std::collections::{BTreeSet, HashMap};

use berth_kinds::containerrecreaterequest::entries;
use berth_runtime::{Change, Key};
use berth_workload::objects::pod::Pod;
use parking_lot::{Mutex, MutexGuard};

/// By request: the names of the pods whose readiness gate has an entry of it.
#[derive(Default)]
pub(super) struct Entries(Mutex<HashMap<Key, BTreeSet<Box<str>>>>);

impl Entries {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, BTreeSet<Box<str>>>> {
        self.0.lock()
    }

    /// Notes a change of a pod; returns the requests that have an entry in it now.
    pub(super) fn note(&self, change: &Change<Pod>) -> Vec<Key> {
        let (old, new) = match change {
            Change::Applied { old, new } => (old.as_deref(), Some(&**new)),
            Change::Deleted { old } => (Some(&**old), None),
            Change::Synced => return Vec::new(),
        };
        let (before, now) = (
            old.map(keys).unwrap_or_default(),
            new.map(keys).unwrap_or_default(),
        );
        let is_without = before.is_empty() && now.is_empty();
        let Some(pod) = new.or(old).filter(|_| !is_without) else {
            return now;
        };
        let mut all = self.lock();
        for gone in before.iter().filter(|key| !now.contains(key)) {
            if let Some(pods) = all.get_mut(gone) {
                pods.remove(&pod.metadata.name);
            }
            if all.get(gone).is_some_and(BTreeSet::is_empty) {
                all.remove(gone);
            }
        }
        for key in &now {
            all.entry(key.clone())
                .or_default()
                .insert(pod.metadata.name.clone());
        }
        now
    }

    /// The pods whose readiness gate has an entry of the request.
    pub(super) fn of(&self, request: &Key) -> Vec<Box<str>> {
        self.lock()
            .get(request)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

fn keys(pod: &Pod) -> Vec<Key> {
    entries(pod)
        .iter()
        .map(|name| Key::new(&pod.metadata.namespace, name))
        .collect()
}

#[cfg(test)]
mod tests;
