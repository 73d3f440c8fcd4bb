//! The status of a CloneSet, from what was observed and what came of the plan.

use berth_api::names::condition;
use berth_api::v1beta1::cloneset::{CloneSetCondition, CloneSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::settings::settings;
use super::{Snapshot, update::Revisions};
use crate::plan::{Failure, Outcome, Plan};
use crate::pod::{ContainerStatus, Pod, availability};
use crate::revision::{self, Recognised};
use crate::selector::Selector;

/// The status to write: equal to the one that the CloneSet has when nothing changed. While the revision of a new template
/// is being written, nothing is said of the new generation yet: whoever waits for it must not take the old revision's
/// numbers for the new one's.
pub fn status(snapshot: &Snapshot, plan: &Plan, outcome: &Outcome, now: Timestamp) -> Option<CloneSetStatus> {
    let recognised = revision::recognise(&snapshot.set.spec.template.0, &snapshot.revisions);
    let is_new = matches!(recognised, Recognised::New(_));
    if is_new && plan.refusal.is_none() && outcome.failures.is_empty() {
        return snapshot.set.status.clone();
    }
    let old = snapshot.set.status.clone().unwrap_or_default();
    let mut status = CloneSetStatus {
        observed_generation: snapshot.set.metadata.generation.unwrap_or_default(),
        label_selector: Selector::new(&snapshot.set.spec.selector).map(|s| s.to_string()).unwrap_or_default(),
        update_revision: old.update_revision.clone(),
        current_revision: old.current_revision.clone(),
        collision_count: Some(old.collision_count.unwrap_or(0)),
        expected_updated_replicas: old.expected_updated_replicas,
        conditions: old.conditions.clone(),
        ..CloneSetStatus::default()
    };
    if let Recognised::Newest(updated) | Recognised::Older(updated, _) = recognised {
        let revisions = Revisions::new(snapshot, updated);
        status.update_revision = revisions.updated.metadata.name.to_string();
        status.current_revision = revisions.current.metadata.name.to_string();
    }
    // A template that could not become a revision has no pods, whatever revision was the newest before.
    let updated = if is_new { String::new() } else { status.update_revision.clone() };
    count(snapshot, &updated, &mut status, now);
    if let Ok(settings) = settings(snapshot) {
        let wanted = settings.wanted;
        status.expected_updated_replicas = number(wanted.replicas - wanted.partition);
        if status.updated_replicas == status.replicas && status.replicas == number(wanted.replicas) {
            status.current_revision = status.update_revision.clone();
        }
    }
    let stuck = stuck_image(snapshot, &updated);
    conditions(plan, outcome, stuck, &mut status.conditions, now);
    Some(status)
}

/// An updated pod whose image cannot be had: the user's to mend, and gone by itself once the image can be had.
fn stuck_image(snapshot: &Snapshot, update_revision: &str) -> Option<(&'static str, String)> {
    let updated = snapshot.pods.iter().filter(|pod| {
        let label = pod.metadata.label(revision::REVISION_LABEL).unwrap_or_default();
        pod.is_active() && revision::same(label, update_revision)
    });
    let mut stuck = updated.flat_map(|pod| {
        let images = pod.status.container_statuses.iter().filter_map(image_problem);
        images.map(move |(container, problem)| (pod, container, problem))
    });
    let (pod, container, problem) = stuck.next()?;
    let image = pod.spec.containers.iter().find(|c| *c.name == *container).map_or("", |c| &*c.image);
    let message = format!(
        "CloneSet {}: spec.template.spec.containers[{container}].image: {image:?} cannot be had by pod {} on node {}: \
         {problem}; correct the image, its registry or imagePullSecrets",
        snapshot.name(),
        pod.metadata.name,
        pod.spec.node_name
    );
    Some(("ImageUnavailable", message))
}

fn image_problem(status: &ContainerStatus) -> Option<(&str, String)> {
    let waiting = status.state.waiting.as_ref()?;
    let ours = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"];
    // The back-off's own message changes with every try; the reason is enough of it, so that the condition rests.
    let problem = if &*waiting.reason == "ErrImagePull" { "ImagePullBackOff" } else { &waiting.reason };
    ours.contains(&&*waiting.reason).then(|| (&*status.name, problem.to_owned()))
}

fn count(snapshot: &Snapshot, updated: &str, status: &mut CloneSetStatus, now: Timestamp) {
    for pod in snapshot.pods.iter().filter(|pod| pod.is_active()) {
        let availability = availability(pod, snapshot.set.spec.min_ready_seconds, now);
        let (ready, available) = (i32::from(availability.is_ready()), i32::from(availability.is_available()));
        status.replicas += 1;
        status.ready_replicas += ready;
        status.available_replicas += available;
        let label = pod.metadata.label(revision::REVISION_LABEL).unwrap_or_default();
        if revision::same(label, updated) {
            status.updated_replicas += 1;
            status.updated_ready_replicas += ready;
            status.updated_available_replicas += available;
        }
    }
}

/// A condition per side of the work, True while it fails, gone once it does not.
fn conditions(
    plan: &Plan,
    outcome: &Outcome,
    stuck: Option<(&'static str, String)>,
    conditions: &mut Vec<CloneSetCondition>,
    now: Timestamp,
) {
    let failed = |scale: bool| {
        // Somebody else wrote the pod's status at the same time: it is looked at again at once.
        let told = |f: &&Failure| (f.action, f.code) != ("PatchPodStatus", 409);
        let ours =
            outcome.failures.iter().filter(told).filter(|f| matches!(f.action, "CreatePod" | "DeletePod") == scale);
        let mut texts: Vec<_> = ours.map(|f| format!("{} {}: {}", f.action, f.object, f.message)).collect();
        let more = texts.len().saturating_sub(3);
        texts.truncate(3);
        if more > 0 {
            texts.push(format!("and {more} more"));
        }
        (!texts.is_empty()).then(|| (if scale { "FailedScale" } else { "FailedUpdate" }, texts.join("; ")))
    };
    let refusal = plan.refusal.as_ref().map(|refusal| (refusal.reason, refusal.message.clone()));
    set(conditions, condition::FAILED_SCALE, failed(true), now);
    set(conditions, condition::FAILED_UPDATE, refusal.or_else(|| failed(false)).or(stuck), now);
}

fn set(conditions: &mut Vec<CloneSetCondition>, type_: &str, failure: Option<(&str, String)>, now: Timestamp) {
    let Some((reason, message)) = failure else {
        conditions.retain(|c| c.type_ != type_);
        return;
    };
    let same = |c: &&mut CloneSetCondition| c.type_ == type_;
    if let Some(old) = conditions.iter_mut().find(same) {
        if old.reason != reason || old.message != message || old.status != "True" {
            old.last_update_time = Some(Time(now));
            old.reason = reason.to_owned();
            old.message = message;
            old.status = "True".to_owned();
        }
        return;
    }
    conditions.push(CloneSetCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
        reason: reason.to_owned(),
        message,
    });
}

/// Why a pod is not ready, for people.
pub(super) fn why_not_ready(pod: &Pod) -> String {
    if pod.spec.node_name.is_empty() {
        let why = pod.condition("PodScheduled").map(|c| c.message.to_string()).unwrap_or_default();
        return format!("is not scheduled yet {why}").trim_end().to_owned();
    }
    if &*pod.status.phase != "Running" {
        return format!("is {} on node {}", pod.status.phase, pod.spec.node_name);
    }
    let closed = pod.spec.readiness_gates.iter().find(|gate| !pod.is_true(&gate.condition_type));
    if let Some(gate) = closed {
        return format!("its readiness gate {} is not open", gate.condition_type);
    }
    let unready: Vec<_> =
        pod.status.container_statuses.iter().filter(|c| !c.ready).map(|c| c.name.to_string()).collect();
    if !unready.is_empty() {
        return format!("its containers {} are not ready", unready.join(", "));
    }
    "is not ready yet".to_owned()
}

fn number(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
