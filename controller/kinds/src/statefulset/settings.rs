//! The StatefulSet's spec as decisions use it: with defaults and absolute numbers, and refused if
//! it is invalid.

use berth_api::IntOrString;
use berth_api::v1beta1::statefulset::{
    PodManagementPolicy, PodUpdatePolicy, RollingUpdateStatefulSetStrategy, StatefulSetSpec,
    StatefulSetUpdateStrategyType,
};
use berth_workload::feature_gates::Gate;
use berth_workload::images::predownload::{self, Annotated, PredownloadConfig};
use berth_workload::objects::intstr::{self, Round};
use berth_workload::objects::ordinals::Ordinals;
use berth_workload::plan::Refusal;
use berth_workload::update::launch;
use berth_workload::update::podset::spec::{check_claim_templates, check_selector, refusal};
use berth_workload::update::podset::update_method::Policy;
use berth_workload::update::update_order::UpdateOrder;
use jiff::SignedDuration;
use serde_json::Value;

use super::{Snapshot, min_ready_seconds};

/// The settings that the spec asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The ordinals of the pods.
    pub(super) ordinals: Ordinals,
    /// Whether pods are created and deleted in parallel, and not one after the other.
    pub(super) is_parallel: bool,
    /// Pods that stay at the old revision.
    pub(super) partition: usize,
    /// Whether the partition keeps pods at the current revision, even if there are none now: then
    /// no rollout is complete.
    pub(super) keeps_current: bool,
    /// Pods that may be out of service for an update.
    pub(super) max_unavailable: usize,
    /// Pods that may be created and not available yet.
    pub(super) scale_max_unavailable: usize,
    /// Pods are updated by the controller, and the update is not paused.
    pub(super) updates: bool,
    /// Whether users update pods by deleting them.
    pub(super) on_delete: bool,
    /// An order of updates other than that of the ordinals.
    pub(super) order: Option<UpdateOrder>,
    /// How pods are updated.
    pub(super) policy: Policy,
    /// Time out of service before images change.
    pub(super) grace: SignedDuration,
    /// Time ready before a pod is available.
    pub(super) min_ready_seconds: i32,
}

/// Reads and checks the spec, with the template as the controller read it. The function checks
/// again what the apiserver's rules refuse already: rules can be missing in an older CRD, and the
/// webhook's failure policy is Ignore.
///
/// # Errors
/// The refusal names the object, the field, the value and the remedy.
pub(super) fn settings(snapshot: &Snapshot, template: &Value) -> Result<Settings, Refusal> {
    let settings = beside_template(snapshot)?;
    launch::priorities(template).map_err(|problem| refusal(&snapshot.view().workload, problem))?;
    Ok(settings)
}

/// The same without reading the template.
///
/// # Errors
/// As [`settings`].
pub(super) fn beside_template(snapshot: &Snapshot) -> Result<Settings, Refusal> {
    let spec = &snapshot.set.spec;
    let workload = snapshot.view().workload;
    let refuse = |problem: (&str, String)| refusal(&workload, problem);
    check_selector(&workload).map_err(refuse)?;
    check_claim_templates(&workload)?;
    predownload::check(&workload)?;
    let none = RollingUpdateStatefulSetStrategy::default();
    let rolling = spec
        .update_strategy
        .rolling_update
        .as_ref()
        .unwrap_or(&none);
    let is_parallel = spec.pod_management_policy == PodManagementPolicy::Parallel;
    let on_delete = spec.update_strategy.type_ == StatefulSetUpdateStrategyType::OnDelete;
    let ordinals =
        ordinals(spec, snapshot.gates.has(Gate::StatefulSetStartOrdinal)).map_err(refuse)?;
    let replicas = ordinals.len();
    let number = |field: &'static str, value: Option<&IntOrString>| {
        let of = |value| {
            intstr::resolve(value, replicas, Round::Down)
                .map_err(|problem| refuse((field, problem)))
        };
        value
            .map(of)
            .transpose()
            .map(|number| number.map(|number| number.max(1)))
    };
    let max_unavailable = number(
        "updateStrategy.rollingUpdate.maxUnavailable",
        rolling.max_unavailable.as_ref(),
    )?
    .unwrap_or(1);
    let scaling = spec
        .scale_strategy
        .as_ref()
        .and_then(|strategy| strategy.max_unavailable.as_ref());
    let scale_max_unavailable =
        number("scaleStrategy.maxUnavailable", scaling)?.unwrap_or(usize::MAX);
    let order = order(rolling).map_err(refuse)?;
    let in_place = rolling.in_place_update_strategy.as_ref();
    let grace = in_place.map_or(0, |strategy| strategy.grace_period_seconds.max(0));
    Ok(Settings {
        ordinals,
        is_parallel,
        partition: partition(rolling, replicas).map_err(refuse)?,
        keeps_current: !on_delete && rolling.partition.is_some_and(|partition| partition > 0),
        max_unavailable,
        scale_max_unavailable: if is_parallel {
            scale_max_unavailable
        } else {
            usize::MAX
        },
        updates: !rolling.paused && !on_delete,
        on_delete,
        order: order.filter(|_| is_parallel),
        policy: policy(rolling.pod_update_policy),
        grace: SignedDuration::from_secs(i64::from(grace)),
        min_ready_seconds: min_ready_seconds(spec),
    })
}

/// The order that `unorderedUpdate` asks for.
fn order(
    rolling: &RollingUpdateStatefulSetStrategy,
) -> Result<Option<UpdateOrder>, (&'static str, String)> {
    let field = "updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy";
    let order = rolling
        .unordered_update
        .as_ref()
        .map(|unordered| UpdateOrder::new(unordered.priority_strategy.as_ref(), &[]));
    order.transpose().map_err(|problem| (field, problem))
}

fn partition(
    rolling: &RollingUpdateStatefulSetStrategy,
    replicas: usize,
) -> Result<usize, (&'static str, String)> {
    let partition = rolling.partition.unwrap_or(0);
    let problem = || {
        (
            "updateStrategy.rollingUpdate.partition",
            format!("{partition} is negative; use 0 or more"),
        )
    };
    usize::try_from(partition)
        .map(|pods| pods.min(replicas))
        .map_err(|_| problem())
}

/// The ordinals of the pods.
///
/// # Errors
/// The field below `spec`, and its problem.
pub fn ordinals(
    spec: &StatefulSetSpec,
    counts_start: bool,
) -> Result<Ordinals, (&'static str, String)> {
    let start = spec
        .ordinals
        .as_ref()
        .filter(|_| counts_start)
        .map_or(0, |ordinals| ordinals.start);
    Ordinals::of_spec(spec.replicas, start, &spec.reserve_ordinals)
}

fn policy(policy: PodUpdatePolicy) -> Policy {
    match policy {
        PodUpdatePolicy::ReCreate => Policy::ReCreate,
        PodUpdatePolicy::InPlaceIfPossible => Policy::InPlaceIfPossible,
        PodUpdatePolicy::InPlaceOnly => Policy::InPlaceOnly,
    }
}

impl Settings {
    /// The settings for pulling images ahead: from fields, otherwise from OpenKruise's annotations.
    pub(super) fn predownload(&self, snapshot: &Snapshot) -> Ahead {
        let rolling = snapshot.set.spec.update_strategy.rolling_update.as_ref();
        let in_place = rolling.and_then(|rolling| rolling.in_place_update_strategy.as_ref());
        let annotated = Annotated::of(&snapshot.set.metadata);
        let parallelism =
            in_place.and_then(|in_place| in_place.image_pre_download_parallelism.clone());
        let min_ready =
            in_place.and_then(|in_place| in_place.image_pre_download_min_updated_ready_pods);
        let annotated_ready = annotated.min_updated_ready(self.ordinals.len());
        let timeout = in_place.and_then(|in_place| in_place.image_pre_download_timeout_seconds);
        Ahead {
            enabled: snapshot.gates.has(Gate::PreDownloadImageForInPlaceUpdate),
            is_rolling: rolling.is_some() && !self.on_delete,
            min_updated_ready: min_ready.map_or(annotated_ready, |number| {
                usize::try_from(number).unwrap_or(0)
            }),
            parallelism: parallelism.or(annotated.parallelism),
            timeout_seconds: timeout.or(annotated.timeout_seconds),
        }
    }

    /// The same, with the numbers of the rollout.
    pub(super) fn predownload_config<'a>(&self, ahead: &'a Ahead) -> PredownloadConfig<'a> {
        PredownloadConfig {
            enabled: ahead.enabled,
            policy: self.policy,
            for_new_pods: false,
            is_rolling: ahead.is_rolling,
            replicas: self.ordinals.len(),
            partition: self.partition,
            max_unavailable: self.max_unavailable,
            min_updated_ready: ahead.min_updated_ready,
            parallelism: ahead.parallelism.as_ref(),
            timeout_seconds: ahead.timeout_seconds,
        }
    }
}

/// The settings for pulling images ahead.
pub(super) struct Ahead {
    enabled: bool,
    is_rolling: bool,
    min_updated_ready: usize,
    parallelism: Option<IntOrString>,
    timeout_seconds: Option<i32>,
}
