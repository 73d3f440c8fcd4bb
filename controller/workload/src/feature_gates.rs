//! Feature gates, with OpenKruise's names, stages and defaults.

use std::fmt;

/// A feature that can be turned on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The revision labels of pods contain the hash alone.
    CloneSetShortHash,
    /// The images of a new revision are pulled ahead on the nodes that hold old pods.
    PreDownloadImageForInPlaceUpdate,
    /// The images of a DaemonSet's new revision are pulled ahead on the nodes that hold old pods.
    PreDownloadImageForDaemonSetUpdate,
    /// A raised partition brings pods back to the old revision.
    CloneSetPartitionRollback,
    /// A container whose environment reads a changed label or annotation is restarted in place.
    InPlaceUpdateEnvFromMetadata,
    /// Resources of containers change in place.
    InPlaceWorkloadVerticalScaling,
    /// While scaling, a pod that prepares for its update counts as updated.
    PreparingUpdateAsUpdate,
    /// A changed volumeClaimTemplate recreates pods.
    RecreatePodWhenChangeVCTInCloneSet,
    /// ImagePullJobs are reconciled.
    ImagePullJob,
    /// Daemons run on the nodes, so that features that need them may be used.
    KruiseDaemon,
    /// Claims of a StatefulSet are deleted with their pod or their set, if its spec says so.
    StatefulSetAutoDeletePVC,
    /// A StatefulSet's pods have their ordinal in a label.
    PodIndexLabel,
    /// A StatefulSet's ordinals begin where its spec says.
    StatefulSetStartOrdinal,
    /// Claims of a StatefulSet are enlarged with the update of their pods, where its spec says so.
    StatefulSetAutoResizePVC,
    /// The webhook changes pods when they are created.
    PodWebhook,
    /// Containers that SidecarSets inject are sorted by name.
    SortSidecarContainersByName,
    /// SidecarSets may write any annotation of pods that no rule restricts.
    AnyPodMetadata,
    /// Every new pod gets the readiness gate `KruisePodReady`, also pods of other controllers.
    KruisePodReadinessGate,
    /// PodUnavailableBudgets review deletions and evictions of pods.
    PodUnavailableBudgetDelete,
    /// PodUnavailableBudgets review changes of pods by any user.
    PodUnavailableBudgetUpdate,
    /// PodUnavailableBudgets do not count a resize that restarts no container as UPDATE.
    InPlacePodVerticalScaling,
}

/// The stage of a feature gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maturity {
    /// Turned on together by `AllAlpha`.
    Alpha,
    /// Turned on together by `AllBeta`.
    Beta,
}

/// A feature gate that the command line accepts.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The name on the command line.
    pub name: &'static str,
    /// Its stage.
    pub maturity: Maturity,
    /// Whether it is on by default.
    pub default: bool,
    /// The feature that it turns on or off; or why it has no effect in Berth.
    pub meaning: Result<Gate, &'static str>,
}

const fn known(
    name: &'static str,
    maturity: Maturity,
    default: bool,
    meaning: Result<Gate, &'static str>,
) -> Known {
    Known {
        name,
        maturity,
        default,
        meaning,
    }
}

/// All accepted feature gates.
pub const KNOWN: &[Known] = &[
    known(
        "CloneSetShortHash",
        Maturity::Alpha,
        false,
        Ok(Gate::CloneSetShortHash),
    ),
    known(
        "PreDownloadImageForInPlaceUpdate",
        Maturity::Alpha,
        false,
        Ok(Gate::PreDownloadImageForInPlaceUpdate),
    ),
    known(
        "PreDownloadImageForDaemonSetUpdate",
        Maturity::Alpha,
        false,
        Ok(Gate::PreDownloadImageForDaemonSetUpdate),
    ),
    known(
        "DaemonSetPruneIneligibleNodes",
        Maturity::Alpha,
        false,
        Err("nodes where no pod of a DaemonSet belongs never count in its rollout"),
    ),
    known(
        "DefaultHostNetworkHostPortsInPodTemplates",
        Maturity::Alpha,
        false,
        Err("templates are kept as they are written, always"),
    ),
    known(
        "CloneSetPartitionRollback",
        Maturity::Alpha,
        false,
        Ok(Gate::CloneSetPartitionRollback),
    ),
    known(
        "InPlaceUpdateEnvFromMetadata",
        Maturity::Beta,
        true,
        Ok(Gate::InPlaceUpdateEnvFromMetadata),
    ),
    known(
        "InPlaceWorkloadVerticalScaling",
        Maturity::Alpha,
        false,
        Ok(Gate::InPlaceWorkloadVerticalScaling),
    ),
    known(
        "PreparingUpdateAsUpdate",
        Maturity::Alpha,
        false,
        Ok(Gate::PreparingUpdateAsUpdate),
    ),
    known(
        "RecreatePodWhenChangeVCTInCloneSetGate",
        Maturity::Alpha,
        false,
        Ok(Gate::RecreatePodWhenChangeVCTInCloneSet),
    ),
    known(
        "ImagePullJobGate",
        Maturity::Alpha,
        false,
        Ok(Gate::ImagePullJob),
    ),
    known("KruiseDaemon", Maturity::Beta, true, Ok(Gate::KruiseDaemon)),
    known(
        "StatefulSetAutoDeletePVC",
        Maturity::Beta,
        true,
        Ok(Gate::StatefulSetAutoDeletePVC),
    ),
    known(
        "PodIndexLabel",
        Maturity::Beta,
        true,
        Ok(Gate::PodIndexLabel),
    ),
    known(
        "StatefulSetStartOrdinal",
        Maturity::Alpha,
        false,
        Ok(Gate::StatefulSetStartOrdinal),
    ),
    known(
        "StatefulSetAutoResizePVCGate",
        Maturity::Alpha,
        false,
        Ok(Gate::StatefulSetAutoResizePVC),
    ),
    known("PodWebhook", Maturity::Beta, true, Ok(Gate::PodWebhook)),
    known(
        "EnableSortSidecarContainerByName",
        Maturity::Alpha,
        false,
        Ok(Gate::SortSidecarContainersByName),
    ),
    known(
        "SidecarSetPatchPodMetadataDefaultsAllowed",
        Maturity::Alpha,
        false,
        Ok(Gate::AnyPodMetadata),
    ),
    known(
        "TemplateNoDefaults",
        Maturity::Alpha,
        false,
        Err("templates are kept as they are written, always"),
    ),
    known(
        "PodUnavailableBudgetDeleteGate",
        Maturity::Beta,
        true,
        Ok(Gate::PodUnavailableBudgetDelete),
    ),
    known(
        "PodUnavailableBudgetUpdateGate",
        Maturity::Alpha,
        false,
        Ok(Gate::PodUnavailableBudgetUpdate),
    ),
    known(
        "KruisePodReadinessGate",
        Maturity::Alpha,
        false,
        Ok(Gate::KruisePodReadinessGate),
    ),
    known(
        "CloneSetEventHandlerOptimization",
        Maturity::Alpha,
        false,
        Err("changes of a pod are joined to one look at its CloneSet, always"),
    ),
    known(
        "ForceDeleteTimeoutExpectationGate",
        Maturity::Alpha,
        false,
        Err("a write that is not seen in time is read again, always"),
    ),
    known(
        "ResourcesDeletionProtection",
        Maturity::Beta,
        false,
        Err(
            "the chart reads it, and installs the policy kruise-deletion-protection and the webhook guard-deletion.policy.kruise.io",
        ),
    ),
    known(
        "DeletionProtectionForCRDCascadingGate",
        Maturity::Alpha,
        false,
        Err(
            "the chart reads it: without it the policy kruise-deletion-protection refuses such deletions",
        ),
    ),
    known(
        "InPlacePodVerticalScaling",
        Maturity::Alpha,
        false,
        Ok(Gate::InPlacePodVerticalScaling),
    ),
];

/// OpenKruise's feature gates for kinds and webhooks that Berth does not have. They are accepted,
/// so that a user can keep their values.
pub const ELSEWHERE: [&str; 8] = [
    "DaemonWatchingPod",
    "EnableExternalCerts",
    "EnablePodProbeMarkerOnServerless",
    "EnhancedLivenessProbe",
    "PodProbeMarkerGate",
    "ResourceDistributionGate",
    "SidecarTerminator",
    "WorkloadSpread",
];

/// The set of feature gates that are on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gates(u32);

impl Gates {
    /// Whether the feature gate is on.
    pub fn has(self, gate: Gate) -> bool {
        self.0 & bit(gate) != 0
    }

    /// The same set with this feature gate on or off.
    #[must_use]
    pub fn with(self, gate: Gate, on: bool) -> Self {
        Self(if on {
            self.0 | bit(gate)
        } else {
            self.0 & !bit(gate)
        })
    }
}

impl Default for Gates {
    fn default() -> Self {
        let on = KNOWN
            .iter()
            .filter(|known| known.default)
            .filter_map(|known| known.meaning.ok());
        on.fold(Self(0), |gates, gate| gates.with(gate, true))
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gates = KNOWN.iter().filter_map(|known| known.meaning.ok());
        formatter
            .debug_set()
            .entries(gates.filter(|gate| self.has(*gate)))
            .finish()
    }
}

const fn bit(gate: Gate) -> u32 {
    1 << gate as u32
}

#[cfg(test)]
mod tests;
