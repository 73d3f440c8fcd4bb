//! The containers that a node's daemon must stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::ContainerRecreateRequest as Request;
use berth_api::v1beta1::containerrecreaterequest::RecreatePhase;
use berth_api::v1beta1::nodeimage::{
    MAX_STOPPED_CONTAINERS, StopContainer, StopPhase, StoppedContainer,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    Course, Next, answer, current, grace, grace_left, is_final, is_over, is_virtual, phase,
    time_left,
};
use crate::objects::node::image::NodeImage;
use crate::objects::pod::Pod;

/// How long an unanswered stop stays in the NodeImage after its request is over. A daemon that
/// returns must not begin with it. A daemon that has begun writes its result, for which it has the
/// grace period in addition.
const KEPT: SignedDuration = SignedDuration::from_mins(10);

/// A pod of the node, and the requests for its containers.
#[derive(Clone, Debug)]
pub struct Requested {
    /// The pod.
    pub pod: Arc<Pod>,
    /// All requests that name the pod, including the ones that are over.
    pub requests: Vec<Arc<Request>>,
}

/// The stops for the daemon.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stops {
    /// Sorted by request and container; at most as many as a NodeImage may name. Stops with a final
    /// answer stay until another stop is added or dropped.
    pub containers: Vec<StopContainer>,
    /// When to decide again: a grace period ends, or a stop is dropped.
    pub look_again: Option<SignedDuration>,
    /// A message about requests that the NodeImage has no space for.
    pub left_out: Option<String>,
}

/// Adds the new stops that fit into the NodeImage. Returns the others.
fn share_out(
    new: impl Iterator<Item = StopContainer>,
    stops: &mut Vec<StopContainer>,
    now: Timestamp,
) -> Vec<StopContainer> {
    let mut of_namespace: BTreeMap<String, usize> = BTreeMap::new();
    for stop in stops.iter() {
        *of_namespace.entry(stop.namespace.clone()).or_default() += 1;
    }
    let mut left_out = Vec::new();
    for stop in new {
        // One namespace gets half of the free slots, two get a third each, so that some slots are
        // always left for the next one.
        let free = MAX_STOPPED_CONTAINERS.saturating_sub(stops.len());
        let own = of_namespace.entry(stop.namespace.clone()).or_default();
        if *own >= free {
            left_out.push(stop);
            continue;
        }
        *own += 1;
        stops.push(StopContainer {
            created_at: Some(Time(now)),
            ..stop
        });
    }
    left_out
}

/// Decides on the stops, from the ones that the NodeImage has so far.
pub fn wanted(requested: &[Requested], image: &NodeImage, now: Timestamp) -> Stops {
    let mut stops = Stops::default();
    let (mut over, mut overdue) = (BTreeSet::new(), Vec::new());
    for stop in &image.spec.stop_containers {
        match kept(stop, requested, image, now, &mut stops.look_again) {
            Some(stop) if slot_left(&stop, requested, now).is_negative() => overdue.push(stop),
            Some(stop) => stops.containers.push(stop),
            None if is_answered_for_good(image, stop) => {
                over.insert((&stop.request, &stop.container));
            }
            None => {}
        }
    }
    let mut new: Vec<_> = requested
        .iter()
        .filter_map(|requested| next(requested, image, now, &mut stops.look_again))
        .collect();
    new.sort_by(|(one, _), (other, _)| one.cmp(other));
    let left_out = share_out(
        new.into_iter().map(|(_, stop)| stop),
        &mut stops.containers,
        now,
    );
    // Overdue stops free their slots for new ones, the oldest first, because a container may crash
    // forever.
    overdue.sort_by_key(|stop| std::cmp::Reverse(stop.created_at.as_ref().map(|time| time.0)));
    overdue.truncate(MAX_STOPPED_CONTAINERS.saturating_sub(stops.containers.len()));
    stops.containers.append(&mut overdue);
    stops.containers.sort_by(|one, other| {
        (&one.request, &one.container).cmp(&(&other.request, &other.container))
    });
    // Removing stops with a final answer is not worth a write; the next change removes them.
    let is_open = |stop: &&StopContainer| !over.contains(&(&stop.request, &stop.container));
    if image
        .spec
        .stop_containers
        .iter()
        .filter(is_open)
        .eq(&stops.containers)
    {
        stops.containers.clone_from(&image.spec.stop_containers);
    }
    if !left_out.is_empty() {
        let containers = stops.containers.iter();
        let next = containers
            .map(|stop| slot_left(stop, requested, now))
            .filter(|left| !left.is_negative())
            .map(|left| left.saturating_add(SignedDuration::from_secs(1)))
            .min();
        stops.look_again = stops.look_again.into_iter().chain(next).min();
    }
    stops.left_out = left_out.first().map(|stop| {
        format!(
            "NodeImage {}: spec.stopContainers leaves out {} containers, which wait, such as {} of pod {}/{}: it names {} of at \
             most {MAX_STOPPED_CONTAINERS}, of which a namespace gets half",
            crate::objects::node::image::name(image),
            left_out.len(),
            stop.container,
            stop.namespace,
            stop.name,
            stops.containers.len(),
        )
    });
    stops
}

/// How long no other stop may take a stop's slot: its grace period, and [`KEPT`].
fn slot_left(stop: &StopContainer, requested: &[Requested], now: Timestamp) -> SignedDuration {
    let since = stop.created_at.as_ref().map_or(now, |time| time.0);
    let of_pod = requested
        .iter()
        .find(|requested| *requested.pod.metadata.uid == *stop.uid);
    let grace = grace(stop, of_pod.map(|of_pod| &*of_pod.pod));
    KEPT.saturating_add(grace)
        .saturating_sub(now.duration_since(since))
}

/// The new form of a stop in the NodeImage; `None` if it must be removed.
fn kept(
    stop: &StopContainer,
    requested: &[Requested],
    image: &NodeImage,
    now: Timestamp,
    look_again: &mut Option<SignedDuration>,
) -> Option<StopContainer> {
    let of_pod = requested
        .iter()
        .find(|requested| *requested.pod.metadata.uid == *stop.uid);
    let request = of_pod.and_then(|requested| {
        requested
            .requests
            .iter()
            .find(|request| request.metadata.uid.as_deref() == Some(&*stop.request))
    });
    let active = request.filter(|request| !is_over(request));
    let answer = answer(image, stop);
    if let Some(request) = active {
        // The result of the stop is in the request's own status.
        let states = request
            .status
            .iter()
            .flat_map(|status| &status.container_recreate_states);
        let is_settled = states
            .into_iter()
            .any(|state| state.name == stop.container && is_final(state));
        return (!is_settled).then(|| stop.clone());
    }
    let cancelled = StopContainer {
        cancelled: true,
        ..stop.clone()
    };
    let is_noted = || {
        let states = request.iter().filter_map(|request| request.status.as_ref());
        let mut states = states.flat_map(|status| &status.container_recreate_states);
        states.any(|state| state.name == stop.container && (state.is_killed || is_final(state)))
    };
    match answer.map(|answer| answer.phase) {
        Some(phase) if phase.is_final() => {
            // A completed request still records which containers were stopped for it.
            let waits = phase == StopPhase::Stopped && request.is_some() && !is_noted();
            waits.then_some(cancelled)
        }
        under_way => {
            let since = stop.created_at.as_ref().map_or(now, |time| time.0);
            let grace = under_way.map_or(SignedDuration::ZERO, |_| {
                grace(stop, of_pod.map(|of_pod| &*of_pod.pod))
            });
            let left = KEPT
                .saturating_add(grace)
                .saturating_sub(now.duration_since(since));
            if stop.created_at.is_none() || !left.is_positive() {
                return None;
            }
            *look_again = Some(look_again.map_or(left, |old| old.min(left)));
            Some(cancelled)
        }
    }
}

/// Whether the daemon has no work left for a stop: it neither stops the container nor watches the
/// next one.
fn is_answered_for_good(image: &NodeImage, stop: &StopContainer) -> bool {
    let lasts = |answer: &StoppedContainer| {
        stop.min_started_seconds == 0 || !answer.lasting_container_id.is_empty()
    };
    answer(image, stop)
        .is_some_and(|answer| answer.phase.is_final() && (stop.cancelled || lasts(answer)))
}

/// The next container of the pod to stop, with the sort key of its request.
fn next(
    Requested { pod, requests }: &Requested,
    image: &NodeImage,
    now: Timestamp,
    look_again: &mut Option<SignedDuration>,
) -> Option<((Option<Timestamp>, String), StopContainer)> {
    let request = current(requests.iter().map(|request| &**request), pod, Some(image))?;
    // The request's controller has checked the request once its phase is `Recreating`.
    if phase(request) != RecreatePhase::Recreating
        || is_virtual(request)
        || pod.metadata.deletion_timestamp.is_some()
    {
        return None;
    }
    // The request's completion may not have arrived here yet, although the last container has just
    // been stopped.
    if time_left(request, now).is_some_and(|left| !left.is_positive()) {
        return None;
    }
    let left = grace_left(request, now)?;
    if left.is_positive() {
        *look_again = Some(look_again.map_or(left, |old| old.min(left)));
        return None;
    }
    let Next::Stop(stop) = (Course {
        request,
        pod,
        image: Some(image),
    })
    .next() else {
        return None;
    };
    let created = request
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0);
    Some(((created, stop.request.clone()), stop))
}
