//! Causes that block a StatefulSet, and the remedy: one table for each kind of cause.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_workload::feature_gates::Gate;
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{CLAIMS, PODS};
use berth_workload::plan::{Action, Failure, Outcome, Verb, Write};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::simulation::World;
use super::super::{Snapshot, decide, nodes_to_watch, status};
use crate::model::apiserver::merge;

const SINCE: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    SINCE.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

/// The world's snapshot, with this patch on a pod.
fn with_pod(world: &World, name: &str, patch: &Value) -> Snapshot {
    let mut pod = world.pods[name].clone();
    merge(&mut pod, patch);
    let mut snapshot = world.snapshot();
    let pod: Pod = serde_json::from_value(pod).unwrap();
    snapshot
        .pods
        .iter_mut()
        .filter(|old| *old.metadata.name == *name)
        .for_each(|old| *old = Arc::new(pod.clone()));
    snapshot
}

fn nodes(all: &[Value]) -> BTreeMap<Box<str>, Arc<Node>> {
    let of = |node: &Value| Arc::new(serde_json::from_value::<Node>(node.clone()).unwrap());
    all.iter()
        .map(of)
        .map(|node| (node.metadata.name.clone(), node))
        .collect()
}

fn node(name: &str, is_ready: bool, is_cordoned: bool) -> Value {
    let ready = if is_ready { "True" } else { "Unknown" };
    json!({"metadata": {"name": name}, "spec": {"unschedulable": is_cordoned},
           "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

/// Reason and message after this many seconds.
fn told(snapshot: &Snapshot, outcome: &Outcome, seconds: i64) -> Option<(String, String)> {
    let plan = decide(snapshot, at(seconds));
    let conditions = status(snapshot, &plan, outcome, at(seconds))
        .unwrap()
        .conditions;
    conditions
        .into_iter()
        .find(|c| c.type_ == "Blocked")
        .map(|c| (c.reason, c.message))
}

/// The cause counts after a minute, and the plan asks for a decision by then.
fn blocked_after_a_minute(snapshot: &Snapshot, what: &str) -> (String, String) {
    assert_eq!(
        told(snapshot, &Outcome::default(), 59),
        None,
        "{what}: it may pass by itself"
    );
    let again = decide(snapshot, at(30)).look_again;
    assert!(
        again.is_some_and(|wait| wait <= SignedDuration::from_secs(30)),
        "{what}: {again:?}"
    );
    told(snapshot, &Outcome::default(), 60)
        .unwrap_or_else(|| panic!("{what}: there is no condition Blocked"))
}

fn has_words(message: &str, words: &[&str]) {
    for word in words.iter().chain(&["StatefulSet default/db: "]) {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
}

#[test]
fn terminating_pod_names_its_node_if_not_ready() {
    let world = World::settled(2, json!({}));
    let going = json!({"metadata": {"deletionTimestamp": SINCE}});
    let held = json!({"metadata": {"deletionTimestamp": SINCE, "finalizers": ["example.com/x"]}});
    let taint = "`kubectl taint --overwrite node node node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`";
    for (what, patch, node, reason, words) in [
        (
            "lost",
            &going,
            node("node", false, false),
            "NodeNotReady",
            ["node node, which is not ready", taint, "by force"],
        ),
        (
            "up",
            &going,
            node("node", true, true),
            "PodTerminating",
            ["db-1", "see whether the node is up", "node node"],
        ),
        (
            "held",
            &held,
            node("node", false, false),
            "PodTerminating",
            ["db-1", "example.com/x", "must remove it"],
        ),
    ] {
        let mut snapshot = with_pod(&world, "db-1", patch);
        let names: Vec<_> = nodes_to_watch(&snapshot.pods, None).into_iter().collect();
        assert_eq!(names, ["node".into()], "{what}");
        snapshot.own.watched_nodes = nodes(&[node]);
        let (told, message) = blocked_after_a_minute(&snapshot, what);
        assert_eq!(told, reason, "{what}: {message}");
        has_words(&message, &words);
    }
}

#[test]
fn lost_node_replaces_pod_terminating_as_cause() {
    let world = World::settled(2, json!({}));
    let mut snapshot = with_pod(
        &world,
        "db-1",
        &json!({"metadata": {"deletionTimestamp": SINCE}}),
    );
    let plan = decide(&snapshot, at(61));
    let first = status(&snapshot, &plan, &Outcome::default(), at(61)).unwrap();
    assert_eq!(first.conditions[0].reason, "PodTerminating");
    Arc::make_mut(&mut snapshot.set).status = Some(first);
    snapshot.own.watched_nodes = nodes(&[node("node", false, false)]);
    assert_eq!(
        told(&snapshot, &Outcome::default(), 90).unwrap().0,
        "NodeNotReady"
    );
}

#[test]
fn pinned_pod_message_names_its_unavailable_node() {
    let world = World::settled(2, json!({}));
    let records = |required: Value| {
        let state =
            json!({"nodeName": "n1", "nodeTopologyLabels": {"kubernetes.io/hostname": "n1"}});
        let target =
            json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"});
        let records = json!({
            "metadata": {"name": "keep"}, "spec": {"targetRef": target, "requiredPersistentTopology": required},
            "status": {"observedGeneration": 1, "podStates": {"db-1": state}},
        });
        Some(Arc::new(serde_json::from_value(records).unwrap()))
    };
    let hosts = json!({"keys": ["kubernetes.io/hostname"]});
    let unscheduled = |by: &str| {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                               "message": "0/3 nodes fit", "lastTransitionTime": SINCE});
        json!({"metadata": {"annotations": {"kruise.io/injected-persistent-pod-state": by}},
               "spec": {"nodeName": null}, "status": {"phase": "Pending", "conditions": [condition]}})
    };
    let forget = "`kubectl annotate --overwrite persistentpodstate keep -n default kruise.io/forget-pod-states=db-1`";
    for (what, by, required, all, reason, words) in [
        (
            "cordoned",
            "keep",
            &hosts,
            vec![node("n1", true, true)],
            "PinnedNodeUnavailable",
            ["n1, which is cordoned; uncordon it", forget],
        ),
        (
            "gone",
            "keep",
            &hosts,
            vec![],
            "PinnedNodeUnavailable",
            ["n1, which is gone", forget],
        ),
        (
            "lost",
            "keep",
            &hosts,
            vec![node("n1", false, false)],
            "PinnedNodeUnavailable",
            ["n1, which is not ready", forget],
        ),
        (
            "full",
            "keep",
            &hosts,
            vec![node("n1", true, false)],
            "PodUnschedulable",
            ["0/3 nodes fit", "db-1"],
        ),
        (
            "bound by another",
            "other",
            &hosts,
            vec![],
            "PodUnschedulable",
            ["0/3 nodes fit", "db-1"],
        ),
        (
            "bound to nothing",
            "keep",
            &json!(null),
            vec![],
            "PodUnschedulable",
            ["0/3 nodes fit", "db-1"],
        ),
    ] {
        let mut snapshot = with_pod(&world, "db-1", &unscheduled(by));
        snapshot.own.records = records(required.clone());
        let watched = nodes_to_watch(&snapshot.pods, snapshot.own.records.as_deref());
        assert_eq!(
            watched.contains("n1"),
            by == "keep" && !required.is_null(),
            "{what}"
        );
        snapshot.own.watched_nodes = nodes(&all);
        let (told, message) = blocked_after_a_minute(&snapshot, what);
        assert_eq!(told, reason, "{what}: {message}");
        has_words(&message, &words);
    }
}

#[test]
fn forgetting_names_all_pods_that_wait_and_its_end() {
    let state = json!({"nodeName": "n1", "nodeTopologyLabels": {"kubernetes.io/hostname": "n1"}});
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": SINCE});
    let pinned = json!({"metadata": {"annotations": {"kruise.io/injected-persistent-pod-state": "keep"}},
                        "spec": {"nodeName": null}, "status": {"phase": "Pending", "conditions": [condition]}});
    let mut world = World::settled(4, json!({"podManagementPolicy": "Parallel"}));
    for name in ["db-0", "db-2"] {
        merge(world.pods.get_mut(name).unwrap(), &pinned);
    }
    let mut snapshot = world.snapshot();
    let records = json!({
        "metadata": {"name": "keep"},
        "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"},
                 "requiredPersistentTopology": {"keys": ["kubernetes.io/hostname"]}},
        "status": {"observedGeneration": 1, "podStates": {"db-0": state, "db-1": state, "db-2": state}},
    });
    snapshot.own.records = Some(Arc::new(serde_json::from_value(records).unwrap()));
    let (_, message) = told(&snapshot, &Outcome::default(), 61).unwrap();
    has_words(
        &message,
        &[
            "`kubectl annotate --overwrite persistentpodstate keep -n default kruise.io/forget-pod-states=db-0,db-2`",
            "then delete pods db-0,db-2",
            "`kubectl annotate persistentpodstate keep -n default kruise.io/forget-pod-states-`",
        ],
    );
}

/// A set whose claims grow with their pods' updates, now to 2Gi each.
fn growing(replicas: i32, fields: &Value, conditions: &Value) -> World {
    let template = |storage: &str| {
        json!([{"metadata": {"name": "data"}, "spec": {
            "storageClassName": "fast", "resources": {"requests": {"storage": storage}},
        }}])
    };
    let mut world = World::new(replicas, json!({"volumeClaimTemplates": template("1Gi")}));
    world.gates = world.gates.with(Gate::StatefulSetAutoResizePVC, true);
    world.merge(&json!({"volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}}));
    world.merge(fields);
    world.settle();
    for claim in world.claims.stored().values_mut() {
        claim["status"]["capacity"] = json!({"storage": "1Gi"});
    }
    world.merge(&json!({"volumeClaimTemplates": template("2Gi")}));
    let last = world.claims.stored().values_mut().next_back().unwrap();
    last["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    last["status"]["conditions"] = conditions.clone();
    world
}

fn resizes(type_: &str) -> Value {
    json!([{"type": type_, "status": "True", "lastTransitionTime": SINCE}])
}

#[test]
fn pending_file_system_resize_is_reported() {
    let pending = resizes("FileSystemResizePending");
    let waits = Some("FileSystemResizePending");
    let partition = json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}});
    for (what, fields, image, reason) in [
        ("nothing to update", json!({}), "db:0", waits),
        ("an update is due", json!({}), "db:1", None),
        ("an update stays at its partition", partition, "db:1", waits),
    ] {
        let mut world = growing(2, &fields, &pending);
        world.set_image(image);
        world.step();
        let snapshot = world.snapshot();
        let Some(reason) = reason else {
            assert_eq!(told(&snapshot, &Outcome::default(), 100), None, "{what}");
            continue;
        };
        let (told, message) = blocked_after_a_minute(&snapshot, what);
        assert_eq!(told, reason, "{what}: {message}");
        has_words(
            &message,
            &[
                "claim data-db-1",
                "when pod db-1 starts next",
                "delete the pod, or wait",
            ],
        );
    }
}

#[test]
fn claim_that_cannot_grow_names_its_storage_class() {
    let refused = |write: Write, object: &str, code: u16, message: &str| {
        let message = message.to_owned();
        Outcome {
            failures: vec![Failure {
                write,
                namespace: "default".to_owned(),
                object: object.to_owned(),
                message,
                code,
                permanent: true,
                outdated: false,
                taken: false,
                infeasible: false,
            }],
        }
    };
    let words = "persistentvolumeclaims \"data-db-0\" is forbidden: only dynamically provisioned pvc can be resized and the \
                 storageclass that provisions the pvc must support resize";
    let (patch, of_pods) = (Write::of(Verb::Patch, CLAIMS), Write::of(Verb::Patch, PODS));
    for (write, code, message, reason) in [
        (patch, 403, words, "ClassCannotExpand"),
        (patch, 422, words, "ClassCannotExpand"),
        (patch, 403, "forbidden by a policy", "UpdateRefused"),
        (of_pods, 403, words, "UpdateRefused"),
    ] {
        let world = growing(1, &json!({}), &json!([]));
        let mut snapshot = world.snapshot();
        let mut claim = (*snapshot.own.claims["data-db-0"]).clone();
        claim.spec.resources.requests.storage = Some("1Gi".into());
        snapshot
            .own
            .claims
            .insert("data-db-0".into(), Arc::new(claim));
        let (told, message) =
            told(&snapshot, &refused(write, "data-db-0", code, message), 0).unwrap();
        assert_eq!(told, reason, "{code} {message}");
        if reason == "ClassCannotExpand" {
            let field =
                "spec.volumeClaimTemplates[data].spec.resources.requests.storage back to 1Gi";
            has_words(
                &message,
                &[
                    "claim data-db-0",
                    "allowVolumeExpansion: true in StorageClass fast",
                    field,
                ],
            );
        }
    }
}

#[test]
fn ordered_predecessor_without_own_cause_is_reported() {
    let more = |world: &mut World| world.edit(|spec| spec.replicas = Some(3));
    // A pod whose claim grows for too long.
    let mut world = growing(2, &json!({}), &resizes("Resizing"));
    more(&mut world);
    let (reason, message) = blocked_after_a_minute(&world.snapshot(), "grows");
    assert_eq!(reason, "PredecessorNotReady", "{message}");
    has_words(
        &message,
        &[
            "the others wait for pod db-1",
            "OrderedReady",
            "`kubectl describe pvc data-db-1 -n default`",
        ],
    );
    // Of a batch that may be larger, too: the next pods follow when all serve.
    let two = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    let (reason, message) =
        blocked_after_a_minute(&growing(3, &two, &resizes("Resizing")).snapshot(), "of two");
    assert_eq!(reason, "PredecessorNotReady", "{message}");
    has_words(
        &message,
        &[
            "the others wait for pod db-2",
            "`kubectl describe pvc data-db-2 -n default`",
        ],
    );
    let mut parallel = growing(
        2,
        &json!({"podManagementPolicy": "Parallel"}),
        &resizes("Resizing"),
    );
    more(&mut parallel);
    assert_eq!(
        told(&parallel.snapshot(), &Outcome::default(), 60),
        None,
        "all at once, nothing waits for it"
    );
    // A pod that is not ready has a cause of its own.
    let mut world = World::settled(2, json!({}));
    more(&mut world);
    let ready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": SINCE}]);
    let snapshot = with_pod(&world, "db-0", &json!({"status": {"conditions": ready}}));
    let (reason, message) = blocked_after_a_minute(&snapshot, "not ready");
    assert_eq!(reason, "PodNotReady", "{message}");
}

#[test]
fn ordered_ended_pod_held_by_hook_is_reported() {
    let hook = json!({"preDelete": {"labelsHandler": {"example.com/in-use": "true"}}});
    let mut world = World::new(2, json!({"lifecycle": hook}));
    world.merge(&json!({"template": {"metadata": {"labels": {"example.com/in-use": "true"}}}}));
    world.settle();
    world.edit(|spec| spec.replicas = Some(3));
    let state = json!({
        "metadata": {
            "labels": {"lifecycle.apps.kruise.io/state": "PreparingDelete"},
            "annotations": {"lifecycle.apps.kruise.io/timestamp": SINCE},
        },
        "status": {"phase": "Failed"},
    });
    let (reason, message) = blocked_after_a_minute(&with_pod(&world, "db-1", &state), "held");
    assert_eq!(reason, "HookNotReleased", "{message}");
    has_words(
        &message,
        &[
            "pod db-1",
            "PreparingDelete",
            "hook preDelete holds it",
            "example.com/in-use=true",
        ],
    );
}

#[test]
fn lower_of_two_ended_surplus_pods_is_named() {
    let mut world = World::settled(3, json!({}));
    for name in ["db-1", "db-2"] {
        world.fail(name);
    }
    world.edit(|spec| spec.replicas = Some(1));
    let (reason, message) = told(&world.snapshot(), &Outcome::default(), 0).unwrap();
    assert_eq!(reason, "PredecessorNotReady");
    has_words(
        &message,
        &[
            "pod db-2 is beyond what is wanted",
            "pod db-1",
            "OrderedReady",
            "Failed",
            "delete pod db-1",
        ],
    );
    world.delete("db-1");
    world.settle();
    assert_eq!(
        (
            world.pods.len(),
            told(&world.snapshot(), &Outcome::default(), 0)
        ),
        (1, None)
    );
}

#[test]
fn refused_pod_of_old_revision_names_its_remedy() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let mounts = json!([{"name": "data", "mountPath": "/data"}]);
    let containers = json!([{"name": "main", "image": "db:0", "volumeMounts": mounts}]);
    let strategy = json!({"rollingUpdate": {"partition": 1, "podUpdatePolicy": "ReCreate"}});
    let mut world = World::settled(
        2,
        json!({"volumeClaimTemplates": [claim], "updateStrategy": strategy, "template": {"spec": {"containers": containers}}}),
    );
    world.merge(
        &json!({"volumeClaimTemplates": [], "template": {"spec": {"containers": [{"name": "main", "image": "db:1"}]}}}),
    );
    world.settle();
    let of_volume =
        "Pod \"db-0\" is invalid: spec.containers[0].volumeMounts[0].name: Not found: \"data\"";
    let add = "add that volume to spec.volumeClaimTemplates again, or lower the partition";
    for (pod, message, words, others) in [
        (
            "db-0",
            of_volume,
            [of_volume, "the pods are of revision db-", add],
            "spec.template,",
        ),
        (
            "db-0",
            "denied",
            [
                "denied",
                "the pods are of revision db-",
                "change what refuses it, or lower",
            ],
            "spec.template,",
        ),
        (
            "db-1",
            "denied",
            ["denied", "change spec.template, or what refuses it", ""],
            "revision",
        ),
    ] {
        let mut snapshot = world.snapshot();
        snapshot.pods.retain(|own| *own.metadata.name != *pod);
        let plan = decide(&snapshot, world.now());
        assert!(
            plan.actions()
                .any(|action| matches!(action, Action::CreatePod { .. })),
            "{pod}"
        );
        let failure = Failure {
            write: Write::of(Verb::Create, PODS),
            namespace: "default".to_owned(),
            object: pod.to_owned(),
            message: message.to_owned(),
            code: 422,
            permanent: true,
            outdated: false,
            taken: false,
            infeasible: false,
        };
        let conditions = status(
            &snapshot,
            &plan,
            &Outcome {
                failures: vec![failure],
            },
            world.now(),
        )
        .unwrap()
        .conditions;
        let blocked = conditions
            .into_iter()
            .find(|c| c.type_ == "Blocked")
            .unwrap();
        assert_eq!(blocked.reason, "CreateRefused");
        has_words(&blocked.message, &words);
        assert!(
            !blocked.message.contains(others),
            "{others} is no remedy: {}",
            blocked.message
        );
    }
}
