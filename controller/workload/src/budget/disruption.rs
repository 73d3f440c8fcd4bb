//! Which steps of a plan take pods out of service.

use std::collections::BTreeSet;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;

use crate::owner::group;
use crate::plan::{Action, Step, Target};
use crate::pod::gates::{IN_PLACE_UPDATE_READY, KRUISE_POD_READY};
use crate::pod::{Metadata, Owner};
use crate::resource::{Resource, SIDECAR_SETS};
use berth_api::names::GROUP;

/// The pod that a step takes out of service, and by what: its deletion, or the first write of a change. Evictions are not among
/// them: about those the apiserver asks. A pod that is out of service already costs nothing, whatever the step does.
pub fn of_step(step: &Step) -> Option<(&Target, ProtectedOperation)> {
    step.actions.iter().find_map(|action| match action {
        Action::DeletePod { target } => Some((target, ProtectedOperation::Delete)),
        Action::PatchPodStatus { target, conditions, .. } => {
            let closes = |type_: &str| type_ == IN_PLACE_UPDATE_READY || type_ == KRUISE_POD_READY;
            let is_closed = conditions.iter().any(|gate| closes(&gate.type_) && &*gate.status == "False");
            is_closed.then_some((target, ProtectedOperation::Update))
        }
        Action::PatchPod { target, patch } if patch.restarts() => Some((target, ProtectedOperation::Update)),
        Action::ResizePod { target, .. } => Some((target, ProtectedOperation::Resize)),
        _ => None,
    })
}

/// The containers that a step has replaced: another image, or a restart.
pub fn replaced(step: &Step) -> BTreeSet<&str> {
    let patches = step.actions.iter().filter_map(|action| match action {
        Action::PatchPod { patch, .. } => Some(patch),
        _ => None,
    });
    let names = patches.flat_map(|patch| patch.all_images().map(|(name, _)| name).chain(&patch.restarted));
    names.map(String::as_str).collect()
}

/// The accounts of Kubernetes' controllers in kube-system, by group and kind of their workloads.
const KUBERNETES: [(&str, &str, &str); 5] = [
    ("apps", "ReplicaSet", "replicaset-controller"),
    ("apps", "StatefulSet", "statefulset-controller"),
    ("apps", "DaemonSet", "daemon-set-controller"),
    ("batch", "Job", "job-controller"),
    ("", "ReplicationController", "replication-controller"),
];
/// Who Kubernetes' controllers are where they share one account.
const KUBERNETES_SHARED: &str = "system:kube-controller-manager";

/// Whether an object of ours that changes or deletes a pod is the pod's own workload, or a SidecarSet, which changes its own containers.
pub fn is_own_workload(pod: &Metadata, resource: &Resource, uid: &str) -> bool {
    *resource == SIDECAR_SETS || pod.controller().is_some_and(|owner| *owner.uid == *uid)
}

/// Whether a user who changes or deletes a pod is the controller of the pod's own workload. `own` is the account of our controller.
pub fn is_own_controller(pod: &Metadata, user: &str, own: &str) -> bool {
    let Some(Owner { api_version, kind, .. }) = pod.controller() else { return false };
    let group = group(api_version);
    let account = user.strip_prefix("system:serviceaccount:kube-system:");
    let is_of_kubernetes = KUBERNETES.iter().any(|(of_group, of_kind, name)| {
        *of_group == group && *of_kind == &**kind && (account == Some(*name) || user == KUBERNETES_SHARED)
    });
    is_of_kubernetes || (group == GROUP && user == own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{CLONE_SETS, CONTAINER_RECREATE_REQUESTS};

    fn pod_of(api_version: &str, kind: &str) -> Metadata {
        let owner = json!({"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": true});
        serde_json::from_value(json!({"name": "web-1", "ownerReferences": [owner]})).unwrap()
    }

    #[test]
    fn own_workload_is_the_controller_or_a_sidecar_set() {
        let pod = pod_of("apps.kruise.io/v1beta1", "CloneSet");
        for (resource, uid, expected) in [
            (CLONE_SETS, "u", true),
            (CLONE_SETS, "other", false),
            (SIDECAR_SETS, "other", true),
            (CONTAINER_RECREATE_REQUESTS, "other", false),
        ] {
            assert_eq!(is_own_workload(&pod, &resource, uid), expected, "{} {uid}", resource.kind);
        }
        assert!(!is_own_workload(&Metadata::default(), &CLONE_SETS, ""), "a pod of nobody");
    }

    #[test]
    fn own_controller_is_told_by_its_account() {
        let (own, kube) = ("system:serviceaccount:kruise-system:kruise-manager", "system:serviceaccount:kube-system:");
        let of = |name: &str| format!("{kube}{name}");
        for (api_version, kind, user, expected) in [
            ("apps/v1", "ReplicaSet", of("replicaset-controller"), true),
            ("apps/v1", "ReplicaSet", of("statefulset-controller"), false),
            ("apps/v1", "ReplicaSet", "system:serviceaccount:default:replicaset-controller".to_owned(), false),
            ("apps/v1", "ReplicaSet", KUBERNETES_SHARED.to_owned(), true),
            ("example.com/v1", "ReplicaSet", of("replicaset-controller"), false),
            ("apps/v1", "StatefulSet", of("statefulset-controller"), true),
            ("apps.kruise.io/v1beta1", "StatefulSet", of("statefulset-controller"), false),
            ("apps/v1", "DaemonSet", of("daemon-set-controller"), true),
            ("batch/v1", "Job", of("job-controller"), true),
            ("v1", "ReplicationController", of("replication-controller"), true),
            ("apps.kruise.io/v1beta1", "CloneSet", own.to_owned(), true),
            ("apps/v1", "ReplicaSet", own.to_owned(), false),
            ("apps.kruise.io/v1beta1", "CloneSet", "admin".to_owned(), false),
        ] {
            assert_eq!(is_own_controller(&pod_of(api_version, kind), &user, own), expected, "{kind} {user}");
        }
        assert!(!is_own_controller(&Metadata::default(), own, own), "a pod of nobody");
    }
}
