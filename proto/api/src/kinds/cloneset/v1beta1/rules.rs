//! Rules of a CloneSet. Each version names its own fields in them.

use serde_json::{Value, json};

use crate::schema::rules::{is_zero, reported_at, rule, unless_unchanged};

/// Rules of the spec of v1beta1.
pub(crate) fn v1beta1_rules() -> [Value; 2] {
    of_spec(
        "has(self.updateStrategy) && has(self.updateStrategy.rollingUpdate)",
        "updateStrategy.rollingUpdate",
    )
}

/// Rules of the spec of v1alpha1.
pub(crate) fn v1alpha1_rules() -> [Value; 2] {
    of_spec("has(self.updateStrategy)", "updateStrategy")
}

/// Rules of a spec that has the limits of an update at the path `update`.
fn of_spec(has_update: &str, update: &str) -> [Value; 2] {
    let (unavailable, surge) = (
        format!("{update}.maxUnavailable"),
        format!("{update}.maxSurge"),
    );
    [
        unless_unchanged(
            &["replicas", &unavailable, &surge, "updateStrategy.type"],
            no_way_to_update(has_update, &unavailable, &surge),
        ),
        unless_unchanged(
            &["minReadySeconds", "progressDeadlineSeconds"],
            deadline_after_ready(),
        ),
    ]
}

/// InPlaceOnly never replaces pods, so an update needs none beyond the replicas.
pub(crate) fn surge_in_place(policy: &str) -> Value {
    let valid = format!(
        "!has(self.{policy}) || self.{policy} != 'InPlaceOnly' || !has(self.maxSurge) || {}",
        is_zero("self.maxSurge")
    );
    let message = format!(
        "'is \"%s\", but InPlaceOnly never replaces pods: set it to 0, or {policy} to InPlaceIfPossible'.format([self.maxSurge])"
    );
    reported_at(".maxSurge", rule(valid, message))
}

/// With neither a pod to miss nor one to add, no update could begin.
fn no_way_to_update(has_update: &str, unavailable: &str, surge: &str) -> Value {
    let strategy = "self.updateStrategy";
    let on_delete = format!("has({strategy}.type) && {strategy}.type == 'OnDelete'");
    let (field, surge) = (format!("self.{unavailable}"), format!("self.{surge}"));
    let stuck = format!(
        "has({field}) && {} && (!has({surge}) || {})",
        is_zero(&field),
        is_zero(&surge)
    );
    let valid = format!(
        "(has(self.replicas) && self.replicas == 0) || !({has_update}) || ({on_delete}) || !({stuck})"
    );
    let message = "is 0 and so is maxSurge, which leaves no way to update a pod: set one of them to at least 1";
    reported_at(
        &format!(".{unavailable}"),
        json!({"rule": valid, "message": message}),
    )
}

fn deadline_after_ready() -> Value {
    let valid = "!has(self.progressDeadlineSeconds) || !has(self.minReadySeconds) || \
                 self.progressDeadlineSeconds == 2147483647 || self.progressDeadlineSeconds > self.minReadySeconds";
    let message = "'is %d, but must be more than minReadySeconds, which is %d: no pod could be available in time'\
                   .format([self.progressDeadlineSeconds, self.minReadySeconds])";
    reported_at(".progressDeadlineSeconds", rule(valid, message))
}
