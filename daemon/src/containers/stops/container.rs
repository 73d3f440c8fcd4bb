//! Containers as the runtime lists them: their pods, their names, and how long they have run.

use crate::runtime::inspect::is_of_pod;
use crate::tasks::Now;
use berth_api::v1beta1::nodeimage::StopContainer;
use jiff::{SignedDuration, Timestamp};
use k8s_cri::v1::{Container, ContainerState};
use tokio::time::Instant;

/// The label by which the kubelet marks a container with its name.
pub(super) const NAME_LABEL: &str = "io.kubernetes.container.name";
/// A container that was created longer ago than this has started.
const STARTS_WITHIN: SignedDuration = SignedDuration::from_secs(30);

pub(super) fn is_running(container: &Container) -> bool {
    container.state == ContainerState::ContainerRunning as i32
}

/// Does the container have the pod and the name of the request, by the labels that its kubelet gave
/// it?
pub(super) fn is_of(container: &Container, stop: &StopContainer) -> bool {
    container
        .labels
        .get(NAME_LABEL)
        .is_some_and(|name| *name == stop.container)
        && is_of_pod(container, (&stop.namespace, &stop.name, &stop.uid))
}

pub(super) fn is_meant(container: &Container, stop: &StopContainer) -> bool {
    // The runtime may not know the state of a container that ran on while the runtime was away.
    let may_run =
        is_running(container) || container.state == ContainerState::ContainerUnknown as i32;
    container.id == id(&stop.container_id) && may_run && is_of(container, stop)
}

/// How long the container must run until it has run for `min_started_seconds`. A runtime lists when
/// a container was created, and it starts some time later. So the time counts from when the daemon
/// first sees it run, except for a container that is old by then.
pub(super) fn time_left(
    next: &Container,
    stop: &StopContainer,
    now: Now,
    since: Instant,
) -> SignedDuration {
    let wanted = SignedDuration::from_secs(i64::from(stop.min_started_seconds));
    let created = Timestamp::from_nanosecond(next.created_at.into()).unwrap_or(now.time);
    if now.time.duration_since(created) > wanted.saturating_add(STARTS_WITHIN) {
        return SignedDuration::ZERO;
    }
    let seen =
        SignedDuration::try_from(now.steady.duration_since(since)).unwrap_or(SignedDuration::MAX);
    wanted.saturating_sub(seen)
}

/// The runtime's own id: `containerd://abc` is `abc`.
pub(super) fn id(container_id: &str) -> &str {
    container_id
        .rsplit_once("://")
        .map_or(container_id, |(_, id)| id)
}
