//! Which unreadable objects have been reported.

use std::collections::HashMap;

use berth_runtime::Key;
use parking_lot::{Mutex, MutexGuard};

/// By workload of one kind that cannot be read: the version that was reported. Its pods wake it far
/// more often than it changes, and each report reads an object that may be large.
#[derive(Debug, Default)]
pub(crate) struct Reported(Mutex<HashMap<Key, String>>);

impl Reported {
    /// Was this version reported?
    pub(crate) fn was_reported(&self, key: &Key, version: &str) -> bool {
        self.lock()
            .get(key)
            .is_some_and(|reported| reported == version)
    }

    /// Notes that this version was reported.
    pub(crate) fn note(&self, key: &Key, version: &str) {
        self.lock().insert(key.clone(), version.to_owned());
    }

    /// To be called when the object can be read, or is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests;
