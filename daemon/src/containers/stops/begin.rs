//! A stop that begins, for the first time or again.

use crate::containers::pre_stop::{self, Hook};
use crate::tasks::{Began, Now};
use berth_api::v1beta1::containerrecreaterequest::MAX_GRACE_SECONDS;
use berth_api::v1beta1::nodeimage::StopContainer;
use k8s_cri::v1::Container;
use std::time::Duration;

/// The longest grace period of a stop, also if the pod has a longer one.
const MAX_GRACE: Duration = Duration::from_secs(MAX_GRACE_SECONDS.unsigned_abs());

/// A container that is stopped now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// The requested stop.
    pub stop: StopContainer,
    /// The runtime's id.
    pub id: String,
    /// The runtime's id of its sandbox.
    pub sandbox: String,
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace and name, and the container's name, for logs.
    pub what: String,
    /// The grace period.
    pub grace: Duration,
    /// The hook that runs before the stop.
    pub hook: Hook,
}

/// A stop that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    /// When it began, in the life of this daemon or of an earlier one.
    pub(super) at: Began,
    /// The daemon or the runtime went away during the stop. If the container still runs, it is
    /// stopped to the end, because half of the stop is done.
    pub(super) is_cut_short: bool,
    /// The hook is done and does not run again.
    pub(super) is_hook_done: bool,
}

/// Makes the stop of a container. A stop that began before gets the rest of its grace period.
pub(super) fn begin(
    stop: &StopContainer,
    container: &Container,
    before: Option<Begun>,
    now: Now,
) -> Begin {
    let seconds = stop
        .grace_period_seconds
        .map(|seconds| u64::try_from(seconds).unwrap_or(0));
    let grace = seconds
        .map_or_else(|| pre_stop::grace(container), Duration::from_secs)
        .min(MAX_GRACE);
    let has_no_hook = seconds == Some(0) || before.is_some_and(|before| before.is_hook_done);
    Begin {
        id: container.id.clone(),
        sandbox: container.pod_sandbox_id.clone(),
        uid: stop.uid.clone(),
        what: format!("{}/{} {}", stop.namespace, stop.name, stop.container),
        grace: before.map_or(grace, |before| {
            pre_stop::left(grace, before.at.lasted(now.steady))
        }),
        hook: if has_no_hook {
            Hook::None
        } else {
            pre_stop::hook(container)
        },
        stop: stop.clone(),
    }
}
