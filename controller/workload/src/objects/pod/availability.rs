//! When does a pod count as available? One answer for every workload and budget.

use jiff::{SignedDuration, Timestamp};

use super::Pod;
use crate::objects::pod::lifecycle;

/// Whether a pod counts as available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// It serves, and has done so for `minReadySeconds`.
    Available,
    /// It is ready and becomes available after this time if it stays so.
    After(SignedDuration),
    /// It is ready, but its lifecycle state says that it does not serve, or not for long.
    Held,
    /// It is not ready.
    NotReady,
}

impl Availability {
    /// Ready, whether or not for long enough, and whatever its lifecycle state is.
    pub fn is_ready(self) -> bool {
        !matches!(self, Self::NotReady)
    }

    /// Available now.
    pub fn is_available(self) -> bool {
        matches!(self, Self::Available)
    }
}

/// Judges one pod. A readiness gate that is not True makes a pod unready at once, although the kubelet's `Ready`
/// condition follows a moment later: what the controller itself took out of service must never be counted as in service.
pub fn availability(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    let Some(since) = ready_since(pod) else {
        return Availability::NotReady;
    };
    if !lifecycle::serves(pod) {
        return Availability::Held;
    }
    let wanted = SignedDuration::from_secs(i64::from(min_ready_seconds.max(0)));
    if wanted.is_zero() {
        return Availability::Available;
    }
    // Without a transition time there is nothing to wait for: the condition says that it is ready. With one, it may have
    // become ready at the very end of that second: the API cuts off what is less.
    let ready_for = since.map_or(wanted, |since| {
        now.duration_since(since) - SignedDuration::from_secs(1)
    });
    if ready_for >= wanted {
        Availability::Available
    } else {
        Availability::After(wanted - ready_for)
    }
}

/// `None` when the pod is not ready, else the time since when it is, where that is known.
fn ready_since(pod: &Pod) -> Option<Option<Timestamp>> {
    if pod.metadata.deletion_timestamp.is_some() || &*pod.status.phase != "Running" {
        return None;
    }
    let gates_open = pod
        .spec
        .readiness_gates
        .iter()
        .all(|gate| pod.is_true(&gate.condition_type));
    let ready = pod.condition("Ready").filter(|c| &*c.status == "True")?;
    gates_open.then_some(ready.last_transition_time)
}

impl Pod {
    /// True when the condition of this type is present and True.
    pub fn is_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|c| &*c.status == "True")
    }

    /// Does somebody other than the pod's kubelet say that it is not ready? So does Kubernetes of the pods of a node that is away, and
    /// they stay so until after it is back.
    pub fn is_called_away(&self) -> bool {
        self.is_true("ContainersReady")
            && self
                .condition("Ready")
                .is_some_and(|ready| &*ready.status == "False")
            && self
                .spec
                .readiness_gates
                .iter()
                .all(|gate| self.is_true(&gate.condition_type))
    }

    /// Whether no service is lost with a pod that is not available: it was never Ready, or one of its containers waits to be started.
    ///
    /// The kubelet says that a pod is not Ready when it takes the pod. So a pod whose condition changed later has been Ready.
    pub fn is_down(&self) -> bool {
        let was_ready = self.condition("Ready").is_some_and(|ready| {
            let (changed, taken) = (ready.last_transition_time, self.status.start_time);
            changed
                .zip(taken)
                .is_none_or(|(changed, taken)| changed > taken)
        });
        let mut statuses = self
            .status
            .container_statuses
            .iter()
            .chain(&self.status.init_container_statuses);
        !was_ready || statuses.any(|status| status.state.waiting.is_some())
    }

    /// Neither finished nor being deleted: it counts towards a workload's replicas.
    pub fn is_active(&self) -> bool {
        self.metadata.deletion_timestamp.is_none() && !self.has_finished()
    }

    /// Whether nothing of it runs any more, nor will.
    pub fn has_finished(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }
}

#[cfg(test)]
mod tests;
