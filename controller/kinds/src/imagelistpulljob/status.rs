//! The status of a list, from the statuses of its jobs.

use berth_api::commands::{self, Named};
use berth_api::v1beta1::imagelistpulljob::{FailedImageStatus, ImageListPullJobStatus};
use berth_api::v1beta1::imagepulljob::{CompletionPolicyType, ImagePullJob};
use berth_workload::objects::condition::number;
use berth_workload::plan::{Outcome, Plan};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Snapshot;
use super::children::{Children, name};

/// Most nodes that a message names.
const NAMED: usize = 3;

/// The status to write. It equals the list's present status if nothing changed, and always once the
/// list has ended.
pub fn status(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> ImageListPullJobStatus {
    let list = &snapshot.list;
    let old = list.status.clone().unwrap_or_default();
    if old.completion_time.is_some()
        || list.metadata.deletion_timestamp.is_some()
        || plan.refusal.is_some()
    {
        return old;
    }
    let children = Children::of(snapshot);
    // In the order of the list, so that the status does not change while the list rests.
    let jobs = || {
        list.spec
            .images
            .iter()
            .filter_map(|image| children.kept.get(image.as_str()).copied())
    };
    let count = |is: fn(&ImagePullJob) -> bool| number(jobs().filter(|job| is(job)).count());
    let mut failed: Vec<_> = jobs().filter_map(failure).collect();
    failed.extend(
        outcome
            .failures
            .iter()
            .filter(|failure| failure.permanent)
            .map(|failure| FailedImageStatus {
                image_pull_job: failure.object.clone(),
                name: String::new(),
                message: format!("{}: {}", failure.write, failure.message),
            }),
    );
    let (desired, completed) = (number(list.spec.images.len()), count(is_completed));
    let ends = list.spec.template.completion_policy.type_ == CompletionPolicyType::Always;
    ImageListPullJobStatus {
        start_time: old.start_time.or(Some(Time(now))),
        completion_time: (ends && desired == completed).then_some(Time(now)),
        desired,
        active: count(|job| job.status.as_ref().is_some_and(|status| status.active > 0)),
        completed,
        succeeded: count(|job| {
            is_completed(job)
                && job
                    .status
                    .as_ref()
                    .is_some_and(|status| status.succeeded == status.desired)
        }),
        failed_image_statuses: failed,
    }
}

/// Whether the job is done. A job that never ends counts as done while none of its nodes has
/// anything left to do.
pub(super) fn is_completed(job: &ImagePullJob) -> bool {
    let Some(status) = job.status.as_ref() else {
        return false;
    };
    let never = job.spec.template.completion_policy.type_ == CompletionPolicyType::Never;
    let idle = status.start_time.is_some() && status.succeeded + status.failed == status.desired;
    status.completion_time.is_some() || never && idle
}

fn failure(job: &ImagePullJob) -> Option<FailedImageStatus> {
    let status = job.status.as_ref().filter(|status| status.failed > 0)?;
    let name = name(&job.metadata);
    let named = status
        .failed_nodes
        .iter()
        .take(NAMED)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let more = usize::try_from(status.failed)
        .unwrap_or(0)
        .saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let describe = commands::describe(Named {
        resource: "imagepulljob",
        namespace,
        name,
    });
    Some(FailedImageStatus {
        image_pull_job: name.to_owned(),
        name: job.spec.image.clone(),
        message: format!(
            "{} of {} nodes have not got it: {named}{more}; {describe} says why",
            status.failed, status.desired
        ),
    })
}
