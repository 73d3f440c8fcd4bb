//! The writes of a pass.

use std::time::Duration;

/// The result of the writes.
#[derive(Default)]
pub(super) struct Published {
    /// Why clients cannot trust us yet.
    pub(super) missing: Option<String>,
    /// The entries of the pod webhook could not be written. Conversion goes on without them.
    pub(super) pods_failed: bool,
    /// How long paths of another seed are left alone.
    pub(super) paths_in: Option<Duration>,
}
