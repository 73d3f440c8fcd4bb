//! Makes a plan from a snapshot.

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_workload::objects::resource::{IMAGE_LIST_PULL_JOBS, IMAGE_PULL_JOBS};
use berth_workload::plan::{Action, Event, IfExists, Outcome, Plan, Step, Target};
use jiff::{SignedDuration, Timestamp};

use super::children::{Children, name, new_job};
use super::{Snapshot, status, validate};

/// Decides about a list.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let list = &snapshot.list;
    if list.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    if let Some(completed) = list
        .status
        .as_ref()
        .and_then(|status| status.completion_time.as_ref())
    {
        expire(snapshot, &mut plan, now.duration_since(completed.0));
        return plan;
    }
    if let Err(refusal) = validate(snapshot) {
        plan.refuse(refusal, false);
        return plan;
    }
    let children = Children::of(snapshot);
    let unwanted = children
        .unwanted
        .iter()
        .map(|(job, why)| delete(job, why))
        .collect();
    plan.add_stage("drop jobs", unwanted);
    let mut creates = Vec::new();
    for image in &children.missing {
        match new_job(snapshot, image) {
            Some(body) => creates.push(create(image, body)),
            None => plan.wait(format!(
                "the job of image {image} is being deleted, and made again after that"
            )),
        }
    }
    plan.add_stage("create jobs", creates);
    for (image, job) in children
        .kept
        .iter()
        .filter(|(_, job)| !status::is_completed(job))
    {
        plan.wait(format!(
            "ImagePullJob {} pulls {image}",
            name(&job.metadata)
        ));
    }
    let next = status(snapshot, &plan, &Outcome::default(), now);
    if next.completion_time.is_some() {
        let message = format!(
            "{} of {} images are on all nodes",
            next.succeeded, next.desired
        );
        plan.events.push(Event::normal("Completed", message));
    }
    plan
}

fn create(image: &str, body: serde_json::Value) -> Step {
    let name = body
        .pointer("/metadata/name")
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let event = |warning, reason, message| {
        Some(Event {
            warning,
            reason,
            message,
        })
    };
    Step {
        actions: vec![Action::Create {
            resource: IMAGE_PULL_JOBS,
            body,
            if_exists: IfExists::IsOfSameOwner,
        }],
        reason: format!("image {image} has no job yet"),
        done: event(
            false,
            "SuccessfulCreate",
            format!("created ImagePullJob {name} for image {image}"),
        ),
        failed: event(
            true,
            "FailedCreate",
            format!("failed to create ImagePullJob {name} for image {image}"),
        ),
    }
}

fn delete(job: &ImagePullJob, why: &str) -> Step {
    let target = Target::from(&job.metadata);
    let name = &target.name;
    let event = |warning, reason, message| {
        Some(Event {
            warning,
            reason,
            message,
        })
    };
    Step {
        reason: format!("ImagePullJob {name} goes: {why}"),
        done: event(
            false,
            "SuccessfulDelete",
            format!("deleted ImagePullJob {name}: {why}"),
        ),
        failed: event(
            true,
            "FailedDelete",
            format!("failed to delete ImagePullJob {name}"),
        ),
        actions: vec![Action::Delete {
            resource: IMAGE_PULL_JOBS,
            target,
        }],
    }
}

fn expire(snapshot: &Snapshot, plan: &mut Plan, age: SignedDuration) {
    let list = &snapshot.list;
    let Some(ttl) = list
        .spec
        .template
        .completion_policy
        .ttl_seconds_after_finished
    else {
        return;
    };
    let left = SignedDuration::from_secs(i64::from(ttl)) - age;
    if left.is_positive() {
        plan.look_again_after(left);
        return;
    }
    let action = Action::Delete {
        resource: IMAGE_LIST_PULL_JOBS,
        target: Target::from(&list.metadata),
    };
    let reason = format!("ttlSecondsAfterFinished {ttl} has passed");
    plan.add_stage("expire", vec![Step::new(action, reason)]);
}
