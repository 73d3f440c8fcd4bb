//! The columns of `kubectl get`: OpenKruise's, in its order, and `BLOCKED`.

use serde_json::{Value, json};

/// A column.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    type_: &'static str,
    path: &'static str,
    description: &'static str,
    /// Only `kubectl get -o wide` shows it.
    is_wide: bool,
}

impl Column {
    /// The time since the creation, which every kind has.
    pub(crate) const AGE: Self = Self::new(
        "AGE",
        "date",
        ".metadata.creationTimestamp",
        "Time since the creation.",
    );

    /// The cause that holds the object back, where there is one.
    pub(crate) const BLOCKED: Self = Self::string(
        "BLOCKED",
        ".status.conditions[?(@.type=='Blocked')].reason",
        "The reason of the condition Blocked, which is there as long as something holds the object back.",
    )
    .wide();

    const fn new(
        name: &'static str,
        type_: &'static str,
        path: &'static str,
        description: &'static str,
    ) -> Self {
        Self {
            name,
            type_,
            path,
            description,
            is_wide: false,
        }
    }

    /// A column of numbers.
    pub(crate) const fn integer(
        name: &'static str,
        path: &'static str,
        description: &'static str,
    ) -> Self {
        Self::new(name, "integer", path, description)
    }

    /// A column of texts.
    pub(crate) const fn string(
        name: &'static str,
        path: &'static str,
        description: &'static str,
    ) -> Self {
        Self::new(name, "string", path, description)
    }

    /// The same, that only `kubectl get -o wide` shows.
    pub(crate) const fn wide(self) -> Self {
        Self {
            is_wide: true,
            ..self
        }
    }

    fn to_json(self) -> Value {
        let Self {
            name,
            type_,
            path,
            description,
            is_wide,
        } = self;
        let mut column =
            json!({"name": name, "type": type_, "jsonPath": path, "description": description});
        if is_wide {
            column["priority"] = json!(1);
        }
        column
    }
}

/// All of them, as a definition has them.
pub(crate) fn all(columns: &[Column]) -> Vec<Value> {
    columns.iter().map(|column| column.to_json()).collect()
}
