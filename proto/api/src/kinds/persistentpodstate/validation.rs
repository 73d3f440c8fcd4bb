//! Faults of PersistentPodStates that neither the schema nor its rules can name.

use serde_json::Value;

use crate::validation::violations::{Violation, Violations, at, list, text};

/// The faults of a PersistentPodState.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    let mut keys = |term: Option<&Value>, field: &str| {
        for name in ["keys", "nodeTopologyKeys"] {
            for (index, key) in list(term.and_then(|term| term.get(name))) {
                found.key(
                    &format!("{field}.{name}[{index}]"),
                    key.as_str().unwrap_or_default(),
                );
            }
        }
    };
    keys(
        at(object, "spec.requiredPersistentTopology"),
        "spec.requiredPersistentTopology",
    );
    for (index, term) in list(at(object, "spec.preferredPersistentTopology")) {
        keys(
            term.get("preference"),
            &format!("spec.preferredPersistentTopology[{index}].preference"),
        );
    }
    for (index, annotation) in list(at(object, "spec.persistentPodAnnotations")) {
        found.key(
            &format!("spec.persistentPodAnnotations[{index}].key"),
            text(annotation, "key"),
        );
    }
    found.0
}
