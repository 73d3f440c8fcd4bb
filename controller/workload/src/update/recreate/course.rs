//! How far the containers of a request are, and the next step.

use berth_api::v1beta1::ContainerRecreateRequest as Request;
use berth_api::v1beta1::containerrecreaterequest::{
    ContainerRecreateState, MAX_GRACE_SECONDS, RecreateFailurePolicy, RecreatePhase,
    RecreateStrategy, RecreatedContainer,
};
use berth_api::v1beta1::nodeimage::{StopContainer, StopPhase, StoppedContainer};
use jiff::Timestamp;

use super::{answer, grace, is_final, is_running, strategy};
use crate::objects::node::image::NodeImage;
use crate::objects::pod::{ContainerStatus, Pod, RestartPolicy};

/// A request, its pod, and the NodeImage of the pod's node.
#[derive(Clone, Copy, Debug)]
pub struct Course<'a> {
    /// The request.
    pub request: &'a Request,
    /// Its pod.
    pub pod: &'a Pod,
    /// The NodeImage of the pod's node. Answers of other nodes do not count.
    pub image: Option<&'a NodeImage>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Add a stop of a container for the daemon.
    Stop(StopContainer),
    /// Wait for the daemon's answer about this container.
    Answer(String),
    /// This container has stopped; wait for the next one in its place.
    Restart(String),
    /// No further step.
    Over,
}

impl<'a> Course<'a> {
    /// How far each container is, in the order of the spec.
    pub fn states(&self) -> Vec<ContainerRecreateState> {
        self.request
            .spec
            .containers
            .iter()
            .map(|container| self.state(container))
            .collect()
    }

    /// The stop of the container in the NodeImage.
    pub fn requested_stop(&self, container: &str) -> Option<&'a StopContainer> {
        let uid = self.request.metadata.uid.as_deref()?;
        let stops = &self.image?.spec.stop_containers;
        stops
            .iter()
            .find(|stop| stop.request == uid && stop.container == container)
    }

    /// The daemon's answer to a stop.
    pub fn answer(&self, stop: &StopContainer) -> Option<&'a StoppedContainer> {
        answer(self.image?, stop)
    }

    fn state(&self, container: &RecreatedContainer) -> ContainerRecreateState {
        let old = self.before(&container.name);
        if let Some(old) = old.filter(|old| is_final(old)) {
            return old.clone();
        }
        let answer = self
            .requested_stop(&container.name)
            .and_then(|stop| self.answer(stop));
        let is_killed = old.is_some_and(|old| old.is_killed)
            || answer.is_some_and(|answer| answer.phase == StopPhase::Stopped);
        let mut state = ContainerRecreateState {
            name: container.name.clone(),
            is_killed,
            ..Default::default()
        };
        if let Some(failed) = answer.filter(|answer| answer.phase == StopPhase::Failed) {
            state.phase = RecreatePhase::Failed;
            state.message.clone_from(&failed.message);
        } else if !self.has_stopped(container) {
            state.phase = RecreatePhase::Pending;
        } else if self.serves(container) {
            state.phase = RecreatePhase::Succeeded;
        } else if let Some(policy) = self.is_left_ended(container) {
            state.phase = RecreatePhase::Failed;
            state.message = format!(
                "was stopped, and the pod's restartPolicy {policy} does not start it again"
            );
        } else {
            state.phase = RecreatePhase::Recreating;
        }
        state
    }

    fn before(&self, container: &str) -> Option<&'a ContainerRecreateState> {
        let status = self.request.status.as_ref()?;
        status
            .container_recreate_states
            .iter()
            .find(|state| state.name == container)
    }

    /// Whether the container that the request replaces has stopped.
    fn has_stopped(&self, container: &RecreatedContainer) -> bool {
        let before = self.before(&container.name);
        if before.is_some_and(|state| state.is_killed || state.phase == RecreatePhase::Recreating) {
            return true;
        }
        // The pod's status alone does not say why the container ended. The stop may still be on its
        // way to the daemon, or the answer on its way back.
        let answer = self
            .requested_stop(&container.name)
            .and_then(|stop| self.answer(stop))
            .map(|answer| answer.phase);
        matches!(answer, Some(StopPhase::Stopped | StopPhase::Gone))
    }

    /// Whether the container is another one than when the request was created.
    fn has_moved(&self, container: &RecreatedContainer) -> bool {
        let (Some(now), Some(then)) = (
            self.pod.container_status(&container.name),
            &container.status_context,
        ) else {
            return false;
        };
        let is_other =
            *now.container_id != *then.container_id || now.restart_count > then.restart_count;
        !now.container_id.is_empty() && is_other
    }

    /// The container in its place, once it runs.
    fn successor(&self, container: &RecreatedContainer) -> Option<&'a ContainerStatus> {
        let now = self
            .pod
            .container_status(&container.name)
            .filter(|now| is_running(now))?;
        let context = container
            .status_context
            .as_ref()
            .map(|then| then.container_id.as_str());
        let old = self
            .requested_stop(&container.name)
            .map(|stop| stop.container_id.as_str())
            .or(context);
        (old != Some(&*now.container_id)).then_some(now)
    }

    /// Whether the container in its place is ready.
    fn serves(&self, container: &RecreatedContainer) -> bool {
        let Some(now) = self.successor(container).filter(|now| now.ready) else {
            return false;
        };
        self.lasts(container, now)
    }

    /// Whether the daemon says that the container has run for long enough.
    fn lasts(&self, container: &RecreatedContainer, now: &ContainerStatus) -> bool {
        let answer = self
            .requested_stop(&container.name)
            .and_then(|stop| self.answer(stop));
        let lasting = answer.map(|answer| answer.lasting_container_id.as_str());
        strategy(self.request).min_started_seconds == 0 || lasting == Some(&*now.container_id)
    }

    /// The first container in the place of a stopped one for which the daemon has not yet said that
    /// it has run long enough, with its stop.
    pub fn unreported_age(&self) -> Option<(&'a StopContainer, &'a ContainerStatus)> {
        self.request.spec.containers.iter().find_map(|container| {
            let stop = self.requested_stop(&container.name)?;
            let is_answered = self
                .answer(stop)
                .is_some_and(|answer| answer.phase.is_final());
            let waits = is_answered && self.state(container).phase == RecreatePhase::Recreating;
            let now = self
                .successor(container)
                .filter(|now| waits && !self.lasts(container, now))?;
            Some((stop, now))
        })
    }

    /// The latest time at which a running stop is over. Another request may have asked for the same
    /// stop earlier.
    pub fn stops_by(&self, stop: &StopContainer) -> Option<Timestamp> {
        let stops = self.image?.spec.stop_containers.iter();
        let of_container = stops.filter(|other| other.container_id == stop.container_id);
        let end = |stop: &StopContainer| {
            stop.created_at
                .as_ref()?
                .0
                .checked_add(grace(stop, Some(self.pod)))
                .ok()
        };
        of_container.filter_map(end).max()
    }

    /// Whether the daemon has begun to stop this container for any request. A stop that the daemon
    /// began for another reason has an unknown grace period.
    pub fn is_begun(&self, stop: &StopContainer) -> bool {
        let Some(image) = self.image else {
            return false;
        };
        let mut of_container = image
            .spec
            .stop_containers
            .iter()
            .filter(|other| other.container_id == stop.container_id);
        of_container
            .any(|other| answer(image, other).is_some_and(|answer| answer.begun_at.is_some()))
    }

    /// Whether the container has stopped and the kubelet starts no other. Returns the name of the
    /// policy that says so.
    fn is_left_ended(&self, container: &RecreatedContainer) -> Option<&'static str> {
        let is_native = self
            .pod
            .spec
            .native_sidecars
            .iter()
            .any(|native| *native.name == *container.name);
        let ended = self
            .pod
            .container_status(&container.name)?
            .state
            .terminated
            .as_ref()
            .filter(|_| !is_native)?;
        match self.pod.spec.restart_policy {
            RestartPolicy::Never => Some("Never"),
            RestartPolicy::OnFailure if ended.exit_code == 0 => Some("OnFailure"),
            RestartPolicy::OnFailure | RestartPolicy::Always => None,
        }
    }

    /// The next step. It does not check the grace period and the order of requests.
    pub fn next(&self) -> Next {
        let strategy = strategy(self.request);
        let mut restarts = None;
        for (container, state) in self.request.spec.containers.iter().zip(self.states()) {
            let requested = self.requested_stop(&container.name);
            match state.phase {
                RecreatePhase::Failed if strategy.failure_policy == RecreateFailurePolicy::Fail => {
                    return Next::Over;
                }
                RecreatePhase::Pending if requested.is_some() => return Next::Answer(state.name),
                RecreatePhase::Pending => return self.stop(container, &strategy),
                // Only the daemon can tell how long the container has run.
                RecreatePhase::Recreating
                    if strategy.min_started_seconds > 0 && requested.is_none() =>
                {
                    return self.stop(container, &strategy);
                }
                RecreatePhase::Recreating if strategy.ordered_recreate => {
                    return Next::Restart(state.name);
                }
                RecreatePhase::Recreating => drop(restarts.get_or_insert(state.name)),
                RecreatePhase::Failed | RecreatePhase::Succeeded | RecreatePhase::Completed => {}
            }
        }
        restarts.map_or(Next::Over, Next::Restart)
    }

    fn stop(&self, container: &RecreatedContainer, strategy: &RecreateStrategy) -> Next {
        let (metadata, pod) = (&self.request.metadata, &self.pod.metadata);
        let (Some(request), Some(context)) =
            (metadata.uid.clone(), container.status_context.as_ref())
        else {
            return Next::Over;
        };
        // Once the old container has stopped, this stop only asks how long the next one has run,
        // because its id is the old container's.
        let is_forced =
            strategy.force_recreate && !self.has_stopped(container) && self.has_moved(container);
        let now = self
            .pod
            .container_status(&container.name)
            .filter(|_| is_forced);
        Next::Stop(StopContainer {
            request,
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            container: container.name.clone(),
            container_id: now.map_or_else(
                || context.container_id.clone(),
                |now| now.container_id.to_string(),
            ),
            grace_period_seconds: strategy
                .termination_grace_period_seconds
                .map(|grace| grace.min(MAX_GRACE_SECONDS)),
            min_started_seconds: strategy.min_started_seconds,
            created_at: None,
            cancelled: false,
        })
    }

    /// Whether the containers need no further step.
    pub fn is_done(&self) -> bool {
        self.next() == Next::Over
    }
}
