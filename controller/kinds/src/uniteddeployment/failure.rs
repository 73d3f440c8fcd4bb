//! The cause that blocks the workload of a subset, in words for the author of the UnitedDeployment.
//!
//! CloneSets and Advanced StatefulSets have the condition `Blocked`, which is passed on.
//! Kubernetes' own kinds say no more than that a deadline has passed, so that their pods are read
//! here.

use std::sync::Arc;

use berth_api::fields::template::PodTemplate;
use berth_api::kinds::uniteddeployment::names::condition;
use berth_api::v1beta1::uniteddeployment::{Subset, UnitedDeployment};
use berth_workload::blocked::{self, Cause};
use berth_workload::feature_gates::Gates;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::untyped_workload::WorkloadCondition;
use berth_workload::plan::Plan;
use berth_workload::update::podset::{Blocked, Phases, Workload, WorkloadView};
use jiff::Timestamp;

use super::schedulability::Schedulability;
use super::{SubsetKind, SubsetWorkload, named};

/// The reason of a pod that waits for a node.
const UNSCHEDULABLE: &str = "PodUnschedulable";
/// A Deployment's condition with the apiserver's message, for example for a quota that is used up.
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The reason of `REPLICA_FAILURE`.
const FAILED_CREATE: &str = "FailedCreate";
/// The field of every kind that holds the pods' spec.
const POD_SPEC: &str = "spec.template.spec";

/// The failure that blocks a subset's workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// The subset and its workload, with which the message begins.
    pub(super) place: String,
    /// The cause and the remedy.
    pub(super) cause: String,
    /// The time from which the failure counts. A failure that may pass by itself counts after a
    /// minute.
    pub(super) from: Timestamp,
}

impl Failure {
    /// Finds the gravest failure. Reserved pods may wait for a node, because substitutes run for
    /// them.
    pub(super) fn of(
        united: &UnitedDeployment,
        subset: &Subset,
        workload: &SubsetWorkload,
        pods: &[&Arc<Pod>],
        schedulability: &Schedulability,
        now: Timestamp,
    ) -> Option<Self> {
        let said = workload.object.failure();
        let has_reserved = || pods.iter().any(|pod| schedulability.reserves(pod));
        let said = said.filter(|said| !(said.reason == UNSCHEDULABLE && has_reserved()));
        let is_enough =
            |said: &&WorkloadCondition| !is_native(workload.kind) || said.type_ == REPLICA_FAILURE;
        let place = || format!("subset {}: {}: ", subset.name, named(workload));
        let words =
            |reason: &str, message: &str| in_words(united, subset, workload, (reason, message));
        let of_workload = |said: &WorkloadCondition| Self {
            place: place(),
            cause: words(&said.reason, &said.message),
            from: now,
        };
        let of_pods = || {
            let pods: Vec<_> = pods.iter().map(|pod| Arc::clone(pod)).collect();
            let causes = if is_native(workload.kind) {
                causes(united, workload, &pods, schedulability, now)
            } else {
                Vec::new()
            };
            let cause = gravest(
                united,
                causes,
                &|cause| place() + &words(cause.reason, &cause.message),
                now,
            )?;
            Some(Self {
                place: place(),
                cause: words(cause.reason, &cause.message),
                from: cause.from,
            })
        };
        said.filter(is_enough)
            .map(of_workload)
            .or_else(of_pods)
            .or_else(|| said.map(of_workload))
    }

    pub(super) fn message(&self) -> String {
        format!("{}{}", self.place, self.cause)
    }
}

fn is_native(kind: SubsetKind) -> bool {
    matches!(kind, SubsetKind::Deployment | SubsetKind::StatefulSet)
}

/// The causes of the pods. A reserved pod that waits for a node blocks nothing.
fn causes(
    united: &UnitedDeployment,
    workload: &SubsetWorkload,
    pods: &[Arc<Pod>],
    schedulability: &Schedulability,
    now: Timestamp,
) -> Vec<Cause> {
    let (waiting, others): (Vec<_>, Vec<_>) = pods
        .iter()
        .cloned()
        .partition(|pod| schedulability.reserves(pod));
    let mut causes = of_pods(united, workload, &others, now);
    causes.extend(
        of_pods(united, workload, &waiting, now)
            .into_iter()
            .filter(|cause| cause.reason != UNSCHEDULABLE),
    );
    causes
}

/// The cause that counts now, else the one that counts first.
fn gravest(
    united: &UnitedDeployment,
    causes: Vec<Cause>,
    words: &dyn Fn(&Cause) -> String,
    now: Timestamp,
) -> Option<Cause> {
    let conditions = united.status.iter().flat_map(|status| &status.conditions);
    let mut reported = conditions.filter(|one| one.type_ == condition::SUBSET_FAILURE);
    let reported = reported.find_map(|reported| {
        causes
            .iter()
            .find(|cause| reported.message == words(cause))
            .cloned()
    });
    let reported = reported.as_ref().map(|reported| Blocked {
        reason: reported.reason,
        message: &reported.message,
    });
    let first = causes
        .iter()
        .filter(|cause| !cause.only_if_reported)
        .min_by_key(|cause| cause.from)
        .cloned();
    blocked::gravest(causes, reported, now)
        .map(|(cause, _)| cause)
        .or(first)
}

fn of_pods(
    united: &UnitedDeployment,
    workload: &SubsetWorkload,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Vec<Cause> {
    let (template, phases) = (PodTemplate::default(), Phases::default());
    let seen = Workload {
        selector: &united.spec.selector,
        ..Workload::plain(
            workload.kind.resource(),
            &workload.object.metadata,
            &template,
        )
    };
    let view = WorkloadView::plain(seen, pods, &[], &phases, Gates::default());
    blocked::of_pods(&view, &Plan::default(), now)
}

/// The message with the fields of the UnitedDeployment in it, because a change of the workload
/// itself is reverted.
fn in_words(
    united: &UnitedDeployment,
    subset: &Subset,
    workload: &SubsetWorkload,
    (reason, message): (&str, &str),
) -> String {
    let field = workload.kind.template_field();
    let mut words = own_words(workload, message)
        .replace(POD_SPEC, &format!("spec.template.{field}.{POD_SPEC}"));
    if subset.patch.is_some() && words.contains(POD_SPEC) {
        words += &format!(
            "; spec.topology.subsets[{}].patch may set the same",
            subset.name
        );
    }
    if reason == FAILED_CREATE {
        words +=
            &format!("; raise the quota or change the policy, or correct spec.template.{field}");
    }
    if reason == UNSCHEDULABLE && !united.spec.topology.schedule_strategy.is_adaptive() {
        words +=
            "; with spec.topology.scheduleStrategy.type Adaptive other subsets get its replicas";
    }
    words
}

/// The message without the workload's name before it.
fn own_words(workload: &SubsetWorkload, message: &str) -> String {
    let namespace = workload
        .object
        .metadata
        .namespace
        .as_deref()
        .unwrap_or_default();
    let prefix = format!(
        "{} {namespace}/{}: ",
        workload.kind.resource().kind,
        workload.name()
    );
    message.strip_prefix(&prefix).unwrap_or(message).to_owned()
}
