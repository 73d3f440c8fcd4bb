//! How a pod is replaced, by the kind of its controller.

use berth_workload::objects::owner::{OwnerKind, Reference};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{CLONE_SETS, STATEFUL_SETS};

/// Kinds of controllers that replace a pod: kinds that know the label for pods to delete, and kinds
/// that replace each pod that is gone.
const BY_LABEL: [OwnerKind; 2] = [CLONE_SETS.owner_kind(), STATEFUL_SETS.owner_kind()];
const BY_EVICTION: [OwnerKind; 5] = [
    OwnerKind {
        group: "apps",
        kind: "ReplicaSet",
        namespaced: true,
    },
    OwnerKind {
        group: "apps",
        kind: "StatefulSet",
        namespaced: true,
    },
    OwnerKind {
        group: "apps",
        kind: "DaemonSet",
        namespaced: true,
    },
    OwnerKind {
        group: "",
        kind: "ReplicationController",
        namespaced: true,
    },
    OwnerKind {
        group: "apps.kruise.io",
        kind: "DaemonSet",
        namespaced: true,
    },
];

/// How a pod is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sidecarset) enum How {
    /// The label asks the pod's workload to replace it.
    Label,
    /// The controller evicts the pod, and the workload creates another.
    Eviction,
}

impl How {
    /// Decides by the kind of the pod's controller alone: other claims of a pod about its owner do
    /// not count.
    ///
    /// # Errors
    /// No controller replaces the pod: the error names the controller's kind and the remedy.
    pub(super) fn of(pod: &Pod) -> Result<Self, String> {
        const SHOWN: usize = 63;
        let remedy = "so repair leaves it: replace it by hand";
        let owner = pod
            .metadata
            .controller()
            .filter(|owner| !owner.uid.is_empty());
        let Some(owner) = owner else {
            return Err(format!("no workload makes another in its place, {remedy}"));
        };
        let is_of =
            |kinds: &[OwnerKind]| kinds.iter().any(|kind| kind.is_of(&Reference::from(owner)));
        if is_of(&BY_LABEL) {
            Ok(Self::Label)
        } else if is_of(&BY_EVICTION) {
            Ok(Self::Eviction)
        } else {
            let kind: String = owner.kind.chars().take(SHOWN).collect();
            Err(format!(
                "its controller is a {kind}, which may make no other in its place, {remedy}"
            ))
        }
    }
}
