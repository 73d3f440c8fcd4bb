//! The CloneSet's spec as decisions use it: with defaults and absolute numbers, and refused if it
//! is invalid.

use berth_api::IntOrString;
use berth_api::names::annotation::SURGE_ON_EVICTION;
use berth_api::v1beta1::cloneset::{
    CloneSetPodUpdateStrategyType, CloneSetSpec, CloneSetUpdateStrategyType,
    DEFAULT_MAX_UNAVAILABLE, RollingUpdateCloneSetStrategy,
};
use berth_workload::feature_gates::Gate;
use berth_workload::images::predownload::{self, PredownloadConfig};
use berth_workload::images::prepull;
use berth_workload::objects::intstr::{self, Round};
use berth_workload::plan::Refusal;
use berth_workload::update::launch;
use berth_workload::update::podset::spec::{check_claim_templates, check_selector, refusal};
use berth_workload::update::podset::update_method::Policy;
use berth_workload::update::rollout::Wanted;
use berth_workload::update::update_order::UpdateOrder;
use jiff::SignedDuration;
use serde_json::Value;

use super::Snapshot;

/// The settings that the spec asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Numbers of pods.
    pub wanted: Wanted,
    /// Whether the partition keeps pods at the current revision, even if there are none now: then
    /// no rollout is complete.
    pub keeps_current: bool,
    /// Which pods are updated first.
    pub order: UpdateOrder,
    /// How pods are updated.
    pub policy: Policy,
    /// Time out of service before images change.
    pub grace: SignedDuration,
    /// Time ready before a pod is available.
    pub min_ready_seconds: i32,
}

/// Reads and checks the spec, with the template as the controller read it. The function checks
/// again what the apiserver's rules refuse already: rules can be missing in an older CRD, and the
/// webhook's failure policy is Ignore.
///
/// # Errors
/// The refusal names the object, the field, the value and the remedy.
pub fn settings(snapshot: &Snapshot, template: &Value) -> Result<Settings, Refusal> {
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
    prepull::check(&workload)?;
    let rolling = spec
        .update_strategy
        .rolling_update
        .clone()
        .unwrap_or_default();
    Ok(Settings {
        wanted: Wanted {
            replaces_first: workload.annotation(SURGE_ON_EVICTION) == Some("true"),
            ..wanted(spec, &rolling).map_err(refuse)?
        },
        keeps_current: intstr::keeps_any(rolling.partition.as_ref())
            .map_err(|problem| refuse(("updateStrategy.rollingUpdate.partition", problem)))?,
        order: UpdateOrder::new(
            rolling.priority_strategy.as_ref(),
            &rolling.scatter_strategy,
        )
        .map_err(|problem| refuse(("updateStrategy.rollingUpdate.priorityStrategy", problem)))?,
        policy: policy(rolling.pod_update_policy),
        grace: SignedDuration::from_secs(i64::from(
            rolling
                .in_place_update_strategy
                .as_ref()
                .map_or(0, |s| s.grace_period_seconds.max(0)),
        )),
        min_ready_seconds: spec.min_ready_seconds,
    })
}

fn policy(policy: CloneSetPodUpdateStrategyType) -> Policy {
    match policy {
        CloneSetPodUpdateStrategyType::ReCreate => Policy::ReCreate,
        CloneSetPodUpdateStrategyType::InPlaceIfPossible => Policy::InPlaceIfPossible,
        CloneSetPodUpdateStrategyType::InPlaceOnly => Policy::InPlaceOnly,
    }
}

impl Settings {
    /// The settings for pulling images ahead.
    pub(super) fn predownload_config<'a>(&self, snapshot: &'a Snapshot) -> PredownloadConfig<'a> {
        let strategy = &snapshot.set.spec.update_strategy;
        let rolling = strategy.rolling_update.as_ref();
        let in_place = rolling.and_then(|rolling| rolling.in_place_update_strategy.as_ref());
        let min_ready = in_place
            .and_then(|in_place| in_place.image_pre_download_min_updated_ready_pods)
            .unwrap_or(0);
        PredownloadConfig {
            enabled: snapshot.gates.has(Gate::PreDownloadImageForInPlaceUpdate),
            policy: self.policy,
            for_new_pods: false,
            is_rolling: rolling.is_some() && strategy.type_ != CloneSetUpdateStrategyType::OnDelete,
            replicas: self.wanted.replicas,
            partition: self.wanted.partition,
            max_unavailable: self.wanted.max_unavailable,
            min_updated_ready: usize::try_from(min_ready).unwrap_or(0),
            parallelism: in_place
                .and_then(|in_place| in_place.image_pre_download_parallelism.as_ref()),
            timeout_seconds: in_place
                .and_then(|in_place| in_place.image_pre_download_timeout_seconds),
        }
    }
}

fn wanted(
    spec: &CloneSetSpec,
    rolling: &RollingUpdateCloneSetStrategy,
) -> Result<Wanted, (&'static str, String)> {
    let replicas = spec.replicas.unwrap_or(1);
    let replicas = usize::try_from(replicas)
        .map_err(|_| ("replicas", format!("{replicas} is negative; use 0 or more")))?;
    let number = |field: &'static str, value: Option<&IntOrString>, default: usize, round| {
        value.map_or(Ok(default), |value| {
            intstr::resolve(value, replicas, round).map_err(|problem| (field, problem))
        })
    };
    let updates =
        !rolling.paused && spec.update_strategy.type_ != CloneSetUpdateStrategyType::OnDelete;
    // A paused rollout needs no pods beyond its replicas. OnDelete does, because a pod with a
    // request for deletion may be replaced first.
    let max_surge = match rolling.max_surge.as_ref().filter(|_| !rolling.paused) {
        Some(value) => number(
            "updateStrategy.rollingUpdate.maxSurge",
            Some(value),
            0,
            Round::Up,
        )?,
        None => 0,
    };
    let default = IntOrString::String(DEFAULT_MAX_UNAVAILABLE.to_owned());
    let round = if max_surge > 0 {
        Round::Down
    } else {
        Round::Up
    };
    let max_unavailable = rolling.max_unavailable.as_ref().unwrap_or(&default);
    Ok(Wanted {
        replicas,
        partition: intstr::partition(rolling.partition.as_ref(), replicas)
            .map_err(|problem| ("updateStrategy.rollingUpdate.partition", problem))?,
        max_unavailable: number(
            "updateStrategy.rollingUpdate.maxUnavailable",
            Some(max_unavailable),
            0,
            round,
        )?,
        max_surge,
        replaces_first: false,
        scale_max_unavailable: number(
            "scaleStrategy.maxUnavailable",
            spec.scale_strategy.max_unavailable.as_ref(),
            usize::MAX,
            Round::Up,
        )?,
        updates,
        // Only the history knows whether there is an old revision to go back to.
        rolls_back: false,
        exclude_preparing_delete: spec.scale_strategy.exclude_preparing_delete,
    })
}
