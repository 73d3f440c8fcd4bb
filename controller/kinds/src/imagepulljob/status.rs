//! The status of a job, from the observed state and the outcome of the plan.

use std::collections::BTreeSet;

use berth_api::v1beta1::imagepulljob::ImagePullJobStatus;
use berth_workload::images::pull::{Settings, full_name, permitted, settings};
use berth_workload::objects::condition::number;
use berth_workload::objects::node::image::name;
use berth_workload::objects::node::image::room::Full;
use berth_workload::objects::resource::{IMAGE_PULL_JOBS, NODE_IMAGES};
use berth_workload::plan::{Action, Outcome, Plan, Verb, Write};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Snapshot;
use super::round::Round;

/// The stage that adds the job's entries to NodeImages.
pub(super) const PULL: &str = "pull";
/// Most nodes that the status names as failed: each node that fails writes the whole list once
/// more.
pub const MAX_FAILED_NODES: usize = 500;
/// Most nodes that the message names.
const NAMED: usize = 3;

/// The status to write. It equals the job's present status if nothing changed, and always once the
/// job has ended.
pub fn status(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> ImagePullJobStatus {
    let job = &snapshot.job;
    let old = job.status.clone().unwrap_or_default();
    if old.completion_time.is_some() || job.metadata.deletion_timestamp.is_some() {
        return old;
    }
    let settings = match permitted(snapshot.gates, "ImagePullJob", &full_name(job))
        .and_then(|()| settings(job))
    {
        Ok(settings) => settings,
        Err(refusal) => {
            return ImagePullJobStatus {
                message: refusal.message,
                ..old
            };
        }
    };
    let round = Round::of(snapshot, &settings, now);
    let over = settings.ends && round.is_over();
    let too_late = !over && deadline_passed(&settings, &old, now);
    let mut failed: Vec<&str> = round.failed.iter().map(|(node, _)| *node).collect();
    let mut active = round.active.len() + begun(plan, outcome);
    if too_late {
        // A node that is not done by now has failed.
        failed.extend(
            round
                .active
                .iter()
                .chain(&round.waiting)
                .chain(&round.unreadable),
        );
        failed.extend(round.full.iter().map(|(node, _)| node));
        failed.extend(round.open.iter().map(|node| name(node)));
        failed.sort_unstable();
        active = 0;
    }
    let ended = over || too_late;
    ImagePullJobStatus {
        start_time: old.start_time.or(Some(Time(now))),
        completion_time: ended.then_some(Time(now)),
        desired: number(round.desired),
        active: number(active),
        succeeded: number(round.succeeded),
        failed: number(failed.len()),
        message: message(&settings, &round, outcome, too_late, [active, failed.len()]),
        failed_nodes: failed
            .into_iter()
            .take(MAX_FAILED_NODES)
            .map(str::to_owned)
            .collect(),
    }
}

/// Whether the job's deadline has passed, regardless of its nodes.
pub(super) fn deadline_passed(
    settings: &Settings<'_>,
    status: &ImagePullJobStatus,
    now: Timestamp,
) -> bool {
    let start = status.start_time.as_ref().map_or(now, |start| start.0);
    settings.ends
        && settings
            .deadline
            .is_some_and(|deadline| now.duration_since(start) >= deadline)
}

/// Nodes whose NodeImage got an entry by this plan, which the next snapshot will show.
fn begun(plan: &Plan, outcome: &Outcome) -> usize {
    let protected = !outcome
        .failures
        .iter()
        .any(|failure| failure.write == Write::of(Verb::Patch, IMAGE_PULL_JOBS));
    let failed: BTreeSet<&str> = outcome
        .failures
        .iter()
        .map(|failure| failure.object.as_str())
        .collect();
    let stage = plan
        .stages
        .iter()
        .filter(|stage| protected && stage.name == PULL);
    let actions = stage
        .flat_map(|stage| &stage.steps)
        .flat_map(|step| &step.actions);
    actions
        .filter(
            |action| matches!(action, Action::Patch { resource: NODE_IMAGES, target, .. } if !failed.contains(target.name.as_str())),
        )
        .count()
}

fn message(
    settings: &Settings<'_>,
    round: &Round<'_>,
    outcome: &Outcome,
    too_late: bool,
    [active, failed]: [usize; 2],
) -> String {
    let (desired, succeeded) = (round.desired, round.succeeded);
    let all = || format!("{succeeded} of {desired} nodes have the image");
    let mut text = round
        .without_nodes(settings)
        .map_or_else(all, str::to_owned);
    if failed > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    let open = !round.open.is_empty() || !round.full.is_empty();
    if too_late {
        text.push_str("; ended by activeDeadlineSeconds");
    } else if settings.ends && round.is_over() {
        text.push_str("; completed");
    } else if open && settings.parallelism(desired) == 0 {
        text.push_str("; paused by parallelism 0");
    } else if active > 0 {
        text.push_str(&format!(", {active} are pulling"));
    } else if !settings.ends && round.is_over() {
        text.push_str("; nodes that join pull it, too");
    }
    if !round.missing.is_empty() {
        text.push_str(&format!("; there is no NodeImage {}", some(&round.missing)));
    }
    if !round.unreadable.is_empty() {
        text.push_str(&format!(
            "; NodeImage {} cannot be read: delete it, so that it is made anew",
            some(&round.unreadable)
        ));
    }
    let (for_all, for_namespace): (Vec<_>, Vec<_>) = round
        .full
        .iter()
        .partition(|(_, full)| *full == Full::ForAll);
    let named =
        |nodes: &[(&str, Full)]| some(&nodes.iter().map(|(node, _)| *node).collect::<Vec<_>>());
    if !for_all.is_empty() {
        text.push_str(&format!(
            "; no more images fit into NodeImage {}",
            named(&for_all)
        ));
    }
    if let Some((_, Full::ForNamespace(what))) = for_namespace.first() {
        let namespace = settings.owner.namespace.as_deref().unwrap_or_default();
        let nodes = named(&for_namespace);
        text.push_str(&format!(
            "; namespace {namespace} has its share of the {what} of NodeImage {nodes}"
        ));
    }
    if let Some(failure) = outcome.failures.iter().find(|failure| failure.permanent) {
        text.push_str(&format!(
            "; {} {}: {}",
            failure.write, failure.object, failure.message
        ));
    }
    text
}

/// The first few of the nodes.
fn some(nodes: &[&str]) -> String {
    let first = nodes
        .iter()
        .take(NAMED)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match nodes.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
