//! Whether this replica may call itself ready, and if not, why not.

use std::sync::Arc;

use parking_lot::RwLock;

/// The obstacle between this replica and readiness, shared with `/readyz`.
#[derive(Debug, Clone)]
pub struct Readiness {
    missing: Arc<RwLock<Option<String>>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            missing: Arc::new(RwLock::new(Some(
                "the certificates are not loaded yet".to_owned(),
            ))),
        }
    }
}

impl Readiness {
    /// Whether this replica is ready. A replica becomes ready when its certificate is loaded, every
    /// caBundle holds the certificate's authority, and the apiserver had this replica convert a
    /// v1alpha1 object. It stays ready until the apiserver no longer reaches it.
    ///
    /// # Errors
    /// The obstacle, in words for a person.
    pub fn check(&self) -> Result<(), String> {
        self.missing.read().clone().map_or(Ok(()), Err)
    }

    /// Sets the obstacle; `None` makes the replica ready.
    pub(crate) fn set(&self, missing: Option<String>) {
        *self.missing.write() = missing;
    }
}
