//! Fields of a template, and the errors of invalid ones.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// A template or patch from which no workload can be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::uniteddeployment) struct Invalid {
    /// Path below the workload's template, as in `spec.template`, or below the subset, as in
    /// `patch.spec`.
    pub(in crate::uniteddeployment) field: String,
    /// The value, the cause and the remedy.
    pub(in crate::uniteddeployment) problem: String,
    /// Whether the field is the subset's, and not the template's.
    pub(in crate::uniteddeployment) of_subset: bool,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// The labels or annotations of a template's metadata. Values that are no text are left out.
pub(in crate::uniteddeployment) fn texts(
    metadata: Option<&Value>,
    field: &str,
) -> BTreeMap<String, String> {
    let map = metadata
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    map.into_iter().flatten().filter_map(text).collect()
}

/// The object in a field, which is created if it is missing.
pub(super) fn child<'a>(
    map: &'a mut Map<String, Value>,
    field: &str,
    parent: &str,
) -> Result<&'a mut Map<String, Value>, Invalid> {
    let value = map.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value
        .as_object_mut()
        .ok_or_else(|| no_object(&format!("{parent}.{field}")))
}

/// The list in a field, which is created if it is missing.
pub(super) fn list<'a>(
    map: &'a mut Map<String, Value>,
    field: &str,
    parent: &str,
) -> Result<&'a mut Vec<Value>, Invalid> {
    let value = map.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = json!([]);
    }
    value
        .as_array_mut()
        .ok_or_else(|| invalid(&format!("{parent}.{field}"), "is no list; write a list"))
}

pub(super) fn no_object(field: &str) -> Invalid {
    invalid(field, "is no object; write an object")
}

pub(super) fn invalid(field: &str, problem: &str) -> Invalid {
    Invalid {
        field: field.to_owned(),
        problem: problem.to_owned(),
        of_subset: false,
    }
}

/// A value of Kubernetes' types as JSON; these have text keys and always serialise.
pub(super) fn value<T: Serialize>(typed: &T) -> Value {
    serde_json::to_value(typed).unwrap_or_default()
}
