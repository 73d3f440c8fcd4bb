//! Rules of a DaemonSet.

use kube::core::{Message, Rule};
use serde_json::{Value, json};

use crate::schema::rules::{PERCENT, is_zero, reported_at, rule};

/// The longest name: with a dash and ten characters behind it, it is the name of a revision.
const LONGEST_NAME: usize = 242;

/// Pods and revisions are named after the DaemonSet.
pub(crate) fn name() -> Rule {
    let valid = format!("oldSelf.hasValue() || size(self.metadata.name) <= {LONGEST_NAME}");
    let message = format!(
        "'has a name of %d characters, but its revisions have longer ones made from it: use at most {LONGEST_NAME}'\
         .format([size(self.metadata.name)])"
    );
    Rule::new(valid)
        .message(Message::Expression(message))
        .optional_old_self(true)
}

pub(crate) fn more_than_none() -> Value {
    let message = "'is \"%s\", which creates and deletes no pod: set it to at least 1, or to a percentage'.format([self])";
    rule(format!("!{}", is_zero("self")), message)
}

pub(super) fn not_above_all() -> Value {
    let valid = format!(
        "type(self) == int || !self.matches('{PERCENT}') || double(self.replace('%', '')) <= 100.0"
    );
    rule(
        valid,
        "'is \"%s\", but there are no more than all nodes: use at most \"100%%\"'.format([self])",
    )
}

/// An expression: is a field of the rolling update above 0? Absent it is not.
fn is_positive(field: &str) -> String {
    let path = format!("self.rollingUpdate.{field}");
    format!("(has({path}) && !{})", is_zero(&path))
}

/// Rules of how pods are updated: exactly one of two numbers is above 0.
pub(super) fn v1beta1_ways() -> [Value; 3] {
    [some_way(""), one_way(), in_place_without_surge()]
}

/// The same of v1alpha1, which has Surging besides.
pub(crate) fn v1alpha1_ways() -> [Value; 5] {
    let surging = "self.rollingUpdate.rollingUpdateType == 'Surging' || ";
    let [unavailable, surge] = self::surging();
    [
        some_way(surging),
        one_way(),
        in_place_without_surge(),
        unavailable,
        surge,
    ]
}

/// What is filled in where neither number is given is 1 and 0; beside the other an absent one is 0.
/// For Surging see [`surging`].
fn some_way(surging: &str) -> Value {
    let given = |field: &str| format!("has(self.rollingUpdate.{field})");
    let valid = format!(
        "!has(self.rollingUpdate) || {surging}(!{} && !{}) || {} || {}",
        given("maxUnavailable"),
        given("maxSurge"),
        is_positive("maxUnavailable"),
        is_positive("maxSurge"),
    );
    let message = "is 0 or absent and maxSurge is, too, which leaves no way to update a pod: set one of them to at least 1";
    reported_at(
        ".rollingUpdate.maxUnavailable",
        json!({"rule": valid, "message": message}),
    )
}

/// Surging sets an absent maxSurge to 1 and an absent maxUnavailable to 0, each independently of
/// the other.
fn surging() -> [Value; 2] {
    let valid = |ok: &str| {
        format!(
            "!has(self.rollingUpdate) || self.rollingUpdate.rollingUpdateType != 'Surging' || {ok}"
        )
    };
    let message = |field: &str, problem: &str| {
        format!("'is \"%s\", {problem}'.format([self.rollingUpdate.{field}])")
    };
    let unavailable = rule(
        valid(&format!("!{}", is_positive("maxUnavailable"))),
        message(
            "maxUnavailable",
            "but with rollingUpdateType Surging no old pod goes before the new one is there: set it to 0 or remove it, or set \
             rollingUpdateType to Standard",
        ),
    );
    let surge = rule(
        valid(&format!(
            "!has(self.rollingUpdate.maxSurge) || !{}",
            is_zero("self.rollingUpdate.maxSurge")
        )),
        message(
            "maxSurge",
            "which with rollingUpdateType Surging leaves no way to update a pod: set it to at least 1 or remove it",
        ),
    );
    [
        reported_at(".rollingUpdate.maxUnavailable", unavailable),
        reported_at(".rollingUpdate.maxSurge", surge),
    ]
}

/// No update of a DaemonSet waits for the hook. The rule accepts preNormal, which has no effect
/// either, as OpenKruise does: the chart's policy warns.
pub(crate) fn no_hook_of_updates() -> Value {
    let message = "is set, but no update of a DaemonSet's pods waits for a hook: remove it, preDelete is the one that is heeded";
    reported_at(
        ".inPlaceUpdate",
        json!({"rule": "!has(self.inPlaceUpdate)", "message": message}),
    )
}

/// A node has its old pod gone first, or its new one there first.
fn one_way() -> Value {
    let both = format!(
        "{} && {}",
        is_positive("maxUnavailable"),
        is_positive("maxSurge")
    );
    let valid = format!("!has(self.rollingUpdate) || !({both})");
    let message = "is above 0 and so is maxUnavailable: set one of them to 0";
    reported_at(
        ".rollingUpdate.maxSurge",
        json!({"rule": valid, "message": message}),
    )
}

fn in_place_without_surge() -> Value {
    let valid = format!(
        "!has(self.rollingUpdate) || self.rollingUpdate.rollingUpdateType != 'InPlaceIfPossible' || !{}",
        is_positive("maxSurge")
    );
    let message = "is above 0, but in place no second pod is made: set it to 0, or rollingUpdateType to Standard";
    reported_at(
        ".rollingUpdate.maxSurge",
        json!({"rule": valid, "message": message}),
    )
}
