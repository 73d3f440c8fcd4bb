//! Names of the set's pods that pods of other owners have.

use berth_workload::blocked::{Cause, Grade};
use jiff::Timestamp;

use super::super::Snapshot;
use super::super::create::name_taken_by;
use super::lasting::LASTING;

/// The causes for pods of other owners that have names of the set's pods.
pub(super) fn taken(snapshot: &Snapshot, now: Timestamp) -> impl Iterator<Item = Cause> {
    let workload = snapshot.view().workload;
    snapshot
        .own
        .others
        .iter()
        .filter(|(name, _)| !snapshot.orphans.has_pod(name))
        .map(move |(name, other)| {
            let message = format!(
                "{workload}: pod {name} cannot be made: {}; delete it",
                name_taken_by(other)
            );
            let due = other
                .metadata
                .deletion_timestamp
                .and_then(|going| going.checked_add(LASTING).ok());
            Cause::new(Grade::Failing, "NameTaken", message, due.unwrap_or(now))
        })
}
