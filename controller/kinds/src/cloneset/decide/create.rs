//! New pods of a CloneSet: as many as one round may create.

use berth_api::names::label;
use berth_workload::objects::pod::lifecycle;
use berth_workload::plan::{Action, Body, Event, Plan, Step};
use berth_workload::update::podset::Uids;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::podset::new_pod::{creation, new_pod};
use berth_workload::update::revision::Revision;
use berth_workload::update::rollout::Numbers;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cloneset::{Snapshot, claims};

/// Most pods that one plan creates. The objects of new pods are by far the largest part of a plan,
/// and the next plan soon takes changes into account (fewer pods, another image).
const MOST_CREATIONS: usize = 256;

/// The bytes of JSON of a plan's new pods and claims, after which the next plan creates the rest:
/// 256 pods of the largest template would be 64 MiB, for each CloneSet that is being reconciled.
const MOST_CREATED_BYTES: usize = 8 << 20;

/// The new pods of one plan.
#[derive(Default)]
struct Room {
    pods: usize,
    bytes: usize,
}

impl Room {
    /// Whether the plan may create one more pod.
    fn is_left(&self) -> bool {
        self.pods < MOST_CREATIONS && self.bytes < MOST_CREATED_BYTES
    }

    fn fill(&mut self, step: &Step) {
        let bytes = step.actions.iter().map(|action| match action {
            Action::CreatePod { body } | Action::CreateClaim { body } => body.text().len(),
            _ => 0,
        });
        self.bytes += bytes.sum::<usize>();
    }
}

pub(super) fn scale_up(
    snapshot: &Snapshot,
    revisions: &Revisions,
    have: usize,
    (numbers, resting): (&Numbers, &Uids),
    plan: &mut Plan,
    now: Timestamp,
) {
    let mut ids = claims::ids(snapshot, resting);
    let claims = claims::Templates::new(snapshot);
    let wanted = [
        (&revisions.current, numbers.create_old),
        (&revisions.updated, numbers.create_updated),
    ];
    let (mut creates, mut room, mut later) = (Vec::new(), Room::default(), 0);
    for (revision, count) in wanted {
        let mut left = count;
        while left > 0 && room.is_left() {
            left -= 1;
            room.pods += 1;
            match ids.next() {
                Some(claims::Id::Free(id)) => {
                    let template = revisions.template_of(revision);
                    let step = create(snapshot, (revision, &template), &claims, &id, have, now);
                    room.fill(&step);
                    creates.push(step);
                }
                Some(claims::Id::Held(pod)) => claims::await_end(&pod, plan),
                None => {}
            }
        }
        later += left;
    }
    plan.add_stage("scale up", creates);
    if later > 0 {
        let reason = format!("{later} more pods are created as soon as {} are", room.pods);
        plan.wait(reason);
        plan.look_again_after(SignedDuration::from_secs(1));
    }
    if numbers.create_later > 0 {
        let reason = format!(
            "{} more pods wait for scaleStrategy.maxUnavailable",
            numbers.create_later
        );
        plan.events
            .push(Event::warning("ScaleUpLimited", reason.clone()));
        plan.wait(reason);
    }
}

fn create(
    snapshot: &Snapshot,
    (revision, template): (&Revision, &Value),
    claims: &claims::Templates<'_>,
    id: &str,
    have: usize,
    now: Timestamp,
) -> Step {
    let view = snapshot.view();
    let name = claims::pod_name(snapshot, id);
    let mut body = new_pod(&view, revision, template, &name);
    body["metadata"]["labels"][label::CLONESET_INSTANCE_ID] = json!(id);
    lifecycle::begin(&mut body, lifecycle::PREPARING_NORMAL, now);
    let wanted = snapshot.set.spec.replicas.unwrap_or(1);
    let mut actions = claims.creations(id);
    actions.push(Action::CreatePod {
        body: Body::from(&body),
    });
    let reason = format!(
        "{have} pods of {wanted}: creates {name} at {}",
        revision.metadata.name
    );
    creation(actions, reason, &name)
}
