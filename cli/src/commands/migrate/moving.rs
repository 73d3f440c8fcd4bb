//! The steps by which pods move from one workload to another.

use serde_json::Value;

use crate::objects;

/// The numbers of a workload's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Replicas {
    /// The replicas of the spec.
    pub(super) wanted: i64,
    /// Pods that exist.
    pub(super) existing: i64,
    /// Pods that are available.
    pub(super) available: i64,
    /// Whether the status is of the latest spec.
    pub(super) is_current: bool,
}

impl Replicas {
    /// The numbers of an object's spec and status.
    pub(super) fn of(object: &Value) -> Self {
        let number = |pointer| objects::number(object, pointer);
        Self {
            wanted: object["spec"]["replicas"].as_i64().unwrap_or(1),
            existing: number("/status/replicas"),
            available: number("/status/availableReplicas"),
            is_current: number("/status/observedGeneration") >= number("/metadata/generation"),
        }
    }
}

/// The numbers of pods at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Goal {
    /// The replicas of the source at the beginning.
    from: i64,
    /// The replicas of the target at the beginning.
    onto: i64,
    moved: i64,
    surge: i64,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The source gets this many replicas.
    ScaleSource(i64),
    /// The target gets this many replicas.
    ScaleTarget(i64),
    /// Nothing, for this reason.
    Wait(String),
    /// All pods have moved.
    Done,
}

impl Goal {
    /// So many pods move, or all, at most `surge` at a time.
    pub(super) fn new(
        source: &Replicas,
        target: &Replicas,
        moved: Option<i64>,
        surge: i64,
    ) -> Self {
        Self {
            from: source.wanted,
            onto: target.wanted,
            moved: moved.unwrap_or(source.wanted).min(source.wanted),
            surge: surge.max(1),
        }
    }

    /// How many pods move.
    pub(super) const fn moved(&self) -> i64 {
        self.moved
    }

    /// The replicas of the target that match those of the source, if the move ends before its time.
    pub(super) const fn matching(&self, source: &Replicas) -> i64 {
        self.onto + self.from - source.wanted
    }

    /// The target gets pods first, and the source loses as many when they are available. So at
    /// least as many pods are wanted as before, and at most `surge` more.
    pub(super) fn step(&self, source: &Replicas, target: &Replicas) -> Step {
        if !target.is_current || target.available < target.wanted {
            return Step::Wait(format!(
                "{} of {} new pods are available",
                target.available.min(target.wanted),
                target.wanted
            ));
        }
        let arrived = (target.wanted - self.onto).clamp(0, self.moved);
        if source.wanted > self.from - arrived {
            return Step::ScaleSource(self.from - arrived);
        }
        if !source.is_current || source.existing > source.wanted {
            let excess = (source.existing - source.wanted).max(0);
            return Step::Wait(format!("{excess} old pods are being deleted"));
        }
        if arrived < self.moved {
            return Step::ScaleTarget(self.onto + self.moved.min(arrived + self.surge));
        }
        Step::Done
    }
}

#[cfg(test)]
mod tests;
