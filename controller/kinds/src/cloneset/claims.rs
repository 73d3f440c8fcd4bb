//! Claims per pod: which are created, which are kept for the next pod, and which are deleted.
//!
//! A claim has the instance id of its pod, and one of two owners. While the CloneSet owns it, the
//! claim outlives its pod. Once the pod owns it, garbage collection deletes it after the pod. So
//! the controller gives a pod its claims before it deletes the pod. Then no failure in between
//! leaves a claim behind, and no claim is deleted before its pod.
//!
//! | its pod | claims are reused | claims are not reused |
//! |---|---|---|
//! | runs, and stays | the CloneSet's | the CloneSet's |
//! | has not ended, and the controller deletes it, or releases it | the pod's | the pod's |
//! | has ended, or is deleted by someone else | as it is, for the next pod of this id | the pod's |
//! | is gone | waits for the next pod of this id | deleted |
//!
//! A claim is created before its pod. If the pod does not follow, the next pod gets the claim.
//! While claims are not reused, an annotation marks a claim that no pod has had yet; it is removed
//! when a pod has it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::fields::template::VolumeClaimTemplate;
use berth_api::names::{annotation, label};
use berth_workload::objects::claim::Claim;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Body, Plan, Step};
use berth_workload::update::podset::Uids;
use berth_workload::update::podset::claim_template::{self, claim_name};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ids::{fresh_ids, instance};
use super::{Snapshot, owner_key};

/// An instance id for a new pod.
pub(super) enum Id {
    /// No pod has it.
    Free(String),
    /// A pod that is being deleted has it, and claims that the new pod takes over.
    Held(Arc<Pod>),
}

/// Ids for new pods: first those of claims that wait for a pod, then those of claims whose pod is
/// being deleted, then new ones. Pods that rest are not being deleted yet.
pub(super) fn ids(snapshot: &Snapshot, resting: &Uids) -> impl Iterator<Item = Id> {
    let (mut free, mut held) = (Vec::new(), Vec::new());
    let pods: BTreeMap<_, _> = all_pods(snapshot)
        .map(|pod| (instance(&pod.metadata), pod))
        .collect();
    for id in reusable(snapshot) {
        match pods.get(id) {
            None => free.push(Id::Free(id.to_owned())),
            Some(pod)
                if reuses(snapshot) && !pod.is_active() && !resting.contains(&pod.metadata.uid) =>
            {
                held.push(Id::Held(Arc::clone(pod)))
            }
            Some(_) => {}
        }
    }
    free.into_iter()
        .chain(held)
        .chain(fresh_ids(snapshot).map(Id::Free))
}

/// Ids of claims that outlive their pods, or never had one. An id with a claim that is being
/// deleted is not free until the claim is gone.
fn reusable(snapshot: &Snapshot) -> BTreeSet<&str> {
    let lasts = |claim: &Claim| reuses(snapshot) || is_unused(claim);
    let (kept, going): (Vec<_>, Vec<_>) = snapshot
        .own
        .claims
        .iter()
        .filter(|claim| !instance(&claim.metadata).is_empty())
        .partition(|claim| !claim.is_going() && is_of_set(snapshot, claim) && lasts(claim));
    let mut ids: BTreeSet<_> = kept
        .into_iter()
        .map(|claim| instance(&claim.metadata))
        .collect();
    for claim in going {
        ids.remove(instance(&claim.metadata));
    }
    ids
}

/// Makes the plan wait for this pod's end, because a new pod takes over its claims and its name.
/// For a pod that has ended by itself another part of the plan gives the reason.
pub(super) fn await_end(pod: &Pod, plan: &mut Plan) {
    if pod.metadata.deletion_timestamp.is_some() {
        let reason = "is being deleted, and the pod that takes over its claims waits for its end";
        plan.wait_for_pod(pod, reason.to_owned());
    }
}

/// The claim templates for the new pods of one decision: each is read once, when the first pod
/// lacks its claim.
pub(super) struct Templates<'a> {
    snapshot: &'a Snapshot,
    read: Vec<(&'a VolumeClaimTemplate, OnceCell<Value>)>,
}

impl<'a> Templates<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let templates = snapshot.set.spec.volume_claim_templates.iter();
        Self {
            snapshot,
            read: templates
                .map(|template| (template, OnceCell::new()))
                .collect(),
        }
    }

    /// The claims that a pod of this id lacks.
    pub(super) fn creations(&self, id: &str) -> Vec<Action> {
        let claims = &self.snapshot.own.claims;
        let pod = pod_name(self.snapshot, id);
        let named = self
            .read
            .iter()
            .map(|(template, read)| (template, read, claim_name(template, &pod)));
        let lacking =
            named.filter(|(.., name)| !claims.iter().any(|claim| *claim.metadata.name == **name));
        let bodies = lacking.map(|(template, read, name)| {
            Body::from(&new_claim(
                self.snapshot,
                read.get_or_init(|| template.value()),
                &name,
                id,
            ))
        });
        bodies.map(|body| Action::CreateClaim { body }).collect()
    }
}

fn new_claim(snapshot: &Snapshot, template: &Value, name: &str, id: &str) -> Value {
    let workload = snapshot.view().workload;
    let mut claim = claim_template::new_claim(&workload, template, name);
    let metadata = &mut claim["metadata"];
    metadata["labels"][label::CLONESET_INSTANCE_ID] = json!(id);
    if !reuses(snapshot) {
        metadata["annotations"][annotation::CLAIM_UNUSED] = json!("true");
    }
    metadata["ownerReferences"] = json!([workload.reference()]);
    claim
}

/// The name of the pod of this id.
pub(super) fn pod_name(snapshot: &Snapshot, id: &str) -> String {
    format!(
        "{}-{id}",
        snapshot.set.metadata.name.as_deref().unwrap_or_default()
    )
}

/// The names of the claims of this id.
pub(super) fn names(snapshot: &Snapshot, id: &str) -> Vec<String> {
    claim_template::claim_names(&snapshot.view().workload, &pod_name(snapshot, id)).collect()
}

/// Gives every claim the owner of the table above, in view of the plan's writes to pods.
pub(super) fn settle(snapshot: &Snapshot, plan: &mut Plan) {
    if snapshot.own.claims.is_empty() {
        return;
    }
    let is_given = |pod: &&Arc<Pod>| pod.is_active() || !reuses(snapshot);
    let by_uid: BTreeMap<_, _> = all_pods(snapshot)
        .filter(is_given)
        .map(|pod| (&*pod.metadata.uid, &**pod))
        .collect();
    let staying = snapshot
        .own
        .claims
        .iter()
        .filter(|claim| !claim.is_going() && !instance(&claim.metadata).is_empty());
    let mut by_id: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for claim in staying.clone().filter(|claim| is_of_set(snapshot, claim)) {
        by_id
            .entry(instance(&claim.metadata))
            .or_default()
            .push(claim);
    }
    let (mut going, mut coming) = (BTreeSet::new(), BTreeSet::new());
    for step in plan.stages.iter_mut().flat_map(|stage| &mut stage.steps) {
        coming.extend(step.actions.iter().filter_map(created));
        let deleted: Vec<_> = step
            .actions
            .iter()
            .filter_map(taken_away)
            .map(str::to_owned)
            .collect();
        for pod in deleted.iter().filter_map(|uid| by_uid.get(&**uid)) {
            let claims = by_id.get(instance(&pod.metadata)).into_iter().flatten();
            let given: Vec<_> = claims.map(|claim| give(snapshot, claim, pod)).collect();
            step.actions.splice(0..0, given);
        }
        going.extend(deleted);
    }
    let pods: BTreeMap<_, _> = all_pods(snapshot)
        .map(|pod| (instance(&pod.metadata), &**pod))
        .collect();
    let steps = staying.filter_map(|claim| {
        let pod = pods.get(instance(&claim.metadata)).copied();
        match pod {
            pod if !is_of_set(snapshot, claim) => take_back(snapshot, claim, pod?, &going),
            Some(pod) if pod.is_active() => mark_used(claim, pod, &going),
            Some(pod) if going.contains(&*pod.metadata.uid) => None,
            _ if reuses(snapshot) || coming.contains(instance(&claim.metadata)) => None,
            pod => Some(let_go(snapshot, claim, pod)),
        }
    });
    let steps = steps.collect();
    plan.add_stage("claims", steps);
}

/// Gives the claim back to the CloneSet: its pod was to be deleted, and now stays.
fn take_back(
    snapshot: &Snapshot,
    claim: &Claim,
    pod: &Pod,
    going: &BTreeSet<String>,
) -> Option<Step> {
    let is_the_pods = claim
        .metadata
        .owner_references
        .iter()
        .any(|owner| owner.uid == pod.metadata.uid);
    if !is_the_pods || !pod.is_active() || going.contains(&*pod.metadata.uid) {
        return None;
    }
    let action = change_owner(
        claim,
        &pod.metadata.uid,
        snapshot.view().workload.reference(),
    );
    Some(Step::new(
        action,
        format!(
            "claim {} is kept: pod {} stays after all",
            claim.metadata.name, pod.metadata.name
        ),
    ))
}

/// Removes the mark of a claim that a pod has, so that no other pod gets it.
fn mark_used(claim: &Claim, pod: &Pod, going: &BTreeSet<String>) -> Option<Step> {
    if !is_unused(claim) || going.contains(&*pod.metadata.uid) {
        return None;
    }
    let patch = json!({"metadata": {"annotations": {annotation::CLAIM_UNUSED: null}}});
    let action = Action::PatchClaim {
        target: claim.target(),
        patch,
    };
    Some(Step::new(
        action,
        format!(
            "claim {} is that of pod {} from now on",
            claim.metadata.name, pod.metadata.name
        ),
    ))
}

/// Without reuse, deletes a claim with the pod that has ended, or at once if there is no pod.
fn let_go(snapshot: &Snapshot, claim: &Claim, pod: Option<&Pod>) -> Step {
    let name = &claim.metadata.name;
    match pod {
        Some(pod) => {
            let reason = format!(
                "claim {name} goes with pod {}: claims are not reused",
                pod.metadata.name
            );
            Step::new(give(snapshot, claim, pod), reason)
        }
        None => {
            let reason = format!("claim {name} has no pod any more, and claims are not reused");
            Step::new(
                Action::DeleteClaim {
                    target: claim.target(),
                },
                reason,
            )
        }
    }
}

fn give(snapshot: &Snapshot, claim: &Claim, pod: &Pod) -> Action {
    let to = json!({"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid});
    change_owner(
        claim,
        snapshot.set.metadata.uid.as_deref().unwrap_or_default(),
        to,
    )
}

/// One write that leaves other owners as they are.
fn change_owner(claim: &Claim, from: &str, to: Value) -> Action {
    let owners = json!([{"$patch": "delete", "uid": from}, to]);
    Action::PatchClaim {
        target: claim.target(),
        patch: json!({"metadata": {"ownerReferences": owners}}),
    }
}

/// The uid of the pod that the action deletes or releases.
fn taken_away(action: &Action) -> Option<&str> {
    match action {
        Action::DeletePod { target } | Action::ReleasePod { target, .. } => Some(&target.uid),
        _ => None,
    }
}

/// All pods, including those to be released, because they still have their claims.
fn all_pods(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Pod>> {
    snapshot.pods.iter().chain(&snapshot.strays)
}

/// The instance id of the pod that the action creates.
fn created(action: &Action) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        metadata: Labelled,
    }
    #[derive(Deserialize)]
    struct Labelled {
        labels: BTreeMap<String, Value>,
    }
    let Action::CreatePod { body } = action else {
        return None;
    };
    body.read::<Created>()?
        .metadata
        .labels
        .get(label::CLONESET_INSTANCE_ID)?
        .as_str()
        .map(str::to_owned)
}

/// Whether the claim was created while claims are not reused, and no pod has had it.
fn is_unused(claim: &Claim) -> bool {
    claim
        .metadata
        .annotation(annotation::CLAIM_UNUSED)
        .is_some()
}

fn is_of_set(snapshot: &Snapshot, claim: &Claim) -> bool {
    owner_key(&snapshot.set).controls(&claim.metadata)
}

fn reuses(snapshot: &Snapshot) -> bool {
    snapshot.set.spec.scale_strategy.enable_pvc_reuse
}

#[cfg(test)]
mod tests;
