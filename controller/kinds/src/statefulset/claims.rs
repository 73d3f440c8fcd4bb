//! The claims of pods: created before their pod, given to the next pod of its name, and kept or
//! deleted as `persistentVolumeClaimRetentionPolicy` says.
//!
//! A claim that must be deleted with its pod or with the set has an owner reference to it, and
//! garbage collection deletes the claim. The claim refers to its pod once the pod is condemned,
//! before the pod is deleted. The reference is removed when the pod is back in range.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::fields::template::VolumeClaimTemplate;
use berth_api::v1beta1::statefulset::ClaimRetention;
use berth_workload::feature_gates::Gate;
use berth_workload::objects::claim::Claim;
use berth_workload::objects::owner::{OwnerKind, POD, Reference};
use berth_workload::objects::pod::{Owner, Pod};
use berth_workload::objects::resource::{CLAIMS, STATEFUL_SETS};
use berth_workload::plan::{Action, IfExists, Plan, Stage, Step};
use berth_workload::update::podset::claim_template::{
    self, claim_name, claim_names, former_claim_names,
};
use serde_json::{Value, json};

use super::Snapshot;
use super::places::Places;

/// On a claim, from its creation: the StatefulSet that may own it. A policy of the chart lets the
/// controller's account write it on new claims, and give owners to claims that have it: a claim
/// whose owner is gone is deleted, with its data.
pub(super) const OWNED_BY: &str = "apps.kruise.io/owned-by-asts";

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

    /// The claims that a pod of this name lacks.
    pub(super) fn creations(&self, pod: &str) -> Vec<Action> {
        let named = self
            .read
            .iter()
            .map(|(template, read)| (template, read, claim_name(template, pod)));
        let lacking = named.filter(|(.., name)| !self.snapshot.own.claims.contains_key(&**name));
        let bodies = lacking.map(|(template, read, name)| {
            new_claim(self.snapshot, read.get_or_init(|| template.value()), &name)
        });
        bodies
            .map(|body| Action::Create {
                resource: CLAIMS,
                body,
                if_exists: IfExists::IsFine,
            })
            .collect()
    }
}

fn new_claim(snapshot: &Snapshot, template: &Value, name: &str) -> Value {
    let mut claim = claim_template::new_claim(&snapshot.view().workload, template, name);
    claim["metadata"]["annotations"][OWNED_BY] = json!(snapshot.view().workload.name());
    if snapshot.gates.has(Gate::StatefulSetAutoDeletePVC) && Policy::of(snapshot).goes_with_set {
        claim["metadata"]["ownerReferences"] = json!([reference_to_set(snapshot)]);
    }
    claim
}

/// The deletion policy for claims.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Policy {
    goes_with_set: bool,
    goes_with_pod: bool,
}

impl Policy {
    fn of(snapshot: &Snapshot) -> Self {
        let policy = snapshot
            .set
            .spec
            .persistent_volume_claim_retention_policy
            .clone()
            .unwrap_or_default();
        Self {
            goes_with_set: policy.when_deleted == ClaimRetention::Delete,
            goes_with_pod: policy.when_scaled == ClaimRetention::Delete,
        }
    }
}

/// The reason why a pod of this name cannot have its claims now.
pub(super) fn obstacle(snapshot: &Snapshot, pod: &str) -> Option<String> {
    claim_names(&snapshot.view().workload, pod).find_map(|name| {
        let claim = snapshot.own.claims.get(&*name)?;
        if claim.is_going() {
            return Some(format!("its claim {name} is being deleted"));
        }
        // Garbage collection deletes it as soon as it sees that the pod is gone.
        let of_gone = claim
            .metadata
            .owner_references
            .iter()
            .find(|owner| refers(owner, POD) && &*owner.name == pod)?;
        Some(format!(
            "its claim {name} goes with an earlier pod of this name (uid {})",
            of_gone.uid
        ))
    })
}

/// Gives the claims of each pod the owners that the policy wants: before this plan deletes the pod,
/// otherwise as the first stage.
pub(super) fn settle(snapshot: &Snapshot, places: &Places<'_>, plan: &mut Plan) {
    if !snapshot.gates.has(Gate::StatefulSetAutoDeletePVC) || snapshot.own.claims.is_empty() {
        return;
    }
    let mut changes: BTreeMap<&str, Vec<(Action, String)>> = BTreeMap::new();
    // A pod without a controller may have been condemned when the set still owned it.
    let orphans = snapshot
        .own
        .others
        .values()
        .filter(|pod| pod.metadata.controller().is_none());
    let wanted = places
        .wanted
        .values()
        .copied()
        .chain(orphans)
        .map(|pod| (pod, false));
    for (pod, condemned) in wanted.chain(places.condemned.values().map(|pod| (*pod, true))) {
        let of_pod: Vec<_> = change_owners(snapshot, pod, condemned).collect();
        if !of_pod.is_empty() {
            changes.insert(&pod.metadata.uid, of_pod);
        }
    }
    for step in plan.stages.iter_mut().flat_map(|stage| &mut stage.steps) {
        let deleted = step.actions.iter().find_map(|action| match action {
            Action::DeletePod { target } => Some(target.uid.clone()),
            _ => None,
        });
        let before = deleted
            .and_then(|uid| changes.remove(&*uid))
            .into_iter()
            .flatten()
            .map(|(action, _)| action);
        step.actions.splice(0..0, before.collect::<Vec<_>>());
    }
    let steps: Vec<_> = changes
        .into_values()
        .flatten()
        .map(|(action, reason)| Step::new(action, reason))
        .collect();
    if !steps.is_empty() {
        plan.stages.insert(
            0,
            Stage {
                name: "claims",
                required: false,
                steps,
            },
        );
    }
}

/// The writes of owner references that a pod's claims need.
fn change_owners<'a>(
    snapshot: &'a Snapshot,
    pod: &'a Pod,
    condemned: bool,
) -> impl Iterator<Item = (Action, String)> + 'a {
    let workload = snapshot.view().workload;
    // Of claims of removed templates, only those change whose deletion with their pod must be
    // undone, because the pod is back in range.
    let is_undone = |name: &String| {
        !condemned
            && snapshot
                .own
                .claims
                .get(&**name)
                .is_some_and(|c| has(c, POD, &pod.metadata.uid))
    };
    let former = former_claim_names(&workload, pod).filter(is_undone);
    let names: Vec<_> = claim_names(&workload, &pod.metadata.name)
        .chain(former)
        .collect();
    let policy = Policy::of(snapshot);
    let with_pod = condemned && policy.goes_with_pod;
    let with_set = policy.goes_with_set && !with_pod;
    names.into_iter().filter_map(move |name| {
        let claim = snapshot.own.claims.get(&*name)?;
        // A claim with another controller is never written.
        if claim.is_going() || claim.metadata.controller().is_some() {
            return None;
        }
        let set = snapshot.set.metadata.uid.as_deref().unwrap_or_default();
        let may_own = may_be_owned(claim);
        let mut owners = Vec::new();
        owners.extend(change(
            claim,
            (STATEFUL_SETS.owner_kind(), set),
            with_set,
            || reference_to_set(snapshot),
        ));
        owners.extend(change(claim, (POD, &pod.metadata.uid), with_pod, || {
            reference_to_pod(pod)
        }));
        owners.retain(|owner| may_own || owner["$patch"] == "delete");
        let reason = match (with_set, with_pod) {
            (_, true) => format!(
                "claim {name} goes with pod {} (whenScaled: Delete)",
                pod.metadata.name
            ),
            (true, _) => format!("claim {name} goes with the StatefulSet (whenDeleted: Delete)"),
            _ => format!(
                "claim {name} stays when pod {} or the StatefulSet is deleted",
                pod.metadata.name
            ),
        };
        let mut patch = json!({"metadata": {"ownerReferences": owners}});
        if may_own && claim.metadata.annotation(OWNED_BY).is_none() {
            // The owner reference marks the claim as the set's, and this patch may remove the
            // reference.
            patch["metadata"]["annotations"] = json!({OWNED_BY: snapshot.view().workload.name()});
        }
        (!owners.is_empty()).then(|| {
            (
                Action::PatchClaim {
                    target: claim.target(),
                    patch,
                },
                reason,
            )
        })
    })
}

/// Whether the policy of the chart lets the controller's account give the claim an owner: the
/// account that made the claim, or an administrator, has annotated it, or an Advanced StatefulSet
/// owns it already.
fn may_be_owned(claim: &Claim) -> bool {
    let owners = &claim.metadata.owner_references;
    claim.metadata.annotation(OWNED_BY).is_some()
        || owners
            .iter()
            .any(|owner| refers(owner, STATEFUL_SETS.owner_kind()))
}

/// Claims of wanted pods that must be deleted with the set or a pod, and may have no owner.
pub(super) fn without_consent(snapshot: &Snapshot) -> Vec<&str> {
    let policy = Policy::of(snapshot);
    if !snapshot.gates.has(Gate::StatefulSetAutoDeletePVC)
        || !(policy.goes_with_set || policy.goes_with_pod)
    {
        return Vec::new();
    }
    let workload = snapshot.view().workload;
    let of_pod = |pod: &Arc<Pod>| claim_names(&workload, &pod.metadata.name).collect::<Vec<_>>();
    let claims = snapshot
        .pods
        .iter()
        .flat_map(of_pod)
        .filter_map(|name| snapshot.own.claims.get(&*name));
    let refused = claims.filter(|claim| {
        !claim.is_going() && claim.metadata.controller().is_none() && !may_be_owned(claim)
    });
    refused.map(|claim| &*claim.metadata.name).collect()
}

/// Adds or removes an owner.
fn change(
    claim: &Claim,
    (kind, uid): (OwnerKind, &str),
    wanted: bool,
    reference: impl Fn() -> Value,
) -> Option<Value> {
    match (has(claim, kind, uid), wanted) {
        (true, false) => Some(json!({"$patch": "delete", "uid": uid})),
        (false, true) => Some(reference()),
        _ => None,
    }
}

fn has(claim: &Claim, kind: OwnerKind, uid: &str) -> bool {
    claim
        .metadata
        .owner_references
        .iter()
        .any(|owner| *owner.uid == *uid && refers(owner, kind))
}

fn refers(owner: &Owner, kind: OwnerKind) -> bool {
    kind.is_of(&Reference::from(owner))
}

/// A reference without the flag of a controller, because the claim may be older than the set.
fn reference_to_set(snapshot: &Snapshot) -> Value {
    let metadata = &snapshot.set.metadata;
    json!({"apiVersion": STATEFUL_SETS.api_version(), "kind": STATEFUL_SETS.kind, "name": metadata.name, "uid": metadata.uid})
}

fn reference_to_pod(pod: &Pod) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid})
}
