//! The condition `Blocked` of a StatefulSet.

mod claims;
mod lasting;
mod names;
mod nodes;
mod order;

use berth_api::v1beta1::statefulset::{StatefulSetStatus, VolumeClaimUpdateStrategyType};
use berth_workload::blocked::{self, Cause, Grade};
use berth_workload::feature_gates::Gate;
use berth_workload::plan::{Outcome, Plan};
use berth_workload::update::podset::Uids;
use jiff::Timestamp;

use super::Snapshot;
use super::places::Places;
use super::settings::{self, Settings};

pub use nodes::nodes_to_watch;

/// All causes that block the StatefulSet.
pub(super) fn causes(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    new: &StatefulSetStatus,
    now: Timestamp,
) -> Vec<Cause> {
    let view = snapshot.view();
    let settings = settings::beside_template(snapshot).ok();
    let places = in_order(snapshot, settings.as_ref(), now);
    let (mut causes, others) = claims::refused(snapshot, outcome, now);
    causes.extend(blocked::of_writes(&view, plan, &others, now));
    causes.extend(names::taken(snapshot, now));
    causes.extend(claims::in_the_way(snapshot));
    causes.extend(ignored_start(snapshot, now));
    causes.extend(ignored_growth(snapshot, new, now));
    causes.extend(claims::differing(snapshot, now));
    causes.extend(claims::without_consent(snapshot, now));
    causes.extend(claims::waiting_for_a_start(
        snapshot,
        Some((&new.update_revision, settings.as_ref())),
    ));
    let of_nodes: Vec<_> = nodes::causes(snapshot).collect();
    let explained: Uids = of_nodes
        .iter()
        .map(|(pod, _)| pod.metadata.uid.clone())
        .collect();
    causes.extend(of_nodes.into_iter().map(|(_, cause)| cause));
    causes.extend(blocked::of_pods_without(&view, &explained, plan, now));
    if let Some(places) = &places {
        causes.extend(order::ended(snapshot, places));
        causes.extend(
            order::waited_for(snapshot, places, now).filter(|_| order::is_waited_for(places, plan)),
        );
    }
    causes
}

/// The places of a set with ordered pods.
fn in_order<'a>(
    snapshot: &'a Snapshot,
    settings: Option<&'a Settings>,
    now: Timestamp,
) -> Option<Places<'a>> {
    settings
        .filter(|settings| !settings.is_parallel)
        .map(|settings| Places::new(snapshot, settings, now))
}

/// The cause if `ordinals.start` is set and its feature gate is off.
fn ignored_start(snapshot: &Snapshot, now: Timestamp) -> Option<Cause> {
    let start = snapshot.set.spec.ordinals.as_ref()?.start;
    (start != 0 && !snapshot.gates.has(Gate::StatefulSetStartOrdinal)).then(|| {
        let message = format!(
            "{}: spec.ordinals.start: {start} is ignored, ordinals begin with 0: the feature gate StatefulSetStartOrdinal is off; \
             turn it on, or remove the field",
            snapshot.view().workload
        );
        Cause::new(Grade::Hazard, "StartIgnored", message, now)
    })
}

/// The cause if claims are smaller than their templates by now, and the feature gate of their
/// growth is off.
fn ignored_growth(snapshot: &Snapshot, new: &StatefulSetStatus, now: Timestamp) -> Option<Cause> {
    let strategy = snapshot.set.spec.volume_claim_update_strategy.as_ref()?;
    let is_rolling = strategy.type_ == VolumeClaimUpdateStrategyType::OnPodRollingUpdate;
    let mut smaller = new
        .volume_claims
        .iter()
        .filter(|claim| claim.compatible_replicas < new.replicas);
    let claim = smaller
        .next()
        .filter(|_| is_rolling && !snapshot.gates.has(Gate::StatefulSetAutoResizePVC))?;
    let message = format!(
        "{}: spec.volumeClaimUpdateStrategy.type: OnPodRollingUpdate is ignored, claims of template {} stay smaller than it says: the \
         feature gate StatefulSetAutoResizePVCGate is off; turn it on, or set the type to OnDelete",
        snapshot.view().workload,
        claim.volume_claim_name
    );
    Some(Cause::new(Grade::Hazard, "GrowthIgnored", message, now))
}

/// Asks for another decision when a cause that may pass by itself has lasted too long.
pub(super) fn watch(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    let of_claims = claims::in_the_way(snapshot).chain(claims::waiting_for_a_start(snapshot, None));
    let of_nodes = nodes::causes(snapshot).map(|(_, cause)| cause);
    let settings = settings::beside_template(snapshot).ok();
    let places = in_order(snapshot, settings.as_ref(), now);
    let of_order = places
        .as_ref()
        .and_then(|places| order::waited_for(snapshot, places, now));
    let causes = names::taken(snapshot, now)
        .chain(of_claims)
        .chain(of_nodes)
        .chain(of_order);
    for cause in causes.filter(|cause| cause.from > now) {
        plan.look_again_after(cause.from.duration_since(now));
    }
}
