//! Makes a plan from a snapshot.

use std::collections::BTreeSet;

use berth_api::names::finalizer;
use berth_api::v1beta1::imagepulljob::{ImagePullJob, ImagePullJobStatus};
use berth_api::v1beta1::nodeimage::ImageTagSpec;
use berth_workload::images::pull::{Settings, full_name, limits, permitted, settings};
use berth_workload::objects::node::image::NodeImage;
use berth_workload::objects::node::image::entry::{self, EntryRequest};
use berth_workload::objects::node::image::room::Full;
use berth_workload::objects::node::image::{is_requested_by, name, target};
use berth_workload::objects::resource::{IMAGE_PULL_JOBS, NODE_IMAGES};
use berth_workload::plan::{Action, Event, Plan, Step, Target};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};

use super::Snapshot;
use super::round::{Round, Stray};
use super::status::{MAX_FAILED_NODES, PULL, deadline_passed};

/// Most failures for which one plan makes an event each.
const EVENTS: usize = 3;
/// Most nodes that the plan names one by one as those that the job waits for.
const NAMED: usize = 20;

/// Decides about a job.
pub fn decide(snapshot: &Snapshot, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let job = &snapshot.job;
    let status = job.status.clone().unwrap_or_default();
    if job.metadata.deletion_timestamp.is_some() {
        leave(
            snapshot,
            &mut plan,
            "the job is being deleted",
            |_, _, _| false,
        );
        return plan;
    }
    if let Some(completed) = &status.completion_time {
        // Entries that are done stay for a while, so that users can read them. Others would
        // continue without a job.
        leave(snapshot, &mut plan, "the job has ended", entry::is_over);
        expire(job, &mut plan, now.duration_since(completed.0));
        return plan;
    }
    match permitted(snapshot.gates, "ImagePullJob", &full_name(job)).and_then(|()| settings(job)) {
        Ok(settings) => go_on(snapshot, &settings, &status, &mut plan, now),
        Err(refusal) => {
            // The status has this message as long as the refusal lasts.
            let is_known = status.message == refusal.message;
            plan.refuse(refusal, is_known);
        }
    }
    plan
}

fn go_on(
    snapshot: &Snapshot,
    settings: &Settings<'_>,
    status: &ImagePullJobStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    let round = Round::of(snapshot, settings, now);
    tell_failures(settings, status, &round, plan);
    if settings.ends && round.is_over() {
        plan.events
            .push(end(&snapshot.job.spec.image, settings, &round));
        return;
    }
    if deadline_passed(settings, status, now) {
        let left = round.desired - round.succeeded - round.failed.len();
        let message = format!(
            "activeDeadlineSeconds have passed: {left} of {} nodes are not done",
            round.desired
        );
        plan.events
            .push(Event::warning("DeadlineExceeded", message));
        return;
    }
    let strays = round
        .strays
        .iter()
        .filter_map(|stray| drop_stray(snapshot, settings, *stray))
        .collect();
    let pulls: Vec<_> = round
        .next(settings)
        .iter()
        .map(|node| pull(&snapshot.job, settings, node, now))
        .collect();
    if !pulls.is_empty() {
        protect(&snapshot.job, plan);
    }
    plan.add_stage("drop entries", strays);
    plan.add_stage(PULL, pulls);
    wait(settings, &round, plan);
    let start = status.start_time.as_ref().map_or(now, |start| start.0);
    let deadline = settings
        .deadline
        .map(|deadline| deadline.saturating_sub(now.duration_since(start)));
    for wait in deadline.into_iter().chain(round.silence) {
        plan.look_again_after(wait);
    }
}

/// The event for the end of a job.
fn end(image: &str, settings: &Settings<'_>, round: &Round<'_>) -> Event {
    let Some(why) = round.without_nodes(settings) else {
        let message = format!(
            "{} of {} nodes have {image}",
            round.succeeded, round.desired
        );
        return Event::normal("Completed", message);
    };
    Event::warning(
        "NoNodes",
        format!("{why}: the job has completed, and no node pulls {image}; create another job"),
    )
}

fn pull(job: &ImagePullJob, settings: &Settings<'_>, node: &NodeImage, now: Timestamp) -> Step {
    let request = EntryRequest {
        image: &settings.image,
        tag: &settings.tag,
        owner: &settings.owner,
        limits: limits(&job.spec.template, name(node)),
        policy: settings.policy,
        secrets: &settings.secrets,
        sandbox: settings.sandbox,
    };
    let patch = entry::ask(node, &request, now);
    let reason = format!(
        "node {} is next to pull {}, tag {}",
        name(node),
        settings.image,
        settings.tag
    );
    Step::new(
        Action::Patch {
            resource: NODE_IMAGES,
            target: target(node),
            patch,
        },
        reason,
    )
}

/// Drops entries for another image, or on a node that the job no longer selects.
fn drop_stray(
    snapshot: &Snapshot,
    settings: &Settings<'_>,
    Stray { node, wanted }: Stray<'_>,
) -> Option<Step> {
    let stays = |image: &str, entry: &ImageTagSpec| {
        wanted && image == settings.image && entry.tag == settings.tag
    };
    let uid = super::uid(&snapshot.job);
    release(
        node,
        |owner| entry::is(owner, uid),
        stays,
        "the job does not want it there any more",
    )
}

/// The step that removes the entries of owners for which `leaves` holds from a NodeImage, except
/// those for which `stays` holds.
fn release(
    node: &NodeImage,
    leaves: impl Fn(&ObjectReference) -> bool,
    stays: impl Fn(&str, &ImageTagSpec) -> bool,
    why: &str,
) -> Option<Step> {
    let images = entry::prune(
        node,
        |image, tag, owner| !leaves(owner) || stays(image, tag),
        |_, _| true,
        |_| None,
    )?;
    let reason = format!("node {} keeps no entry for the job: {why}", name(node));
    let patch = json!({"spec": {"images": images}});
    Some(Step::new(
        Action::Patch {
            resource: NODE_IMAGES,
            target: target(node),
            patch,
        },
        reason,
    ))
}

/// Removes the job's entries from all NodeImages, then its finalizer. A job without a finalizer has
/// no entries.
fn leave(
    snapshot: &Snapshot,
    plan: &mut Plan,
    why: &str,
    stays: impl Fn(&NodeImage, &str, &ImageTagSpec) -> bool,
) {
    let job = &snapshot.job;
    let finalizers = job.metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|name| name == finalizer::PROTECTION) {
        return;
    }
    let uid = super::uid(job);
    let ours = snapshot
        .node_images
        .iter()
        .filter(|node| is_requested_by(node, uid));
    let leaves = |owner: &ObjectReference| {
        owner
            .uid
            .as_deref()
            .is_some_and(|of| of == uid || snapshot.leaving.contains(of))
    };
    let steps =
        ours.filter_map(|node| release(node, leaves, |image, tag| stays(node, image, tag), why));
    plan.add_required_stage("drop entries", steps.collect());
    let others: Vec<_> = finalizers
        .iter()
        .filter(|name| *name != finalizer::PROTECTION)
        .collect();
    let action = patch_job(job, json!({"metadata": {"finalizers": others}}));
    plan.add_required_stage(
        "let go",
        vec![Step::new(
            action,
            format!("{why}, and no node pulls for it"),
        )],
    );
}

/// Adds a finalizer, because a job that may have entries must not vanish without removing them.
fn protect(job: &ImagePullJob, plan: &mut Plan) {
    let mut finalizers = job.metadata.finalizers.clone().unwrap_or_default();
    if finalizers.iter().any(|name| name == finalizer::PROTECTION) {
        return;
    }
    finalizers.push(finalizer::PROTECTION.to_owned());
    let action = patch_job(job, json!({"metadata": {"finalizers": finalizers}}));
    plan.add_required_stage(
        "protect",
        vec![Step::new(
            action,
            "the first node is about to be asked".to_owned(),
        )],
    );
}

fn expire(job: &ImagePullJob, plan: &mut Plan, age: SignedDuration) {
    let Some(ttl) = job
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
        resource: IMAGE_PULL_JOBS,
        target: Target::from(&job.metadata),
    };
    plan.add_required_stage(
        "expire",
        vec![Step::new(
            action,
            format!("ttlSecondsAfterFinished {ttl} has passed"),
        )],
    );
}

/// Makes an event for each node that has failed since the last status, up to a limit.
fn tell_failures(
    settings: &Settings<'_>,
    status: &ImagePullJobStatus,
    round: &Round<'_>,
    plan: &mut Plan,
) {
    // A truncated list does not show which of the other nodes are new.
    if status.failed_nodes.len() >= MAX_FAILED_NODES {
        return;
    }
    let known: BTreeSet<&str> = status.failed_nodes.iter().map(String::as_str).collect();
    let mut new = round
        .failed
        .iter()
        .filter(|(node, _)| !known.contains(node));
    for (node, why) in new.by_ref().take(EVENTS) {
        let message = format!(
            "node {node} failed to pull image {}, tag {}: {why}",
            settings.image, settings.tag
        );
        plan.events.push(Event::warning("PullImageFailed", message));
    }
    let more = new.count();
    if more > 0 {
        let message = format!(
            "{more} more nodes failed to pull image {}, tag {}",
            settings.image, settings.tag
        );
        plan.events.push(Event::warning("PullImageFailed", message));
    }
}

fn wait(settings: &Settings<'_>, round: &Round<'_>, plan: &mut Plan) {
    let mut say = |reason: String| plan.wait(reason);
    for node in round.active.iter().take(NAMED) {
        say(format!("node {node} has yet to pull"));
    }
    if round.active.len() > NAMED {
        say(format!(
            "{} more nodes have yet to pull",
            round.active.len() - NAMED
        ));
    }
    for (node, full) in round.full.iter().take(NAMED) {
        say(match full {
            Full::ForAll => {
                format!("NodeImage {node} lists as many images as it can; one must go first")
            }
            Full::ForNamespace(what) => {
                let namespace = &settings.owner.namespace.as_deref().unwrap_or_default();
                format!(
                    "namespace {namespace} has its share of the {what} of NodeImage {node}; one of its pulls must go first"
                )
            }
        });
    }
    for node in round.unreadable.iter().take(NAMED) {
        say(format!("NodeImage {node} cannot be read"));
    }
    let later = round.open.len() - round.next(settings).len();
    if later > 0 {
        let limit = settings.parallelism(round.desired);
        say(format!(
            "{later} nodes wait for spec.parallelism, which lets {limit} pull at a time"
        ));
    }
}

fn patch_job(job: &ImagePullJob, patch: Value) -> Action {
    let resource_version = job.metadata.resource_version.clone();
    Action::Patch {
        resource: IMAGE_PULL_JOBS,
        target: Target {
            resource_version,
            ..Target::from(&job.metadata)
        },
        patch,
    }
}
