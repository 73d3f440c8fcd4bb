//! The newest version that a store has seen.

use super::version::is_before;

/// The newest version of all applied objects, and of all deletions in the feed. Empty if there are
/// none.
#[derive(Default)]
pub(super) struct Newest(pub(super) String);

impl Newest {
    pub(super) fn raise(&mut self, version: &str) {
        if self.0.is_empty() || is_before(&self.0, version) {
            self.0.clear();
            self.0.push_str(version);
        }
    }

    /// Forgets the version, because its history may no longer be the server's.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
