//! Which workload a subset may adopt.

use berth_api::names::label::SUBSET_NAME;
use berth_workload::objects::owner;
use berth_workload::objects::selector::Selector;
use berth_workload::objects::untyped_workload::UntypedWorkload;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

use super::render::of_subset;

#[derive(Deserialize)]
struct Selecting {
    selector: LabelSelector,
}

/// Whether a workload of the UnitedDeployment's namespace may become that of a subset without one:
/// it has no controller, is not being deleted, has the labels of the selector and of the subset,
/// and selects the pods that the subset's workload selects, because no workload can change that. An
/// empty selector adopts nothing.
pub(super) fn is_orphan_of(
    selector: &LabelSelector,
    subset: &str,
    orphan: &UntypedWorkload,
) -> bool {
    let Ok(labels) = Selector::new(selector) else {
        return false;
    };
    let selects = || {
        orphan
            .spec
            .read::<Selecting>()
            .map(|spec| without_empty(spec.selector))
    };
    orphan.metadata.deletion_timestamp.is_none()
        && owner::controller(&orphan.metadata).is_none()
        && orphan.label(SUBSET_NAME) == Some(subset)
        && !labels.is_empty()
        && labels.matches(|key| orphan.label(key))
        && selects() == Some(without_empty(of_subset(selector, subset)))
}

/// An empty list of expressions is none.
fn without_empty(selector: LabelSelector) -> LabelSelector {
    let match_expressions = selector
        .match_expressions
        .filter(|expressions| !expressions.is_empty());
    LabelSelector {
        match_expressions,
        ..selector
    }
}
