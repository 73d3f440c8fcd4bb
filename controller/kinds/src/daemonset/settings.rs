//! The DaemonSet's spec as decisions use it: with defaults and absolute numbers, and refused if it
//! is invalid.

use berth_api::IntOrString;
use berth_api::v1beta1::daemonset::{
    DEFAULT_BURST_REPLICAS, DaemonSetUpdateStrategyType, RollingUpdateDaemonSet,
};
use berth_workload::feature_gates::Gate;
use berth_workload::images::predownload::{self, Annotated, PredownloadConfig};
use berth_workload::images::prepull;
use berth_workload::objects::intstr::{self, Round};
use berth_workload::objects::selector::Selector;
use berth_workload::plan::Refusal;
use berth_workload::update::launch;
use berth_workload::update::podset::spec::{check_selector, refusal};
use berth_workload::update::podset::update_method::Policy;
use serde_json::Value;

use super::{Snapshot, is_in_place};

/// The settings that the spec asks for, with the number of nodes that must have a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Nodes on which pods stay at the old revision.
    pub(super) partition: usize,
    /// Nodes that may be without an available pod for an update.
    pub(super) max_unavailable: usize,
    /// Nodes on which a new pod may run beside the old one.
    pub(super) max_surge: usize,
    /// Pods that are created, and deleted, at a time.
    pub(super) burst: usize,
    /// Whether the controller updates pods, and the update is not paused.
    pub(super) updates: bool,
    /// Whether pods are created only as far as the partition allows it.
    pub(super) is_partitioned: bool,
    /// Pods are updated on these nodes alone.
    pub(super) selector: Option<Selector>,
    /// How pods are updated.
    pub(super) policy: Policy,
    /// Time ready before a pod is available.
    pub(super) min_ready_seconds: i32,
}

/// Reads and checks the spec, with the template as the controller read it. The function checks
/// again what the apiserver's rules refuse already: rules can be missing in an older CRD, and the
/// webhook's failure policy is Ignore.
///
/// # Errors
/// The refusal names the object, the field, the value and the remedy.
pub(super) fn settings(
    snapshot: &Snapshot,
    template: &Value,
    desired: usize,
) -> Result<Settings, Refusal> {
    let spec = &snapshot.set.spec;
    let workload = snapshot.view().workload;
    let refuse = |problem: (&str, String)| refusal(&workload, problem);
    check_selector(&workload).map_err(refuse)?;
    predownload::check(&workload)?;
    prepull::check(&workload)?;
    launch::priorities(template).map_err(refuse)?;
    let none = RollingUpdateDaemonSet::default();
    let rolling = spec
        .update_strategy
        .rolling_update
        .as_ref()
        .unwrap_or(&none);
    let number = |field: &'static str, value: Option<&IntOrString>, round| {
        let of = |value| {
            intstr::resolve(value, desired, round).map_err(|problem| refuse((field, problem)))
        };
        value.map(of).transpose()
    };
    let max_unavailable = number(
        "updateStrategy.rollingUpdate.maxUnavailable",
        rolling.max_unavailable.as_ref(),
        Round::Up,
    )?;
    let max_surge = number(
        "updateStrategy.rollingUpdate.maxSurge",
        rolling.max_surge.as_ref(),
        Round::Up,
    )?;
    let partition = number(
        "updateStrategy.rollingUpdate.partition",
        rolling.partition.as_ref(),
        Round::Down,
    )?;
    let burst = number("burstReplicas", spec.burst_replicas.as_ref(), Round::Down)?;
    let selector = rolling.selector.as_ref().map(Selector::new).transpose();
    let in_place = is_in_place(&snapshot.set);
    let (max_unavailable, max_surge) = limits(in_place, max_unavailable, max_surge);
    Ok(Settings {
        partition: partition.unwrap_or(0).min(desired),
        max_unavailable,
        max_surge,
        burst: burst
            .unwrap_or(usize::try_from(DEFAULT_BURST_REPLICAS).unwrap_or(1))
            .max(1),
        updates: !rolling.paused.unwrap_or_default()
            && spec.update_strategy.type_ == DaemonSetUpdateStrategyType::RollingUpdate,
        is_partitioned: spec
            .scale_strategy
            .as_ref()
            .is_some_and(|scale| scale.partitioned_scaling),
        selector: selector
            .map_err(|problem| refuse(("updateStrategy.rollingUpdate.selector", problem)))?,
        policy: if in_place {
            Policy::InPlaceIfPossible
        } else {
            Policy::ReCreate
        },
        min_ready_seconds: spec.min_ready_seconds,
    })
}

impl Settings {
    /// The settings for pulling images ahead, with the numbers of the rollout.
    pub(super) fn predownload_config<'a>(
        &self,
        snapshot: &Snapshot,
        desired: usize,
        annotated: &'a Annotated,
    ) -> PredownloadConfig<'a> {
        let is_rolling =
            snapshot.set.spec.update_strategy.type_ == DaemonSetUpdateStrategyType::RollingUpdate;
        PredownloadConfig {
            enabled: snapshot.gates.has(Gate::PreDownloadImageForDaemonSetUpdate),
            policy: self.policy,
            for_new_pods: true,
            is_rolling,
            replicas: desired,
            partition: self.partition,
            max_unavailable: self.max_unavailable.max(self.max_surge),
            min_updated_ready: annotated.min_updated_ready(desired),
            parallelism: annotated.parallelism.as_ref(),
            timeout_seconds: annotated.timeout_seconds,
        }
    }
}

/// `maxUnavailable` and `maxSurge`. Exactly one of the results is above 0, even if a spec bypassed
/// the checks. A field that is absent beside the other is 0.
fn limits(in_place: bool, unavailable: Option<usize>, surge: Option<usize>) -> (usize, usize) {
    match (unavailable.unwrap_or(0), surge.unwrap_or(0)) {
        (_, surge) if surge > 0 && !in_place => (0, surge),
        (unavailable, _) => (unavailable.max(1), 0),
    }
}

#[cfg(test)]
mod tests;
