//! The four kinds of workloads that a subset can have.

use berth_api::v1beta1::uniteddeployment::{SubsetTemplate, WorkloadTemplate};
use berth_workload::objects::intstr::Round;
use berth_workload::objects::resource::{
    CLONE_SETS, DEPLOYMENTS, NATIVE_STATEFUL_SETS, Resource, STATEFUL_SETS,
};
use serde_json::{Map, Value};

/// The kind of a subset's workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubsetKind {
    /// Kubernetes' own StatefulSet.
    StatefulSet,
    /// OpenKruise's StatefulSet.
    AdvancedStatefulSet,
    /// CloneSet.
    CloneSet,
    /// Kubernetes' Deployment.
    Deployment,
}

const ROLLING_UPDATE: &str = "/updateStrategy/rollingUpdate";

impl SubsetKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::StatefulSet,
        Self::AdvancedStatefulSet,
        Self::CloneSet,
        Self::Deployment,
    ];

    /// The path at which the apiserver serves the workloads.
    pub const fn resource(self) -> Resource {
        match self {
            Self::StatefulSet => NATIVE_STATEFUL_SETS,
            Self::AdvancedStatefulSet => STATEFUL_SETS,
            Self::CloneSet => CLONE_SETS,
            Self::Deployment => DEPLOYMENTS,
        }
    }

    /// The name of the kind for messages, which tells the two StatefulSets apart.
    pub const fn title(self) -> &'static str {
        match self {
            Self::StatefulSet => "StatefulSet",
            Self::AdvancedStatefulSet => "Advanced StatefulSet",
            Self::CloneSet => "CloneSet",
            Self::Deployment => "Deployment",
        }
    }

    /// The field of `spec.template` that holds the kind's template.
    pub const fn template_field(self) -> &'static str {
        match self {
            Self::StatefulSet => "statefulSetTemplate",
            Self::AdvancedStatefulSet => "advancedStatefulSetTemplate",
            Self::CloneSet => "cloneSetTemplate",
            Self::Deployment => "deploymentTemplate",
        }
    }

    /// The template of the kind.
    pub(super) const fn template_of(self, template: &SubsetTemplate) -> Option<&WorkloadTemplate> {
        match self {
            Self::StatefulSet => template.stateful_set_template.as_ref(),
            Self::AdvancedStatefulSet => template.advanced_stateful_set_template.as_ref(),
            Self::CloneSet => template.clone_set_template.as_ref(),
            Self::Deployment => template.deployment_template.as_ref(),
        }
    }

    /// Whether its pods have identities, so that two workloads of one subset must not run together.
    pub const fn is_stateful(self) -> bool {
        matches!(self, Self::StatefulSet | Self::AdvancedStatefulSet)
    }

    /// Whether `reserveUnschedulablePods` works with the kind.
    pub const fn can_reserve(self) -> bool {
        !self.is_stateful()
    }

    /// The path of the spec that has the number of pods that may be out of service, for kinds that
    /// reserve pods. With it, the default of the kind's controller, and how it rounds a percentage.
    pub(super) const fn max_unavailable(self) -> Option<([&'static str; 3], &'static str, Round)> {
        match self {
            Self::CloneSet => Some((
                ["updateStrategy", "rollingUpdate", "maxUnavailable"],
                "20%",
                Round::Up,
            )),
            Self::Deployment => Some((
                ["strategy", "rollingUpdate", "maxUnavailable"],
                "25%",
                Round::Down,
            )),
            Self::StatefulSet | Self::AdvancedStatefulSet => None,
        }
    }

    /// The longest name of a workload, in bytes. A StatefulSet's name, a dash and a hash of ten
    /// characters are the value of a label.
    pub(super) const fn longest_name(self) -> usize {
        if self.is_stateful() { 52 } else { 63 }
    }

    /// Whether a workload with this spec updates its pods down to a partition.
    pub fn has_partition(self, spec: &Map<String, Value>) -> bool {
        let type_ = || {
            spec.get("updateStrategy")
                .and_then(|strategy| strategy.get("type"))
                .and_then(Value::as_str)
        };
        match self {
            Self::CloneSet => true,
            Self::Deployment => false,
            Self::StatefulSet | Self::AdvancedStatefulSet => {
                matches!(type_(), None | Some("" | "RollingUpdate"))
            }
        }
    }

    /// The partition of a workload: 0 if the spec has none.
    pub fn partition(spec: &Value) -> Option<i64> {
        match spec.pointer(&format!("{ROLLING_UPDATE}/partition")) {
            None | Some(Value::Null) => Some(0),
            Some(partition) => partition.as_i64(),
        }
    }
}
