//! Which objects were told of that they cannot be read.

use std::collections::HashMap;

use berth_runtime::Key;
use parking_lot::{Mutex, MutexGuard};

/// By workload of one kind that cannot be read: the version in which it was told of. Its pods wake it far more often than it changes, and
/// to tell is to read an object that may be large.
#[derive(Debug, Default)]
pub(crate) struct Reported(Mutex<HashMap<Key, String>>);

impl Reported {
    /// Was it told of in this version?
    pub(crate) fn was_told(&self, key: &Key, version: &str) -> bool {
        self.lock().get(key).is_some_and(|told| told == version)
    }

    /// It was told of in this version.
    pub(crate) fn note(&self, key: &Key, version: &str) {
        self.lock().insert(key.clone(), version.to_owned());
    }

    /// To be called when it can be read, or is gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests;
