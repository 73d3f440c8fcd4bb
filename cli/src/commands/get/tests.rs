use std::path::Path;

use berth_controller::plugin::Explained;
use berth_workload::plan::{Plan, Waiting};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::render::lines;
use super::tree::{thousands, tree};
use super::world::World;

const NOW: &str = "2026-11-30T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// Compares with a file of `get/tests`; with `WRITE_GOLDEN=1` writes the file.
fn check(file: &str, world: &World, waiting: &[(&str, &str)], width: Option<usize>) {
    let plan = (!waiting.is_empty()).then(|| plan(waiting));
    let tree = tree(world, plan.as_ref(), now());
    let mut text = String::new();
    for line in lines(&tree, width) {
        let line = line.text();
        if let Some(width) = width {
            assert!(crate::text::columns(&line) <= width, "{line}");
        }
        text += &line;
        text.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/get/tests");
    let path = path.join(file);
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, golden, "{}", path.display());
}

fn plan(waiting: &[(&str, &str)]) -> Explained {
    let waiting = waiting.iter().map(|(pod, reason)| Waiting {
        pod: (*pod).to_owned(),
        reason: (*reason).to_owned(),
    });
    Explained {
        kind: "CloneSet",
        name: "default/web".to_owned(),
        heading: "Waits:",
        blocked: None,
        unread: Vec::new(),
        plan: Plan {
            waiting: waiting.collect(),
            ..Plan::default()
        },
        drain: None,
    }
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn clone_set(rolling: &str, status: &str) -> Value {
    yaml(&format!(
        r#"
metadata: {{name: web, namespace: default, uid: u1, generation: 2, creationTimestamp: "2026-11-30T11:48:00Z"}}
spec:
  replicas: 4
  selector: {{matchLabels: {{app: web}}}}
  updateStrategy: {{rollingUpdate: {rolling}}}
  template: {{spec: {{containers: [{{name: web, image: "web:2"}}]}}}}
status: {status}
"#
    ))
}

fn revision(number: u32, hash: &str, image: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("web-{hash}"), "creationTimestamp": "2026-11-30T11:50:00Z",
            "ownerReferences": [{"uid": "u1", "controller": true}],
        },
        "revision": number,
        "data": {"spec": {"template": {"spec": {"containers": [{"image": image}]}}}},
    })
}

fn pod(name: &str, hash: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "creationTimestamp": "2026-11-30T11:48:00Z",
            "labels": {"controller-revision-hash": hash, "lifecycle.apps.kruise.io/state": "Normal"},
            "ownerReferences": [{"uid": "u1", "controller": true}],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "web"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "web", "ready": true, "restartCount": 0}],
        },
    })
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key] = value;
    object
}

fn world(object: Value, pods: Vec<Value>) -> World {
    World {
        plural: "clonesets",
        object,
        pods,
        revisions: vec![revision(1, "5b6f1", "web:1"), revision(2, "7d9c4", "web:2")],
        ..World::default()
    }
}

const ROLLING: &str = "{podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 2, inPlaceUpdateStrategy: {gracePeriodSeconds: 2}}";

fn in_place() -> World {
    let object = clone_set(
        ROLLING,
        "{observedGeneration: 2, replicas: 4, updatedReplicas: 2, readyReplicas: 3, availableReplicas: 3, updateRevision: web-7d9c4}",
    );
    let updated = r#"{"revision":"web-7d9c4"}"#;
    let done = with(
        pod("web-xdb5x", "7d9c4"),
        "/metadata/annotations",
        json!({"apps.kruise.io/inplace-update-state": updated}),
    );
    let done = with(
        done,
        "/status/containerStatuses",
        json!([{"ready": true, "restartCount": 1}]),
    );
    let updating = updating(pod("web-d8n28", "7d9c4"));
    let foreign = with(
        pod("other", "7d9c4"),
        "/metadata/ownerReferences",
        json!([]),
    );
    let mut world = world(
        object,
        vec![
            done,
            updating,
            pod("web-fpkkm", "5b6f1"),
            pod("web-ph6hp", "5b6f1"),
            foreign,
        ],
    );
    world.jobs = vec![yaml(
        r#"
metadata: {name: web-7d9c4-pull, creationTimestamp: "2026-11-30T11:59:20Z", ownerReferences: [{uid: u1}]}
spec: {image: "web:2"}
status: {desired: 3, succeeded: 3, completionTime: "2026-11-30T11:59:30Z"}
"#,
    )];
    world
}

/// Sets the state in the label whose key has a slash.
fn updating(mut pod: Value) -> Value {
    pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] = json!("Updating");
    pod
}

const WAITS: [(&str, &str); 2] = [
    (
        "web-d8n28",
        "is out of service, and is updated in 2 s (gracePeriodSeconds)",
    ),
    (
        "web-fpkkm",
        "is to be updated, and waits for maxUnavailable",
    ),
];

#[test]
fn rolling_update_in_place() {
    check("in_place.txt", &in_place(), &WAITS, None);
}

#[test]
fn forty_columns_cut_every_line() {
    check("forty_columns.txt", &in_place(), &WAITS, Some(40));
    let mut world = in_place();
    for (at, pod) in world.pods.iter_mut().enumerate() {
        pod["metadata"]["name"] = json!(format!("a-long-name-of-a-workload-7d9c4-{at}xyz"));
    }
    check("forty_columns_long_names.txt", &world, &[], Some(40));
}

#[test]
fn eighty_columns_drop_what_does_not_fit() {
    check("eighty_columns.txt", &in_place(), &WAITS, Some(80));
}

#[test]
fn rollout_at_its_partition() {
    let object = clone_set(
        "{partition: 50%}",
        "{observedGeneration: 2, replicas: 4, updatedReplicas: 2, readyReplicas: 4, availableReplicas: 4, updateRevision: web-7d9c4}",
    );
    let pods = [
        ("web-a", "7d9c4"),
        ("web-b", "7d9c4"),
        ("web-c", "5b6f1"),
        ("web-d", "5b6f1"),
    ];
    let pods = pods.map(|(name, hash)| pod(name, hash)).to_vec();
    let stays = [("web-c", "stays at its revision: partition")];
    check("at_partition.txt", &world(object, pods), &stays, None);
}

#[test]
fn blocked_rollout_says_its_cause() {
    let object = clone_set(
        ROLLING,
        r#"{observedGeneration: 2, replicas: 4, updatedReplicas: 1, readyReplicas: 3, availableReplicas: 3, updateRevision: web-7d9c4,
  conditions: [{type: Blocked, status: "True", reason: ImageUnavailable, message: "pod web-a: image web:2 of container web does not exist; correct spec.template"}]}"#,
    );
    let broken = with(
        pod("web-a", "7d9c4"),
        "/status/containerStatuses",
        json!([{"ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]),
    );
    let gone = with(
        pod("web-b", "5b6f1"),
        "/metadata/deletionTimestamp",
        json!(NOW),
    );
    let pending = with(
        pod("web-c", "5b6f1"),
        "/status",
        json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/3 nodes are available"}]}),
    );
    let pending = with(pending, "/spec/nodeName", Value::Null);
    let world = world(object, vec![broken, gone, pending, pod("web-d", "5b6f1")]);
    check("blocked.txt", &world, &[], None);
    check("blocked_forty_columns.txt", &world, &[], Some(40));
}

#[test]
fn scaled_to_zero_is_healthy() {
    let object = clone_set("{}", "{observedGeneration: 2, updateRevision: web-7d9c4}");
    let object = with(object, "/spec/replicas", json!(0));
    check("scaled_to_zero.txt", &world(object, Vec::new()), &[], None);
}

#[test]
fn hostile_names_are_escaped() {
    let evil = "web-\u{1b}[2J\u{202e}\r\n\u{7}x";
    let mut object = in_place().object;
    object["metadata"]["name"] = json!(evil);
    object["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!("\u{1b}]0;title\u{7}");
    object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web\u{9b}31m");
    let mut hostile = pod(evil, "7d9c4");
    hostile["spec"]["nodeName"] = json!("node\u{1b}[31m");
    let hostile = with(
        hostile,
        "/status/containerStatuses",
        json!([{"ready": false, "state": {"waiting": {"reason": "\u{1b}[31mErr\n"}}}]),
    );
    let unknown = pod("日本語の名前", "\u{1b}c");
    let mut world = world(object, vec![hostile, unknown]);
    world.refused.insert("pods", "\u{1b}[2Jnote".to_owned());
    check("hostile.txt", &world, &[(evil, "\u{1b}[5mreason\n")], None);
    check(
        "hostile_forty_columns.txt",
        &world,
        &[(evil, "\u{1b}[5mreason\n")],
        Some(40),
    );
    let tree = tree(&world, None, now());
    for line in lines(&tree, None) {
        assert!(
            !line.text().chars().any(char::is_control),
            "{:?}",
            line.text()
        );
    }
}

#[test]
fn ten_thousand_pods_are_folded() {
    let object = clone_set(
        "{}",
        "{observedGeneration: 2, replicas: 10000, updatedReplicas: 10000, readyReplicas: 9999, availableReplicas: 9999, updateRevision: web-7d9c4}",
    );
    let object = with(object, "/spec/replicas", json!(10000));
    let mut pods: Vec<_> = (0..9999)
        .map(|at| pod(&format!("web-{at:04}"), "7d9c4"))
        .collect();
    let broken = with(pod("web-9999", "7d9c4"), "/status/phase", json!("Failed"));
    pods.push(broken);
    let world = world(object, pods);
    let all = tree(&world, None, now()).rows;
    assert!(
        all.iter().any(|row| row.name == "web-9999"),
        "troubled pods are shown"
    );
    check("folded.txt", &world, &[], Some(80));
}

#[test]
fn united_deployment_shows_subsets() {
    let object = yaml(
        r#"
metadata: {name: united, namespace: default, uid: u1, generation: 1, creationTimestamp: "2026-11-30T11:48:00Z"}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {cloneSetTemplate: {spec: {template: {spec: {containers: [{image: "web:1"}]}}}}}
  updateStrategy: {manualUpdate: {partitions: {b: 1}}}
  topology: {subsets: [{name: a}, {name: b}]}
status: {observedGeneration: 1, replicas: 3, updatedReplicas: 2, readyReplicas: 3, availableReplicas: 3,
  subsetStatuses: [{name: a, replicas: 1, readyReplicas: 1}, {name: b, replicas: 2, readyReplicas: 2, partition: 1}]}
"#,
    );
    let workload = yaml(
        r#"
kind: CloneSet
metadata: {name: united-b-x, generation: 1, creationTimestamp: "2026-11-30T11:48:00Z", labels: {apps.kruise.io/subset-name: b}, ownerReferences: [{uid: u1, controller: true}]}
spec: {replicas: 2, updateStrategy: {rollingUpdate: {partition: 1}}}
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 1, readyReplicas: 2, availableReplicas: 2}
"#,
    );
    let world = World {
        plural: "uniteddeployments",
        object,
        workloads: vec![workload],
        ..World::default()
    };
    check("united.txt", &world, &[], None);
}

#[test]
fn sidecar_set_groups_by_its_revision() {
    let object = yaml(
        r#"
metadata: {name: log, uid: s1, generation: 1, creationTimestamp: "2026-11-30T11:48:00Z"}
spec: {selector: {matchLabels: {app: web}}, updateStrategy: {partition: 1}, containers: [{name: log, image: "log:2"}]}
status: {observedGeneration: 1, matchedPods: 2, updatedPods: 1, readyPods: 2, updatedReadyPods: 1, latestRevision: log-aa}
"#,
    );
    let injected = |name: &str, revision: &str| {
        let record = json!({"log": {"controllerRevision": revision}}).to_string();
        let annotations = json!({
            "kruise.io/sidecarset-injected-list": "log",
            "kruise.io/sidecarset-hash": record,
        });
        with(pod(name, "7d9c4"), "/metadata/annotations", annotations)
    };
    let pods = vec![
        injected("web-a", "log-aa"),
        injected("web-b", "log-bb"),
        pod("web-c", "7d9c4"),
    ];
    let world = World {
        plural: "sidecarsets",
        object,
        pods,
        ..World::default()
    };
    let stays = [("default/web-b", "stays, for spec.updateStrategy.partition")];
    check("sidecarset.txt", &world, &stays, None);
}

#[test]
fn thousands_have_commas() {
    for (number, text) in [
        (0, "0"),
        (999, "999"),
        (1000, "1,000"),
        (1234567, "1,234,567"),
    ] {
        assert_eq!(thousands(number), text);
    }
}

#[test]
fn pause_patch_names_the_field_of_the_kind() {
    let table = [
        (
            "clonesets",
            Some(json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": true}}}})),
        ),
        (
            "sidecarsets",
            Some(json!({"spec": {"updateStrategy": {"paused": true}}})),
        ),
        ("broadcastjobs", Some(json!({"spec": {"paused": true}}))),
        ("uniteddeployments", None),
    ];
    for (plural, patch) in table {
        assert_eq!(super::live::pause_patch(plural, true), patch, "{plural}");
    }
}

#[test]
fn unread_revisions_make_the_plan_worthless() {
    let mut world = in_place();
    let refused = "controllerrevisions.apps is forbidden".to_owned();
    world.refused.insert("controllerrevisions", refused);
    let mut plan = plan(&WAITS);
    let unread = "what depends on controllerrevisions, because it is forbidden".to_owned();
    plan.unread = vec![unread.clone()];
    let tree = tree(&world, Some(&plan), now());
    assert_eq!(tree.notes, [unread], "one sentence for each kind");
    assert!(!tree.rows.iter().any(|row| row.reason.contains("waits")));
}

#[test]
fn why_names_the_reason_without_control_characters() {
    use super::plan::why;
    let plan = plan(&[("a", "waits for b\u{1b}[2J"), ("c", "waits")]);
    assert_eq!(why(Some(&plan), "a"), ["a: waits for b\\u{1b}[2J"]);
    assert!(why(Some(&plan), "x")[0].ends_with("names its budgets"));
    assert_eq!(why(None, "x"), ["x: there is no plan"]);
}
