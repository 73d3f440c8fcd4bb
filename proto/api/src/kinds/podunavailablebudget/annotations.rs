//! The annotations of a PodUnavailableBudget.

use crate::kinds::podunavailablebudget::v1beta1::ProtectedOperation;
pub use crate::kinds::podunavailablebudget::v1beta1::{
    MOST_CONTAINERS, MOST_ENTRIES, MOST_REPLACEMENTS,
};
use crate::names::annotation::{PUB_PROTECT_OPERATIONS, PUB_PROTECT_TOTAL_REPLICAS};

/// The operations that a text lists, such as `DELETE,EVICT`. Blanks do not count.
///
/// # Errors
/// One of them is none, with the remedy.
pub fn operations(text: &str) -> Result<Vec<ProtectedOperation>, &'static str> {
    let words = text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    let mut found = Vec::new();
    for word in words {
        let operation = ProtectedOperation::named(word);
        let operation = operation.ok_or(
            "lists something else than DELETE, UPDATE, EVICT and RESIZE: correct or remove it",
        )?;
        if !found.contains(&operation) {
            found.push(operation);
        }
    }
    Ok(found)
}

/// How many pods a text expects.
///
/// # Errors
/// It is no number from 1, with the remedy.
pub fn total_replicas(text: &str) -> Result<i32, &'static str> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_plain && *number >= 1);
    number.ok_or("is no number from 1: correct or remove it")
}

/// An annotation of v1alpha1 that is unreadable or contradicts its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnotationFault<'a> {
    /// Its key.
    pub key: &'static str,
    /// Its value.
    pub value: &'a str,
    /// The fault, and the remedy.
    pub problem: &'static str,
}

/// The faults of a budget's annotations in addition to its fields' faults. A budget has them if it
/// was written past the webhook.
pub fn annotation_faults<'a>(
    said: impl Fn(&str) -> Option<&'a str>,
    protects: Option<&[ProtectedOperation]>,
    total: Option<i64>,
) -> Vec<AnnotationFault<'a>> {
    let is_other = |said: &[ProtectedOperation], named: &[ProtectedOperation]| {
        said.iter().any(|one| !named.contains(one)) || named.iter().any(|one| !said.contains(one))
    };
    let of_operations = |value| match (operations(value), protects) {
        (Err(problem), _) => Some(problem),
        (Ok(said), Some(named)) if is_other(&said, named) => {
            Some("says something else than spec.protectOperations: remove the annotation")
        }
        (Ok(_), _) => None,
    };
    let of_total = |value| match (total_replicas(value), total) {
        (Err(problem), _) => Some(problem),
        (Ok(said), Some(total)) if i64::from(said) != total => {
            Some("says something else than spec.protectTotalReplicas: remove the annotation")
        }
        (Ok(_), _) => None,
    };
    let fault = |key, of: &dyn Fn(&'a str) -> Option<&'static str>| {
        let value = said(key)?;
        Some(AnnotationFault {
            key,
            value,
            problem: of(value)?,
        })
    };
    let faults = [
        fault(PUB_PROTECT_OPERATIONS, &of_operations),
        fault(PUB_PROTECT_TOTAL_REPLICAS, &of_total),
    ];
    faults.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
