//! The steps of a plan that take pods out of service.

use std::collections::BTreeSet;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;

use crate::objects::owner::group;
use crate::objects::pod::gates::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use crate::objects::pod::{Metadata, Owner, Pod};
use crate::objects::resource::{Resource, SIDECAR_SETS};
use crate::plan::{Action, Step, Target};
use berth_api::names::GROUP;

/// The pod that a step takes out of service, and the operation: a deletion, or the first write of a
/// change. Evictions are not included, because the apiserver calls the webhook for them. For a pod
/// that is out of service already, no step costs anything.
pub fn of_step(step: &Step) -> Option<(&Target, ProtectedOperation)> {
    step.actions.iter().find_map(|action| match action {
        Action::DeletePod { target } => Some((target, ProtectedOperation::Delete)),
        Action::PatchPodStatus {
            target, conditions, ..
        } => {
            let closes = |type_: &str| type_ == IN_PLACE_UPDATE_READY || type_ == KRUISE_POD_READY;
            let is_closed = conditions
                .iter()
                .any(|gate| closes(&gate.type_) && &*gate.status == "False");
            is_closed.then_some((target, ProtectedOperation::Update))
        }
        Action::PatchPod { target, patch } if patch.restarts() => {
            Some((target, ProtectedOperation::Update))
        }
        Action::ResizePod { target, .. } => Some((target, ProtectedOperation::Resize)),
        _ => None,
    })
}

/// The containers that a step replaces by a new image or a restart.
pub fn replaced(step: &Step) -> BTreeSet<&str> {
    let patches = step.actions.iter().filter_map(|action| match action {
        Action::PatchPod { patch, .. } => Some(patch),
        _ => None,
    });
    let names = patches.flat_map(|patch| {
        patch
            .all_images()
            .map(|(name, _)| name)
            .chain(&patch.restarted)
    });
    names.map(String::as_str).collect()
}

/// Whether a step only restarts containers. The pod's generation stays the same then, and the
/// change shows in the IDs of the containers.
pub fn only_restarts(step: &Step) -> bool {
    step.actions.iter().any(|action| match action {
        Action::PatchPod { patch, .. } => {
            let changes_spec = patch.changes_images() || !patch.resources.is_empty();
            !patch.restarted.is_empty() && !changes_spec && !patch.env.changes()
        }
        _ => false,
    })
}

/// The accounts of Kubernetes' controllers in kube-system, by group and kind of their workloads.
const KUBERNETES: [(&str, &str, &str); 5] = [
    ("apps", "ReplicaSet", "replicaset-controller"),
    ("apps", "StatefulSet", "statefulset-controller"),
    ("apps", "DaemonSet", "daemon-set-controller"),
    ("batch", "Job", "job-controller"),
    ("", "ReplicationController", "replication-controller"),
];
/// The user name of Kubernetes' controllers if they share one account.
pub const KUBERNETES_SHARED: &str = "system:kube-controller-manager";

/// Kubernetes' accounts that delete pods regardless of budgets: preemption, `NoExecute` taints, and
/// the removal of nodes. Otherwise a tenant's budget could block emptying a node and scheduling the
/// controller's own replicas.
pub const PASSING: [&str; 5] = [
    "system:kube-scheduler",
    "system:serviceaccount:kube-system:node-controller",
    "system:serviceaccount:kube-system:taint-eviction-controller",
    "system:serviceaccount:kube-system:device-taint-eviction-controller",
    "system:serviceaccount:kube-system:pod-garbage-collector",
];
/// The condition that Kubernetes sets on a pod before a disruption deletes it. It distinguishes a
/// taint from a scale-down where [`KUBERNETES_SHARED`] deletes for both.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Whether no budget may refuse an operation on this pod by a user with these groups: Kubernetes'
/// own deletions, and all operations of exempt groups.
pub fn passes(
    operation: ProtectedOperation,
    (user, groups): (&str, &[String]),
    exempt: &BTreeSet<String>,
    pod: Option<&Pod>,
) -> bool {
    let is_target = || pod.is_some_and(is_disruption_target);
    let is_of_kubernetes = PASSING.contains(&user) || (user == KUBERNETES_SHARED && is_target());
    (operation == ProtectedOperation::Delete && is_of_kubernetes) || is_exempt(groups, exempt)
}

/// Whether a user with these groups is exempt from budgets.
pub fn is_exempt(groups: &[String], exempt: &BTreeSet<String>) -> bool {
    groups.iter().any(|group| exempt.contains(group))
}

/// Whether Kubernetes has marked the pod for a disruption. Marking requires the right to write the
/// status of pods.
pub fn is_disruption_target(pod: &Pod) -> bool {
    pod.condition(DISRUPTION_TARGET)
        .is_some_and(|found| &*found.status == "True")
}

/// Whether an object of Berth's kinds that changes or deletes a pod is the pod's own workload, or a
/// SidecarSet, which changes its own containers.
pub fn is_own_workload(pod: &Metadata, resource: &Resource, uid: &str) -> bool {
    *resource == SIDECAR_SETS || pod.controller().is_some_and(|owner| *owner.uid == *uid)
}

/// Whether a user is the controller of the pod's own workload. `own` is the account of Berth's
/// controller.
pub fn is_own_controller(pod: &Metadata, user: &str, own: &str) -> bool {
    let Some(Owner {
        api_version, kind, ..
    }) = pod.controller()
    else {
        return false;
    };
    let group = group(api_version);
    let account = user.strip_prefix("system:serviceaccount:kube-system:");
    let is_of_kubernetes = KUBERNETES.iter().any(|(of_group, of_kind, name)| {
        *of_group == group
            && *of_kind == &**kind
            && (account == Some(*name) || user == KUBERNETES_SHARED)
    });
    is_of_kubernetes || (group == GROUP && user == own)
}

#[cfg(test)]
mod tests;
