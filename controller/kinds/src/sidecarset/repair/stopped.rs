//! Successors that lack the same: repair stops, and tries again with another pod later, each time after twice as long.

use berth_api::v1beta1::sidecarset::SidecarSetRepair;
use jiff::{SignedDuration, Timestamp};

use super::super::Snapshot;
use super::{Turn, held};

/// How long after the first stop another pod is replaced.
const FIRST: SignedDuration = SignedDuration::from_secs(60);

/// The longest time between two tries.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// A successor lacks the same, as these words say.
pub(super) fn stopped(snapshot: &Snapshot, record: &SidecarSetRepair, words: &str, now: Timestamp) -> Turn<'static> {
    let since = record.stopped.as_ref().map_or(now, |since| since.0);
    let wait = pause(record.stops);
    // A clock that was set back makes nobody wait longer.
    let left = wait.saturating_sub(now.duration_since(since).abs());
    // What calls answer by now they may not have answered when the successor was created.
    if !left.is_positive() && held(snapshot).is_none() {
        return Turn::Over(record.stops.saturating_add(1));
    }
    let minutes = wait.as_mins();
    let why = format!(
        "{words}: see the condition InjectionReady and the logs of kruise-controller-manager; repair goes on at once when that pod is \
         deleted and another has the containers, and else takes another pod {minutes} min after it stopped"
    );
    Turn::Stopped(why, since, left)
}

/// How long repair waits after so many stops before.
fn pause(stops: i32) -> SignedDuration {
    let doubled = 1_i32.checked_shl(stops.clamp(0, 16).unsigned_abs()).unwrap_or(i32::MAX);
    FIRST.saturating_mul(doubled).min(LONGEST)
}
