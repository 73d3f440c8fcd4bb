//! Whom a change of an object concerns.

use berth_runtime::Change;

/// Both sides of a change: an object that changes its owner concerns both.
pub(crate) fn each<T>(change: &Change<T>, mut concerns: impl FnMut(&T)) {
    match change {
        Change::Applied { old, new } => {
            old.iter().for_each(|old| concerns(old));
            concerns(new);
        }
        Change::Deleted { old } => concerns(old),
        Change::Synced => {}
    }
}
