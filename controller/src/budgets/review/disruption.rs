//! The parts of a review that budgets need.

use berth_api::kinds::podunavailablebudget::annotations::MOST_CONTAINERS;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_webhook::pods::{Change, Changed, Disruption};
use berth_workload::budget::count::is_available;
use berth_workload::objects::pod::{Metadata, Pod};
use jiff::Timestamp;

/// The operation on the pod. Resources that restart a container change the pod as its image does.
pub(in crate::budgets) fn operation(disruption: &Disruption) -> ProtectedOperation {
    match disruption.change {
        Change::Delete => ProtectedOperation::Delete,
        Change::Evict => ProtectedOperation::Evict,
        Change::Update => ProtectedOperation::Update,
        Change::Resize if !restarted(disruption).is_empty() => ProtectedOperation::Update,
        Change::Resize => ProtectedOperation::Resize,
    }
}

/// The names of containers that restart because of their new resources.
pub(in crate::budgets) fn restarted(disruption: &Disruption) -> &[String] {
    disruption
        .new
        .as_ref()
        .map(|new| &*new.restarted)
        .unwrap_or_default()
}

/// The ids of running containers that get another image, or restart for other resources; and
/// whether it is a resize that restarts some.
pub(in crate::budgets) fn replaced(pod: &Pod, disruption: &Disruption) -> (Vec<String>, bool) {
    let Some(Changed { images, restarted }) = &disruption.new else {
        return (Vec::new(), false);
    };
    let image = |name: &str| {
        images
            .iter()
            .find(|(of, _)| of == name)
            .map(|(_, image)| &**image)
    };
    let has_another_image = |name: &str| {
        pod.container(name)
            .is_some_and(|old| image(name).is_some_and(|new| *new != *old.image))
    };
    let ids = ids(pod, |name| {
        restarted.iter().any(|one| one == name) || has_another_image(name)
    });
    (
        ids,
        matches!(disruption.change, Change::Resize) && !restarted.is_empty(),
    )
}

/// The ids of these containers of the pod.
pub(in crate::budgets) fn ids(pod: &Pod, is_its: impl Fn(&str) -> bool) -> Vec<String> {
    let statuses = pod
        .status
        .container_statuses
        .iter()
        .chain(&pod.status.init_container_statuses);
    let ids = statuses.filter(|status| is_its(&status.name) && !status.container_id.is_empty());
    ids.map(|status| status.container_id.to_string())
        .take(MOST_CONTAINERS)
        .collect()
}

/// The uid of the pod that a review shows, or that an eviction names.
pub(in crate::budgets) fn shown_uid(disruption: &Disruption) -> Option<&str> {
    match &disruption.object {
        Some(object) => object.as_ref().ok().map(|pod| &*pod.metadata.uid),
        None => disruption.uid.as_deref(),
    }
}

/// Whether the store has the very version of the pod that a review shows.
pub(in crate::budgets) fn is_as_shown(stored: &Metadata, disruption: &Disruption) -> bool {
    let Some(Ok(shown)) = &disruption.object else {
        return false;
    };
    shown.metadata.uid == stored.uid && shown.metadata.resource_version == stored.resource_version
}

/// Whether the pod with this name is the pod of the request. Only an eviction may leave the uid
/// out: the budgets refuse it.
pub(in crate::budgets) fn is_meant(found: &Metadata, disruption: &Disruption) -> bool {
    shown_uid(disruption).map_or(matches!(disruption.change, Change::Evict), |uid| {
        *uid == *found.uid
    })
}

/// Whether a pod serves; `None` if the only reason against it is that its node is not known here.
/// The node may have come a moment ago.
pub(in crate::budgets) fn serves(pod: &Pod, knows_node: bool, now: Timestamp) -> Option<bool> {
    let serves = is_available(pod, true, now);
    (knows_node || !serves).then_some(serves)
}

#[cfg(test)]
mod tests;
