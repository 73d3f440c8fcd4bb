//! CEL rules, and parts of them. The attribute `transform` adds them to a field or an object, see
//! [`super::field`].
//!
//! A message names the fault, the value and the remedy; the apiserver puts the field before it.
//!
//! An object with a fault from before a rule must stay usable, so that its status and labels can
//! still change. The apiserver ensures this if the field or object with the rule did not change. It
//! cannot compare values that contain a pod template, so that rules there compare by themselves,
//! see [`unless_unchanged`].

use kube::core::{Message, Rule};
use serde_json::{Value, json};

/// The longest label value.
pub(crate) const LABEL_VALUE: u32 = 63;
/// The longest label key: prefix, slash and name.
pub(crate) const LABEL_KEY: u32 = 253 + 1 + 63;

/// A CEL rule whose message is an expression.
pub(crate) fn rule(rule: impl Into<String>, message: impl Into<String>) -> Value {
    json!({"rule": rule.into(), "messageExpression": message.into()})
}

/// Rule of an object whose name becomes part of other names and of a label.
pub(crate) fn label_name(longest: usize, why: &str) -> Rule {
    let valid = format!(
        "oldSelf.hasValue() || (size(self.metadata.name) <= {longest} && !self.metadata.name.contains('.'))"
    );
    let message = format!(
        "'has the name \"%s\", but {why}: use at most {longest} of a-z, 0-9 and -'.format([self.metadata.name])"
    );
    Rule::new(valid)
        .message(Message::Expression(message))
        .optional_old_self(true)
}

/// The same rule, reported at a field below.
pub(crate) fn reported_at(field_path: &str, mut rule: Value) -> Value {
    if let Some(rule) = rule.as_object_mut() {
        rule.insert("fieldPath".to_owned(), json!(field_path));
    }
    rule
}

/// Makes a rule of a spec accept an old fault while none of the listed fields changes.
pub(crate) fn unless_unchanged(fields: &[&str], mut rule: Value) -> Value {
    let same: Vec<_> = fields.iter().map(|field| is_same("", field)).collect();
    if let Some(rule) = rule.as_object_mut() {
        let valid = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        let valid = format!("(oldSelf.hasValue() && {}) || ({valid})", same.join(" && "));
        rule.insert("rule".to_owned(), json!(valid));
        rule.insert("optionalOldSelf".to_owned(), json!(true));
    }
    rule
}

/// Makes a rule accept an object that had the same fault before. `valid` is the rule, of `self` or
/// of the old `self`.
pub(crate) fn unless_before(valid: impl Fn(&str) -> String, mut rule: Value) -> Value {
    if let Some(rule) = rule.as_object_mut() {
        let expression = format!(
            "{} || (oldSelf.hasValue() && !({}))",
            valid("self"),
            valid("oldSelf.value()")
        );
        rule.insert("rule".to_owned(), json!(expression));
        rule.insert("optionalOldSelf".to_owned(), json!(true));
    }
    rule
}

/// An expression that says whether a field is unchanged. Each step may be missing. (Optional
/// chaining would be shorter, but the apiserver counts its result as unbounded and refuses the rule
/// as too costly.)
fn is_same(parent: &str, field: &str) -> String {
    let (name, rest) = field
        .split_once('.')
        .map_or((field, None), |(name, rest)| (name, Some(rest)));
    let path = format!("{parent}.{name}");
    let (new, old) = (format!("self{path}"), format!("oldSelf.value(){path}"));
    let same = rest.map_or_else(|| format!("{new} == {old}"), |rest| is_same(&path, rest));
    format!("(has({new}) ? has({old}) && {same} : !has({old}))")
}

/// An expression that says whether this number or percentage is 0.
pub(crate) fn is_zero(field: &str) -> String {
    format!("(type({field}) == int ? {field} == 0 : {field}.matches('^0+([.]0+)?%$'))")
}

/// A percentage that the controller can read. The controller would refuse the whole object for a
/// percentage with more digits.
pub(crate) const PERCENT: &str = "^[0-9]{1,3}([.][0-9]{1,4})?%$";

/// Rule of a completion policy: a job that never completes has neither limit.
pub(crate) fn completes_or_has_no_limits() -> Value {
    let valid = "!has(self.type) || self.type != 'Never' || !(has(self.activeDeadlineSeconds) || has(self.ttlSecondsAfterFinished))";
    let message = "has type Never, which knows neither activeDeadlineSeconds nor ttlSecondsAfterFinished: remove them, or set type to Always";
    json!({"rule": valid, "message": message})
}

/// A label selector that does not select everything.
pub(crate) fn not_empty(message: &str) -> Value {
    let rule = "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
                (has(self.matchExpressions) && size(self.matchExpressions) > 0)";
    json!({"rule": rule, "message": message})
}

/// The pattern of a name that becomes part of a request for an object. Names in a NodeImage are
/// exempt: one such name, from a job that is older than this rule, must not make the whole
/// NodeImage unwritable. The reader of the secrets checks the name.
pub(crate) const DNS_SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The pattern of a container's name.
pub(crate) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
