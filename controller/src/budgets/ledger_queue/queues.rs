//! Queues that handle together what arrives close together: one task works on all items that have
//! arrived until then.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

/// The waiting items by key. A key is in the map while a task works on its queue.
pub(in crate::budgets) struct Queues<K, T>(Mutex<BTreeMap<K, Vec<T>>>);

impl<K, T> Default for Queues<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone, T> Queues<K, T> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Vec<T>>> {
        self.0.lock()
    }

    /// Adds an item; true if no task works on this queue, so that the caller must start one.
    pub(in crate::budgets) fn join(&self, key: &K, one: T) -> bool {
        let mut all = self.lock();
        let is_first = !all.contains_key(key);
        all.entry(key.clone()).or_default().push(one);
        is_first
    }

    /// Takes all waiting items. `None` if there are none: then the task ends, and the queue has no
    /// task any more.
    pub(in crate::budgets) fn next(&self, key: &K) -> Option<Vec<T>> {
        let mut all = self.lock();
        let waiting = all
            .get_mut(key)
            .map(std::mem::take)
            .filter(|waiting| !waiting.is_empty());
        if waiting.is_none() {
            all.remove(key);
        }
        waiting
    }
}

#[cfg(test)]
mod tests;
