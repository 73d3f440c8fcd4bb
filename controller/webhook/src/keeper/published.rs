//! What a pass wrote.

use std::time::Duration;

/// What came of it.
#[derive(Default)]
pub(super) struct Published {
    /// Why clients cannot trust us yet.
    pub(super) missing: Option<String>,
    /// The entries of the pod webhook could not be written. Conversion goes on without them.
    pub(super) pods_failed: bool,
    /// Paths of another seed are left alone for so long.
    pub(super) paths_in: Option<Duration>,
}
