//! The order of two versions.

use std::cmp::Ordering;

use crate::object::compare_versions;

/// Before the version of any object.
pub(super) const NO_VERSION: &str = "0";

/// Whether a version is at least as new as another. False if they cannot be compared.
pub fn reaches(have: &str, want: &str) -> bool {
    compare_versions(have, want).is_some_and(Ordering::is_ge)
}

/// Whether a version is older than another. False if they cannot be compared.
pub(crate) fn is_before(version: &str, other: &str) -> bool {
    compare_versions(version, other).is_some_and(Ordering::is_lt)
}
