use serde_json::{Value, json};

use super::super::progress::progress;
use super::*;

/// A StatefulSet of three pods at partition 1 whose status has its numbers.
fn set(updated: i64) -> Value {
    json!({
        "metadata": {"name": "db", "uid": "u", "generation": 2},
        "spec": {
            "replicas": 3,
            "updateStrategy": {"rollingUpdate": {"partition": 1}},
        },
        "status": {
            "observedGeneration": 2,
            "replicas": 3,
            "updatedReplicas": updated,
            "updatedAvailableReplicas": updated,
            "updateRevision": "db-a",
        },
    })
}

fn pod(name: &str, revision: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": {"controller-revision-hash": revision},
            "ownerReferences": [{"uid": "u", "controller": true}],
        },
        "spec": {"nodeName": format!("node-{name}")},
    })
}

fn line(progress: Option<Progress>) -> String {
    match progress {
        Some(Progress::Waiting(line) | Progress::Failed(line)) => line,
        Some(Progress::Done(_)) => unreachable!("the pods never end a rollout"),
        None => String::new(),
    }
}

#[test]
fn pods_are_read_where_certain_pods_stay() {
    use RolloutKind::{CloneSet, DaemonSet, StatefulSet};
    let mut one = set(2);
    assert!(needs_pods(StatefulSet, &one));
    assert!(!needs_pods(CloneSet, &one));
    assert!(!needs_pods(StatefulSet, &set(3)), "all pods are updated");
    one["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
    assert!(!needs_pods(StatefulSet, &one), "no partition");
    let mut daemons = set(2);
    daemons["status"]["desiredNumberScheduled"] = json!(3);
    daemons["status"]["updatedNumberScheduled"] = json!(2);
    assert!(!needs_pods(DaemonSet, &daemons));
    daemons["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] = json!("20%");
    assert!(needs_pods(DaemonSet, &daemons));
    daemons["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] = json!(0);
    assert!(!needs_pods(DaemonSet, &daemons));
    daemons["metadata"]["annotations"] = json!({DAEMONSET_HOLD_REVISION: "true"});
    assert!(needs_pods(DaemonSet, &daemons));
}

#[test]
fn rollback_at_a_partition_waits_for_its_pods() {
    let kind = RolloutKind::StatefulSet;
    // The kept pod and one other have the revision of the rollback.
    let object = set(2);
    assert!(matches!(progress(kind, &object), Progress::Done(_)));
    let mut pods = [
        pod("db-0", "db-a"),
        pod("db-2", "db-a"),
        pod("db-1", "db-b"),
    ];
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(
        waits.contains("pod db-1 outside of the partition"),
        "{waits}"
    );
    // Replaced, but the status does not count it yet.
    pods[2] = pod("db-1", "db-a");
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(waits.contains("has not counted"), "{waits}");
    pods[0] = pod("db-0", "db-b");
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
    pods[1]["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(waits.contains("pod db-2"), "{waits}");
}

#[test]
fn unordered_updates_keep_any_pods() {
    let kind = RolloutKind::StatefulSet;
    let mut object = set(2);
    let pods = [
        pod("db-0", "db-a"),
        pod("db-1", "db-a"),
        pod("db-2", "db-b"),
    ];
    object["spec"]["updateStrategy"]["rollingUpdate"]["unorderedUpdate"] = json!({});
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(waits.contains("pod db-2 outside"), "OrderedReady: {waits}");
    object["spec"]["podManagementPolicy"] = json!("Parallel");
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
}

#[test]
fn kept_pod_that_goes_is_waited_for() {
    let kind = RolloutKind::StatefulSet;
    let object = set(2);
    let mut pods = [
        pod("db-0", "db-b"),
        pod("db-1", "db-a"),
        pod("db-2", "db-a"),
    ];
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
    pods[0]["metadata"]["deletionTimestamp"] = json!("2026-11-30T00:00:00Z");
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(waits.contains("pod db-0 is being deleted"), "{waits}");
    // Gone, and the status still counts it.
    let waits = line(unfinished_by_pods(kind, &object, &pods[1..]));
    assert!(waits.contains("has not counted"), "{waits}");
}

#[test]
fn pod_without_a_claim_template_is_not_updated() {
    let kind = RolloutKind::StatefulSet;
    let mut object = set(2);
    object["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
    let claim = json!({"claimName": "data"});
    let volumes = json!([{"name": "data", "persistentVolumeClaim": claim}]);
    let mut pods = ["db-0", "db-1", "db-2"].map(|name| pod(name, "db-a"));
    pods[1]["spec"]["volumes"] = volumes.clone();
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(waits.contains("pod db-2 outside"), "{waits}");
    pods[2]["spec"]["volumes"] = volumes;
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
}

#[test]
fn ordinals_are_numbers_and_foreign_pods_are_ignored() {
    let mut object = set(10);
    object["spec"]["replicas"] = json!(11);
    object["status"]["replicas"] = json!(11);
    let mut pods: Vec<_> = (1..11).map(|at| pod(&format!("db-{at}"), "db-a")).collect();
    pods.push(pod("db-0", "db-b"));
    let mut foreign = pod("db-99", "db-b");
    foreign["metadata"]["ownerReferences"] = json!([]);
    pods.push(foreign);
    let kind = RolloutKind::StatefulSet;
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
    pods[9] = pod("db-10", "db-b");
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(waits.contains("pod db-10"), "{waits}");
}

#[test]
fn paused_rollback_names_the_remedy() {
    let mut object = set(2);
    object["spec"]["updateStrategy"]["rollingUpdate"]["paused"] = json!(true);
    let pods = [
        pod("db-0", "db-a"),
        pod("db-2", "db-a"),
        pod("db-1", "db-b"),
    ];
    let waits = line(unfinished_by_pods(RolloutKind::StatefulSet, &object, &pods));
    assert!(waits.contains("rollout resume statefulset/db"), "{waits}");
}

#[test]
fn second_pod_of_a_node_is_waited_for() {
    let mut object = set(0);
    let status = json!({"desiredNumberScheduled": 2, "updatedNumberScheduled": 2});
    object["status"] = status;
    object["spec"]["updateStrategy"]["rollingUpdate"] = json!({"maxSurge": 1});
    let kind = RolloutKind::DaemonSet;
    let mut pods = [pod("a", "r"), pod("b", "r"), pod("c", "s")];
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
    pods[2]["spec"]["nodeName"] = json!("node-a");
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(waits.contains("node node-a has two pods"), "{waits}");
}

#[test]
fn held_revisions_stay_on_the_first_nodes() {
    let mut object = set(0);
    object["metadata"]["annotations"] = json!({DAEMONSET_HOLD_REVISION: "true"});
    object["status"] = json!({
        "observedGeneration": 2,
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "updatedNumberScheduled": 2,
        "numberAvailable": 3,
        "updateRevision": "a",
    });
    let kind = RolloutKind::DaemonSet;
    let mut pods = [pod("c", "a"), pod("b", "a"), pod("a", "b")];
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
    pods.swap(0, 2);
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
    pods = [pod("c", "b"), pod("b", "a"), pod("a", "a")];
    let waits = line(unfinished_by_pods(kind, &object, &pods));
    assert!(waits.contains("pod c outside"), "{waits}");
    // A pod that stays on a node that is not to have one may be any of them.
    object["status"]["numberMisscheduled"] = json!(1);
    assert_eq!(unfinished_by_pods(kind, &object, &pods), None);
}

#[test]
fn each_subset_has_its_own_partition() {
    let object = json!({
        "metadata": {"name": "web", "generation": 1},
        "spec": {"replicas": 4},
        "status": {
            "observedGeneration": 1,
            "replicas": 4,
            "updatedReplicas": 2,
            "updatedReadyReplicas": 2,
            "updatedRevision": "r2",
            "subsetStatuses": [
                {"name": "a", "replicas": 2, "partition": 2},
                {"name": "b", "replicas": 2},
            ],
        },
    });
    let kind = RolloutKind::UnitedDeployment;
    assert!(matches!(progress(kind, &object), Progress::Done(_)));
    assert!(needs_pods(kind, &object));
    let pods = |subset: &str| {
        let labels = json!({SUBSET_NAME: subset, KRUISE_CONTROLLER_REVISION_HASH: "r2"});
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let pod = json!({"metadata": {"labels": labels}, "status": {"conditions": ready}});
        [pod.clone(), pod]
    };
    assert_eq!(unfinished_by_pods(kind, &object, &pods("b")), None);
    let waits = line(unfinished_by_pods(kind, &object, &pods("a")));
    assert!(waits.contains("0 of 2 pods of subset b"), "{waits}");
}
