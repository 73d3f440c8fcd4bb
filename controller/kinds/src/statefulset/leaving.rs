//! Pods that are deleted now: surplus pods, ended pods, and those with a request for deletion.

use std::sync::Arc;

use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::lifecycle;
use berth_workload::plan::{Plan, Step};
use berth_workload::update::podset::{Uids, hooks, update};
use jiff::Timestamp;

use super::Snapshot;
use super::places::Places;
use super::settings::Settings;

/// Pods that are deleted now, or as soon as their hooks let them go.
#[derive(Default)]
pub(super) struct Leaving {
    pub(super) steps: Vec<Step>,
    /// The pods of the steps.
    pub(super) uids: Uids,
    /// Pods that may still go out of service in this round.
    pub(super) budget: usize,
    /// With ordered pods: a pod is being deleted, or must be, so nothing else begins.
    pub(super) is_under_way: bool,
}

/// Pods in range that were held before their deletion and are wanted again.
pub(super) fn returning(snapshot: &Snapshot, places: &Places<'_>) -> Uids {
    let view = snapshot.view();
    if !hooks::may_return(&view) {
        return Uids::new();
    }
    let is_held =
        |pod: &Pod| lifecycle::state(pod) == lifecycle::PREPARING_DELETE && !view.is_to_delete(pod);
    places
        .wanted
        .values()
        .filter(|pod| is_held(pod))
        .map(|pod| pod.metadata.uid.clone())
        .collect()
}

/// The pods to delete now.
pub(super) fn leaving(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'_>,
    returning: &Uids,
    plan: &mut Plan,
    now: Timestamp,
) -> Leaving {
    let mut leaving = Leaving {
        budget: places.budget(),
        ..Leaving::default()
    };
    condemned(snapshot, settings, places, &mut leaving, plan, now);
    let gap = places.gap;
    for (ordinal, pod) in places.wanted.iter().rev() {
        if pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let Some(reason) = why_replaced(snapshot, pod, returning) else {
            continue;
        };
        let serves = places.serves(pod);
        // A pod that its hook took out of service is deleted as soon as the hook lets it go, with
        // the others of its batch.
        let is_held = lifecycle::state(pod) == lifecycle::PREPARING_DELETE;
        let waits_for = match gap.filter(|gap| gap.ordinal != *ordinal && !is_held) {
            Some(gap) => Some(format!("pod {}", places.name(gap.ordinal))),
            None if serves && leaving.budget == 0 => Some("maxUnavailable".to_owned()),
            None if gap.is_none() && leaving.is_under_way => {
                Some("its turn, because spec.podManagementPolicy is OrderedReady".to_owned())
            }
            None => None,
        };
        if let Some(other) = waits_for {
            plan.wait_for_pod(
                pod,
                format!("is to be replaced ({reason}), and waits for {other}"),
            );
            continue;
        }
        leaving.budget -= usize::from(serves);
        leaving.is_under_way = !settings.is_parallel;
        leaving.take(snapshot, pod, reason, now);
    }
    leaving
}

/// Deletes surplus pods, the highest ordinal first: one after the other when all wanted pods serve,
/// or in parallel.
fn condemned(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'_>,
    leaving: &mut Leaving,
    plan: &mut Plan,
    now: Timestamp,
) {
    let gap = places.gap;
    for (ordinal, pod) in places.condemned.iter().rev() {
        if settings.is_parallel {
            if pod.metadata.deletion_timestamp.is_none() {
                leaving.take(
                    snapshot,
                    pod,
                    "it is beyond spec.replicas, or its ordinal is reserved",
                    now,
                );
            }
            continue;
        }
        // The plan waits for a pod that is being deleted already. A pod that does not serve is
        // deleted only when no lower pod must go before it.
        let waits_for = gap
            .map(|gap| gap.ordinal)
            .or_else(|| places.lower(*ordinal, pod).map(|(lower, _)| lower));
        leaving.is_under_way = true;
        match waits_for {
            Some(other) => {
                plan.wait_for_pod(
                    pod,
                    format!(
                        "is beyond what is wanted, and waits for pod {}",
                        places.name(other)
                    ),
                );
            }
            None if pod.metadata.deletion_timestamp.is_none() => {
                leaving.take(
                    snapshot,
                    pod,
                    "it is beyond spec.replicas, or its ordinal is reserved",
                    now,
                );
            }
            None => {}
        }
        break;
    }
}

/// The reason why a pod in range is deleted, to be created anew.
fn why_replaced(snapshot: &Snapshot, pod: &Arc<Pod>, returning: &Uids) -> Option<&'static str> {
    if !pod.is_active() {
        return Some("it has ended");
    }
    if snapshot.view().is_to_delete(pod) {
        return Some("its deletion was asked for");
    }
    let is_held = lifecycle::state(pod) == lifecycle::PREPARING_DELETE
        && !returning.contains(&pod.metadata.uid);
    is_held.then_some("it was to be deleted, and its hook took it out of service")
}

impl Leaving {
    fn take(&mut self, snapshot: &Snapshot, pod: &Pod, reason: &str, now: Timestamp) {
        if let Some(step) = update::leave(&snapshot.view(), pod, reason, now) {
            self.steps.push(step);
            self.uids.insert(pod.metadata.uid.clone());
        }
    }
}
