//! The workload of each subset: the owned one that stays, or an orphan that may be adopted.

use std::cmp::Reverse;

use berth_api::names::label::SUBSET_NAME;
use berth_workload::pod::Metadata;
use berth_workload::selector::Selector;

/// A workload of one of the four kinds.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its metadata.
    pub metadata: &'a Metadata,
    /// Pods that are Ready.
    pub ready_replicas: i32,
}

/// Sorts the workloads of one subset so that the one that stays is first: the one with more Ready
/// pods, then the older one, then by name.
pub fn sort(candidates: &mut [Candidate<'_>]) {
    candidates.sort_by_key(|candidate| {
        let created = candidate.metadata.creation_timestamp;
        (Reverse(candidate.ready_replicas), created.is_none(), created, &candidate.metadata.name)
    });
}

/// The subset that may adopt the workload: it is in the UnitedDeployment's namespace, has no
/// controller, is not going, and has labels of the selector and of a subset that has no workload.
/// The caller passes objects of the template's kind only. Nothing is adopted by an empty selector.
pub fn subset_of_orphan<'a>(
    namespace: &str,
    selector: &Selector,
    mut has_no_workload: impl FnMut(&str) -> bool,
    orphan: &'a Metadata,
) -> Option<&'a str> {
    let is_orphan = orphan.controller().is_none() && orphan.deletion_timestamp.is_none();
    let is_selected = !selector.is_empty() && selector.matches(|key| orphan.label(key));
    let subset = orphan.label(SUBSET_NAME).filter(|subset| !subset.is_empty())?;
    (&*orphan.namespace == namespace && is_orphan && is_selected && has_no_workload(subset)).then_some(subset)
}
