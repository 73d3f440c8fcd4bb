//! The condition `Blocked` of a StatefulSet.

use berth_api::names::condition;
use berth_api::v1beta1::statefulset::{StatefulSetCondition, StatefulSetStatus};
use berth_workload::gates::Gate;
use berth_workload::plan::{Outcome, Plan};
use berth_workload::stuck::{self, Cause, Grade};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Snapshot;
use super::create::who_has_the_name;
use super::growth::{Growth, Stage};

/// What passes by itself is told when it has lasted for so long.
const LASTING: SignedDuration = SignedDuration::from_secs(60);

/// Brings the condition among those of `new` up to date.
pub(super) fn set(snapshot: &Snapshot, plan: &Plan, outcome: &Outcome, new: &mut StatefulSetStatus, now: Timestamp) {
    let scene = snapshot.scene();
    let mut causes = stuck::of_writes(&scene, plan, outcome, now);
    causes.extend(names_taken(snapshot, now));
    causes.extend(claims_in_the_way(snapshot, now));
    causes.extend(ignored_start(snapshot, now));
    causes.extend(claims_that_differ(snapshot, now));
    causes.extend(stuck::of_pods(&scene, plan, now));
    let cause = match stuck::gravest(causes, scene.workload.blocked, now) {
        Some((_, true)) => return,
        Some((cause, false)) => Some(cause),
        None => None,
    };
    let told = new.conditions.iter().find(|c| c.type_ == condition::BLOCKED);
    let since = told.and_then(|told| told.last_transition_time.clone());
    new.conditions.retain(|c| c.type_ != condition::BLOCKED);
    new.conditions.extend(cause.map(|cause| StatefulSetCondition {
        type_: condition::BLOCKED.to_owned(),
        status: "True".to_owned(),
        last_transition_time: since.or(Some(Time(now))),
        reason: cause.reason.to_owned(),
        message: cause.message,
    }));
}

/// Pods of others that have names of ours.
fn names_taken(snapshot: &Snapshot, now: Timestamp) -> impl Iterator<Item = Cause> {
    let workload = snapshot.scene().workload;
    snapshot.others.iter().filter(|(name, _)| !snapshot.orphans.has_pod(name)).map(move |(name, other)| {
        let message = format!("{workload}: pod {name} cannot be made: {}; delete it", who_has_the_name(other));
        let since = other.metadata.deletion_timestamp.map(|going| going + LASTING);
        Cause::new(Grade::Failing, "NameTaken", message, since.unwrap_or(now))
    })
}

/// Claims that are on their way out, of pods that are missing.
fn claims_in_the_way(snapshot: &Snapshot, now: Timestamp) -> impl Iterator<Item = Cause> {
    let workload = snapshot.scene().workload;
    let going = snapshot.claims.values().filter(|claim| claim.is_going());
    going.map(move |claim| {
        let name = &claim.metadata.name;
        let held = if claim.metadata.finalizers.is_empty() {
            String::new()
        } else {
            format!(", and its finalizers {} are still there", claim.metadata.finalizers.join(", "))
        };
        let message = format!("{workload}: claim {name} is being deleted{held}; its pod waits for its end");
        let from = claim.metadata.deletion_timestamp.map_or(now, |since| since + LASTING);
        Cause::new(Grade::Lasting, "ClaimTerminating", message, from)
    })
}

/// Claims that cannot become what their templates say.
fn claims_that_differ(snapshot: &Snapshot, now: Timestamp) -> Option<Cause> {
    let growth = Growth::of(snapshot);
    let differing = snapshot.pods.iter().find_map(|pod| match growth.stage(snapshot, pod) {
        Stage::Differs(claim) => Some((pod, claim)),
        _ => None,
    });
    let (pod, claim) = differing?;
    let message = format!(
        "{}: claim {claim} of pod {} is of another storage class than spec.volumeClaimTemplates says, which no claim can change; \
         delete the claim and the pod, or take the class back",
        snapshot.scene().workload,
        pod.metadata.name
    );
    Some(Cause::new(Grade::Refused, "ClaimDiffers", message, now))
}

/// `ordinals.start` where its gate is off.
fn ignored_start(snapshot: &Snapshot, now: Timestamp) -> Option<Cause> {
    let start = snapshot.set.spec.ordinals.as_ref()?.start;
    (start != 0 && !snapshot.gates.has(Gate::StatefulSetStartOrdinal)).then(|| {
        let message = format!(
            "{}: spec.ordinals.start: {start} is ignored, ordinals begin with 0: the feature gate StatefulSetStartOrdinal is off; \
             turn it on, or remove the field",
            snapshot.scene().workload
        );
        Cause::new(Grade::Hazard, "StartIgnored", message, now)
    })
}

/// Asks to look again when what may pass by itself has lasted for too long.
pub(super) fn watch(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    let causes = names_taken(snapshot, now).chain(claims_in_the_way(snapshot, now));
    for cause in causes.filter(|cause| cause.from > now) {
        plan.look_again_after(cause.from.duration_since(now));
    }
}
