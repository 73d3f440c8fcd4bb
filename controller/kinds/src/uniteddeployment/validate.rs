//! What the apiserver's rules refuse already, checked again: rules can be missing in an older
//! definition.

use std::collections::BTreeSet;

use berth_api::v1beta1::uniteddeployment::MAX_SUBSETS;
use berth_workload::plan::Refusal;

use super::Snapshot;

/// Whether the UnitedDeployment can be worked on.
///
/// # Errors
/// The refusal names object, field, value and remedy.
pub(super) fn validate(snapshot: &Snapshot) -> Result<(), Refusal> {
    let refuse = |field_and_problem: String| Err(snapshot.refusal(&field_and_problem));
    let spec = &snapshot.united.spec;
    let selector = &spec.selector;
    let has_labels = selector
        .match_labels
        .as_ref()
        .is_some_and(|labels| !labels.is_empty());
    if !has_labels
        && selector
            .match_expressions
            .as_ref()
            .is_none_or(Vec::is_empty)
    {
        return refuse("spec.selector: is empty; name the labels of the template".to_owned());
    }
    let subsets = &spec.topology.subsets;
    if subsets.len() > MAX_SUBSETS {
        return refuse(format!(
            "spec.topology.subsets: has {} subsets, and {MAX_SUBSETS} are the most; make another UnitedDeployment of the others",
            subsets.len()
        ));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = subsets
        .iter()
        .find(|subset| !seen.insert(subset.name.as_str()))
    {
        return refuse(format!(
            "spec.topology.subsets: has {:?} twice; rename one of them",
            twice.name
        ));
    }
    if spec.topology.schedule_strategy.reserves()
        && (spec.template.stateful_set_template.is_some()
            || spec.template.advanced_stateful_set_template.is_some())
    {
        return refuse(
            "spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods: is true, and StatefulSets cannot reserve pods; \
             set it to false"
                .to_owned(),
        );
    }
    Ok(())
}
