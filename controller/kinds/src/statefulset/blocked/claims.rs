//! Claims that block the set.

use berth_api::commands::{self, Named};
use berth_workload::blocked::{Cause, Grade};
use berth_workload::objects::ordinals::ordinal_of;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::CLAIMS;
use berth_workload::plan::{Failure, Outcome, Verb, Write};
use berth_workload::update::revision::{self, REVISION_LABEL};
use jiff::Timestamp;

use super::super::claims::OWNED_BY;
use super::super::growth::{Growth, Stage};
use super::super::settings::Settings;
use super::super::{Snapshot, claims, places};
use super::lasting::lasting;

/// The most claims that one command names.
const MOST_NAMED: usize = 10;

/// Claims that are being deleted, of pods that are missing.
pub(super) fn in_the_way(snapshot: &Snapshot) -> impl Iterator<Item = Cause> {
    let workload = snapshot.view().workload;
    let going = snapshot
        .own
        .claims
        .values()
        .filter(|claim| claim.is_going() && template(snapshot, &claim.metadata.name).is_some());
    going.map(move |claim| {
        let name = &claim.metadata.name;
        let held = if claim.metadata.finalizers.is_empty() {
            String::new()
        } else {
            format!(
                ", and its finalizers {} are still there",
                claim.metadata.finalizers.join(", ")
            )
        };
        let message =
            format!("{workload}: claim {name} is being deleted{held}; its pod waits for its end");
        lasting(
            "ClaimTerminating",
            message,
            claim.metadata.deletion_timestamp,
        )
    })
}

/// Claims that cannot be changed to match their templates.
pub(super) fn differing(snapshot: &Snapshot, now: Timestamp) -> Option<Cause> {
    let growth = Growth::of(snapshot);
    let differing = snapshot
        .pods
        .iter()
        .find_map(|pod| match growth.stage(snapshot, pod) {
            Stage::Differs(claim) => Some((pod, claim)),
            _ => None,
        });
    let (pod, claim) = differing?;
    let message = format!(
        "{}: claim {claim} of pod {} is of another storage class than spec.volumeClaimTemplates says, which no claim can change; \
         delete the claim and the pod, or take the class back",
        snapshot.view().workload,
        pod.metadata.name
    );
    Some(Cause::new(Grade::Refused, "ClaimDiffers", message, now))
}

/// Claims that others made, and that the retention policy would give an owner. An annotation allows
/// it, which the controller's account cannot write.
pub(super) fn without_consent(snapshot: &Snapshot, now: Timestamp) -> Option<Cause> {
    let names = claims::without_consent(snapshot);
    let first = names.first()?;
    let metadata = &snapshot.set.metadata;
    let set = metadata.name.as_deref().unwrap_or_default();
    let listed = names
        .iter()
        .take(MOST_NAMED)
        .copied()
        .collect::<Vec<_>>()
        .join(" ");
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let claims = Named {
        resource: "persistentvolumeclaim",
        namespace,
        name: &listed,
    };
    let message = format!(
        "{}: claim {first}: metadata.ownerReferences: names neither the StatefulSet nor its pod, as spec.persistentVolumeClaimRetentionPolicy \
         asks, because another creator made the claim, and an owner that goes takes the claim's data along ({} such claims); allow it with \
         {}",
        snapshot.view().workload,
        names.len(),
        commands::annotate(claims, OWNED_BY, set),
    );
    Some(Cause::new(Grade::Hazard, "ClaimNotOwned", message, now))
}

/// The causes for claims that the apiserver does not let grow, because their StorageClass does not
/// allow it; and the outcome without these failures.
pub(super) fn refused(
    snapshot: &Snapshot,
    outcome: &Outcome,
    now: Timestamp,
) -> (Vec<Cause>, Outcome) {
    let (cannot_grow, failures): (Vec<_>, Vec<_>) =
        outcome.failures.iter().cloned().partition(is_of_class);
    let causes = cannot_grow.iter().map(|failure| {
        let claim = &failure.object;
        let known = snapshot.own.claims.get(&**claim);
        let class = known.and_then(|claim| claim.spec.storage_class_name.as_deref());
        let class = class.map_or_else(|| "its StorageClass".to_owned(), |class| format!("StorageClass {class}"));
        let size = known.and_then(|claim| claim.spec.resources.requests.storage.as_deref()).unwrap_or("what it was");
        let message = format!(
            "{}: claim {claim} cannot grow: {class} does not allow it; set allowVolumeExpansion: true in {class}, or take {}.storage \
             back to {size}",
            snapshot.view().workload,
            field(snapshot, claim)
        );
        Cause::new(Grade::Refused, "ClassCannotExpand", message, now)
    });
    (causes.collect(), Outcome { failures })
}

/// Recognises the message of the admission plugin PersistentVolumeClaimResize, because nothing else
/// in the failure shows it.
fn is_of_class(failure: &Failure) -> bool {
    let message = failure.message.to_lowercase();
    failure.write == Write::of(Verb::Patch, CLAIMS)
        && matches!(failure.code, 403 | 422)
        && message.contains("storageclass")
        && message.contains("support resize")
}

/// The field of the spec that has the size of a claim.
fn field(snapshot: &Snapshot, claim: &str) -> String {
    let name = template(snapshot, claim).unwrap_or_default();
    format!("spec.volumeClaimTemplates[{name}].spec.resources.requests")
}

/// The claim template of a claim.
fn template<'a>(snapshot: &'a Snapshot, claim: &str) -> Option<&'a str> {
    let is_of = |template: &str| {
        let pod = claim
            .strip_prefix(template)
            .and_then(|rest| rest.strip_prefix('-'));
        pod.is_some_and(|pod| ordinal_of(snapshot.view().workload.name(), pod).is_some())
    };
    let mut names = snapshot
        .set
        .spec
        .volume_claim_templates
        .iter()
        .map(|template| template.name());
    names.find(|name| is_of(name))
}

/// Claims whose file systems grow when their pods start next, of pods that no update is about to
/// start. Such pods are not in service, because their volumes are smaller than requested. Without
/// the revision and the settings of an update, the result has the claims of all pods.
pub(super) fn waiting_for_a_start<'a>(
    snapshot: &'a Snapshot,
    update: Option<(&'a str, Option<&'a Settings>)>,
) -> impl Iterator<Item = Cause> + 'a {
    let growth = Growth::of(snapshot);
    let workload = snapshot.view().workload;
    let pods = snapshot.pods.iter().filter(|pod| pod.is_active());
    let waiting = pods.filter_map(move |pod| {
        let claim = growth
            .lacking(snapshot, pod)
            .find(|claim| claim.waits_for_its_file_system())?
            .clone();
        Some((pod, claim))
    });
    let stays = move |pod: &Pod| {
        update.is_none_or(|(revision, settings)| {
            !is_about_to_be_updated(snapshot, settings, revision, pod)
        })
    };
    waiting.filter(move |(pod, _)| stays(pod)).map(move |(pod, claim)| {
        let (pod, claim, since) = (&pod.metadata, &claim.metadata.name, claim.resizes_since());
        let message = format!(
            "{workload}: the volume of claim {claim} has grown, and its file system grows when pod {} starts next \
             (FileSystemResizePending), which no update is about to bring; delete the pod, or wait for its next start",
            pod.name
        );
        lasting("FileSystemResizePending", message, since.max(pod.creation_timestamp))
    })
}

/// Whether an update reaches the pod by itself. If priorities decide which pods stay at the
/// partition, the pod may be one that stays.
fn is_about_to_be_updated(
    snapshot: &Snapshot,
    settings: Option<&Settings>,
    update_revision: &str,
    pod: &Pod,
) -> bool {
    let label = pod.metadata.label(REVISION_LABEL).unwrap_or_default();
    if places::is_updated(snapshot, revision::same(label, update_revision), pod) {
        return false;
    }
    let Some(settings) = settings else {
        return false;
    };
    let Some(ordinal) = ordinal_of(snapshot.view().workload.name(), &pod.metadata.name) else {
        return false;
    };
    let rank = if settings.order.is_some() {
        0
    } else {
        settings.ordinals.rank(ordinal)
    };
    settings.updates && rank >= settings.partition
}
