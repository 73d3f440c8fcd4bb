//! Chooses the pods that are updated now, and their order.

use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSetUpdateStrategyType;
use berth_workload::images::predownload::PredownloadHold;
use berth_workload::objects::pod::lifecycle;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::update::inplace::{inherited, steps};
use berth_workload::update::pod_order;
use berth_workload::update::podset::chosen::Chosen;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::podset::update_method::UpdateMethods;
use berth_workload::update::revision::Revision;
use berth_workload::update::rollout::{self, Candidate, Numbers, repair};
use jiff::Timestamp;

use super::settings::Settings;
use super::{Snapshot, claim_hash};

/// Chooses the pods to update now, within the limits.
pub(super) fn choose(
    snapshot: &Snapshot,
    settings: &Settings,
    revisions: &Revisions,
    pods: &[Arc<Pod>],
    numbers: &Numbers,
    hold: &PredownloadHold<'_>,
    now: Timestamp,
) -> Chosen {
    let (view, back) = (snapshot.view(), numbers.back);
    let candidates = pods
        .iter()
        .filter(|pod| revisions.is_updated(pod) == back && !view.is_to_delete(pod))
        .filter(|pod| {
            lifecycle::state(pod) != lifecycle::PREPARING_DELETE && !inherited::is_in_grace(pod)
        })
        .cloned()
        .collect();
    let mut candidates = in_order(settings, candidates, pods);
    if !back {
        let turn = numbers.update.min(candidates.len());
        hold.sort_last(&mut candidates[..turn]);
    }
    let candidate = |pod: &Arc<Pod>| Candidate {
        available: availability(pod, settings.min_ready_seconds, now).is_available(),
        broken: repair::is_broken(pod),
        begun: is_begun(pod),
    };
    let admitted = rollout::admitted(numbers, candidates.iter().map(candidate));
    let mut later = candidates.split_off(admitted);
    let staying = later.split_off(later.len().min(numbers.update.saturating_sub(admitted)));
    let target = if back {
        &revisions.current
    } else {
        &revisions.updated
    }
    .clone();
    let claims = claim_hash::Present::default();
    let recreates =
        |old: &Revision| claim_hash::recreates(snapshot, &claims, settings.policy, old, &target);
    let methods = UpdateMethods::new(&view, settings.policy, revisions, &target, recreates);
    let why = if settings.wanted.updates {
        "partition"
    } else if snapshot.set.spec.update_strategy.type_ == CloneSetUpdateStrategyType::OnDelete {
        "updateStrategy.type is OnDelete"
    } else {
        "paused"
    };
    Chosen::new(target, methods, candidates)
        .back(back)
        // A pod that goes back to its earlier revision needs no image that is pulled ahead.
        .with_held(|pod| if back { None } else { hold.of(pod) })
        .with_later(later, numbers.repair)
        .with_staying(staying, why)
}

/// Whether the update has begun. An update for which only a hook was notified has begun, too.
fn is_begun(pod: &Pod) -> bool {
    steps::is_under_way(pod) || lifecycle::state(pod) == lifecycle::PREPARING_UPDATE
}

/// Updates that have begun come first, then broken pods; the others come in the order of the spec.
fn in_order(settings: &Settings, candidates: Vec<Arc<Pod>>, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let (mut begun, mut waiting): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|pod| is_begun(pod));
    pod_order::for_update(&mut begun);
    pod_order::for_update(&mut waiting);
    let mut waiting = settings.order.arrange(waiting, pods);
    waiting.sort_by_key(|pod| !repair::is_broken(pod));
    begun.append(&mut waiting);
    begun
}
