//! Faults of BroadcastJobs that neither the schema nor its rules can name.

use serde_json::Value;

use super::names::annotation::WAIT_AFTER_NODE;
use super::v1beta1::wait_after_node;
use crate::validation::violations::{Violation, Violations, at, text};

/// The faults of a BroadcastJob.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    let wait = at(object, "metadata.annotations")
        .map_or("", |annotations| text(annotations, WAIT_AFTER_NODE));
    if !wait.is_empty()
        && let Err(problem) = wait_after_node(wait)
    {
        found.add(
            &format!("metadata.annotations[{WAIT_AFTER_NODE}]"),
            wait,
            problem,
        );
    }
    found.0
}
