//! When a pod counts as available. Every workload and every budget uses this rule.

use jiff::{SignedDuration, Timestamp};

use super::Pod;
use crate::objects::pod::lifecycle;

/// Whether a pod counts as available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// The pod serves, and has served for `minReadySeconds`.
    Available,
    /// The pod is ready and becomes available after this time if it stays ready.
    After(SignedDuration),
    /// The pod is ready, but its lifecycle state says that it does not serve, or not for long.
    Held,
    /// The pod is not ready.
    NotReady,
}

impl Availability {
    /// Ready, for any time and in any lifecycle state.
    pub fn is_ready(self) -> bool {
        !matches!(self, Self::NotReady)
    }

    /// Available now.
    pub fn is_available(self) -> bool {
        matches!(self, Self::Available)
    }
}

/// The availability of one pod. A readiness gate that is not True makes a pod unready at once,
/// although the kubelet's `Ready` condition follows a moment later. Otherwise a pod that the
/// controller just took out of service would count as available.
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
    // A Ready condition without a transition time counts as ready for long enough. With a time, the
    // pod may have become ready at the end of that second, because the API cuts off fractions of
    // seconds.
    let ready_for = since.map_or(wanted, |since| {
        now.duration_since(since) - SignedDuration::from_secs(1)
    });
    if ready_for >= wanted {
        Availability::Available
    } else {
        Availability::After(wanted - ready_for)
    }
}

/// `None` if the pod is not ready, otherwise the time since when it is ready, if known.
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

    /// Whether the Ready condition is False although the kubelet reports ready containers.
    /// Kubernetes sets it so for pods of an unreachable node, and it stays so for a while after the
    /// node returns.
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

    /// Whether removing an unavailable pod loses no service: it was never Ready, or one of its
    /// containers waits to be started.
    ///
    /// The kubelet sets Ready to False when it accepts the pod. So a pod whose condition changed
    /// later has been Ready.
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

    /// Whether the pod is neither finished nor being deleted, so that it counts towards a
    /// workload's replicas.
    pub fn is_active(&self) -> bool {
        self.metadata.deletion_timestamp.is_none() && !self.has_finished()
    }

    /// Whether all of its containers have ended for good.
    pub fn has_finished(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }
}

#[cfg(test)]
mod tests;
