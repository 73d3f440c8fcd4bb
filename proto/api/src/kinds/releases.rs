//! Releases of OpenKruise that serve kinds only in v1alpha1, and the fields that an object loses on
//! its way to one of them.
//!
//! The apiserver refuses a definition of such a release while `status.storedVersions` names
//! v1beta1. Fields that the release's v1alpha1 lacks are dropped when an object is read.

use serde_json::Value;

use crate::kinds::convert::{self, ConversionError};
use crate::kinds::{KINDS, Kind, Version};
use crate::names::annotation::CONVERSION;

/// The longest text of a value in a [`Loss`], in characters.
const LONGEST_VALUE: usize = 100;

/// A release of OpenKruise.
#[derive(Debug)]
pub struct Release {
    /// Its version, such as `1.9.0`.
    pub version: &'static str,
}

/// A kind that a release serves only in v1alpha1.
#[derive(Clone, Copy)]
pub struct OlderKind {
    /// The kind.
    pub kind: &'static Kind,
    /// Fields of Berth's v1alpha1 that the release's v1alpha1 lacks, `[]` for the items of a list.
    lacks: &'static [&'static str],
}

/// A field of v1beta1 in an object that the release does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The field.
    pub field: String,
    /// Its value as JSON, shortened.
    pub value: String,
}

/// The losses of an object are unknown.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not an object of its kind.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// Its type cannot read it.
    #[error("it cannot be read as v1beta1: {0}")]
    Json(#[from] serde_json::Error),
}

/// All releases that a cluster can return to, the newest first.
pub static RELEASES: [Release; 2] = [Release { version: "1.9.0" }, Release { version: "1.8.4" }];

/// The release of this version.
pub fn named(version: &str) -> Option<&'static Release> {
    RELEASES.iter().find(|release| release.version == version)
}

impl Release {
    /// The kinds that the release serves only in v1alpha1, in the order of their names.
    pub fn kinds(&self) -> impl Iterator<Item = OlderKind> + Clone {
        KINDS.iter().filter_map(|kind| {
            let mut releases = kind.v1alpha1_alone.iter();
            let (_, lacks) = releases.find(|(version, _)| *version == self.version)?;
            Some(OlderKind { kind, lacks })
        })
    }
}

impl std::fmt::Debug for OlderKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OlderKind")
            .field("kind", &self.kind.kind)
            .field("lacks", &self.lacks)
            .finish_non_exhaustive()
    }
}

impl OlderKind {
    /// The fields that the release does not keep of an object, given as the text of its v1beta1.
    ///
    /// # Errors
    /// The object is not of this kind.
    pub fn losses(&self, object: &str) -> Result<Vec<Loss>, Unreadable> {
        let before = (self.kind.spec)(object)?;
        let older = convert::convert(object, &self.kind.api_version(Version::V1Alpha1))?;
        let mut older: Value = serde_json::from_str(&older)?;
        // OpenKruise does not read the conversion annotation.
        if let Some(annotations) = older
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(CONVERSION);
        }
        for path in self.lacks {
            remove(&mut older, path);
        }
        let newer = convert::convert(&older.to_string(), &self.kind.api_version(Version::V1Beta1))?;
        let mut losses = Vec::new();
        compare("spec", &before, &(self.kind.spec)(&newer)?, &mut losses);
        Ok(losses)
    }
}

/// Removes a field from each item of the lists on its path.
fn remove(value: &mut Value, path: &str) {
    let (step, rest) = path
        .split_once('.')
        .map_or((path, None), |(step, rest)| (step, Some(rest)));
    let name = step.trim_end_matches("[]");
    let Some(rest) = rest else {
        value.as_object_mut().and_then(|fields| fields.remove(name));
        return;
    };
    match value.get_mut(name) {
        Some(Value::Array(items)) => items.iter_mut().for_each(|item| remove(item, rest)),
        Some(field) => remove(field, rest),
        None => {}
    }
}

/// The fields of `before` that `after` lacks or has with another value.
fn compare(path: &str, before: &Value, after: &Value, losses: &mut Vec<Loss>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                compare(
                    &format!("{path}.{name}"),
                    value,
                    after.get(name).unwrap_or(&Value::Null),
                    losses,
                );
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{index}]"), before, after, losses);
            }
        }
        (before, after) if before == after => {}
        (before, _) => {
            let text = before.to_string();
            let mut value: String = text.chars().take(LONGEST_VALUE).collect();
            if value.len() < text.len() {
                value.push('…');
            }
            losses.push(Loss {
                field: path.to_owned(),
                value,
            });
        }
    }
}

#[cfg(test)]
mod tests;
