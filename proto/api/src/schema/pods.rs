//! What every kind that owns pods says of its selector, its hooks and its order.

use serde_json::json;

use super::patch::Patch;
use super::rules::{
    LABEL_KEY, at, check, label_selector, not_empty, reported_at, rule, unless_unchanged,
};

/// Lifecycle hooks: a finalizer that no pod can have would hold pods for ever after their creation or update.
pub(crate) fn hooks() -> impl Iterator<Item = Patch> {
    let valid = "self.all(name, name.matches('^[^/]+/[^/]+$'))";
    let message = "'has %s, but a finalizer is a domain, / and a name, such as \"example.com/in-use\"'\
                   .format([self.filter(name, !name.matches('^[^/]+/[^/]+$'))])";
    ["preDelete", "inPlaceUpdate", "preNormal"]
        .into_iter()
        .flat_map(move |hook| {
            let path = format!("spec.lifecycle.{hook}.finalizersHandler");
            let limits =
                json!({"maxItems": 100, "items": {"type": "string", "maxLength": LABEL_KEY}});
            [at(&path, limits), at(&path, check(&[rule(valid, message)]))]
        })
}

/// The selector: not empty, never changed, matching the template.
pub(crate) fn selector(kind: &str) -> Vec<Patch> {
    let mut rules = label_selector("spec.selector");
    rules.push(at(
        "spec.selector",
        check(&[
            not_empty("is empty and would select every pod of the namespace: set matchLabels or matchExpressions"),
            json!({"rule": "self == oldSelf", "reason": "FieldValueForbidden",
                   "message": format!("cannot be changed, the pods it selected would be left behind: create another {kind} with the new selector")}),
        ]),
    ));
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
    rules.push(at(
        "spec",
        check(&[
            unless_unchanged(
                &inputs,
                reported_at(".template.metadata.labels", rule(by_labels, wanted)),
            ),
            unless_unchanged(
                &inputs,
                reported_at(".template.metadata.labels", rule(by_expressions, failing)),
            ),
        ]),
    ));
    rules
}

/// Which pods are updated first: one of two lists, and no more than can be looked through. `priority` is the field's path.
pub(crate) fn priority(priority: &str) -> Vec<Patch> {
    let one = "!(has(self.orderPriority) && size(self.orderPriority) > 0 && has(self.weightPriority) && size(self.weightPriority) > 0)";
    let mut rules = label_selector(&format!("{priority}.weightPriority[].matchSelector"));
    rules.extend([
        at(
            priority,
            check(&[json!({"rule": one, "message": "has both orderPriority and weightPriority: remove one of them"})]),
        ),
        at(format!("{priority}.orderPriority"), json!({"maxItems": 100})),
        at(format!("{priority}.orderPriority[].orderedKey"), json!({"minLength": 1, "maxLength": LABEL_KEY})),
        at(format!("{priority}.weightPriority"), json!({"maxItems": 100})),
        at(format!("{priority}.weightPriority[].weight"), json!({"minimum": 0, "maximum": 100})),
        at(
            format!("{priority}.weightPriority[].matchSelector"),
            json!({
                "description": "The pods that get the weight, by their labels.",
                "x-kubernetes-validations": [not_empty("is empty: set matchLabels or matchExpressions")],
            }),
        ),
    ]);
    rules
}
