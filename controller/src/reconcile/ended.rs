//! The controllers' knowledge of pods that end again and again. It is lost at a restart: then these
//! pods are counted anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The state by the uid of the workload.
#[derive(Debug)]
pub(crate) struct EndedPods<T>(Arc<Mutex<BTreeMap<String, T>>>);

impl<T> Default for EndedPods<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for EndedPods<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone + Default> EndedPods<T> {
    /// The state of a workload.
    pub(crate) fn of(&self, uid: &str) -> T {
        self.0.lock().get(uid).cloned().unwrap_or_default()
    }

    /// Changes the state of a workload.
    pub(crate) fn note(&self, uid: &str, change: impl FnOnce(&mut T)) {
        let mut all = self.0.lock();
        change(all.entry(uid.to_owned()).or_default());
    }

    /// To be called when the workload is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
