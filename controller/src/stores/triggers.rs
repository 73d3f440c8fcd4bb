//! Which objects a change concerns, and whether it is a reason to reconcile.

use berth_runtime::Change;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Calls `concerns` for both sides of a change: an object that changes its owner concerns both.
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

/// Whether metadata and status before and now are a reason to decide again. Another message in a
/// condition is the controller's own and no reason: the message of a refusal names another new pod
/// each time, so each would cause the next try at once. `without_words` removes messages and times
/// from a status.
pub(crate) fn is_trigger<S: Clone + Default + PartialEq>(
    old: (&ObjectMeta, &Option<S>),
    new: (&ObjectMeta, &Option<S>),
    without_words: impl Fn(&mut S),
) -> bool {
    let facts = |status: &Option<S>| {
        let mut status = status.clone().unwrap_or_default();
        without_words(&mut status);
        status
    };
    let (a, b) = (old.0, new.0);
    (
        a.generation,
        &a.labels,
        &a.annotations,
        &a.deletion_timestamp,
    ) != (
        b.generation,
        &b.labels,
        &b.annotations,
        &b.deletion_timestamp,
    ) || facts(old.1) != facts(new.1)
}
