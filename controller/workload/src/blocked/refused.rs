//! Writes that the apiserver refuses, and pods that wait for a budget.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::cause::{self, Cause, DETAIL, Grade, NAMED, without_names};
use crate::objects::pod::{Metadata, Pod};
use crate::objects::resource::{CLAIMS, IMAGE_PULL_JOBS, PODS};
use crate::plan::{Action, Failure, Plan, Verb, Write};
use crate::update::inplace::resize;
use crate::update::podset::WorkloadView;
use crate::update::revision::{self, REVISION_LABEL};

/// The reason of a refusal, and the text around the apiserver's answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Words {
    grade: Grade,
    reason: &'static str,
    /// The objects, as `pod`; empty if the answer names the field.
    kind: &'static str,
    /// The operation that is refused.
    done: &'static str,
    remedy: String,
}

/// The reason of pods that a ResourceQuota does not allow.
const QUOTA: &str = "QuotaExceeded";

/// Whether a pod is being deleted, and its grace period is not over.
fn is_ending(pod: &Pod, now: Timestamp) -> bool {
    pod.metadata.deletion_timestamp.is_some_and(|due| now < due)
}

/// The causes of failed writes: one for all objects with the same answer.
pub(super) fn causes(
    view: &WorkloadView<'_>,
    plan: &Plan,
    failures: &[Failure],
    now: Timestamp,
) -> Vec<Cause> {
    // The answers by object, grouped by their text and by the answer without the object's name.
    let mut groups: BTreeMap<(Words, String), BTreeMap<&str, String>> = BTreeMap::new();
    for failure in failures.iter().filter(|failure| !failure.infeasible) {
        let Some(words) = words(view, plan, failure) else {
            continue;
        };
        // Pods count in a ResourceQuota until they are gone.
        if words.reason == QUOTA && view.pods.iter().any(|pod| is_ending(pod, now)) {
            continue;
        }
        let (object, answer) = match failure.write.verb {
            // The controller uses another name for each try, so that a user would not find a pod of
            // this name.
            Verb::Create => ("", without_names(&failure.message, view.workload.name())),
            _ => (&*failure.object, failure.message.clone()),
        };
        let alike = if object.is_empty() {
            answer.clone()
        } else {
            answer.replace(object, "")
        };
        groups
            .entry((words, alike))
            .or_default()
            .insert(object, answer);
    }
    let infeasible = failures.iter().filter(|failure| failure.infeasible);
    let mut infeasible: Vec<_> = infeasible
        .filter_map(|failure| infeasible_resize(view, plan, failure, now))
        .collect();
    infeasible.sort_by(|one, other| one.message.cmp(&other.message));
    let groups = groups
        .into_iter()
        .map(|((words, _), answers)| cause(view, words, &answers, now));
    groups.chain(infeasible).collect()
}

/// A resize that the pod's node can never do, as the kubelet of Kubernetes before 1.36 reports it:
/// a cause for each pod.
fn infeasible_resize(
    view: &WorkloadView<'_>,
    plan: &Plan,
    failure: &Failure,
    now: Timestamp,
) -> Option<Cause> {
    let pod = view
        .pods
        .iter()
        .find(|pod| *pod.metadata.name == *failure.object)?;
    let wanted = plan.actions().find_map(|action| match action {
        Action::ResizePod { target, resources } if target.name == failure.object => Some(resources),
        _ => None,
    })?;
    let why = resize::refused_by_server(pod, wanted, &failure.message);
    let message = format!("{}: pod {} {why}", view.workload, pod.metadata.name);
    Some(Cause::new(Grade::Failing, resize::INFEASIBLE, message, now))
}

/// The text for a write that the server will refuse again; `None` for a write that may succeed by
/// itself.
fn words(view: &WorkloadView<'_>, plan: &Plan, failure: &Failure) -> Option<Words> {
    let quota = failure.code == 403 && failure.message.contains("exceeded quota");
    if !failure.permanent && !quota {
        return None;
    }
    let kind = match failure.write.resource {
        PODS => "pod",
        CLAIMS => "claim",
        other => other.kind,
    };
    let words = |reason, done, remedy: &str| Words {
        grade: Grade::Refused,
        reason,
        kind,
        done,
        remedy: remedy.to_owned(),
    };
    let mut words = match failure.write.verb {
        _ if failure.is_of_budget() => Words {
            grade: Grade::Waiting,
            ..words("NoBudget", "", "")
        },
        Verb::Validate => Words {
            kind: "",
            ..words("TemplateRefused", "", "correct the field")
        },
        // A missing predownload blocks nothing.
        _ if failure.write.resource == IMAGE_PULL_JOBS => return None,
        // A ResourceQuota counts a pod's requests after the resize.
        Verb::Resize if quota => words(
            "UpdateRefused",
            "be resized",
            "raise the ResourceQuota, or ask for less",
        ),
        Verb::Resize => words("UpdateRefused", "be resized", OF_TEMPLATE),
        _ if quota => words(
            QUOTA,
            "be created",
            "raise the ResourceQuota, or ask for less in spec.replicas or spec.template.spec",
        ),
        Verb::Create if failure.write.resource == CLAIMS => words(
            "CreateRefused",
            "be created",
            "change spec.volumeClaimTemplates, or what refuses it",
        ),
        Verb::Create => {
            let of_old = remedy_of_old_revision(view, plan, failure);
            words(
                "CreateRefused",
                "be created",
                of_old.as_deref().unwrap_or(OF_TEMPLATE),
            )
        }
        Verb::Adopt => words("AdoptionRefused", "be adopted", "change what refuses it"),
        Verb::Delete => words("DeleteRefused", "be deleted", "change what refuses it"),
        _ => words("UpdateRefused", "be updated", OF_TEMPLATE),
    };
    if failure.message.contains(PROTECTED_NAMESPACES) {
        words.remedy =
            format!("take the namespace out of {PROTECTED_NAMESPACES}, or use another namespace");
    }
    Some(words)
}

/// The chart's value in the apiserver's answer if a policy protects a namespace.
const PROTECTED_NAMESPACES: &str = "controller.protectedNamespaces";

/// The remedy if the server refuses a pod of the newest revision.
const OF_TEMPLATE: &str = "change spec.template, or what refuses it";

/// The remedy if the server refuses a new pod of an older revision, which no change of
/// `spec.template` reaches.
fn remedy_of_old_revision(
    view: &WorkloadView<'_>,
    plan: &Plan,
    failure: &Failure,
) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        metadata: Metadata,
    }
    let read = |action: &Action| match action {
        Action::CreatePod { body } => body.read::<Created>().map(|created| created.metadata),
        _ => None,
    };
    let pods = plan
        .actions()
        .filter(|_| failure.write == Write::of(Verb::Create, PODS))
        .filter_map(read);
    let label = pods
        .into_iter()
        .find(|pod| *pod.name == *failure.object)?
        .label(REVISION_LABEL)?
        .to_owned();
    let own = revision::of_label(&label, view.revisions)?;
    if own.metadata.name == view.revisions.last()?.metadata.name {
        return None;
    }
    let lacks_volume =
        failure.message.contains("volumeMounts") && failure.message.contains("Not found");
    let mend = if lacks_volume {
        "add that volume to spec.volumeClaimTemplates again"
    } else {
        "change what refuses it"
    };
    Some(format!(
        "the pods are of revision {}, which spec.updateStrategy.rollingUpdate.partition keeps: {mend}, or lower the partition",
        own.metadata.name
    ))
}

/// The cause as a sentence with the first few objects.
fn cause(
    view: &WorkloadView<'_>,
    words: Words,
    answers: &BTreeMap<&str, String>,
    now: Timestamp,
) -> Cause {
    let (
        workload,
        Words {
            grade,
            reason,
            kind,
            done,
            remedy,
        },
    ) = (&view.workload, words);
    let mut named: Vec<&str> = answers.keys().copied().collect();
    let more = named.len().saturating_sub(NAMED);
    // Names that the status has already stay there while they are true, so that another choice of
    // names makes no write.
    let reported = workload
        .blocked
        .filter(|reported| reported.reason == reason)
        .map_or("", |reported| reported.message);
    named.sort_by_key(|name| !cause::names(reported, name));
    named.truncate(NAMED);
    named.sort_unstable();
    let answer = named
        .first()
        .and_then(|first| answers.get(first))
        .map(String::as_str)
        .unwrap_or_default();
    let (list, more) = (
        named.join(", "),
        if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        },
    );
    let objects = match answers.len() {
        _ if list.is_empty() => format!("{kind}s"),
        1 => format!("{kind} {list}"),
        _ => format!("{kind}s {list}{more}"),
    };
    let message = if kind.is_empty() {
        format!("{workload}: {answer}; {remedy}")
    } else if grade == Grade::Waiting {
        let wait = if answers.len() == 1 { "waits" } else { "wait" };
        format!("{workload}: {objects} {wait} for a budget, which{DETAIL}{answer}")
    } else {
        format!("{workload}: {objects} cannot {done}; the apiserver{DETAIL}{answer}; {remedy}")
    };
    Cause::new(grade, reason, message, now)
}

/// Whether a refusal with this reason shows only when the controller writes.
pub fn is_of_write(reason: &str) -> bool {
    const OF_WRITES: [&str; 7] = [
        "TemplateRefused",
        "QuotaExceeded",
        "CreateRefused",
        "AdoptionRefused",
        "DeleteRefused",
        "UpdateRefused",
        resize::INFEASIBLE,
    ];
    OF_WRITES.contains(&reason)
}
