//! Causes that may pass by themselves.

use berth_workload::blocked::{Cause, Grade};
use jiff::{SignedDuration, Timestamp};

/// What passes by itself is told when it has lasted for so long.
pub(super) const LASTING: SignedDuration = SignedDuration::from_secs(60);

/// Something that may pass by itself, and counts when it has lasted.
pub(super) fn lasting(reason: &'static str, message: String, since: Option<Timestamp>) -> Cause {
    let from = since
        .and_then(|since| since.checked_add(LASTING).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH);
    Cause::new(Grade::Lasting, reason, message, from)
}
