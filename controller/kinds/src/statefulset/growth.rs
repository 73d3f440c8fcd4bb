//! Claims that grow with the update of their pods, and the progress of all claims.
//!
//! With `volumeClaimUpdateStrategy: OnPodRollingUpdate`, the update of a pod first enlarges the
//! pod's claims. When their volumes are as large, or wait for the pod's next start to grow their
//! file systems, the controller updates the pod itself, if there is anything to update. Claims
//! never shrink: a claim that requests more than its template is fine.

use std::sync::Arc;

use berth_api::v1beta1::statefulset::{VolumeClaimStatus, VolumeClaimUpdateStrategyType};
use berth_workload::feature_gates::Gate;
use berth_workload::objects::claim::Claim;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Event, Plan, Step};
use serde_json::{Value, json};

use super::Snapshot;

/// The sizes that the claim templates ask for, read once for a decision.
pub(super) struct Sizes(Vec<Size>);

struct Size {
    template: String,
    class: Option<String>,
    resources: Value,
}

impl Size {
    fn storage(&self) -> Option<&str> {
        self.resources
            .pointer("/requests/storage")
            .and_then(Value::as_str)
    }

    /// Whether the claim requests at least as much as the template.
    fn is_met(&self, claim: &Claim) -> bool {
        self.storage().is_none_or(|storage| claim.requests(storage))
    }
}

impl Sizes {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let read = |template: &berth_api::fields::template::VolumeClaimTemplate| {
            let value = template.value();
            let spec = &value["spec"];
            let class = spec["storageClassName"].as_str().map(str::to_owned);
            Size {
                template: template.name().to_owned(),
                class,
                resources: spec["resources"].clone(),
            }
        };
        Self(
            snapshot
                .set
                .spec
                .volume_claim_templates
                .iter()
                .map(read)
                .collect(),
        )
    }

    /// The existing claims of a pod, with their wanted sizes.
    fn claims<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        pod: &'a str,
    ) -> impl Iterator<Item = (&'a Size, &'a Arc<Claim>)> {
        let claim = move |size: &'a Size| {
            snapshot
                .own
                .claims
                .get(&*format!("{}-{pod}", size.template))
        };
        let all = self
            .0
            .iter()
            .filter_map(move |size| Some((size, claim(size)?)));
        all.filter(|(_, claim)| !claim.is_going())
    }

    /// By template, how many claims of these pods are as the template says.
    pub(super) fn status(&self, snapshot: &Snapshot) -> Vec<VolumeClaimStatus> {
        let count = |size: &Size, is: &dyn Fn(&Claim) -> bool| {
            let claims = snapshot.pods.iter().filter_map(|pod| {
                snapshot
                    .own
                    .claims
                    .get(&*format!("{}-{}", size.template, pod.metadata.name))
                    .filter(|c| !c.is_going())
            });
            i32::try_from(
                claims
                    .filter(|claim| size.is_met(claim) && is(claim))
                    .count(),
            )
            .unwrap_or(i32::MAX)
        };
        let status = |size: &Size| VolumeClaimStatus {
            volume_claim_name: size.template.clone(),
            compatible_replicas: count(size, &|_| true),
            compatible_ready_replicas: count(size, &Claim::has_what_it_requests),
        };
        self.0.iter().map(status).collect()
    }
}

/// The sizes of growing claims; `None` if claims do not grow.
pub(super) struct Growth(Option<Sizes>);

/// The state of a pod's claims before the pod is updated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// The claims need no change.
    Done,
    /// Some claims must be enlarged.
    Due,
    /// This claim has not grown yet.
    Grows(String),
    /// This claim is of another storage class, which only its deletion can change.
    Differs(String),
}

impl Growth {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let strategy = snapshot.set.spec.volume_claim_update_strategy.as_ref();
        let is_rolling = strategy.is_some_and(|strategy| {
            strategy.type_ == VolumeClaimUpdateStrategyType::OnPodRollingUpdate
        });
        let grows = is_rolling && snapshot.gates.has(Gate::StatefulSetAutoResizePVC);
        Self(grows.then(|| Sizes::of(snapshot)))
    }

    /// Whether the pod's claims have the sizes that they request. A pod with a claim that grows is
    /// not in service.
    pub(super) fn is_over(&self, snapshot: &Snapshot, pod: &Pod) -> bool {
        self.lacking(snapshot, pod).next().is_none()
    }

    /// The pod's claims that do not have the sizes that they request.
    pub(super) fn lacking<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        pod: &'a Pod,
    ) -> impl Iterator<Item = &'a Arc<Claim>> {
        let claims = self
            .0
            .iter()
            .flat_map(|sizes| sizes.claims(snapshot, &pod.metadata.name));
        claims
            .map(|(_, claim)| claim)
            .filter(|claim| !claim.has_what_it_requests())
    }

    /// The next step for the pod's claims.
    pub(super) fn stage(&self, snapshot: &Snapshot, pod: &Pod) -> Stage {
        let claims = || {
            self.0
                .iter()
                .flat_map(|sizes| sizes.claims(snapshot, &pod.metadata.name))
        };
        let name = |claim: &Claim| claim.metadata.name.to_string();
        let differs = |(size, claim): &(&Size, &Arc<Claim>)| {
            let class = claim.spec.storage_class_name.as_deref();
            size.class
                .as_deref()
                .is_some_and(|wanted| class.is_some_and(|class| class != wanted))
        };
        if let Some((_, claim)) = claims().find(differs) {
            return Stage::Differs(name(claim));
        }
        if claims().any(|(size, claim)| !size.is_met(claim)) {
            return Stage::Due;
        }
        let grows =
            |claim: &Claim| !claim.has_what_it_requests() && !claim.waits_for_its_file_system();
        claims()
            .find(|(_, claim)| grows(claim))
            .map_or(Stage::Done, |(_, claim)| Stage::Grows(name(claim)))
    }

    /// Enlarges the claims of these pods.
    pub(super) fn plan(&self, snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &mut Plan) {
        let steps = pods.iter().flat_map(|pod| {
            let claims = self
                .0
                .iter()
                .flat_map(|sizes| sizes.claims(snapshot, &pod.metadata.name));
            claims
                .filter(|(size, claim)| !size.is_met(claim))
                .map(|(size, claim)| enlarge(snapshot, pod, size, claim))
        });
        plan.add_stage("claims grow", steps.collect());
    }
}

fn enlarge(snapshot: &Snapshot, pod: &Pod, size: &Size, claim: &Claim) -> Step {
    let (set, name) = (snapshot.view().workload.name(), &claim.metadata.name);
    let storage = size.storage().unwrap_or_default();
    let patch = json!({"spec": {"resources": {"requests": {"storage": storage}}}});
    let event = |warning, reason, word| Event {
        warning,
        reason,
        message: format!(
            "resize Claim {name} Pod {} in StatefulSet {set} {word}",
            pod.metadata.name
        ),
    };
    Step {
        done: Some(event(false, "SuccessfulResize", "success")),
        failed: Some(event(true, "FailedResize", "failed")),
        ..Step::new(
            Action::PatchClaim {
                target: claim.target(),
                patch,
            },
            format!(
                "claim {name} grows to {storage}, before pod {} is updated",
                pod.metadata.name
            ),
        )
    }
}
