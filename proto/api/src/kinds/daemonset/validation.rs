//! Faults of DaemonSets that neither the schema nor its rules can name.

use serde_json::Value;

use crate::validation::violations::{Violation, Violations, at};

/// The faults of a DaemonSet.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    crate::validation::annotations(object, &mut found);
    found.selector("spec.selector", at(object, "spec.selector"));
    let nodes = "spec.updateStrategy.rollingUpdate.selector";
    found.selector(nodes, at(object, nodes));
    found.hooks(object);
    found.0
}
