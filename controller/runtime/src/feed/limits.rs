//! How large the objects of a kind may be.

use berth_api::kinds;
use berth_api::weight::Limits;

use crate::object::{
    CONTROLLER_REVISIONS, DEPLOYMENTS, NATIVE_STATEFUL_SETS, POD_DISRUPTION_BUDGETS, PODS, Resource,
};

/// The size limits of an object. The types of other Kubernetes kinds keep no more than decisions
/// need.
pub(super) fn limits(resource: &Resource, max_bytes: usize) -> Option<Limits> {
    if *resource == PODS {
        return Some(Limits::of_pods());
    }
    if *resource == POD_DISRUPTION_BUDGETS {
        return Some(Limits::of_native_budgets());
    }
    if [DEPLOYMENTS, NATIVE_STATEFUL_SETS].contains(resource) {
        return Some(Limits::of_subsets(max_bytes));
    }
    if *resource == CONTROLLER_REVISIONS {
        return Some(Limits::of_revisions(max_bytes));
    }
    let kind = kinds::of_plural(resource.plural).filter(|kind| kind.group == resource.group)?;
    Some((kind.limits)(max_bytes))
}
