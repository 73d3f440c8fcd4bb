//! Faults of DistributedPodDisruptionBudgets that neither the schema nor its rules can name.

use serde_json::Value;

use crate::validation::violations::{Violation, Violations, at, list, text};

/// The faults of a DistributedPodDisruptionBudget.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    found.selector("spec.selector", at(object, "spec.selector"));
    let metadata = |name| {
        at(object, &format!("metadata.{name}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (namespace, name) = (metadata("namespace"), metadata("name"));
    for (index, member) in list(at(object, "spec.federation")) {
        let is_of_its_kind = ["", "DistributedPodDisruptionBudget"].contains(&text(member, "kind"));
        let is_here = text(member, "cluster").is_empty();
        if is_here
            && is_of_its_kind
            && text(member, "namespace") == namespace
            && text(member, "name") == name
        {
            let message = "is the budget itself: remove it, for its own pods count anyway";
            found.add(&format!("spec.federation[{index}].name"), name, message);
        }
    }
    found.0
}
