//! Tests of decisions about NodeImages.

mod entries;
mod inspect;
mod join;
mod limits;

use std::sync::Arc;

use berth_api::v1beta1::imagepulljob::ImagePullJob;
use berth_api::v1beta1::nodeimage::{ImagePullPolicy, ImageTagPullPolicy, MAX_INSPECTED_PODS};
use berth_workload::images::pull;
use berth_workload::objects::node::image::{NodeImage, entry, is_requested_by, owners};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::NODE_IMAGES;
use berth_workload::plan::{Action, IfExists, Plan};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Node, Snapshot, bears_on, decide};
use inspect::{ASKS, listed, pod};

const NOW: i64 = 1_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

/// The time this many seconds ago.
fn ago(seconds: i64) -> Value {
    json!(Timestamp::from_second(NOW - seconds).unwrap().to_string())
}

fn node(labels: &Value) -> Value {
    json!({
        "metadata": {"name": "n1", "uid": "node", "labels": labels},
        "status": {"conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}]},
    })
}

fn image(labels: &Value, spec: &Value, status: &Value) -> Arc<NodeImage> {
    let image = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
        "metadata": {"name": "n1", "uid": "image", "resourceVersion": "7", "labels": labels},
        "spec": spec, "status": status,
    });
    Arc::new(serde_json::from_value(image).unwrap())
}

fn job(uid: &str, spec: Value, status: Value) -> Arc<ImagePullJob> {
    let mut job = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
        "metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec, "status": status,
    });
    job["spec"]["image"] = json!("app:1");
    Arc::new(serde_json::from_value(job).unwrap())
}

/// The limits of an entry that this job alone owns.
fn limits_of(job: &ImagePullJob) -> Value {
    json!(pull::limits(&job.spec.template, "n1"))
}

fn owner(uid: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "namespace": "default", "name": uid, "uid": uid})
}

fn fake() -> Value {
    json!({"apps.kruise.io/fake-nodeimage": "true"})
}

fn snapshot(node: Option<Value>, image: Option<Arc<NodeImage>>) -> Snapshot {
    let node = node.map(|node| Arc::new(serde_json::from_value(node).unwrap()));
    Snapshot {
        name: "n1".to_owned(),
        node,
        image,
        pods: Vec::new(),
        requested: Vec::new(),
        jobs: Vec::new(),
        unreadable_jobs: Vec::new(),
        join: None,
    }
}

/// The entry for `app:1` that a job adds.
fn asked(image: &NodeImage) -> Value {
    let owner = serde_json::from_value(owner("job")).unwrap();
    let request = entry::EntryRequest {
        image: "app",
        tag: "1",
        owner: &owner,
        limits: ImageTagPullPolicy::default(),
        policy: ImagePullPolicy::Always,
        secrets: &[],
        sandbox: None,
    };
    entry::ask(image, &request, now())["spec"]["images"]["app"]["tags"][0].take()
}

#[test]
fn manual_entry_keeps_the_nodeimage_as_owner() {
    let spec = json!({"images": {"app": {"tags": [{"tag": "1"}]}}});
    let entry = asked(&image(&json!({}), &spec, &json!({})));
    let owners =
        [&entry["ownerReferences"][0], &entry["ownerReferences"][1]].map(|owner| &owner["uid"]);
    assert_eq!(
        (owners, &entry["version"]),
        ([&json!("image"), &json!("job")], &json!(1))
    );
}

#[test]
fn highest_version_does_not_panic() {
    let status = json!({"imageStatuses": {"app": {"tags": [{"tag": "1", "phase": "Succeeded", "version": i64::MAX}]}}});
    let spec = json!({"images": {"app": {"tags": [{"tag": "1", "version": i64::MAX}]}}});
    for spec in [spec, json!({})] {
        assert_eq!(
            asked(&image(&json!({}), &spec, &status))["version"],
            i64::MAX
        );
    }
}

fn actions(plan: &Plan) -> Vec<Action> {
    plan.stages
        .iter()
        .flat_map(|stage| &stage.steps)
        .flat_map(|step| step.actions.clone())
        .collect()
}

/// The one patch, or null.
fn patch(snapshot: &Snapshot) -> Value {
    match &actions(&decide(snapshot, now()))[..] {
        [] => Value::Null,
        [
            Action::Patch {
                resource: NODE_IMAGES,
                target,
                patch,
            },
        ] => {
            assert_eq!(
                (target.uid.as_str(), target.resource_version.as_deref()),
                ("image", Some("7"))
            );
            patch.clone()
        }
        other => panic!("{other:?}"),
    }
}

fn kinds(snapshot: &Snapshot) -> Vec<String> {
    actions(&decide(snapshot, now()))
        .iter()
        .map(|action| action.write().to_string())
        .collect()
}

#[test]
fn nodeimage_is_created_and_deleted_with_its_node() {
    let labels = json!({"os": "linux"});
    let exists = || Some(image(&labels, &json!({}), &json!(null)));
    let fake = || {
        Some(image(
            &json!({"apps.kruise.io/fake-nodeimage": "true"}),
            &json!({}),
            &json!(null),
        ))
    };
    let edited = |path: &str, value: Value| {
        let mut node = node(&labels);
        *node.pointer_mut(path).unwrap() = value;
        Some(node)
    };
    let unready = || edited("/status/conditions/1/status", json!("Unknown"));
    let virtual_node = || edited("/metadata/labels", json!({"type": "virtual-kubelet"}));
    let mut leaving = node(&labels);
    leaving["metadata"]["deletionTimestamp"] = ago(1);
    let table = [
        ("ready", Some(node(&labels)), None, vec!["CreateNodeImage"]),
        ("never ready", unready(), None, vec![]),
        ("no status", edited("/status", json!(null)), None, vec![]),
        ("virtual", virtual_node(), None, vec![]),
        ("leaving", Some(leaving.clone()), None, vec![]),
        ("both there", Some(node(&labels)), exists(), vec![]),
        ("not ready for a while", unready(), exists(), vec![]),
        (
            "leaving with its NodeImage",
            Some(leaving),
            exists(),
            vec!["DeleteNodeImage"],
        ),
        ("gone", None, exists(), vec!["DeleteNodeImage"]),
        ("fake", None, fake(), vec![]),
        ("fake with a node", Some(node(&labels)), fake(), vec![]),
        ("neither", None, None, vec![]),
    ];
    for (what, node, image, expected) in table {
        assert_eq!(kinds(&snapshot(node, image)), expected, "{what}");
    }
    let made = actions(&decide(&snapshot(Some(node(&labels)), None), now()));
    let [
        Action::Create {
            resource: NODE_IMAGES,
            body,
            if_exists: IfExists::IsFine,
        },
    ] = &made[..]
    else {
        panic!("{made:?}")
    };
    let expected = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
        "metadata": {"name": "n1", "labels": {"os": "linux"}}, "spec": {},
    });
    assert_eq!(*body, expected);
}

#[test]
fn terminating_nodeimage_is_ignored() {
    let mut image = image(&json!({}), &json!({}), &json!(null));
    Arc::make_mut(&mut image).metadata.deletion_timestamp = serde_json::from_value(ago(1)).unwrap();
    assert_eq!(
        kinds(&snapshot(None, Some(image.clone()))),
        Vec::<&str>::new()
    );
    assert_eq!(
        kinds(&snapshot(Some(node(&json!({"a": "b"}))), Some(image))),
        Vec::<&str>::new()
    );
}

#[test]
fn nodeimage_has_the_labels_of_its_node() {
    let table = [
        (json!({"a": "1"}), json!({"a": "1"}), Value::Null),
        (
            json!({"a": "1", "b": "2"}),
            json!({"a": "2", "c": "3"}),
            json!({"a": "2", "b": null, "c": "3"}),
        ),
        (json!(null), json!({"a": "1"}), json!({"a": "1"})),
        (json!({"a": "1"}), json!(null), json!({"a": null})),
    ];
    for (old, new, expected) in table {
        let patch = patch(&snapshot(
            Some(node(&new)),
            Some(image(&old, &json!({}), &json!(null))),
        ));
        assert_eq!(patch["metadata"]["labels"], expected, "{old} -> {new}");
    }
}

#[test]
fn only_labels_uid_readiness_and_taints_trigger() {
    let old = node(&json!({"a": "1"}));
    let decoded = |node: &Value| serde_json::from_value::<Node>(node.clone()).unwrap();
    let mut beat = old.clone();
    beat["metadata"]["resourceVersion"] = json!("8");
    beat["status"]["conditions"][0]["status"] = json!("True");
    assert!(!Node::concerns(Some(&decoded(&old)), &decoded(&beat)));
    for (path, value) in [
        ("/metadata/labels/a", json!("2")),
        ("/metadata/uid", json!("other")),
        ("/status/conditions/1/status", json!("Unknown")),
    ] {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        assert!(
            Node::concerns(Some(&decoded(&old)), &decoded(&new)),
            "{path}"
        );
    }
    assert!(Node::concerns(None, &decoded(&old)));
    let mut by_cloud = old.clone();
    by_cloud["spec"]["taints"] =
        json!([{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]);
    assert!(
        Node::concerns(Some(&decoded(&by_cloud)), &decoded(&old)),
        "it has its labels now"
    );
}

#[test]
fn owners_that_are_gone_are_dropped() {
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d"});
    let namesake =
        json!({"apiVersion": "example.com/v1", "kind": "ImagePullJob", "name": "x", "uid": "x"});
    let lives = job("lives", json!({}), json!(null));
    let limits = limits_of(&lives);
    let spec = json!({"images": {
        "app": {"pullSecrets": [{"namespace": "default", "name": "s"}], "tags": [
            {"tag": "1", "ownerReferences": [owner("gone")]},
            {"tag": "2", "pullPolicy": limits, "ownerReferences": [owner("gone"), owner("lives")]},
            {"tag": "3"},
            {"tag": "4", "ownerReferences": [owner("gone"), other, namesake]},
        ]},
        "lost": {"tags": [{"tag": "1", "ownerReferences": [owner("gone")]}]},
        "kept": {"tags": [{"tag": "1", "pullPolicy": limits, "ownerReferences": [owner("lives")]}]},
        "empty": {"tags": []},
    }});
    let image = image(&json!({}), &spec, &json!(null));
    assert_eq!(
        owners(&image).into_iter().collect::<Vec<_>>(),
        [("default", "gone"), ("default", "lives")]
    );
    assert!(is_requested_by(&image, "gone") && !is_requested_by(&image, "stranger"));
    let mut snapshot = snapshot(Some(node(&json!({}))), Some(image));
    snapshot.jobs = vec![
        lives,
        job("gone again, with another uid", json!({}), json!(null)),
    ];
    let images = &patch(&snapshot)["spec"]["images"];
    let tags = json!([
        {"tag": "2", "pullPolicy": limits, "ownerReferences": [owner("lives")]}, {"tag": "3"},
        {"tag": "4", "ownerReferences": [other, namesake]},
    ]);
    assert_eq!(
        *images,
        json!({"app": {"tags": tags}, "lost": null, "empty": null})
    );
}

#[test]
fn entry_of_unreadable_job_stays() {
    let spec = json!({"images": {"app": {"tags": [
        {"tag": "1", "ownerReferences": [owner("odd")], "pullPolicy": {"ttlSecondsAfterFinished": 1}},
        {"tag": "2", "ownerReferences": [owner("gone")]},
    ]}}});
    let status = json!({"imageStatuses": {"app": {"tags": [
        {"tag": "1", "phase": "Succeeded", "completionTime": ago(99)},
    ]}}});
    let mut snapshot = snapshot(
        Some(node(&json!({}))),
        Some(image(&json!({}), &spec, &status)),
    );
    snapshot.unreadable_jobs = vec!["odd".to_owned()];
    let tags = &patch(&snapshot)["spec"]["images"]["app"]["tags"];
    assert_eq!(
        (tags.as_array().map(Vec::len), &tags[0]["tag"]),
        (Some(1), &json!("1"))
    );
}

#[test]
fn last_entry_of_a_namespace_removes_its_secrets() {
    let secret = |namespace: &str| json!({"namespace": namespace, "name": "s"});
    let spec = json!({"images": {"app": {
        "pullSecrets": [secret("default"), secret("mine"), secret("other")],
        "tags": [
            {"tag": "1", "ownerReferences": [owner("gone")]},
            {"tag": "2", "ownerReferences": [{"apiVersion": "v1", "kind": "X", "namespace": "other", "uid": "x"}]},
        ],
    }}});
    let snapshot = snapshot(
        Some(node(&json!({}))),
        Some(image(&json!({}), &spec, &json!(null))),
    );
    let secrets = &patch(&snapshot)["spec"]["images"]["app"]["pullSecrets"];
    assert_eq!(
        *secrets,
        json!([secret("mine"), secret("other")]),
        "no other's, and none that was put in by hand"
    );
}

#[test]
fn finished_entries_are_removed_after_their_ttl() {
    let always = || job("job", json!({}), json!(null));
    let never = || {
        job(
            "job",
            json!({"completionPolicy": {"type": "Never"}}),
            json!(null),
        )
    };
    let ended = || job("job", json!({}), json!({"completionTime": ago(50)}));
    let finished = |phase: &str, version: i64, seconds: i64| {
        json!({"imageStatuses": {"app": {"tags": [
            {"tag": "1", "phase": phase, "version": version, "completionTime": ago(seconds)},
        ]}}})
    };
    let day = i64::from(
        pull::limits(&never().spec.template, "n1")
            .ttl_seconds_after_finished
            .unwrap(),
    );
    let table = [
        (
            "too early",
            vec![ended()],
            finished("Succeeded", 2, 59),
            false,
            Some(1),
        ),
        (
            "in time",
            vec![ended()],
            finished("Succeeded", 2, 60),
            true,
            None,
        ),
        (
            "failed ones, too",
            vec![ended()],
            finished("Failed", 2, 61),
            true,
            None,
        ),
        (
            "a job that never ends",
            vec![never()],
            finished("Succeeded", 2, day),
            true,
            None,
        ),
        (
            "too early for that",
            vec![never()],
            finished("Succeeded", 2, day - 1),
            false,
            Some(1),
        ),
        (
            "another round",
            vec![ended()],
            finished("Succeeded", 1, 61),
            false,
            None,
        ),
        (
            "a job that counts it",
            vec![always()],
            finished("Succeeded", 2, 61),
            false,
            None,
        ),
        ("not finished", vec![ended()], json!(null), false, None),
    ];
    for (what, jobs, status, is_gone, look_again) in table {
        let entry = json!({
            "tag": "1", "version": 2, "pullPolicy": {"ttlSecondsAfterFinished": 60}, "ownerReferences": [owner("job")],
        });
        let spec = json!({"images": {"app": {"tags": [entry]}}});
        let snapshot = Snapshot {
            jobs,
            ..snapshot(None, Some(image(&fake(), &spec, &status)))
        };
        assert_eq!(
            patch(&snapshot)["spec"]["images"] == json!({"app": null}),
            is_gone,
            "{what}"
        );
        assert_eq!(
            decide(&snapshot, now())
                .look_again
                .map(|wait| wait.as_secs()),
            look_again,
            "{what}"
        );
    }
    let by_hand = json!({"images": {"app": {"tags": [{"tag": "1", "version": 2}]}}});
    let image = image(&fake(), &by_hand, &finished("Succeeded", 2, 1_000_000));
    assert_eq!(
        patch(&snapshot(None, Some(image))),
        Value::Null,
        "without a time to live it stays"
    );
}

#[test]
fn all_changes_are_one_patch() {
    let spec =
        json!({"images": {"app": {"tags": [{"tag": "1", "ownerReferences": [owner("gone")]}]}}});
    let mut snapshot = snapshot(
        Some(node(&json!({"a": "2"}))),
        Some(image(&json!({"a": "1"}), &spec, &json!(null))),
    );
    snapshot.pods = vec![pod(&ASKS)];
    let expected = json!({
        "metadata": {"labels": {"a": "2"}}, "spec": {"images": {"app": null}, "inspectPods": [listed("p")]},
    });
    assert_eq!(patch(&snapshot), expected);
    let plan = decide(&snapshot, now());
    let reason = &plan.stages[0].steps[0].reason;
    assert_eq!(
        reason,
        "its node has other labels; entries of app have other owners or limits, or are not wanted any more; the daemon is to look at 1 pods"
    );
}

proptest! {
    /// A patched NodeImage needs no other patch, and no entry is removed that an owner still wants.
    #[test]
    fn second_decision_after_one_patch_is_idle(
        entries in prop::collection::btree_map(
            ("[ab]", "[1-3]"),
            (prop::collection::btree_set("[jkx]", 0..3), prop::option::of(0i32..100), 0i64..2, prop::option::of(0i64..100)),
            0..6,
        ),
        alive in prop::collection::btree_set("[jk]", 0..3),
        ended in any::<bool>(),
    ) {
        let (mut spec, mut status) = (json!({}), json!({}));
        for ((name, tag), (owners, ttl, version, finished)) in &entries {
            let owners: Vec<_> = owners.iter().map(|uid| owner(uid)).collect();
            let mut entry = json!({"tag": tag, "version": 1, "ownerReferences": owners});
            if let Some(ttl) = ttl {
                entry["pullPolicy"] = json!({"ttlSecondsAfterFinished": ttl});
            }
            let list = &mut spec["images"][name]["tags"];
            *list = json!([list.as_array().cloned().unwrap_or_default(), vec![entry]].concat());
            let finished = finished.map(ago);
            let list = &mut status["imageStatuses"][name]["tags"];
            let one = json!({"tag": tag, "phase": "Succeeded", "version": version, "completionTime": finished});
            *list = json!([list.as_array().cloned().unwrap_or_default(), vec![one]].concat());
        }
        let completion = if ended { json!({"completionTime": ago(1)}) } else { json!(null) };
        let jobs: Vec<_> = alive.iter().map(|uid| job(uid, json!({}), completion.clone())).collect();
        let before = image(&fake(), &spec, &status);
        let first = Snapshot { jobs: jobs.clone(), ..snapshot(None, Some(before.clone())) };
        let mut after = json!(before.spec);
        crate::model::apiserver::merge(&mut after, &patch(&first)["spec"]);
        let after = if after.is_null() { json!(before.spec) } else { after };
        let again = Snapshot { jobs, ..snapshot(None, Some(image(&fake(), &after, &status))) };
        prop_assert_eq!(patch(&again), Value::Null);
        for ((name, tag), (owners, ttl, ..)) in &entries {
            let wanted = owners.iter().any(|uid| alive.contains(uid)) && (!ended || ttl.is_none())
                || owners.is_empty() && ttl.is_none();
            let tags = after["images"][name]["tags"].as_array();
            let is_there = tags.is_some_and(|tags| tags.iter().any(|entry| entry["tag"] == json!(tag)));
            prop_assert!(is_there || !wanted, "{name}:{tag} is gone");
            let forsaken = !owners.is_empty() && owners.iter().all(|uid| !alive.contains(uid));
            prop_assert!(!is_there || !forsaken, "{name}:{tag} is still there");
        }
    }
}
