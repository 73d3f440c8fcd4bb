//! Numbers and percentages of the replicas, and whether they fit together.

use serde_json::Value;

use crate::schema::rules::{reported_at, rule, unless_unchanged};

/// A number, or a whole percentage of the replicas. The rule stands at the subset, because the type
/// of a value of two forms is costly where the value itself is `self`.
pub(super) fn share(field: &str) -> Value {
    let value = format!("self.{field}");
    let valid = format!(
        "!has({value}) || type({value}) == int || {}[?{value}].hasValue()",
        percentages()
    );
    let message = format!(
        "'is \"%s\", but must be a number from 0 to 2147483647 or a whole percentage from \"0%%\" to \"100%%\"'\
         .format([{value}])"
    );
    reported_at(&format!(".{field}"), rule(valid, message))
}

/// An expression: the number of each percentage. The apiserver takes a percentage for a text
/// without bound, and refuses rules that read it; to look it up is cheap.
fn percentages() -> String {
    let each: Vec<_> = (0..=100)
        .map(|percent| format!("'{percent}%':{percent}"))
        .collect();
    format!("{{{}}}", each.join(","))
}

/// An expression: a subset's field as a number of pods, rounded half up. `spec.replicas` is there.
/// A percentage of another form, which another rule refuses, is 0.
fn pods(field: &str) -> String {
    format!(
        "(type({field}) == int ? int({field}) : ({}[?{field}].orValue(0) * self.replicas + 50) / 100)",
        percentages()
    )
}

/// A write to the scale changes no topology, and must pass.
fn unless_scaled(rule: Value) -> Value {
    unless_unchanged(&["topology"], rule)
}

const NOTHING_TO_DIVIDE: &str =
    "!has(self.replicas) || !has(self.topology) || !has(self.topology.subsets)";

pub(super) fn bounds() -> Value {
    let (min, max) = (pods("s.minReplicas"), pods("s.maxReplicas"));
    let crossed = format!("has(s.minReplicas) && has(s.maxReplicas) && {min} > {max}");
    let valid = format!("{NOTHING_TO_DIVIDE} || !self.topology.subsets.exists(s, {crossed})");
    let message = format!(
        "'have minReplicas above maxReplicas in %s: lower the first or raise the second'\
         .format([self.topology.subsets.filter(s, {crossed}).map(s, s.name)])"
    );
    unless_scaled(reported_at(".topology.subsets", rule(valid, message)))
}

fn sum() -> String {
    format!(
        "self.topology.subsets.map(s, has(s.replicas) ? {} : 0).sum()",
        pods("s.replicas")
    )
}

pub(super) fn sum_is_less() -> Value {
    let sum = sum();
    let message = format!(
        "'have replicas that add up to %d, but spec.replicas is %d: lower the first or raise the second'\
         .format([{sum}, self.replicas])"
    );
    let valid = format!("{NOTHING_TO_DIVIDE} || {sum} <= self.replicas");
    unless_scaled(reported_at(".topology.subsets", rule(valid, message)))
}

pub(super) fn sum_is_equal() -> Value {
    let sum = sum();
    let message = format!(
        "'all have replicas, which add up to %d, but spec.replicas is %d: set spec.replicas to the sum, or remove replicas \
         from one subset, so that it gets the rest'.format([{sum}, self.replicas])"
    );
    let valid = format!(
        "{NOTHING_TO_DIVIDE} || size(self.topology.subsets) == 0 || \
         self.topology.subsets.exists(s, !has(s.replicas)) || {sum} >= self.replicas"
    );
    unless_scaled(reported_at(".topology.subsets", rule(valid, message)))
}
