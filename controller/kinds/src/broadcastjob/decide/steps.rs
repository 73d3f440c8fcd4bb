//! The steps that create and delete pods of a job: as many as one round may have.

use std::sync::Arc;

use berth_api::v1beta1::broadcastjob::BroadcastJobStatus;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Body, Event, Plan, Step, Target};
use jiff::{SignedDuration, Timestamp};

use crate::broadcastjob::new_pod::new_pod;
use crate::broadcastjob::round::{Place, Round};
use crate::broadcastjob::settings::Settings;
use crate::broadcastjob::{Snapshot, mark};

/// Most pods that one plan creates, so that the next round soon takes changes into account.
pub(super) const MOST_CREATIONS: usize = 256;

/// The bytes of JSON of a plan's new pods, after which the next plan creates the rest.
const MOST_CREATED_BYTES: usize = 8 << 20;

pub(super) fn delete(pod: &Arc<Pod>, why: String) -> Step {
    let name = &pod.metadata.name;
    let message = format!("deleted pod {name}: {why}");
    Step {
        actions: vec![Action::DeletePod {
            target: Target::from(&pod.metadata),
        }],
        reason: format!("pod {name} goes: {why}"),
        done: Some(Event::normal("SuccessfulDelete", message)),
        failed: Some(Event::warning(
            "FailedDelete",
            format!("failed to delete pod {name}"),
        )),
    }
}

/// The steps with which one plan begins pods.
#[derive(Default)]
pub(super) struct Begun {
    pub(super) nodes: usize,
    pub(super) creates: Vec<Step>,
    pub(super) replaces: Vec<Step>,
}

/// Creates the pods of at most `slots` of the next nodes, or deletes the rest of an earlier pod.
pub(super) fn begin(
    snapshot: &Snapshot,
    settings: &Settings,
    next: &[&Place<'_>],
    slots: usize,
) -> Begun {
    let (mut begun, mut bytes) = (Begun::default(), 0);
    for place in next.iter().take(slots) {
        if bytes >= MOST_CREATED_BYTES {
            break;
        }
        begun.nodes += 1;
        let node = &place.node.metadata.name;
        let left = place.disrupted.iter().map(|pod| {
            delete(
                pod,
                format!("it was taken away before its end, and node {node} is to get another"),
            )
        });
        begun.replaces.extend(left);
        if place.disrupted.is_empty() {
            let (step, size) = new_step(snapshot, settings, place);
            bytes += size;
            begun.creates.push(step);
        }
    }
    begun
}

/// Reasons of `Blocked` for refused creations.
pub(super) const REFUSED: [&str; 4] = [
    "TemplateRefused",
    "QuotaExceeded",
    "CreateRefused",
    "NameTaken",
];

/// The time until the next creation after the end of a pod.
pub(super) fn pause_after_node(
    settings: &Settings,
    status: &BroadcastJobStatus,
    round: &Round<'_>,
    now: Timestamp,
) -> Option<SignedDuration> {
    let wait = settings.wait?;
    let is_new = round.places.iter().any(Place::is_new);
    let last = if is_new {
        Some(now)
    } else {
        status.last_end_time.as_ref().map(|time| time.0)
    }?;
    Some(wait.saturating_sub(now.duration_since(last))).filter(SignedDuration::is_positive)
}

/// Whether a node may get a pod. The pod of a node that shuts down fails before the node reports
/// its shutdown to the apiserver: a new pod would fail, too.
pub(super) fn may_begin(place: &Place<'_>, plan: &mut Plan) -> bool {
    if place.disrupted.is_empty() {
        return true;
    }
    let is_leaving = place
        .disrupted
        .iter()
        .any(|pod| pod.metadata.deletion_timestamp.is_some());
    if is_leaving || !place.node.ready {
        let until = if is_leaving {
            "it is gone"
        } else {
            "its node is ready"
        };
        for pod in &place.disrupted {
            plan.wait_for_pod(
                pod,
                format!("was taken away before its end; another follows once {until}"),
            );
        }
        return false;
    }
    true
}

fn new_step(snapshot: &Snapshot, settings: &Settings, place: &Place<'_>) -> (Step, usize) {
    let (job, node) = (&snapshot.job, &place.node.metadata.name);
    let name = mark::pod_name(
        job.metadata.name.as_deref().unwrap_or_default(),
        &place.hash,
    );
    let body = Body::from(&new_pod(job, &settings.template, &name, node));
    let size = body.text().len();
    let step = Step {
        actions: vec![Action::CreatePod { body }],
        reason: format!("node {node} is next: creates pod {name}"),
        done: Some(Event::normal(
            "SuccessfulCreate",
            format!("created pod {name} on node {node}"),
        )),
        failed: Some(Event::warning(
            "FailedCreate",
            format!("failed to create pod {name} on node {node}"),
        )),
    };
    (step, size)
}

pub(super) fn validate(snapshot: &Snapshot, settings: &Settings) -> Step {
    let namespace = snapshot.job.metadata.namespace.clone().unwrap_or_default();
    let action = Action::ValidateTemplate {
        namespace,
        template: Body::from(&settings.template),
    };
    Step::new(
        action,
        "asks the apiserver whether the template is valid".to_owned(),
    )
}
