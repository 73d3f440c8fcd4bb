//! Rules of the fields that both kinds of budgets share.

use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Value, json};

use super::field::checks;
use super::rules::{reported_at, rule};

/// Why a budget's selector cannot be empty.
pub(crate) const SELECTS_EVERY_POD: &str =
    "is empty and would select every pod: set matchLabels or matchExpressions";

/// Allows a number, or a percentage up to all.
pub(crate) fn amount(schema: &mut Schema) {
    let valid =
        "type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^([0-9]{1,2}|100)%$')";
    let message = "'is \"%s\", but must be a number from 0 to 2147483647 or a percentage from \"0%%\" to \"100%%\"'.format([self])";
    checks([rule(valid, message)]).transform(schema);
}

/// Exactly one of two fields.
pub(crate) fn one_of(one: &str, other: &str) -> Value {
    let valid = format!("has(self.{one}) != has(self.{other})");
    let message = format!(
        "has(self.{one}) ? 'has both {one} and {other}: remove one of them' : 'has neither {one} nor {other}: set one of them'"
    );
    reported_at(&format!(".{one}"), rule(valid, message))
}

/// A field that cannot change after the creation.
pub(crate) fn unchanged(field: &str) -> Value {
    let valid = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    let message = "cannot be changed: create another budget, then delete this one";
    json!({"rule": valid, "reason": "FieldValueForbidden", "fieldPath": format!(".{field}"), "message": message})
}
