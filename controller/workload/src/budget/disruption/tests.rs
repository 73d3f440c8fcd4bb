use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::objects::patch::pod::PodPatch;
use crate::objects::resource::{CLONE_SETS, CONTAINER_RECREATE_REQUESTS};

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
        assert_eq!(
            is_own_workload(&pod, &resource, uid),
            expected,
            "{} {uid}",
            resource.kind
        );
    }
    assert!(
        !is_own_workload(&Metadata::default(), &CLONE_SETS, ""),
        "a pod without a controller"
    );
}

#[test]
fn passes_kubernetes_deletions_and_exempt_groups() {
    use ProtectedOperation::{Delete, Evict, Update};
    let kube = "system:serviceaccount:kube-system:";
    let [node, scale_down] =
        ["node-controller", "replicaset-controller"].map(|name| format!("{kube}{name}"));
    let exempt: BTreeSet<_> = ["oncall".to_owned()].into();
    let pod = |condition: &str, status: &str| -> Pod {
        let conditions = json!([{"type": condition, "status": status}]);
        serde_json::from_value(
            json!({"metadata": {"name": "web"}, "status": {"conditions": conditions}}),
        )
        .unwrap()
    };
    let [taken, spared, ready] = [
        ("DisruptionTarget", "True"),
        ("DisruptionTarget", "False"),
        ("Ready", "True"),
    ]
    .map(|(c, s)| pod(c, s));
    for (operation, user, group, pod, expected) in [
        (
            Delete,
            "system:kube-scheduler",
            "system:authenticated",
            &ready,
            true,
        ),
        (Delete, &node, "system:authenticated", &ready, true),
        (Evict, &node, "system:authenticated", &ready, false),
        (
            Update,
            "system:kube-scheduler",
            "system:authenticated",
            &ready,
            false,
        ),
        (Delete, &scale_down, "system:authenticated", &taken, false),
        (
            Delete,
            "system:serviceaccount:tenant:node-controller",
            "system:authenticated",
            &taken,
            false,
        ),
        (
            Delete,
            "node-controller",
            "system:authenticated",
            &taken,
            false,
        ),
        (
            Delete,
            KUBERNETES_SHARED,
            "system:authenticated",
            &taken,
            true,
        ),
        (
            Delete,
            KUBERNETES_SHARED,
            "system:authenticated",
            &spared,
            false,
        ),
        (
            Delete,
            KUBERNETES_SHARED,
            "system:authenticated",
            &ready,
            false,
        ),
        (
            Evict,
            KUBERNETES_SHARED,
            "system:authenticated",
            &taken,
            false,
        ),
        (Delete, "admin", "system:masters", &ready, false),
        (Delete, "admin", "oncall", &ready, true),
        (Evict, "admin", "oncall", &ready, true),
        (Update, "admin", "oncall", &ready, true),
    ] {
        let groups = [group.to_owned()];
        let found = passes(operation, (user, &groups), &exempt, Some(pod));
        assert_eq!(
            found, expected,
            "{operation:?} {user} {group} {:?}",
            pod.status.conditions
        );
    }
    assert!(
        !passes(Delete, (KUBERNETES_SHARED, &[]), &exempt, None),
        "the pod cannot be read"
    );
}

#[test]
fn own_controller_is_recognised_by_its_account() {
    let (own, kube) = (
        "system:serviceaccount:kruise-system:kruise-manager",
        "system:serviceaccount:kube-system:",
    );
    let of = |name: &str| format!("{kube}{name}");
    for (api_version, kind, user, expected) in [
        ("apps/v1", "ReplicaSet", of("replicaset-controller"), true),
        ("apps/v1", "ReplicaSet", of("statefulset-controller"), false),
        (
            "apps/v1",
            "ReplicaSet",
            "system:serviceaccount:default:replicaset-controller".to_owned(),
            false,
        ),
        ("apps/v1", "ReplicaSet", KUBERNETES_SHARED.to_owned(), true),
        (
            "example.com/v1",
            "ReplicaSet",
            of("replicaset-controller"),
            false,
        ),
        ("apps/v1", "StatefulSet", of("statefulset-controller"), true),
        (
            "apps.kruise.io/v1beta1",
            "StatefulSet",
            of("statefulset-controller"),
            false,
        ),
        ("apps/v1", "DaemonSet", of("daemon-set-controller"), true),
        ("batch/v1", "Job", of("job-controller"), true),
        (
            "v1",
            "ReplicationController",
            of("replication-controller"),
            true,
        ),
        ("apps.kruise.io/v1beta1", "CloneSet", own.to_owned(), true),
        ("apps/v1", "ReplicaSet", own.to_owned(), false),
        (
            "apps.kruise.io/v1beta1",
            "CloneSet",
            "admin".to_owned(),
            false,
        ),
    ] {
        assert_eq!(
            is_own_controller(&pod_of(api_version, kind), &user, own),
            expected,
            "{kind} {user}"
        );
    }
    assert!(
        !is_own_controller(&Metadata::default(), own, own),
        "a pod without a controller"
    );
}

#[test]
fn step_with_a_new_image_does_more_than_restart() {
    let restarted = || ["main".to_owned()].into();
    let image = || [("main".to_owned(), "web:2".to_owned())].into();
    for (restarted, images, expected) in [
        (restarted(), BTreeMap::new(), true),
        (restarted(), image(), false),
        (BTreeSet::new(), image(), false),
        (BTreeSet::new(), BTreeMap::new(), false),
    ] {
        let patch = PodPatch {
            restarted,
            images,
            ..PodPatch::default()
        };
        let target = Target {
            namespace: "default".to_owned(),
            name: "web-a".to_owned(),
            uid: "a".to_owned(),
            resource_version: None,
        };
        let step = Step::new(Action::PatchPod { target, patch }, "changes".to_owned());
        assert_eq!(only_restarts(&step), expected, "{step:?}");
    }
}
