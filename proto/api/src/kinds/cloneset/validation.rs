//! Faults of CloneSets that neither the schema nor its rules can name.

use serde_json::Value;

use crate::validation::violations::{Violation, Violations, at};

/// The faults of a CloneSet.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    crate::validation::annotations(object, &mut found);
    found.selector("spec.selector", at(object, "spec.selector"));
    found.names(
        "spec.scaleStrategy.podsToDelete",
        at(object, "spec.scaleStrategy.podsToDelete"),
    );
    for update in ["spec.updateStrategy", "spec.updateStrategy.rollingUpdate"] {
        found.priority(&format!("{update}.priorityStrategy"), object);
        found.scatter(&format!("{update}.scatterStrategy"), object, None);
    }
    found.hooks(object);
    found.claims(object);
    found.0
}
