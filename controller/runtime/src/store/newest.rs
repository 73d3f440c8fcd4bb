//! The newest version that a store was shown.

use super::version::is_before;

/// The newest version of all that was put in, and of all that was taken out as the feed said. Empty where there is none.
#[derive(Default)]
pub(super) struct Newest(pub(super) String);

impl Newest {
    pub(super) fn raise(&mut self, version: &str) {
        if self.0.is_empty() || is_before(&self.0, version) {
            self.0.clear();
            self.0.push_str(version);
        }
    }

    /// What was shown is of a history that may not be the server's any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
