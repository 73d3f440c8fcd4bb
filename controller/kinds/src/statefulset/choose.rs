//! Chooses the pods that are updated now, and their order.

use std::sync::Arc;

use berth_workload::images::predownload::PredownloadHold;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::lifecycle;
use berth_workload::plan::{Event, Plan};
use berth_workload::update::inplace::{inherited, steps};
use berth_workload::update::podset::chosen::Chosen;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::podset::update_method::UpdateMethods;
use berth_workload::update::rollout::repair::{self, Repair};

use super::Snapshot;
use super::growth::Stage;
use super::leaving::Leaving;
use super::places::Places;
use super::settings::Settings;

/// Chooses the pods to update now: those whose update has begun, then broken ones, then from the
/// highest ordinal down, or in the order of the spec. The first pod in service for which the budget
/// is too small ends the list.
pub(super) fn choose(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'_>,
    revisions: &Revisions,
    leaving: &Leaving,
    hold: &PredownloadHold<'_>,
    plan: &mut Plan,
) -> Chosen {
    let view = snapshot.view();
    let (mut candidates, staying) = candidates(snapshot, settings, places, revisions, leaving);
    let broken = candidates
        .iter()
        .filter(|pod| repair::is_broken(pod))
        .count();
    let fails = |pod: &&&Arc<Pod>| {
        places.is_updated(revisions, pod) && !pod.spec.node_name.is_empty() && !places.serves(pod)
    };
    let active = places
        .wanted
        .values()
        .filter(|pod| pod.is_active() && !view.is_to_delete(pod));
    let repair = Repair::new(broken, active.filter(fails).count());
    // With ordered updates, the controller repairs only the pod for which all others wait, and only
    // if no other update has begun.
    let gap = places.gap.and_then(|gap| gap.pod);
    let is_gap = |pod: &Pod| gap.is_some_and(|gap| gap.metadata.uid == pod.metadata.uid);
    let is_busy = !settings.is_parallel
        && places
            .wanted
            .values()
            .any(|pod| is_begun(pod) && !is_gap(pod));
    let is_in_turn = |pod: &Pod| settings.is_parallel || is_gap(pod) && !is_busy;
    let is_repaired = |pod: &Pod| repair.free > 0 && repair::is_broken(pod) && is_in_turn(pod);
    let has_begun = |pod: &Pod| is_begun(pod) || !places.growth.is_over(snapshot, pod);
    candidates.sort_by_cached_key(|pod| (!has_begun(pod), !is_repaired(pod)));
    let admitted = admitted(
        settings,
        places,
        leaving,
        is_repaired,
        has_begun,
        &candidates,
    );
    let later = candidates.split_off(admitted);
    let mut growing = Vec::new();
    candidates.retain(|pod| {
        grown(snapshot, places, pod, &mut growing, plan) && !places.is_updated(revisions, pod)
    });
    places.growth.plan(snapshot, &growing, plan);
    let target = revisions.updated.clone();
    let methods = UpdateMethods::new(&view, settings.policy, revisions, &target, |_| None)
        .with_volumes(&view);
    let why = if settings.updates {
        "partition"
    } else if settings.on_delete {
        "updateStrategy.type is OnDelete"
    } else {
        "paused"
    };
    Chosen::new(target, methods, candidates)
        .with_held(|pod| hold.of(pod))
        .with_later(later, repair)
        .with_first(first_in_order(settings, places))
        .with_staying(staying, why)
}

/// Whether the pod's claims have grown, so that the pod itself may be updated.
fn grown(
    snapshot: &Snapshot,
    places: &Places<'_>,
    pod: &Arc<Pod>,
    growing: &mut Vec<Arc<Pod>>,
    plan: &mut Plan,
) -> bool {
    match places.growth.stage(snapshot, pod) {
        Stage::Done => return true,
        Stage::Due => growing.push(Arc::clone(pod)),
        Stage::Grows(claim) => {
            plan.wait_for_pod(pod, format!("waits until its claim {claim} has grown"))
        }
        Stage::Differs(claim) => {
            let what = "is of another storage class than its template, and is to be deleted first";
            if snapshot.view().workload.blocked.is_none() {
                let message = format!("failed to update pvc {claim}: it {what}");
                plan.events.push(Event::warning("FailedUpdatePVC", message));
            }
            plan.wait_for_pod(pod, format!("its claim {claim} {what}"));
        }
    }
    false
}

/// The pods that must be updated, or whose claims must grow, in order; and the pods of other
/// revisions that stay.
fn candidates(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'_>,
    revisions: &Revisions,
    leaving: &Leaving,
) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let view = snapshot.view();
    let is_old = |pod: &Pod| {
        let is_small = || places.growth.stage(snapshot, pod) == Stage::Due;
        pod.is_active() && (!places.is_updated(revisions, pod) || is_small())
    };
    let old = places.wanted.iter().rev().filter(|(_, pod)| is_old(pod));
    let is_candidate = |pod: &Pod| {
        !leaving.uids.contains(&pod.metadata.uid)
            && !view.is_to_delete(pod)
            && lifecycle::state(pod) != lifecycle::PREPARING_DELETE
            && !inherited::is_in_grace(pod)
    };
    if !settings.updates {
        return (Vec::new(), old.map(|(_, pod)| Arc::clone(pod)).collect());
    }
    let (mut to_update, mut staying): (Vec<_>, Vec<_>) = match &settings.order {
        None => {
            old.partition(|(ordinal, _)| settings.ordinals.rank(**ordinal) >= settings.partition)
        }
        Some(_) => (old.collect(), Vec::new()),
    };
    if let Some(order) = &settings.order {
        // Pods that need only larger claims keep their position.
        let (mut first, by_ordinal): (Vec<_>, Vec<_>) = to_update
            .iter()
            .map(|(_, pod)| Arc::clone(pod))
            .partition(|pod| places.is_updated(revisions, pod));
        let mut arranged = order.arrange(by_ordinal, &snapshot.pods);
        // Pods whose update has begun come first.
        arranged.sort_by_cached_key(|pod| !is_begun(pod));
        let turn = arranged.len().saturating_sub(settings.partition);
        let rest = arranged.split_off(turn);
        first.append(&mut arranged);
        first.retain(|pod| is_candidate(pod));
        return (first, rest);
    }
    to_update.retain(|(_, pod)| is_candidate(pod));
    let pods = |list: &mut Vec<(&i64, &&Arc<Pod>)>| {
        list.drain(..).map(|(_, pod)| Arc::clone(pod)).collect()
    };
    (pods(&mut to_update), pods(&mut staying))
}

/// How many of the candidates may be updated now.
fn admitted(
    settings: &Settings,
    places: &Places<'_>,
    leaving: &Leaving,
    is_repaired: impl Fn(&Pod) -> bool,
    has_begun: impl Fn(&Pod) -> bool,
    candidates: &[Arc<Pod>],
) -> usize {
    // With ordered updates, a batch of pods begins only while all pods serve, as in Kubernetes.
    let is_busy = !settings.is_parallel
        && (places.gap.is_some() || leaving.is_under_way || !places.condemned.is_empty());
    let mut budget = leaving.budget;
    let mut admitted = 0;
    for pod in candidates {
        if has_begun(pod) {
            admitted += 1;
            continue;
        }
        let costs = places.serves(pod);
        let has_turn = if is_busy {
            is_repaired(pod)
        } else {
            !costs || budget > 0
        };
        if !has_turn {
            break;
        }
        budget = budget.saturating_sub(usize::from(costs));
        admitted += 1;
    }
    admitted
}

/// The message about the first pod whose update does not begin, with ordered updates.
fn first_in_order(settings: &Settings, places: &Places<'_>) -> Option<String> {
    let condemned = || {
        places
            .condemned
            .last_key_value()
            .map(|(ordinal, _)| *ordinal)
    };
    let first = places
        .gap
        .map(|gap| gap.ordinal)
        .or_else(condemned)
        .filter(|_| !settings.is_parallel);
    first.map(|ordinal| places.name(ordinal))
}

/// Whether the update has begun. An update for which only a hook was notified has begun, too.
pub(super) fn is_begun(pod: &Pod) -> bool {
    steps::is_under_way(pod) || lifecycle::state(pod) == lifecycle::PREPARING_UPDATE
}
