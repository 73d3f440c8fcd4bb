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
    /// Ready when the certificate is loaded, every caBundle holds its authority, and a v1alpha1
    /// object has been converted by way of the apiserver; until no apiserver reaches this replica
    /// any more.
    ///
    /// # Errors
    /// The reason why not, in words for a person.
    pub fn check(&self) -> Result<(), String> {
        self.missing.read().clone().map_or(Ok(()), Err)
    }

    pub(crate) fn set(&self, missing: Option<String>) {
        *self.missing.write() = missing;
    }
}
