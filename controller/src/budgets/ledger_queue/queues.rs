//! What comes close together is done together: one works, for all that have come until then.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

/// What waits, by what it waits for. A key is in it while somebody works on what waits for that.
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

    /// Lets one wait; true if nobody works on it, so that the caller must.
    pub(in crate::budgets) fn join(&self, key: &K, one: T) -> bool {
        let mut all = self.lock();
        let is_first = !all.contains_key(key);
        all.entry(key.clone()).or_default().push(one);
        is_first
    }

    /// All that wait; `None`, and nobody works on it any more, where none do.
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
