//! How far a rollout is, read from the object alone.
//!
//! The numbers of a status count only once `observedGeneration` has reached the object's
//! generation. The controllers raise it together with the numbers, after the revision of a new
//! template is written. Jobs have no `observedGeneration`: their phase or completion time is final.

use berth_api::names::{condition, reason};
use serde_json::Value;

use super::kind::{RolloutKind, count};
use super::target::{is_on_delete, is_paused};
use crate::objects::{condition as condition_of, name, number, text};

/// Why a DaemonSet has no pods.
pub const NO_NODE: &str = "none has the labels and taints that spec.template.spec asks for";

/// The state of a rollout, with its sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It is done.
    Done(String),
    /// It goes on, or waits for something that can happen without this command.
    Waiting(String),
    /// It does not end without a change of the object.
    Failed(String),
}

/// The state of the rollout of an object.
pub fn progress(kind: RolloutKind, object: &Value) -> Progress {
    let title = title(kind, object);
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Progress::Failed(format!("{title} is being deleted"));
    }
    if !is_observed(kind, object) {
        return Progress::Waiting(format!(
            "Waiting for the controller to observe the spec of {title}..."
        ));
    }
    if blocked(object).is_some_and(|(reason, _)| reason == "InvalidSpec") {
        return Progress::Waiting(format!(
            "Waiting for {title} rollout to finish: the controller refuses the spec..."
        ));
    }
    match kind {
        RolloutKind::BroadcastJob => of_broadcast_job(&title, object),
        RolloutKind::ImagePullJob => of_image_pull_job(&title, object),
        _ => match Counts::of(kind, object) {
            Ok(counts) => of_workload(kind, &title, object, &counts),
            Err(why) => Progress::Waiting(format!(
                "Waiting for {title} rollout to finish: partition {why}..."
            )),
        },
    }
}

/// Whether the status is about the present spec.
pub fn is_observed(kind: RolloutKind, object: &Value) -> bool {
    let is_job = matches!(kind, RolloutKind::BroadcastJob | RolloutKind::ImagePullJob);
    let observed = object.pointer("/status/observedGeneration");
    let observed = observed.and_then(Value::as_i64).unwrap_or(-1);
    is_job || observed >= number(object, "/metadata/generation")
}

/// Reason and message of the condition `Blocked`, if it is True.
pub fn blocked(object: &Value) -> Option<(&str, &str)> {
    let blocked = condition_of(object, condition::BLOCKED)?;
    (text(blocked, "/status") == "True")
        .then(|| (text(blocked, "/reason"), text(blocked, "/message")))
}

fn title(kind: RolloutKind, object: &Value) -> String {
    format!("{} \"{}\"", kind.word(), name(object))
}

/// The pods of a workload; of a DaemonSet the nodes that have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// Pods that shall be.
    total: i64,
    /// Pods that shall be now. Less than `total` while a DaemonSet creates pods as far as its
    /// partition allows.
    created: i64,
    /// Pods that shall be updated.
    expected: i64,
    /// Pods that are.
    existing: i64,
    /// Pods that are updated.
    updated: i64,
    /// Pods in service: updated ones; of a DaemonSet all, because its status counts only these.
    available: i64,
    /// How many of `available` the rollout waits for.
    awaited: i64,
}

impl Counts {
    fn of(kind: RolloutKind, object: &Value) -> Result<Self, String> {
        let of = |field| count(object, field).unwrap_or(0);
        let total = kind.total(object);
        let expected = total - kind.kept_of(object)?;
        let [existing, updated, available] = match kind {
            RolloutKind::DaemonSet => [
                of("/status/currentNumberScheduled"),
                of("/status/updatedNumberScheduled"),
                of("/status/numberAvailable"),
            ],
            RolloutKind::SidecarSet => [
                total,
                of("/status/updatedPods"),
                of("/status/updatedReadyPods"),
            ],
            RolloutKind::UnitedDeployment => [
                of("/status/replicas"),
                of("/status/updatedReplicas"),
                of("/status/updatedReadyReplicas"),
            ],
            _ => [
                of("/status/replicas"),
                of("/status/updatedReplicas"),
                of("/status/updatedAvailableReplicas"),
            ],
        };
        let is_partitioned = object.pointer("/spec/scaleStrategy/partitionedScaling")
            == Some(&Value::Bool(true))
            && kind == RolloutKind::DaemonSet;
        let created = if is_partitioned { expected } else { total };
        let awaited = match kind {
            RolloutKind::DaemonSet => created.max(existing),
            // Any new pod has the latest sidecars, and may not be ready for reasons of its own.
            RolloutKind::SidecarSet => expected,
            // After a rollback at a partition, kept pods are updated pods, too.
            _ => expected.max(updated),
        };
        Ok(Self {
            total,
            created,
            expected,
            existing,
            updated,
            available,
            awaited,
        })
    }

    /// Whether pods of an older revision run that are to be updated.
    fn is_outdated(&self) -> bool {
        self.updated < self.expected && self.updated < self.existing
    }
}

fn of_workload(kind: RolloutKind, title: &str, object: &Value, counts: &Counts) -> Progress {
    let Some(waits) = waits(kind, counts) else {
        let Counts { updated, total, .. } = *counts;
        if kind == RolloutKind::DaemonSet && total == 0 {
            return Progress::Done(format!(
                "{title} successfully rolled out to no node: {NO_NODE}"
            ));
        }
        return Progress::Done(if counts.expected < total && updated < total {
            let updated = of_all(kind, updated, total);
            format!("{title} is at its partition: {updated}")
        } else {
            format!("{title} successfully rolled out")
        });
    };
    unfinished(kind, object, &waits, counts.is_outdated())
}

/// The state of a rollout that is not at its end.
pub fn unfinished(kind: RolloutKind, object: &Value, waits: &str, is_outdated: bool) -> Progress {
    let title = title(kind, object);
    if is_outdated {
        if let Some(why) = cannot_continue(kind, object) {
            return Progress::Failed(format!("{title} {why}: {waits}"));
        }
        if is_paused(kind, object) {
            return Progress::Waiting(paused(kind, &title, object, waits));
        }
    }
    if has_exceeded_deadline(object) {
        return Progress::Failed(format!("{title} exceeded its progress deadline: {waits}"));
    }
    Progress::Waiting(format!("Waiting for {title} rollout to finish: {waits}..."))
}

/// What is missing to the end of the rollout; `None` at its end.
fn waits(kind: RolloutKind, counts: &Counts) -> Option<String> {
    let Counts {
        created,
        expected,
        existing,
        updated,
        available,
        awaited,
        ..
    } = *counts;
    let on_nodes = kind == RolloutKind::DaemonSet;
    if updated < expected {
        return Some(of_all(kind, updated, expected));
    }
    if existing < created {
        return Some(if on_nodes {
            format!("{existing} of {created} nodes have a pod")
        } else {
            format!("{existing} of {created} pods exist")
        });
    }
    // More nodes than the partition allows may have pods, which then stay.
    if existing > created && !on_nodes {
        let surplus = existing - created;
        let verb = if surplus == 1 { "pod is" } else { "pods are" };
        return Some(format!("{surplus} {verb} to be deleted"));
    }
    (available < awaited).then(|| match kind {
        RolloutKind::DaemonSet => format!("{available} of {awaited} nodes have an available pod"),
        RolloutKind::SidecarSet | RolloutKind::UnitedDeployment => {
            format!("{available} of {awaited} updated pods are ready")
        }
        _ => format!("{available} of {awaited} updated pods are available"),
    })
}

/// How many of the pods are updated, in words.
fn of_all(kind: RolloutKind, updated: i64, all: i64) -> String {
    match kind {
        RolloutKind::DaemonSet => format!("{updated} of {all} nodes have an updated pod"),
        _ => format!("{updated} of {all} pods are updated"),
    }
}

/// The reason why outdated pods stay outdated, or why the status cannot tell their number.
fn cannot_continue(kind: RolloutKind, object: &Value) -> Option<&'static str> {
    let strategy = object.pointer("/spec/updateStrategy")?;
    let selects = |pointer| {
        let selector = strategy.pointer(pointer);
        selector.is_some_and(|selector| !selector.is_null())
    };
    match kind {
        RolloutKind::UnitedDeployment => None,
        _ if is_on_delete(object) => Some(
            "updates a pod only when it is deleted, because spec.updateStrategy.type is OnDelete",
        ),
        RolloutKind::SidecarSet if text(strategy, "/type") == "NotUpdate" => {
            Some("updates no running pod, because spec.updateStrategy.type is NotUpdate")
        }
        RolloutKind::SidecarSet if selects("/selector") => Some(
            "updates only pods of spec.updateStrategy.selector, which its status does not count",
        ),
        RolloutKind::DaemonSet if selects("/rollingUpdate/selector") => Some(
            "updates only nodes of spec.updateStrategy.rollingUpdate.selector, which its status \
             does not count",
        ),
        _ => None,
    }
}

fn paused(kind: RolloutKind, title: &str, object: &Value, waits: &str) -> String {
    format!(
        "{title} is paused: {waits}; `kubectl berth rollout resume {}/{}` continues it",
        kind.word(),
        name(object)
    )
}

fn has_exceeded_deadline(object: &Value) -> bool {
    condition_of(object, condition::PROGRESSING).is_some_and(|progressing| {
        text(progressing, "/status") == "False"
            && text(progressing, "/reason") == reason::PROGRESS_DEADLINE_EXCEEDED
    })
}

fn of_broadcast_job(title: &str, object: &Value) -> Progress {
    use berth_api::v1beta1::broadcastjob::phase;
    let of = |field| count(object, field).unwrap_or(0);
    let [desired, succeeded, failed] =
        ["/status/desired", "/status/succeeded", "/status/failed"].map(of);
    let waits = format!("{succeeded} of {desired} nodes are done");
    let ended = || match failed {
        0 => Progress::Done(format!("{title} successfully rolled out")),
        _ => Progress::Failed(format!("{title} failed on {failed} of {desired} nodes")),
    };
    match text(object, "/status/phase") {
        phase::COMPLETED => ended(),
        phase::FAILED => {
            let failed = condition_of(object, "Failed").map(|failed| text(failed, "/message"));
            Progress::Failed(format!("{title} failed: {}", failed.unwrap_or_default()))
        }
        phase::PAUSED => {
            Progress::Waiting(paused(RolloutKind::BroadcastJob, title, object, &waits))
        }
        phase::RUNNING if has_all_nodes(object) => ended(),
        _ => Progress::Waiting(format!("Waiting for {title} rollout to finish: {waits}...")),
    }
}

fn of_image_pull_job(title: &str, object: &Value) -> Progress {
    let of = |field| count(object, field).unwrap_or(0);
    let [desired, succeeded, failed] =
        ["/status/desired", "/status/succeeded", "/status/failed"].map(of);
    let is_over = object.pointer("/status/completionTime").is_some() || has_all_nodes(object);
    match (is_over, failed) {
        (true, 0) => Progress::Done(format!("{title} successfully rolled out")),
        (true, _) => Progress::Failed(format!("{title}: {}", text(object, "/status/message"))),
        (false, _) => Progress::Waiting(format!(
            "Waiting for {title} rollout to finish: \
             {succeeded} of {desired} nodes have the image..."
        )),
    }
}

/// Whether a job that never completes, because nodes may join, is done on all present nodes.
fn has_all_nodes(job: &Value) -> bool {
    let of = |field| count(job, field).unwrap_or(0);
    text(job, "/spec/completionPolicy/type") == "Never"
        && job.pointer("/status/startTime").is_some()
        && of("/status/active") == 0
        && of("/status/succeeded") + of("/status/failed") >= of("/status/desired")
}

#[cfg(test)]
mod tests;
