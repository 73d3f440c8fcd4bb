//! Takes names off `spec.scaleStrategy.podsToDelete` that no pod has, or no longer has.

use std::collections::BTreeSet;

use berth_workload::objects::resource::CLONE_SETS;
use berth_workload::plan::{Action, Event, Step, Target};
use serde_json::json;

use super::Snapshot;

/// The write that takes the names off; `None` if pods have all of them. A name stays until the
/// status is about a spec that has the name, because the cache may lag behind the author's view of
/// a new pod.
pub(super) fn clean(snapshot: &Snapshot) -> Option<Step> {
    let set = &snapshot.set.metadata;
    let listed = &snapshot.set.spec.scale_strategy.pods_to_delete;
    let observed = snapshot
        .set
        .status
        .as_ref()
        .map(|status| status.observed_generation);
    if listed.is_empty() || observed != Some(set.generation.unwrap_or_default()) {
        return None;
    }
    let active = snapshot.pods.iter().filter(|pod| pod.is_active());
    let names: BTreeSet<_> = active.map(|pod| &*pod.metadata.name).collect();
    let (kept, gone): (Vec<_>, Vec<_>) = listed
        .iter()
        .partition(|name| names.contains(name.as_str()));
    if gone.is_empty() {
        return None;
    }
    let target = Target {
        resource_version: set.resource_version.clone(),
        ..Target::from(set)
    };
    let gone: Vec<_> = gone.iter().map(|name| name.as_str()).collect();
    let message = format!(
        "spec.scaleStrategy.podsToDelete: {} taken off the list: the CloneSet has no such pods, or has deleted them",
        gone.join(", ")
    );
    Some(Step {
        actions: vec![Action::Patch {
            resource: CLONE_SETS,
            target,
            patch: json!({"spec": {"scaleStrategy": {"podsToDelete": kept}}}),
        }],
        reason: format!(
            "no pods of these names: {} are taken off podsToDelete",
            gone.join(", ")
        ),
        done: Some(Event::normal("PodsToDeleteCleaned", message)),
        failed: None,
    })
}

#[cfg(test)]
mod tests;
