//! Which pods are updated now, and in which order.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::names::annotation::{DAEMONSET_IGNORE_NOT_READY, UPDATE_TOPOLOGY_KEY};
use berth_api::v1beta1::daemonset::DaemonSetUpdateStrategyType;
use berth_workload::objects::pod::gates::{IN_PLACE_UPDATE_READY, has_gate};
use berth_workload::objects::pod::lifecycle;
use berth_workload::objects::pod::{Pod, availability};
use berth_workload::plan::Plan;
use berth_workload::update::inplace::{inherited, steps};
use berth_workload::update::podset::Uids;
use berth_workload::update::podset::chosen::Chosen;
use berth_workload::update::podset::history::Revisions;
use berth_workload::update::podset::update_method::{Policy, UpdateMethods};
use berth_workload::update::rollout::repair::{self, Repair};
use jiff::Timestamp;

use super::Snapshot;
use super::held::{Held, held, holds_revision};
use super::places::{Place, Places, is_available, is_updated};
use super::settings::Settings;

/// The nodes that may have the update revision, and how many may get it now.
pub(super) struct Turns<'a> {
    /// Nodes that the partition and the selector let be updated.
    allowed: BTreeSet<&'a str>,
    /// The nodes of the present zone, if the update goes zone by zone.
    in_zone: Option<BTreeSet<&'a str>>,
    /// Nodes that may lose their available pod now.
    pub(super) budget: usize,
    /// Nodes that may lose their available pod for a requested deletion. One at a time may do so
    /// with maxSurge, too, which lets an update take none.
    deletions: usize,
    /// Nodes that may get a second pod now.
    pub(super) surge: usize,
    /// The revision for a new pod on a node that the update leaves out, if that is not the update
    /// revision.
    pub(super) held: Option<Held>,
    /// Nodes that have no pod and get none now.
    pub(super) empty: BTreeSet<&'a str>,
    /// How many broken pods the limits do not count for.
    pub(super) repair: Repair,
    /// Ready nodes on which a pod of the update revision is still to come, or does not serve.
    coming: usize,
    now: Timestamp,
}

/// The wanted places of ready nodes. On a node that is not ready no pod is ready, regardless of its
/// revision.
fn ready_nodes<'p>(places: &'p Places<'_>) -> impl Iterator<Item = (&'p str, &'p Place<'p>)> {
    places.wanted().filter(|(_, place)| place.node.ready)
}

/// How many broken pods of older revisions the limits do not count for.
fn repair(
    snapshot: &Snapshot,
    places: &Places<'_>,
    revisions: &Revisions,
    now: Timestamp,
) -> Repair {
    let is_updated = |pod: &Pod| is_updated(snapshot, revisions, pod);
    let of_wanted = places.wanted().flat_map(|(_, place)| place.active());
    let broken = of_wanted.filter(|pod| !is_updated(pod) && repair::is_broken(pod));
    let on_ready_nodes = ready_nodes(places).flat_map(|(_, place)| place.active());
    let fails = on_ready_nodes.filter(|pod| {
        let is_bound = !pod.spec.node_name.is_empty();
        is_updated(pod) && is_bound && !availability(pod, 0, now).is_ready()
    });
    Repair::new(broken.count(), fails.count())
}

impl<'a> Turns<'a> {
    pub(super) fn new(
        snapshot: &Snapshot,
        settings: &Settings,
        places: &Places<'a>,
        revisions: &Revisions,
        now: Timestamp,
    ) -> Self {
        let holds_revision = holds_revision(&snapshot.set);
        let allowed = allowed(snapshot, settings, places, revisions, holds_revision);
        let held = holds_revision
            .then(|| held(snapshot, places, revisions, |node| !allowed.contains(node)))
            .flatten();
        let is_counted = |place: &Place<'_>| place.node.ready || !ignores_not_ready(snapshot);
        let is_away = |place: &Place<'_>| !is_available(place, settings.min_ready_seconds, now);
        let empty = staying_empty(
            snapshot,
            settings,
            places,
            revisions,
            &allowed,
            held.as_ref(),
        );
        let is_due = |name: &str, place: &Place<'_>| is_counted(place) && !empty.contains(name);
        let unavailable = places
            .wanted()
            .filter(|(name, place)| is_due(name, place) && is_away(place))
            .count();
        let is_surging =
            |place: &Place<'_>| place.active().nth(1).is_some() && !is_away_for_good(place);
        let surging = places
            .wanted()
            .filter(|(_, place)| is_counted(place) && is_surging(place))
            .count();
        let is_coming = |place: &Place<'_>| {
            let serves_not = |pod: &Arc<Pod>| {
                is_updated(snapshot, revisions, pod) && !availability(pod, 0, now).is_ready()
            };
            is_away_for_good(place) || place.active().any(serves_not)
        };
        let coming = ready_nodes(places)
            .filter(|(name, place)| !empty.contains(name) && is_coming(place))
            .count();
        let in_zone = snapshot
            .view()
            .workload
            .annotation(UPDATE_TOPOLOGY_KEY)
            .map(|key| {
                // A place that does not count keeps no zone from its turn, because its node may
                // never be back.
                let is_done = |place: &Place<'_>| {
                    let is_new = place
                        .active()
                        .all(|pod| is_updated(snapshot, revisions, pod));
                    !is_counted(place) || (is_new && !is_away(place))
                };
                in_zone(places, &allowed, key, is_done)
            });
        Self {
            allowed,
            in_zone,
            budget: settings.max_unavailable.saturating_sub(unavailable),
            deletions: settings.max_unavailable.max(1).saturating_sub(unavailable),
            surge: settings.max_surge.saturating_sub(surging),
            held,
            empty,
            repair: repair(snapshot, places, revisions, now),
            coming,
            now,
        }
    }

    /// Whether the node may have the update revision.
    pub(super) fn is_allowed(&self, node: &str) -> bool {
        self.allowed.contains(node)
    }

    /// Whether the node may be updated now.
    pub(super) fn is_in_turn(&self, node: &str) -> bool {
        self.is_allowed(node) && self.in_zone.as_ref().is_none_or(|zone| zone.contains(node))
    }

    /// Takes one from the budget for a requested deletion.
    pub(super) fn take_for_deletion(&mut self) -> bool {
        let has_some = self.deletions > 0;
        self.deletions = self.deletions.saturating_sub(1);
        self.budget = self.budget.saturating_sub(usize::from(has_some));
        has_some
    }

    /// How many of the pods, in their order, are updated now. A pod that does not serve costs no
    /// budget, so it does not wait for other pods. But while pods of the update revision fail, they
    /// and the pods that follow them are at most `maxUnavailable`.
    fn admit(&mut self, settings: &Settings, pods: &[Arc<Pod>]) -> usize {
        let Repair { mut free, fails } = self.repair;
        let mut down = self.coming;
        let mut admitted = 0;
        for pod in pods.iter().take(settings.burst) {
            let is_ready = availability(pod, 0, self.now).is_ready();
            if steps::is_under_way(pod) {
                // An update that has begun goes on.
            } else if free > 0 && repair::is_broken(pod) {
                free -= 1;
            } else if is_ready {
                if self.budget == 0 {
                    break;
                }
                self.budget -= 1;
            } else if fails > 0 && down >= settings.max_unavailable {
                break;
            }
            down += usize::from(!is_ready);
            admitted += 1;
        }
        admitted
    }
}

/// With the annotation, nodes that are not Ready count against no limit.
pub(super) fn ignores_not_ready(snapshot: &Snapshot) -> bool {
    snapshot
        .view()
        .workload
        .annotation(DAEMONSET_IGNORE_NOT_READY)
        == Some("true")
}

/// Nodes without a pod that get none now. These are left-out nodes that do not match the template
/// of the revision for such nodes. If left-out nodes get no other revision, these are the nodes
/// that partitionedScaling keeps back, the last by name.
fn staying_empty<'a>(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'a>,
    revisions: &Revisions,
    allowed: &BTreeSet<&'a str>,
    held: Option<&Held>,
) -> BTreeSet<&'a str> {
    let empty = places.wanted().filter(|(_, place)| place.pods.is_empty());
    if let Some(held) = held {
        let may_not_run =
            |name: &str, place: &Place<'_>| !allowed.contains(name) && !held.fits(place.node);
        return empty
            .filter(|(name, place)| may_not_run(name, place))
            .map(|(name, _)| name)
            .collect();
    }
    if !settings.is_partitioned {
        return BTreeSet::new();
    }
    let has_new = |place: &Place<'_>| {
        place
            .active()
            .any(|pod| is_updated(snapshot, revisions, pod))
    };
    let new = places.wanted().filter(|(_, place)| has_new(place)).count();
    let most = places
        .wanted()
        .count()
        .saturating_sub(new)
        .saturating_sub(settings.partition);
    empty.map(|(name, _)| name).skip(most).collect()
}

/// Whether all pods of the node are being deleted already.
fn is_away_for_good(place: &Place<'_>) -> bool {
    place
        .active()
        .all(|pod| lifecycle::state(pod) == lifecycle::PREPARING_DELETE)
}

/// The nodes of the first zone, by the value of a label, in which some nodes that may be updated
/// are not.
fn in_zone<'a>(
    places: &Places<'a>,
    allowed: &BTreeSet<&'a str>,
    key: &str,
    is_done: impl Fn(&Place<'_>) -> bool,
) -> BTreeSet<&'a str> {
    let zone = |place: &Place<'a>| place.node.metadata.label(key).unwrap_or_default();
    let allowed = || places.wanted().filter(|(name, _)| allowed.contains(name));
    let current = allowed()
        .filter(|(_, place)| !is_done(place))
        .map(|(_, place)| zone(place))
        .min();
    allowed()
        .filter(|(_, place)| Some(zone(place)) == current)
        .map(|(name, _)| name)
        .collect()
}

/// Nodes that the update may reach: all but as many as the partition says. Nodes that have the
/// update come first, then the last by name; if nodes keep their revision, the last by name alone.
/// With a selector only matching nodes are added.
fn allowed<'a>(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'a>,
    revisions: &Revisions,
    holds_revision: bool,
) -> BTreeSet<&'a str> {
    let is_selected = |place: &Place<'_>| {
        settings
            .selector
            .as_ref()
            .is_none_or(|selector| selector.matches(|key| place.node.metadata.label(key)))
    };
    let rank = |place: &Place<'_>| {
        if holds_revision {
            return is_selected(place).then_some(2);
        }
        if is_away_for_good(place) {
            return Some(1);
        }
        let stays = |pod: &&Arc<Pod>| lifecycle::state(pod) != lifecycle::PREPARING_DELETE;
        let is_reached = place
            .active()
            .filter(stays)
            .any(|pod| is_updated(snapshot, revisions, pod));
        if is_reached {
            Some(0)
        } else {
            is_selected(place).then_some(2)
        }
    };
    let mut nodes: Vec<_> = places
        .wanted()
        .rev()
        .filter_map(|(name, place)| Some((rank(place)?, name)))
        .collect();
    nodes.sort_by_key(|(rank, _)| *rank);
    let most = places.wanted().count().saturating_sub(settings.partition);
    nodes.into_iter().take(most).map(|(_, name)| name).collect()
}

/// The one pod of a node that could be updated: the node has no other pod, and nothing else is
/// planned for this one.
pub(super) fn candidate<'a>(
    snapshot: &Snapshot,
    revisions: &Revisions,
    leaving: Option<&Uids>,
    place: &Place<'a>,
) -> Option<&'a Arc<Pod>> {
    let [pod] = place.pods[..] else { return None };
    let is_free = pod.is_active()
        && leaving.is_none_or(|leaving| !leaving.contains(&pod.metadata.uid))
        && !snapshot.view().is_to_delete(pod)
        && lifecycle::state(pod) != lifecycle::PREPARING_DELETE
        && !inherited::is_in_grace(pod);
    (is_free && !is_updated(snapshot, revisions, pod)).then_some(pod)
}

/// Chooses the pods to update now: those whose update has begun, then broken ones, then others that
/// do not serve, and within each group from the last node by name. So no pod that costs no budget
/// waits behind a pod that may not be updated.
pub(super) fn choose(
    snapshot: &Snapshot,
    settings: &Settings,
    places: &Places<'_>,
    revisions: &Revisions,
    leaving: &Uids,
    turns: &mut Turns<'_>,
    plan: &mut Plan,
) -> Chosen {
    let view = snapshot.view();
    // On a node that is not ready a pod costs no budget, and its failures are not visible: a bad
    // revision would reach one such node after the other.
    let waits_for_node = settings.policy == Policy::InPlaceIfPossible || turns.repair.fails > 0;
    let (mut candidates, mut staying) = (Vec::new(), Vec::new());
    for (name, place) in places.wanted().rev() {
        let Some(pod) = candidate(snapshot, revisions, Some(leaving), place) else {
            continue;
        };
        let has_begun = steps::is_under_way(pod);
        if !settings.updates || settings.max_surge > 0 || !turns.is_in_turn(name) {
            staying.push(Arc::clone(pod));
        } else if waits_for_node && !place.node.ready && !has_begun {
            plan.wait_for_pod(
                pod,
                format!("is to be updated, and waits: its node {name} is not Ready"),
            );
        } else {
            candidates.push(Arc::clone(pod));
        }
    }
    let now = turns.now;
    let is_ready = |pod: &Pod| availability(pod, 0, now).is_ready();
    candidates.sort_by_cached_key(|pod| {
        (
            !steps::is_under_way(pod),
            !repair::is_broken(pod),
            is_ready(pod),
        )
    });
    let later = candidates.split_off(turns.admit(settings, &candidates));
    let target = revisions.updated.clone();
    let without_gate = snapshot
        .pods
        .iter()
        .filter(|pod| !has_gate(pod, IN_PLACE_UPDATE_READY));
    let without_gate = without_gate.map(|pod| pod.metadata.uid.clone());
    let methods = UpdateMethods::new(&view, settings.policy, revisions, &target, |_| None)
        .with_reason("rollingUpdateType is Standard");
    let methods = match settings.policy {
        Policy::InPlaceIfPossible => {
            methods.with_replaced(without_gate, "it has no readiness gate InPlaceUpdateReady")
        }
        Policy::ReCreate | Policy::InPlaceOnly => methods,
    };
    let why = if settings.updates {
        "partition, selector, another zone, or maxSurge"
    } else if snapshot.set.spec.update_strategy.type_ == DaemonSetUpdateStrategyType::OnDelete {
        "updateStrategy.type is OnDelete"
    } else {
        "paused"
    };
    Chosen::new(target, methods, candidates)
        .with_later(later, turns.repair)
        .with_staying(staying, why)
}
