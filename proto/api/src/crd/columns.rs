//! The columns of `kubectl get`: OpenKruise's, in its order.

use serde_json::{Value, json};

use crate::kinds::Version;

/// A column.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    type_: &'static str,
    path: &'static str,
    description: &'static str,
    /// Only `kubectl get -o wide` shows it.
    is_wide: bool,
    /// No other version has it.
    only_in: Option<Version>,
}

impl Column {
    /// The time since the creation, which every kind has.
    pub(crate) const AGE: Self = Self::new("AGE", "date", ".metadata.creationTimestamp", "Time since the creation.");

    const fn new(name: &'static str, type_: &'static str, path: &'static str, description: &'static str) -> Self {
        Self { name, type_, path, description, is_wide: false, only_in: None }
    }

    /// A column of numbers.
    pub(crate) const fn integer(name: &'static str, path: &'static str, description: &'static str) -> Self {
        Self::new(name, "integer", path, description)
    }

    /// A column of texts.
    pub(crate) const fn string(name: &'static str, path: &'static str, description: &'static str) -> Self {
        Self::new(name, "string", path, description)
    }

    /// The same, that only `kubectl get -o wide` shows.
    pub(crate) const fn wide(self) -> Self {
        Self { is_wide: true, ..self }
    }

    /// The same, in one version alone.
    pub(crate) const fn only_in(self, version: Version) -> Self {
        Self { only_in: Some(version), ..self }
    }

    fn to_json(self) -> Value {
        let Self { name, type_, path, description, is_wide, .. } = self;
        let mut column = json!({"name": name, "type": type_, "jsonPath": path, "description": description});
        if is_wide {
            column["priority"] = json!(1);
        }
        column
    }
}

/// Those of a version.
pub(super) fn of(columns: &[Column], version: Version) -> Vec<Value> {
    let shown = columns.iter().filter(|column| column.only_in.is_none_or(|only_in| only_in == version));
    shown.map(|column| column.to_json()).collect()
}
