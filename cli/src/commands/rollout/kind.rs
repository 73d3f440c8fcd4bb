//! The kinds that have rollouts, and where their specs say how far a rollout goes.

use berth_api::names::GROUP;
use berth_api::{IntOrString, kinds::KINDS};
use berth_workload::objects::intstr::{self, Round};
use serde_json::Value;

use crate::kinds::NamedKind;

/// A kind that has rollouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutKind {
    /// CloneSets.
    CloneSet,
    /// Advanced StatefulSets.
    StatefulSet,
    /// Advanced DaemonSets.
    DaemonSet,
    /// SidecarSets.
    SidecarSet,
    /// UnitedDeployments.
    UnitedDeployment,
    /// BroadcastJobs.
    BroadcastJob,
    /// ImagePullJobs.
    ImagePullJob,
}

impl RolloutKind {
    /// The kind as a rollout; `None` if it has none.
    pub fn of(named: &NamedKind) -> Option<Self> {
        let resource = named.resource;
        if resource.group != GROUP || !KINDS.iter().any(|kind| kind.kind == resource.kind) {
            return None;
        }
        Some(match resource.kind {
            "CloneSet" => Self::CloneSet,
            "StatefulSet" => Self::StatefulSet,
            "DaemonSet" => Self::DaemonSet,
            "SidecarSet" => Self::SidecarSet,
            "UnitedDeployment" => Self::UnitedDeployment,
            "BroadcastJob" => Self::BroadcastJob,
            "ImagePullJob" => Self::ImagePullJob,
            _ => return None,
        })
    }

    /// The kind in sentences: `cloneset`.
    pub fn word(self) -> &'static str {
        match self {
            Self::CloneSet => "cloneset",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
            Self::SidecarSet => "sidecarset",
            Self::UnitedDeployment => "uniteddeployment",
            Self::BroadcastJob => "broadcastjob",
            Self::ImagePullJob => "imagepulljob",
        }
    }

    /// Whether the history of the pod template is kept in ControllerRevisions with
    /// `data.spec.template`, and `spec.template` is a pod template.
    pub fn has_history(self) -> bool {
        matches!(self, Self::CloneSet | Self::StatefulSet | Self::DaemonSet)
    }

    /// The JSON pointer of the field that pauses updates.
    pub fn paused(self) -> Option<&'static str> {
        match self {
            Self::CloneSet | Self::StatefulSet | Self::DaemonSet => {
                Some("/spec/updateStrategy/rollingUpdate/paused")
            }
            Self::SidecarSet => Some("/spec/updateStrategy/paused"),
            Self::BroadcastJob => Some("/spec/paused"),
            Self::UnitedDeployment | Self::ImagePullJob => None,
        }
    }

    /// The JSON pointer of the partition.
    pub fn partition(self) -> Option<&'static str> {
        match self {
            Self::CloneSet | Self::StatefulSet | Self::DaemonSet => {
                Some("/spec/updateStrategy/rollingUpdate/partition")
            }
            Self::SidecarSet => Some("/spec/updateStrategy/partition"),
            Self::UnitedDeployment | Self::BroadcastJob | Self::ImagePullJob => None,
        }
    }

    /// How many pods of `total` stay at the old revision, as the controller counts them.
    ///
    /// # Errors
    /// The partition is neither a number nor a percentage.
    pub fn kept(self, partition: Option<&Value>, total: i64) -> Result<i64, String> {
        let Some(value) = partition.filter(|value| !value.is_null()) else {
            return Ok(0);
        };
        let value: IntOrString = serde_json::from_value(value.clone())
            .map_err(|_| format!("{value} is neither a number nor a percentage"))?;
        let pods = usize::try_from(total).unwrap_or_default();
        let kept = if self == Self::DaemonSet {
            intstr::resolve(&value, pods, Round::Down)?.min(pods)
        } else {
            intstr::partition(Some(&value), pods)?
        };
        Ok(i64::try_from(kept).unwrap_or(i64::MAX))
    }

    /// How many pods of an object stay at the old revision.
    ///
    /// # Errors
    /// The partition is neither a number nor a percentage.
    pub fn kept_of(self, object: &Value) -> Result<i64, String> {
        let total = self.total(object);
        if self == Self::UnitedDeployment {
            let kept = |subset: &Value| {
                let partition = count(subset, "/partition").unwrap_or_default();
                partition.min(count(subset, "/replicas").unwrap_or_default())
            };
            return Ok(of_subsets(object, kept).min(total));
        }
        let partition = self.partition().and_then(|path| object.pointer(path));
        self.kept(partition, total)
    }

    /// How many pods the object asks for; nodes with a pod of a DaemonSet, and matched pods of a
    /// SidecarSet, only its status knows.
    pub fn total(self, object: &Value) -> i64 {
        let replicas = || count(object, "/spec/replicas");
        match self {
            Self::CloneSet | Self::StatefulSet => replicas().unwrap_or(1),
            Self::DaemonSet => count(object, "/status/desiredNumberScheduled").unwrap_or(0),
            Self::SidecarSet => count(object, "/status/matchedPods").unwrap_or(0),
            Self::UnitedDeployment => {
                let of = |subset: &Value| count(subset, "/replicas").unwrap_or_default();
                replicas().unwrap_or_else(|| of_subsets(object, of))
            }
            Self::BroadcastJob | Self::ImagePullJob => {
                count(object, "/status/desired").unwrap_or(0)
            }
        }
    }
}

/// The number of pods at a JSON pointer, within the bounds of the API: sums and products of such
/// numbers do not overflow.
pub fn count(object: &Value, pointer: &str) -> Option<i64> {
    let number = object.pointer(pointer).and_then(Value::as_i64)?;
    Some(number.clamp(0, i32::MAX.into()))
}

/// The sum of a number over the subsets of a UnitedDeployment's status.
fn of_subsets(object: &Value, number: impl Fn(&Value) -> i64) -> i64 {
    crate::objects::items(object, "/status/subsetStatuses")
        .map(number)
        .fold(0, i64::saturating_add)
}
