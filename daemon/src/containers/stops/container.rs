//! Containers as the runtime lists them: whose they are, and for how long they run.

use crate::runtime::inspect::is_of_pod;
use crate::tasks::Now;
use berth_api::v1beta1::nodeimage::StopContainer;
use jiff::{SignedDuration, Timestamp};
use k8s_cri::v1::{Container, ContainerState};
use tokio::time::Instant;

/// The label by which the kubelet marks a container with its name.
pub(super) const NAME_LABEL: &str = "io.kubernetes.container.name";
/// A container that was created so long ago has started by then.
const STARTS_WITHIN: SignedDuration = SignedDuration::from_secs(30);

pub(super) fn is_running(container: &Container) -> bool {
    container.state == ContainerState::ContainerRunning as i32
}

/// Is it of the pod and the name that are asked for, as its kubelet says?
pub(super) fn is_of(container: &Container, stop: &StopContainer) -> bool {
    container
        .labels
        .get(NAME_LABEL)
        .is_some_and(|name| *name == stop.container)
        && is_of_pod(container, (&stop.namespace, &stop.name, &stop.uid))
}

pub(super) fn is_meant(container: &Container, stop: &StopContainer) -> bool {
    // Of one that lived on while its runtime was away, the runtime may not know the state.
    let may_run =
        is_running(container) || container.state == ContainerState::ContainerUnknown as i32;
    container.id == id(&stop.container_id) && may_run && is_of(container, stop)
}

/// How long the container still has to run. A runtime lists when it was created, and it starts some time after that: so what counts is
/// since when it is seen to run, but for one that is old when it is seen first.
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
