//! PodUnavailableBudget: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::Version;
use crate::budget::{MOST_CONTAINERS, MOST_ENTRIES, MOST_REPLACEMENTS};
use crate::crd::Schema;
use crate::crd::columns::Column;
use crate::crd::patch::Patch;
use crate::crd::rules::{
    at, check, conditions, int32, label_selector, not_empty, reported_at, rule,
};
use crate::{v1alpha1, v1beta1};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::PodUnavailableBudget::crd,
        v1alpha1::PodUnavailableBudget::crd,
    ],
    rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer(
        "Allowed",
        ".status.unavailableAllowed",
        "Pods that may be taken out of service now.",
    ),
    Column::integer(
        "Current",
        ".status.currentAvailable",
        "Pods that are available.",
    ),
    Column::integer(
        "Desired",
        ".status.desiredAvailable",
        "Pods that must stay available.",
    ),
    Column::integer("Total", ".status.totalReplicas", "Pods that are expected."),
    Column::AGE,
];

/// The longest name of whoever was allowed something.
pub(crate) const HOLDER: u32 = 512;

fn rules(version: Version) -> Vec<Patch> {
    let mut rules = vec![
        at(
            "spec",
            check(&[
                one_of("selector", "targetRef"),
                one_of("maxUnavailable", "minAvailable"),
            ]),
        ),
        at(
            "spec",
            check(&[unchanged("selector"), unchanged("targetRef")]),
        ),
        at(
            "spec.targetRef.apiVersion",
            json!({"minLength": 1, "maxLength": 253}),
        ),
        at(
            "spec.targetRef.kind",
            json!({"minLength": 1, "maxLength": 63}),
        ),
        at(
            "spec.targetRef.name",
            json!({"minLength": 1, "maxLength": 253}),
        ),
        at("spec.unhealthyPodPolicy", json!({"default": "AlwaysAllow"})),
        amount("spec.maxUnavailable"),
        amount("spec.minAvailable"),
    ];
    rules.extend(label_selector("spec.selector"));
    rules.push(at(
        "spec.selector",
        check(&[not_empty(
            "is empty and would select every pod: set matchLabels or matchExpressions",
        )]),
    ));
    if version == Version::V1Beta1 {
        rules.push(at("spec.protectOperations", json!({"maxItems": 16})));
        rules.push(int32("spec.protectTotalReplicas", 1));
        rules.extend(label_selector("spec.ignoredPodSelector"));
        let message = "is empty and would select every pod, so that none was protected: set matchLabels or matchExpressions, or remove it";
        rules.push(at("spec.ignoredPodSelector", check(&[not_empty(message)])));
    }
    rules.extend(status());
    rules
}

fn status() -> Vec<Patch> {
    let names = || json!({"maxProperties": MOST_ENTRIES});
    let mut rules = vec![
        at("status.disruptedPods", names()),
        at("status.unavailablePods", names()),
    ];
    rules.extend(ledger());
    rules.extend(conditions("Enforced or Blocked."));
    rules
}

/// The bounds of a ledger.
pub(super) fn ledger() -> Vec<Patch> {
    let (entries, replacements) = ("status.ledger.entries", "status.ledger.replacements");
    vec![
        at("status.ledger.counted", json!({"maxLength": 64})),
        at("status.ledger.settled", json!({"maxLength": 64})),
        at("status.ledger.selector", json!({"maxLength": 65_536})),
        at(entries, json!({"maxItems": MOST_ENTRIES})),
        at(replacements, json!({"maxItems": MOST_REPLACEMENTS})),
        at(format!("{replacements}[].pod"), json!({"maxLength": 253})),
        at(format!("{replacements}[].uid"), json!({"maxLength": 128})),
        at(
            format!("{replacements}[].holder"),
            json!({"maxLength": HOLDER}),
        ),
        at(
            format!("{replacements}[].deployment.name"),
            json!({"maxLength": 253}),
        ),
        at(
            format!("{replacements}[].deployment.uid"),
            json!({"maxLength": 128}),
        ),
        at(format!("{entries}[].pod"), json!({"maxLength": 253})),
        at(format!("{entries}[].uid"), json!({"maxLength": 128})),
        at(format!("{entries}[].holder"), json!({"maxLength": HOLDER})),
        at(format!("{entries}[].grant"), json!({"maxLength": 64})),
        at(
            format!("{entries}[].containerIDs"),
            json!({"maxItems": MOST_CONTAINERS, "items": {"type": "string", "maxLength": 256}}),
        ),
    ]
}

/// A number, or a percentage up to all.
pub(super) fn amount(path: &str) -> Patch {
    let valid =
        "type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^([0-9]{1,2}|100)%$')";
    let message = "'is \"%s\", but must be a number from 0 to 2147483647 or a percentage from \"0%%\" to \"100%%\"'.format([self])";
    at(path, check(&[rule(valid, message)]))
}

/// Exactly one of two fields.
pub(super) fn one_of(one: &str, other: &str) -> Value {
    let valid = format!("has(self.{one}) != has(self.{other})");
    let message = format!(
        "has(self.{one}) ? 'has both {one} and {other}: remove one of them' : 'has neither {one} nor {other}: set one of them'"
    );
    reported_at(&format!(".{one}"), rule(valid, message))
}

/// A field that stays as it was made.
pub(super) fn unchanged(field: &str) -> Value {
    let valid = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    let message = "cannot be changed: create another budget, then delete this one";
    json!({"rule": valid, "reason": "FieldValueForbidden", "fieldPath": format!(".{field}"), "message": message})
}
