//! Which workload a subset may adopt.

use berth_api::names::label::SUBSET_NAME;
use berth_workload::owner;
use berth_workload::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whether a workload of the UnitedDeployment's namespace may become that of a subset without one: it
/// has no controller, is not being deleted, and has the labels of the selector and of the subset. An
/// empty selector adopts nothing.
pub(super) fn is_orphan_of(selector: &Selector, subset: &str, orphan: &ObjectMeta) -> bool {
    let label = |key: &str| orphan.labels.as_ref()?.get(key).map(String::as_str);
    orphan.deletion_timestamp.is_none()
        && owner::controller(orphan).is_none()
        && label(SUBSET_NAME) == Some(subset)
        && !selector.is_empty()
        && selector.matches(label)
}
