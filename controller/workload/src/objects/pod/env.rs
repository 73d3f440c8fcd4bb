//! The values of a container's variables that decisions read. Other variables are not kept.

use std::fmt;

use berth_api::names::env::{CONTAINER_BARRIER, IS_INJECTED};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

/// A container's variables that decisions read and that no update of a pod can change. Eight bytes,
/// because the store holds each container of each pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Env {
    priority: i32,
    has_priority: bool,
    /// The mark of a container that a SidecarSet brought.
    pub is_injected: bool,
}

impl Env {
    fn new(priority: Option<i32>, is_injected: bool) -> Self {
        Self {
            priority: priority.unwrap_or_default(),
            has_priority: priority.is_some(),
            is_injected,
        }
    }

    /// Its launch priority, if its pod has a launch order: the higher one starts first.
    pub fn priority(&self) -> Option<i32> {
        self.has_priority.then_some(self.priority)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Variable {
    name: Box<str>,
    value: Option<IsTrue>,
    value_from: Option<Source>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Source {
    config_map_key_ref: Option<Key>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Key {
    key: Box<str>,
}

/// Whether a value is `true`. The value is not kept on the way, because it may be long.
struct IsTrue(bool);

impl<'de> Deserialize<'de> for IsTrue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = IsTrue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the value of a variable")
            }

            fn visit_str<E>(self, text: &str) -> Result<IsTrue, E> {
                Ok(IsTrue(text == "true"))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Env, D::Error> {
    let variables = Option::<Vec<Variable>>::deserialize(deserializer)?.unwrap_or_default();
    let is_mark = |variable: &Variable| {
        &*variable.name == IS_INJECTED
            && variable
                .value
                .as_ref()
                .is_some_and(|IsTrue(is_true)| *is_true)
    };
    let is_injected = variables.iter().any(is_mark);
    let barrier = variables
        .into_iter()
        .find(|variable| &*variable.name == CONTAINER_BARRIER);
    let key = barrier
        .and_then(|variable| variable.value_from?.config_map_key_ref)
        .map(|reference| reference.key);
    Ok(Env::new(
        key.and_then(|key| key.strip_prefix("p_")?.parse().ok()),
        is_injected,
    ))
}

#[cfg(test)]
mod tests;
