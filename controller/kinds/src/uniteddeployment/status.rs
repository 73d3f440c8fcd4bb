//! The status of a UnitedDeployment, from its workloads and pods.

mod causes;

use berth_api::kinds::uniteddeployment::names::condition;
use berth_api::kinds::uniteddeployment::names::label::RESERVED_POD;
use berth_api::names::condition::BLOCKED;
use berth_api::names::label::KRUISE_CONTROLLER_REVISION_HASH;
use berth_api::v1beta1::uniteddeployment::{
    SubsetStatus, UnitedDeploymentCondition, UnitedDeploymentStatus,
};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{CONTROLLER_REVISIONS, PODS};
use berth_workload::objects::selector::Selector;
use berth_workload::objects::untyped_workload::WorkloadStatus;
use berth_workload::plan::{Failure, Outcome, Plan, Refusal, Verb};
use berth_workload::update::podset::history;
use berth_workload::update::revision::Recognised;
use jiff::Timestamp;

use super::Snapshot;
use super::condition::since;
use super::division::Division;
use super::round::{Round, SubsetView};

use causes::{fixed_fields, in_words};

/// Whether the status says this refusal already, so that no event repeats it.
pub(super) fn says(snapshot: &Snapshot, refusal: &Refusal) -> bool {
    let status = snapshot.united.status.as_ref();
    let reported = status.and_then(|status| find(&status.conditions, BLOCKED));
    reported.is_some_and(|reported| {
        reported.reason == refusal.reason && reported.message == refusal.message
    })
}

/// The status to write, equal to the present one when nothing changed. `None` keeps it: the
/// revision of a new template is being written, and the old numbers must not pass for those of the
/// new generation.
pub fn status(
    snapshot: &Snapshot,
    round: &Result<Round<'_>, Refusal>,
    plan: &Plan,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<UnitedDeploymentStatus> {
    let united = &snapshot.united;
    let present = united.status.as_ref();
    if united.metadata.deletion_timestamp.is_some() {
        return present.cloned();
    }
    let mut status = present.cloned().unwrap_or_default();
    let before = status.collision_count.unwrap_or(0);
    let collisions = history::collisions(before, outcome);
    status.collision_count = (collisions > 0)
        .then_some(collisions)
        .or(status.collision_count);
    if let Ok(round) = round {
        if matches!(round.recognised, Recognised::New(_))
            && plan.refusal.is_none()
            && !outcome.has_failed()
        {
            return if collisions == before {
                present.cloned()
            } else {
                Some(status)
            };
        }
        count(round, &mut status);
        status.subset_statuses = round
            .sized(snapshot)
            .map(|(subset, share, partition)| SubsetStatus {
                name: subset.spec.name.clone(),
                replicas: share.replicas,
                ready_replicas: subset
                    .workload
                    .map_or(0, |workload| workload.object.status.ready_replicas),
                partition: if round.kind.has_partition(&round.template.spec) {
                    partition
                } else {
                    0
                },
                reserved_pods: subset.schedulability.reserved,
                conditions: subset.schedulability.condition.iter().cloned().collect(),
            })
            .collect();
        revisions(round, &mut status, now);
        progress(round, outcome, &mut status, now);
    }
    status.observed_generation = united.metadata.generation.unwrap_or_default();
    status.label_selector = label_selector(snapshot);
    let division = round.as_ref().ok().map(|round| &round.division);
    blocked(snapshot, plan, outcome, division, &mut status, now);
    Some(status)
}

fn count(round: &Round<'_>, status: &mut UnitedDeploymentStatus) {
    let is_updated =
        |pod: &Pod| pod.metadata.label(KRUISE_CONTROLLER_REVISION_HASH) == Some(&round.revision);
    let sum = |of: &dyn Fn(&SubsetView<'_>) -> i32| {
        round
            .subsets
            .iter()
            .map(of)
            .fold(0_i32, i32::saturating_add)
    };
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let of_workload = |of: fn(&WorkloadStatus) -> i32| {
        sum(&|subset| {
            subset
                .workload
                .map_or(0, |workload| of(&workload.object.status))
        })
    };
    status.reserved_pods = sum(&|subset| subset.schedulability.reserved);
    status.replicas = of_workload(|status| status.replicas)
        .saturating_sub(status.reserved_pods)
        .max(0);
    status.ready_replicas = of_workload(|status| status.ready_replicas);
    status.available_replicas = of_workload(|status| status.available_replicas);
    let updated = |counts: &dyn Fn(&SubsetView<'_>, &Pod) -> bool| {
        sum(&|subset| {
            number(
                subset
                    .pods
                    .iter()
                    .filter(|pod| is_updated(pod) && counts(subset, pod))
                    .count(),
            )
        })
    };
    status.updated_replicas = updated(&|subset, pod| !subset.schedulability.reserves(pod));
    status.updated_ready_replicas = updated(&|_, pod| pod.is_true("Ready"));
}

/// Sets the current revision to the updated one when all pods that count are ready at that.
fn revisions(round: &Round<'_>, status: &mut UnitedDeploymentStatus, now: Timestamp) {
    if round.revision.is_empty() {
        return;
    }
    status.updated_revision.clone_from(&round.revision);
    let has_all = status.updated_ready_replicas >= status.replicas && is_created(round);
    if status.current_revision.is_empty() || has_all {
        status.current_revision.clone_from(&round.revision);
    }
    let has_revision = |subset: &SubsetView<'_>| {
        let label = subset
            .workload
            .and_then(|workload| workload.object.label(KRUISE_CONTROLLER_REVISION_HASH));
        label == Some(&round.revision)
    };
    let is_updated =
        status.current_revision == round.revision && round.subsets.iter().all(has_revision);
    let (is_updated, reason, verb) = if is_updated {
        (true, "UnitedDeploymentRevisionUpdated", "updated")
    } else {
        (false, "UnitedDeploymentRevisionUpdating", "updating")
    };
    let message = format!("{verb} to revision {}", round.revision);
    set(
        &mut status.conditions,
        condition::UNITED_DEPLOYMENT_UPDATED,
        is_updated,
        (reason, message),
        now,
    );
}

/// Whether each workload's status is about its present spec. Until then its numbers are those of
/// the last spec.
fn is_created(round: &Round<'_>) -> bool {
    round.subsets.iter().all(|subset| {
        subset.workload.is_some_and(|workload| {
            let generation = workload.object.metadata.generation.unwrap_or_default();
            workload.object.status.observed_generation >= generation
                && workload.object.label(KRUISE_CONTROLLER_REVISION_HASH) == Some(&round.revision)
        })
    })
}

/// The conditions: whether every subset has its workload, whether the workloads are as wanted, and
/// the cause that blocks one.
fn progress(
    round: &Round<'_>,
    outcome: &Outcome,
    status: &mut UnitedDeploymentStatus,
    now: Timestamp,
) {
    let is_of_subsets = |resource| resource != PODS && resource != CONTROLLER_REVISIONS;
    let failed = |verbs: &[Verb]| {
        outcome.first(|write| verbs.contains(&write.verb) && is_of_subsets(write.resource))
    };
    let conditions = &mut status.conditions;
    match failed(&[Verb::Create, Verb::Delete]) {
        Some(message) => set(
            conditions,
            condition::SUBSET_PROVISIONED,
            false,
            ("Error", message),
            now,
        ),
        None if round.subsets.iter().all(|subset| subset.workload.is_some()) => {
            set(
                conditions,
                condition::SUBSET_PROVISIONED,
                true,
                ("", String::new()),
                now,
            );
        }
        None => {}
    }
    match failed(&[Verb::Patch]) {
        Some(message) => set(
            conditions,
            condition::SUBSET_UPDATED,
            false,
            ("Error", message),
            now,
        ),
        None => set(
            conditions,
            condition::SUBSET_UPDATED,
            true,
            ("", String::new()),
            now,
        ),
    }
    match round.subsets.iter().find_map(|subset| subset.failure(now)) {
        Some(message) => set(
            conditions,
            condition::SUBSET_FAILURE,
            true,
            ("Error", message),
            now,
        ),
        None => conditions.retain(|condition| condition.type_ != condition::SUBSET_FAILURE),
    }
}

/// The selector of the pods that `replicas` counts. In reserve mode an autoscaler must not average
/// reserved pods. kubectl scale reads no `!=`, so that the requirement is a set.
fn label_selector(snapshot: &Snapshot) -> String {
    let selector = Selector::new(&snapshot.united.spec.selector)
        .map(|selector| selector.to_string())
        .unwrap_or_default();
    if snapshot.united.spec.topology.schedule_strategy.reserves() && !selector.is_empty() {
        format!("{selector},{RESERVED_POD} notin (true)")
    } else {
        selector
    }
}

/// The cause that blocks the UnitedDeployment, the gravest first: its spec, a refused write, a
/// workload, its numbers.
fn blocked(
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
    division: Option<&Division>,
    status: &mut UnitedDeploymentStatus,
    now: Timestamp,
) {
    let name = snapshot.name();
    let of_spec = plan
        .refusal
        .as_ref()
        .map(|refusal| (refusal.reason, refusal.message.clone()));
    let of_write = || {
        let is_final =
            |failure: &&Failure| (failure.permanent || failure.taken) && !failure.outdated;
        let failure = outcome.failures.iter().find(is_final)?;
        let remedy = || {
            "; correct spec.template, or the patch of the subset in spec.topology.subsets"
                .to_owned()
        };
        let remedy = if failure.taken {
            String::new()
        } else {
            fixed_fields(snapshot, failure).unwrap_or_else(remedy)
        };
        Some((
            "Refused",
            format!(
                "UnitedDeployment {name}: {} {}: {}{remedy}",
                failure.write, failure.object, failure.message
            ),
        ))
    };
    let of_workload = || {
        let failure = find(&status.conditions, condition::SUBSET_FAILURE)?;
        Some((
            "SubsetBlocked",
            format!("UnitedDeployment {name}: {}", failure.message),
        ))
    };
    let of_numbers = || {
        let finding = division?.findings.first()?;
        Some((
            "ReplicasDiffer",
            format!("UnitedDeployment {name}: {}", in_words(snapshot, finding)),
        ))
    };
    let cause = of_spec
        .or_else(of_write)
        .or_else(of_workload)
        .or_else(of_numbers);
    match cause {
        Some((reason, message)) => set(
            &mut status.conditions,
            BLOCKED,
            true,
            (reason, message),
            now,
        ),
        None => status
            .conditions
            .retain(|condition| condition.type_ != BLOCKED),
    }
}

fn find<'a>(
    conditions: &'a [UnitedDeploymentCondition],
    type_: &str,
) -> Option<&'a UnitedDeploymentCondition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Replaces the condition of the same type. Its time stays if its status does.
fn set(
    conditions: &mut Vec<UnitedDeploymentCondition>,
    type_: &str,
    is_true: bool,
    words: (&str, String),
    now: Timestamp,
) {
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_)
    {
        Some(old) => *old = since(Some(old), type_, is_true, words, now),
        None => conditions.push(since(None, type_, is_true, words, now)),
    }
}

/// Whether a changed status must be written at once: more differs than numbers of pods and
/// messages, or all wanted pods exist now, or are ready now. Clients and workloads wait for this.
pub fn is_urgent(
    old: &Option<UnitedDeploymentStatus>,
    new: &Option<UnitedDeploymentStatus>,
) -> bool {
    let is_full = |status: &UnitedDeploymentStatus| {
        let shares = status.subset_statuses.iter().map(|subset| subset.replicas);
        let shares: i32 = shares.sum();
        [
            status.replicas + status.reserved_pods,
            status.ready_replicas,
        ]
        .map(|count| count == shares)
    };
    let [old_is_full, new_is_full] =
        [old, new].map(|status| status.as_ref().map_or([false; 2], is_full));
    let became_full = (0..2).any(|at| new_is_full[at] && !old_is_full[at]);
    became_full || old.as_ref().map(without_counts) != new.as_ref().map(without_counts)
}

/// The status without numbers of pods and without messages.
fn without_counts(status: &UnitedDeploymentStatus) -> UnitedDeploymentStatus {
    let without_message = |condition: &UnitedDeploymentCondition| UnitedDeploymentCondition {
        message: String::new(),
        ..condition.clone()
    };
    let subset = |subset: &SubsetStatus| SubsetStatus {
        name: subset.name.clone(),
        replicas: subset.replicas,
        partition: subset.partition,
        conditions: subset.conditions.iter().map(without_message).collect(),
        ..SubsetStatus::default()
    };
    UnitedDeploymentStatus {
        observed_generation: status.observed_generation,
        current_revision: status.current_revision.clone(),
        updated_revision: status.updated_revision.clone(),
        label_selector: status.label_selector.clone(),
        subset_statuses: status.subset_statuses.iter().map(subset).collect(),
        conditions: status.conditions.iter().map(without_message).collect(),
        ..UnitedDeploymentStatus::default()
    }
}
