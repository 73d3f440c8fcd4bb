//! Faults of jobs that pull one image, or many that neither the schema nor its rules can name.

use serde_json::Value;

use crate::validation::violations::{Violation, Violations, at};

/// The faults of a job that pulls one image, or many.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    for selector in ["spec.selector", "spec.podSelector"] {
        found.selector(selector, at(object, selector));
    }
    found.names("spec.selector.names", at(object, "spec.selector.names"));
    found.names("spec.pullSecrets", at(object, "spec.pullSecrets"));
    found.0
}
