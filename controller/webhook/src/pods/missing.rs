//! Names that an apiserver did not have a moment ago.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// How long a name is known to be missing.
const MOMENT: Duration = Duration::from_secs(1);
/// The most names that are remembered.
const MOST: usize = 4096;

/// Pods that do not exist, by namespace and name: a flood of requests for one of them is one read a
/// second.
#[derive(Debug, Default)]
pub struct Missing(Mutex<HashMap<(String, String), Instant>>);

impl Missing {
    /// Whether the apiserver did not have the pod within the last second. After that, the first
    /// caller reads again. The others use the old answer until that read has ended, or for a
    /// second.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        let mut known = self.lock();
        let Some(since) = known.get_mut(&(namespace.to_owned(), name.to_owned())) else {
            return false;
        };
        let is_known = since.elapsed() < MOMENT;
        if !is_known {
            *since = Instant::now();
        }
        is_known
    }

    /// Notes whether the apiserver has the pod.
    pub fn looked(&self, namespace: &str, name: &str, is_there: bool) {
        if is_there {
            self.lock().remove(&(namespace.to_owned(), name.to_owned()));
        } else {
            self.note(namespace, name);
        }
    }

    fn note(&self, namespace: &str, name: &str) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.retain(|_, since| since.elapsed() < MOMENT);
        }
        if known.len() < MOST {
            known.insert((namespace.to_owned(), name.to_owned()), Instant::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Instant>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests;
