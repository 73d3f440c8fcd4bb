//! Rules of the fields that both kinds of budgets share.

use serde_json::{Value, json};

use super::patch::Patch;
use super::rules::{at, check, reported_at, rule};
use crate::budget::{MOST_CONTAINERS, MOST_ENTRIES, MOST_REPLACEMENTS};

/// The longest name of whoever was allowed something.
pub(crate) const HOLDER: u32 = 512;

/// The bounds of a ledger.
pub(crate) fn ledger() -> Vec<Patch> {
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
pub(crate) fn amount(path: &str) -> Patch {
    let valid =
        "type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^([0-9]{1,2}|100)%$')";
    let message = "'is \"%s\", but must be a number from 0 to 2147483647 or a percentage from \"0%%\" to \"100%%\"'.format([self])";
    at(path, check(&[rule(valid, message)]))
}

/// Exactly one of two fields.
pub(crate) fn one_of(one: &str, other: &str) -> Value {
    let valid = format!("has(self.{one}) != has(self.{other})");
    let message = format!(
        "has(self.{one}) ? 'has both {one} and {other}: remove one of them' : 'has neither {one} nor {other}: set one of them'"
    );
    reported_at(&format!(".{one}"), rule(valid, message))
}

/// A field that stays as it was made.
pub(crate) fn unchanged(field: &str) -> Value {
    let valid = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    let message = "cannot be changed: create another budget, then delete this one";
    json!({"rule": valid, "reason": "FieldValueForbidden", "fieldPath": format!(".{field}"), "message": message})
}
