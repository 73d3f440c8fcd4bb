//! Adopts the pods, claims and revisions that an earlier CloneSet of the same name left without an
//! owner.
//!
//! `kubectl delete --cascade=orphan` leaves pods, claims and revisions behind. A user who applies
//! the CloneSet again wants them back, and no new pods beside them. Revisions come first: a pod is
//! adopted only if the CloneSet has its revision. A pod is adopted only in place of one that would
//! be created, so no pod is ever deleted for it. An object that is younger than the CloneSet is not
//! adopted, because it cannot be a predecessor's. Just before, the controller reads the CloneSet
//! from the apiserver: if the CloneSet is being deleted, or was replaced by another one, garbage
//! collection would delete the adopted objects.

use std::sync::Arc;

use berth_workload::objects::claim::Claim;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::plan::{Action, Plan, Step, Target};
use berth_workload::update::podset::adopt::{self, MOST};
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::revision::{self, REVISION_LABEL};
use berth_workload::update::rollout::Numbers;
use jiff::Timestamp;
use serde_json::json;

use super::claims;
use super::ids::instance;
use super::{Settings, Snapshot};

/// Adopts pods in place of those that would be created, and their claims and those of pods that
/// were adopted before. The order: pods without a request for deletion, then pods of the wanted
/// revision, then available ones, then the oldest.
pub(super) fn pods(
    snapshot: &Snapshot,
    settings: &Settings,
    revisions: &Revisions,
    active: usize,
    numbers: &mut Numbers,
    plan: &mut Plan,
    now: Timestamp,
) {
    let is_of_ours = |pod: &Arc<Pod>| {
        let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
        revision::of_label(label, &snapshot.revisions).is_some()
    };
    let mut orphans: Vec<_> = snapshot
        .orphans
        .pods
        .iter()
        .filter(|pod| is_of_ours(pod))
        .cloned()
        .collect();
    orphans.sort_by_cached_key(|pod| {
        let available = availability(pod, settings.min_ready_seconds, now).is_available();
        (
            snapshot.view().is_to_delete(pod),
            !revisions.is_updated(pod),
            !available,
            pod.metadata.creation_timestamp,
            pod.metadata.name.clone(),
        )
    });
    orphans.truncate(settings.wanted.replicas.saturating_sub(active).min(MOST));
    for pod in &orphans {
        numbers.fill(revisions.is_updated(pod));
    }
    let mut steps: Vec<_> = orphans.iter().map(|pod| adopt_pod(snapshot, pod)).collect();
    let of_staying = snapshot
        .pods
        .iter()
        .filter(|pod| pod.is_active())
        .flat_map(|pod| adopt_claims(snapshot, pod));
    steps.extend(
        of_staying
            .take(MOST)
            .map(|action| Step::new(action, "a claim is adopted after its pod".to_owned())),
    );
    plan.stages
        .extend(adopt::confirmed(&snapshot.view().workload, steps));
}

/// The claims come after their pod, and only if the pod was adopted: garbage collection would
/// delete a claim of a pod that is gone.
fn adopt_pod(snapshot: &Snapshot, pod: &Pod) -> Step {
    let mut step = adopt::pod(&snapshot.view().workload, pod);
    step.actions.extend(adopt_claims(snapshot, pod));
    step
}

/// The claims of a pod, found by the names that the templates give them.
fn adopt_claims(snapshot: &Snapshot, pod: &Pod) -> impl Iterator<Item = Action> {
    let id = instance(&pod.metadata);
    let names = claims::names(snapshot, id);
    let is_of_pod = move |claim: &&Arc<Claim>| {
        instance(&claim.metadata) == id && names.iter().any(|name| **name == *claim.metadata.name)
    };
    snapshot
        .orphans
        .claims
        .iter()
        .filter(is_of_pod)
        .map(|claim| {
            let patch =
                json!({"metadata": {"ownerReferences": [snapshot.view().workload.reference()]}});
            Action::PatchClaim {
                target: Target::as_seen(&claim.metadata),
                patch,
            }
        })
}

#[cfg(test)]
mod tests;
