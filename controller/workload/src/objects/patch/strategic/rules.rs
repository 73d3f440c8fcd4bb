//! The rules of a strategic merge patch: directives, merged lists, and the form of a fault.

use std::fmt;

use serde_json::Value;

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// Lists that a patch merges: the fields that hold the list, the list, and the key of its elements.
/// A list without a key holds texts.
pub(super) const MERGED_LISTS: [(&[&str], &str, Option<&str>); 16] = [
    (&["metadata"], "finalizers", None),
    (&["metadata"], "ownerReferences", Some("uid")),
    (&["spec"], "containers", Some("name")),
    (&["spec"], "initContainers", Some("name")),
    (&["spec"], "ephemeralContainers", Some("name")),
    (&["spec"], "volumes", Some("name")),
    (&["spec"], "imagePullSecrets", Some("name")),
    (&["spec"], "hostAliases", Some("ip")),
    (&["spec"], "topologySpreadConstraints", Some("topologyKey")),
    (&["spec"], "schedulingGates", Some("name")),
    (&["spec"], "resourceClaims", Some("name")),
    (&["spec"], "evictionResponders", Some("name")),
    (&CONTAINERS, "ports", Some("containerPort")),
    (&CONTAINERS, "env", Some("name")),
    (&CONTAINERS, "volumeMounts", Some("mountPath")),
    (&CONTAINERS, "volumeDevices", Some("devicePath")),
];

pub(super) const DIRECTIVE: &str = "$patch";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder";
pub(super) const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// A patch that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPatch {
    /// The path of the field in the patch, as in `spec.containers[1].env`; empty for the patch
    /// itself.
    pub field: String,
    /// The value, the cause and the remedy.
    pub problem: String,
}

impl InvalidPatch {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self {
            field: String::new(),
            problem: problem.into(),
        }
    }

    /// The same error in a field of this name.
    pub(super) fn within(mut self, name: &str) -> Self {
        let separator = if self.field.is_empty() || self.field.starts_with('[') {
            ""
        } else {
            "."
        };
        self.field = format!("{}{separator}{}", shown(name), self.field);
        self
    }

    /// The same error in an element of a list.
    pub(super) fn at(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }
}

impl fmt::Display for InvalidPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.field.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", self.field, self.problem)
    }
}

/// How a patch changes a list.
#[derive(Clone, Copy)]
pub(super) enum ListStrategy {
    Replace,
    /// Merged by this key of the elements; lists of texts have none.
    Merge(Option<&'static str>),
}

pub(super) fn strategy(holder: &str, field: &str) -> ListStrategy {
    let found = MERGED_LISTS
        .iter()
        .find(|(holders, list, _)| *list == field && holders.contains(&holder));
    found.map_or(ListStrategy::Replace, |(_, _, key)| {
        ListStrategy::Merge(*key)
    })
}

/// The field that a directive with a prefix and a slash names.
pub(super) fn target<'a>(directive: &'a str, prefix: &str) -> Result<&'a str, InvalidPatch> {
    let field = directive
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('/'));
    field.ok_or_else(|| {
        let problem = format!("names no list; write {prefix}/ and the name of the list");
        InvalidPatch::new(problem).within(directive)
    })
}

pub(super) fn unknown_directive(directive: &Value) -> InvalidPatch {
    let value = shown(&directive.to_string());
    InvalidPatch::new(format!("is {value}, but must be \"replace\" or \"delete\""))
        .within(DIRECTIVE)
}

pub(super) fn has_directive(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|map| map.contains_key(DIRECTIVE))
}

pub(super) fn is_directive(name: &str) -> bool {
    name == DIRECTIVE
        || name == RETAIN_KEYS
        || name.starts_with(SET_ELEMENT_ORDER)
        || name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
}

/// Without objects that hold `$patch`: a directive about a field that is not there does nothing.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(list) => Some(Value::Array(
            list.into_iter().filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}

/// The type of a value, for messages.
pub(super) fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The beginning of a text of any length.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}
