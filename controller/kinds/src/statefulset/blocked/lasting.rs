//! Causes that may pass by themselves.

use berth_workload::blocked::{Cause, Grade};
use jiff::{SignedDuration, Timestamp};

/// How long a cause that may pass by itself must last before the condition reports it.
pub(super) const LASTING: SignedDuration = SignedDuration::from_secs(60);

/// A cause that may pass by itself, and counts once it has lasted.
pub(super) fn lasting(reason: &'static str, message: String, since: Option<Timestamp>) -> Cause {
    let from = since
        .and_then(|since| since.checked_add(LASTING).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH);
    Cause::new(Grade::Lasting, reason, message, from)
}
