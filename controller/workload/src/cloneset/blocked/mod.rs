//! Why is it stuck? The condition `Blocked`: what holds a CloneSet back that does not pass by itself.
//!
//! The rule: what somebody or something refused, and what the kubelet itself calls a failure, is told at once. What may
//! pass by itself, like a pod that is not ready, scheduled or gone yet, is told when it has lasted for [`LASTING`]. A
//! rollout that stays where its author put it, paused or at its partition, is not blocked.
//!
//! One cause is told, the gravest; `berth-controller explain` has the others, pod by pod. A message rests: it has no
//! count that runs, and a cause that is told already stays in its words as long as only numbers in it differ.

mod pod;

use std::sync::Arc;

use berth_api::names::condition;
use berth_api::v1beta1::cloneset::{CloneSetCondition, CloneSetStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::settings::beside_template;
use super::{Snapshot, overlap};
use crate::plan::{Failure, Outcome, Plan, Verb, Waiting};
use crate::pod::{Pod, availability};
use crate::resource::IMAGE_PULL_JOBS;

pub(super) use pod::why_not_ready;

/// How long something that may pass by itself lasts before it is told.
const LASTING: SignedDuration = SignedDuration::from_secs(60);

/// Something that holds a CloneSet back. Graver causes come first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    /// The spec, or a write, was refused: nothing at all goes on.
    Refused,
    /// Only another spec, or a mended registry or node, helps.
    Failing,
    /// It may pass, but has not for a while.
    Lasting,
    /// It holds nothing back yet.
    Hazard,
}

/// One cause.
#[derive(Debug, Clone, PartialEq)]
struct Cause {
    grade: Grade,
    reason: &'static str,
    /// A whole sentence.
    message: String,
    /// When it counts.
    from: Timestamp,
    /// It counts only where the same was told before: it cannot be told from what passes by itself.
    only_if_told: bool,
}

/// Brings the condition among those of `new` up to date.
pub(super) fn set(snapshot: &Snapshot, plan: &Plan, outcome: &Outcome, new: &mut CloneSetStatus, now: Timestamp) {
    let told = new.conditions.iter().find(|c| c.type_ == condition::BLOCKED).cloned();
    let mut causes = whole(snapshot, plan, outcome, new, now);
    causes.extend(pods(snapshot, plan, now));
    let same = |cause: &Cause| told.as_ref().is_some_and(|told| is_same(told, cause));
    causes.retain(|cause| if cause.only_if_told { same(cause) } else { cause.from <= now });
    causes.sort_by_cached_key(|cause| (cause.grade, !same(cause)));
    let Some(cause) = causes.into_iter().next() else {
        new.conditions.retain(|c| c.type_ != condition::BLOCKED);
        return;
    };
    if same(&cause) {
        return;
    }
    let since = told.and_then(|told| told.last_transition_time);
    new.conditions.retain(|c| c.type_ != condition::BLOCKED);
    new.conditions.push(CloneSetCondition {
        type_: condition::BLOCKED.to_owned(),
        status: "True".to_owned(),
        last_update_time: Some(Time(now)),
        last_transition_time: since.or(Some(Time(now))),
        reason: cause.reason.to_owned(),
        message: cause.message,
    });
}

/// Nothing announces that something has lasted for too long: asks to decide again then. Pods whose end does not come are
/// waited for by nobody else, so they are named here.
pub(super) fn watch(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    for pod in &snapshot.pods {
        for cause in pod::causes(snapshot, pod, now) {
            if cause.from > now {
                plan.look_again_after(cause.from.duration_since(now));
            } else if pod.metadata.deletion_timestamp.is_some() {
                plan.waiting.push(Waiting { pod: pod.metadata.name.to_string(), reason: pod::why_not_gone(pod) });
            }
        }
    }
}

/// Was this very cause told? Numbers may differ: they run.
fn is_same(told: &CloneSetCondition, cause: &Cause) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let head = |text: &str| text.split(DETAIL).next().unwrap_or_default().to_owned();
    told.status == "True"
        && told.reason == cause.reason
        && head(&told.message) == head(&cause.message)
        && words(&told.message) == words(&cause.message)
}

/// Stands before what somebody else said; numbers before it count.
const DETAIL: &str = " says: ";

/// Causes that concern the CloneSet as a whole.
fn whole(snapshot: &Snapshot, plan: &Plan, outcome: &Outcome, status: &CloneSetStatus, now: Timestamp) -> Vec<Cause> {
    let cause = |grade, reason, message| Cause { grade, reason, message, from: now, only_if_told: false };
    let mut causes = Vec::new();
    if let Some(refusal) = &plan.refusal {
        causes.push(cause(Grade::Refused, refusal.reason, refusal.message.clone()));
    }
    let refused = outcome.failures.iter().filter_map(|failure| refused(snapshot, failure));
    causes.extend(refused.map(|(reason, message)| cause(Grade::Refused, reason, message)));
    causes.extend(overlap::message(snapshot).map(|message| cause(Grade::Hazard, overlap::REASON, message)));
    causes.extend(no_budget(snapshot, status).map(|message| cause(Grade::Refused, "NoBudget", message)));
    causes
}

/// A write that the server will refuse again.
fn refused(snapshot: &Snapshot, failure: &Failure) -> Option<(&'static str, String)> {
    let name = snapshot.name();
    let set = snapshot.set.metadata.name.as_deref().unwrap_or_default();
    let message = without_names(&failure.message, set);
    let quota = failure.code == 403 && message.contains("exceeded quota");
    if !failure.permanent && !quota {
        return None;
    }
    let (reason, what, remedy) = match failure.deed.verb {
        Verb::Validate => {
            return Some(("TemplateRefused", format!("CloneSet {name}: {}; correct the field", failure.message)));
        }
        // Images that are not pulled ahead hold nothing up.
        _ if failure.deed.kind == IMAGE_PULL_JOBS.kind => return None,
        _ if quota => ("QuotaExceeded", "be created", "raise the ResourceQuota, or ask for less"),
        Verb::Create => ("CreateRefused", "be created", "change spec.template, or what refuses it"),
        Verb::Adopt => ("AdoptionRefused", "be adopted", "change what refuses it"),
        Verb::Delete => ("DeleteRefused", "be deleted", "change what refuses it"),
        _ => ("UpdateRefused", "be updated", "change spec.template, or what refuses it"),
    };
    let what = format!("CloneSet {name}: pods cannot {what}; the apiserver{DETAIL}{message}; {remedy}");
    Some((reason, what))
}

/// Numbers that let no pod be updated, or created, ever.
fn no_budget(snapshot: &Snapshot, status: &CloneSetStatus) -> Option<String> {
    let wanted = beside_template(snapshot).ok()?.wanted;
    let strategy = &snapshot.set.spec.update_strategy;
    let (field, remedy) = if wanted.updates
        && wanted.max_unavailable == 0
        && wanted.max_surge == 0
        && status.updated_replicas < status.expected_updated_replicas
    {
        let value = strategy.rolling_update.as_ref().and_then(|rolling| rolling.max_unavailable.as_ref());
        let value = value.map_or(json!(0), |value| json!(value));
        let field = format!("spec.updateStrategy.rollingUpdate.maxUnavailable: {value}");
        (format!("{field} and maxSurge let no pod be updated"), "set one of them to at least 1")
    } else if wanted.scale_max_unavailable == 0 && usize::try_from(status.replicas).is_ok_and(|n| n < wanted.replicas) {
        ("spec.scaleStrategy.maxUnavailable: 0 lets no pod be created".to_owned(), "set it to at least 1, or remove it")
    } else {
        return None;
    };
    Some(format!("CloneSet {}: {field}; {remedy}", snapshot.name()))
}

/// Causes that concern one pod, by the pods' names.
fn pods(snapshot: &Snapshot, plan: &Plan, now: Timestamp) -> Vec<Cause> {
    let mut pods: Vec<_> = snapshot.pods.iter().collect();
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut causes: Vec<_> = pods.iter().flat_map(|pod| pod::causes(snapshot, pod, now)).collect();
    if !causes.is_empty()
        && let Some(others) = budget(snapshot, plan, &pods, now)
    {
        causes.iter_mut().for_each(|cause| cause.message += &others);
    }
    causes
}

/// What it means for the other pods, where some wait for `maxUnavailable`: which pods use it up.
fn budget(snapshot: &Snapshot, plan: &Plan, pods: &[&Arc<Pod>], now: Timestamp) -> Option<String> {
    const MOST: usize = 3;
    plan.waiting.iter().find(|waiting| waiting.reason.contains("maxUnavailable"))?;
    let seconds = snapshot.set.spec.min_ready_seconds;
    let unavailable = pods.iter().filter(|pod| pod.is_active() && !availability(pod, seconds, now).is_available());
    let mut names: Vec<_> = unavailable.map(|pod| &*pod.metadata.name).take(MOST + 1).collect();
    let more = if names.len() > MOST { " and others" } else { "" };
    names.truncate(MOST);
    Some(format!(". Other pods wait for maxUnavailable, which {}{more} use up", names.join(", ")))
}

/// The names of new pods are new with every try: without them, the same refusal reads the same.
pub(super) fn without_names(message: &str, set: &str) -> String {
    let prefix = format!("{set}-");
    let mut parts = message.split(&prefix);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let id = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        text += &prefix;
        text += if id == 5 { "*" } else { &part[..id] };
        text += &part[id..];
    }
    text
}

#[cfg(test)]
mod tests;
