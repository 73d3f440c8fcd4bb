//! The common rules for the selector of kinds that own pods.

use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Value, json};

use super::field::{checks, label_selector};
use super::rules::{not_empty, reported_at, rule, unless_unchanged};

/// Adds the rules of a selector, which is not empty and never changes.
pub(crate) fn selector(kind: &str) -> impl Transform {
    let empty =
        "is empty and would select every pod of the namespace: set matchLabels or matchExpressions";
    let changed = format!(
        "cannot be changed, the pods it selected would be left behind: create another {kind} with the new selector"
    );
    let stays =
        json!({"rule": "self == oldSelf", "reason": "FieldValueForbidden", "message": changed});
    move |schema: &mut Schema| {
        label_selector(schema);
        checks([not_empty(empty), stays.clone()]).transform(schema);
    }
}

/// Rules of a spec whose selector must match its template.
pub(crate) fn selector_matches_template() -> [Value; 2] {
    let labels = "self.template.?metadata.?labels";
    let missing = format!(
        "!({labels}[?k].orValue('') == self.selector.matchLabels[k] && {labels}[?k].hasValue())"
    );
    let by_labels = format!(
        "!has(self.selector.matchLabels) || !self.selector.matchLabels.exists(k, {missing})"
    );
    let wanted = "'must have what spec.selector.matchLabels asks for, %s: set the same labels in both'.format([self.selector.matchLabels])";
    let value = format!("{labels}[?e.key]");
    let holds = format!(
        "e.operator == 'Exists' ? {value}.hasValue() : e.operator == 'DoesNotExist' ? !{value}.hasValue() : \
         (e.operator == 'In') == ({value}.hasValue() && has(e.values) && {value}.value() in e.values)"
    );
    let inputs = ["selector", "template.metadata.labels"];
    let by_expressions = format!(
        "!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, {holds})"
    );
    let failing = format!(
        "'must fulfil spec.selector.matchExpressions, but does not for %s: change these labels or the selector'\
         .format([self.selector.matchExpressions.filter(e, !({holds})).map(e, e.key)])"
    );
    [rule(by_labels, wanted), rule(by_expressions, failing)]
        .map(|rule| unless_unchanged(&inputs, reported_at(".template.metadata.labels", rule)))
}
