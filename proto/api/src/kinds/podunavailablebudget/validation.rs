//! Faults of PodUnavailableBudgets that neither the schema nor its rules can name.

use serde::Deserialize;
use serde_json::Value;

use super::v1beta1::ProtectedOperation;
use crate::kinds::podunavailablebudget::annotations::{AnnotationFault, annotation_faults};
use crate::validation::violations::{Violation, Violations, at};

/// The faults of a PodUnavailableBudget.
pub(crate) fn faults(object: &Value) -> Vec<Violation> {
    let mut found = Violations(Vec::new());
    for field in ["spec.selector", "spec.ignoredPodSelector"] {
        found.selector(field, at(object, field));
    }
    let said =
        |key: &str| at(object, "metadata.annotations").and_then(|all| all.get(key)?.as_str());
    let field = |name: &str| at(object, &format!("spec.{name}"));
    let protects = field("protectOperations")
        .map(|value| Vec::<ProtectedOperation>::deserialize(value).unwrap_or_default());
    let total = field("protectTotalReplicas").and_then(Value::as_i64);
    for AnnotationFault {
        key,
        value,
        problem,
    } in annotation_faults(said, protects.as_deref(), total)
    {
        found.add(&format!("metadata.annotations[{key}]"), value, problem);
    }
    found.0
}
