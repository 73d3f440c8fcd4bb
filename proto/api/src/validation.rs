//! Checks that neither the schema nor its rules can express: the syntax of labels and names.
//!
//! The apiserver validates everything else, see [`crate::kinds::crd`].

pub(crate) mod violations;

use serde_json::Value;

use crate::fields::inplace::{prepull_on_join, wait_for_image};
use crate::names::annotation::{
    IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, IMAGE_PREDOWNLOAD_PARALLELISM,
    IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS, INPLACE_UPDATE_WAIT_FOR_IMAGE, PREPULL_ON_JOIN,
};

pub use self::violations::{Violation, claim_templates, is_label_key, is_label_value};
use self::violations::{Violations, at, text};

/// Faults of annotations with a meaning, and of v1alpha1's annotations that a conversion could not
/// turn into fields.
pub(crate) fn annotations(object: &Value, found: &mut Violations) {
    let annotations = at(object, "metadata.annotations").and_then(Value::as_object);
    // CloneSets have a field for it, which is a number.
    let counts_pods = text(object, "kind") == "CloneSet";
    for (key, value) in annotations.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let problem = match key.as_str() {
            INPLACE_UPDATE_WAIT_FOR_IMAGE => wait_for_image(value).err(),
            PREPULL_ON_JOIN => prepull_on_join(value).err(),
            IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS if counts_pods => no_number(value),
            IMAGE_PREDOWNLOAD_PARALLELISM | IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS => {
                (!is_number(value.strip_suffix('%').unwrap_or(value))).then_some(
                    "is neither a number from 0 nor a percentage such as 25%: correct or remove it",
                )
            }
            IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS => no_number(value),
            _ => None,
        };
        if let Some(problem) = problem {
            found.add(&format!("metadata.annotations[{key}]"), value, problem);
        }
    }
}

fn no_number(text: &str) -> Option<&'static str> {
    (!is_number(text)).then_some("is no number from 0: correct or remove it")
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i32>().is_ok()
}

#[cfg(test)]
mod tests;
