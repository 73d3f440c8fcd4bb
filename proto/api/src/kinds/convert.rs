//! Conversion of an object between the versions of its kind, see [`crate::conversion`].

use serde::Deserialize;

use crate::conversion::json::Json;
use crate::kinds::{self, KINDS};

/// Why an object cannot be converted. Every object that the apiserver has accepted can be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// It is not a Kubernetes object.
    #[error(
        "the object has no apiVersion and kind, so it cannot be converted to {desired}: it must be a {} object",
        groups()
    )]
    NoObject {
        /// The wanted apiVersion.
        desired: String,
    },
    /// A kind without versions in this crate.
    #[error(
        "kind {kind} of {api_version} cannot be converted: only {} can",
        listed(convertible())
    )]
    UnknownKind {
        /// The object's apiVersion.
        api_version: String,
        /// The object's kind.
        kind: String,
    },
    /// A version that is not served.
    #[error(
        "{kind} cannot be converted from {from} to {desired}: only {} known",
        served(kind)
    )]
    UnknownVersion {
        /// The object's kind.
        kind: String,
        /// The object's apiVersion.
        from: String,
        /// The wanted apiVersion.
        desired: String,
    },
}

/// `a, b and c`.
fn listed(names: Vec<String>) -> String {
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn convertible() -> Vec<String> {
    kinds::converted()
        .map(|kind| kind.kind.to_owned())
        .collect()
}

/// The versions of a kind, and the matching verb.
fn served(kind: &str) -> String {
    let versions: Vec<_> = kinds::named(kind)
        .iter()
        .flat_map(|kind| kind.versions().map(|version| kind.api_version(version)))
        .collect();
    let verb = if versions.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", listed(versions))
}

fn groups() -> String {
    let mut groups: Vec<_> = KINDS.iter().map(|kind| kind.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.join(" or ")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    api_version: String,
    kind: String,
}

/// Converts the text of an object of one of Berth's kinds to another version. Of the metadata, only
/// labels and annotations may change.
///
/// # Errors
/// The kind or version of the object is unknown. The content of the object never causes an error.
pub fn convert(object: &str, desired_api_version: &str) -> Result<String, ConversionError> {
    let Ok(Typed { api_version, kind }) = serde_json::from_str(object) else {
        return Err(ConversionError::NoObject {
            desired: desired_api_version.to_owned(),
        });
    };
    let Some(known) = kinds::named(&kind) else {
        return Err(ConversionError::UnknownKind { api_version, kind });
    };
    let (Some(from), Some(to)) = (
        known.version(&api_version),
        known.version(desired_api_version),
    ) else {
        return Err(ConversionError::UnknownVersion {
            kind,
            from: api_version,
            desired: desired_api_version.to_owned(),
        });
    };
    if from == to {
        return Ok(object.to_owned());
    }
    let mut converted = known.mapping.convert(Json::of(object), from, to);
    if let Some(fields) = converted.object() {
        fields.insert("apiVersion", Json::string(desired_api_version));
    }
    Ok(converted.to_string())
}
