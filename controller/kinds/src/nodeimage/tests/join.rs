//! The images that a node pulls first, and when all of them are listed.

use berth_api::names::annotation::PREPULL_ON_JOIN;
use berth_api::v1beta1::cloneset::CloneSet;
use berth_api::v1beta1::daemonset::DaemonSet;
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::update::revision::Revision;

use super::*;
use crate::model::apiserver::merge;
use crate::nodeimage::{Join, is_joining, may_end_a_wait};

fn open() -> Gates {
    Gates::default().with(Gate::ImagePullJob, true)
}

fn never(uid: &str, more: Value) -> Arc<ImagePullJob> {
    let mut spec = json!({"completionPolicy": {"type": "Never"}});
    merge(&mut spec, &more);
    job(uid, spec, json!(null))
}

fn workload(kind: &str, name: &str, pod: Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": kind,
        "metadata": {"namespace": "shop", "name": name, "uid": name, "annotations": {(PREPULL_ON_JOIN): "true"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}},
    })
}

fn clone_set(name: &str, pod: Value) -> (Arc<CloneSet>, Option<Arc<Revision>>) {
    (
        Arc::new(serde_json::from_value(workload("CloneSet", name, pod)).unwrap()),
        None,
    )
}

fn daemon_set(name: &str, pod: Value) -> (Arc<DaemonSet>, Vec<Arc<Revision>>) {
    (
        Arc::new(serde_json::from_value(workload("DaemonSet", name, pod)).unwrap()),
        Vec::new(),
    )
}

fn revision(name: &str, pod: Value) -> Arc<Revision> {
    let data = json!({"spec": {"template": {"spec": pod, "$patch": "replace"}}});
    Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap())
}

fn runs(image: &str) -> Value {
    json!({"containers": [{"name": "main", "image": image}]})
}

fn with(pod: Value, more: Value) -> Value {
    let mut pod = pod;
    merge(&mut pod, &more);
    pod
}

fn joins(join: Join) -> Snapshot {
    let snapshot = snapshot(
        Some(node(&json!({"zone": "a"}))),
        Some(image(&json!({"zone": "a"}), &json!({}), &json!(null))),
    );
    Snapshot {
        join: Some(Join {
            gates: open(),
            ..join
        }),
        ..snapshot
    }
}

/// The images in the patch, each with its tags.
fn asked_for(patch: &Value) -> Vec<String> {
    let images = patch["spec"]["images"].as_object().into_iter().flatten();
    let tags = |(name, image): (&String, &Value)| -> Vec<String> {
        let tags = image["tags"].as_array().into_iter().flatten();
        tags.map(|tag| format!("{name}:{}", tag["tag"].as_str().unwrap()))
            .collect()
    };
    images.flat_map(tags).collect()
}

#[test]
fn node_without_pulls_is_created_with_complete_list() {
    let named = |name: &str| never("a", json!({"selector": {"names": [name]}}));
    let set = || clone_set("web", runs("web:1"));
    let table = [
        (
            "nothing",
            Join::default(),
            json!({"firstPullsListed": true}),
        ),
        (
            "a job of others",
            Join {
                jobs: vec![named("n2")],
                ..Join::default()
            },
            json!({"firstPullsListed": true}),
        ),
        (
            "a job",
            Join {
                jobs: vec![named("n1")],
                ..Join::default()
            },
            json!({}),
        ),
        (
            "a workload",
            Join {
                clone_sets: vec![set()],
                ..Join::default()
            },
            json!({}),
        ),
    ];
    for (what, join, spec) in table {
        let made = actions(&decide(
            &Snapshot {
                image: None,
                ..joins(join)
            },
            now(),
        ));
        let [Action::Create { body, .. }] = &made[..] else {
            panic!("{what}: {made:?}")
        };
        assert_eq!(body["spec"], spec, "{what}");
    }
}

#[test]
fn node_waits_until_endless_jobs_have_listed_images() {
    let leaving = || {
        let mut job = never("a", json!({}));
        Arc::make_mut(&mut job).metadata.deletion_timestamp =
            serde_json::from_value(ago(1)).unwrap();
        job
    };
    let table = [
        ("of all nodes", never("a", json!({})), true),
        (
            "of its labels",
            never("a", json!({"selector": {"matchLabels": {"zone": "a"}}})),
            true,
        ),
        (
            "of other labels",
            never("a", json!({"selector": {"matchLabels": {"zone": "b"}}})),
            false,
        ),
        (
            "of pods",
            never("a", json!({"podSelector": {"matchLabels": {"a": "b"}}})),
            false,
        ),
        (
            "a percentage",
            never("a", json!({"parallelism": "1%"})),
            true,
        ),
        ("paused", never("a", json!({"parallelism": 0})), false),
        (
            "paused by a percentage",
            never("a", json!({"parallelism": "0%"})),
            false,
        ),
        (
            "no sense",
            never("a", json!({"parallelism": "many"})),
            false,
        ),
        ("one that ends", job("a", json!({}), json!(null)), false),
        ("leaving", leaving(), false),
    ];
    for (what, job, waits) in table {
        let snapshot = joins(Join {
            jobs: vec![job],
            ..Join::default()
        });
        assert_eq!(
            patch(&snapshot)["spec"]["firstPullsListed"].is_null(),
            waits,
            "{what}"
        );
        let says = decide(&snapshot, now())
            .waiting
            .iter()
            .any(|one| one.reason.contains("default/a has yet to ask"));
        assert_eq!(says, waits, "{what}");
    }
    let entry = json!({"tag": "1", "pullPolicy": limits_of(&never("a", json!({}))), "ownerReferences": [owner("a")]});
    let asked = json!({"images": {"app": {"tags": [entry]}}});
    let snapshot = Snapshot {
        image: Some(image(&json!({"zone": "a"}), &asked, &json!(null))),
        jobs: vec![never("a", json!({}))],
        ..joins(Join {
            jobs: vec![never("a", json!({}))],
            ..Join::default()
        })
    };
    assert_eq!(
        patch(&snapshot),
        json!({"spec": {"firstPullsListed": true}}),
        "it has asked"
    );
    let off = Snapshot {
        join: Some(Join {
            jobs: vec![never("a", json!({}))],
            gates: Gates::default(),
            ..Join::default()
        }),
        ..joins(Join::default())
    };
    assert_eq!(
        patch(&off)["spec"]["firstPullsListed"],
        true,
        "no job lists images while the feature gate is off"
    );
    let full: serde_json::Map<_, _> = (0..256)
        .map(|n| (format!("i{n}"), json!({"tags": [{"tag": "1"}]})))
        .collect();
    let full = image(
        &json!({"zone": "a"}),
        &json!({"images": full}),
        &json!(null),
    );
    let full = Snapshot {
        image: Some(full),
        ..joins(Join {
            jobs: vec![never("a", json!({}))],
            ..Join::default()
        })
    };
    assert_eq!(
        patch(&full)["spec"]["firstPullsListed"],
        true,
        "there is no room for it"
    );
}

#[test]
fn workloads_ask_where_their_pods_could_run() {
    let taints = json!([
        {"key": "dedicated", "effect": "NoSchedule"}, {"key": "apps.kruise.io/images-not-ready", "effect": "NoExecute"},
    ]);
    let tolerates = || json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]});
    let requires = |zone: &str| {
        let term =
            json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
    };
    let of = |image: &str, more: Value| with(with(runs(image), tolerates()), more);
    let join = Join {
        clone_sets: vec![
            clone_set(
                "anywhere",
                of("here:1", json!({"initContainers": [{"image": "init:1"}]})),
            ),
            clone_set(
                "by-label",
                of("label:1", json!({"nodeSelector": {"zone": "a"}})),
            ),
            clone_set(
                "elsewhere",
                of("elsewhere:1", json!({"nodeSelector": {"zone": "b"}})),
            ),
            clone_set("by-term", of("term:1", requires("a"))),
            clone_set("other-term", of("otherterm:1", requires("b"))),
            clone_set("intolerant", runs("intolerant:1")),
        ],
        daemon_sets: vec![
            daemon_set("agent", of("agent:1", json!({}))),
            daemon_set("strict", runs("strict:1")),
        ],
        ..Join::default()
    };
    let mut snapshot = joins(join);
    let mut node = node(&json!({"zone": "a"}));
    node["spec"] = json!({"taints": taints});
    snapshot.node = Some(Arc::new(serde_json::from_value(node).unwrap()));
    let patched = patch(&snapshot);
    assert_eq!(
        asked_for(&patched),
        ["agent:1", "here:1", "init:1", "label:1", "term:1"]
    );
    assert_eq!(patched["spec"]["firstPullsListed"], true, "in one write");
    let of_agent = &patched["spec"]["images"]["agent"]["tags"][0]["ownerReferences"][0];
    assert_eq!(
        (&of_agent["kind"], &of_agent["namespace"]),
        (&json!("DaemonSet"), &json!("shop"))
    );
}

#[test]
fn partition_makes_node_pull_both_revisions() {
    let (set, _) = clone_set("web", runs("web:2"));
    let current = revision("web-1", runs("web:1"));
    let snapshot = joins(Join {
        clone_sets: vec![(set, Some(current))],
        ..Join::default()
    });
    assert_eq!(asked_for(&patch(&snapshot)), ["web:1", "web:2"]);
}

/// Each revision counts if the node matches its own template.
#[test]
fn joining_node_pulls_kept_revisions_too() {
    let elsewhere = || with(runs("far:1"), json!({"nodeSelector": {"zone": "b"}}));
    for (update, kept, expected) in [
        (
            runs("agent:2"),
            vec![runs("agent:2"), runs("agent:1")],
            vec!["agent:1", "agent:2"],
        ),
        (runs("agent:2"), vec![elsewhere()], vec!["agent:2"]),
        (elsewhere(), vec![runs("agent:1")], vec!["agent:1"]),
    ] {
        let (set, _) = daemon_set("agent", update);
        let kept = kept
            .into_iter()
            .map(|pod| revision("agent-1", pod))
            .collect();
        let snapshot = joins(Join {
            daemon_sets: vec![(set, kept)],
            ..Join::default()
        });
        assert_eq!(asked_for(&patch(&snapshot)), expected);
    }
}

#[test]
fn images_are_listed_once_after_labels_are_set() {
    let join = || Join {
        clone_sets: vec![clone_set("web", runs("web:1"))],
        ..Join::default()
    };
    let other_labels = Snapshot {
        image: Some(image(&json!({}), &json!({}), &json!(null))),
        ..joins(join())
    };
    assert_eq!(
        patch(&other_labels),
        json!({"metadata": {"labels": {"zone": "a"}}}),
        "those of the NodeImage come first"
    );
    let mut uninitialized = node(&json!({"zone": "a"}));
    uninitialized["spec"] = json!({"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}]});
    let by_cloud = Snapshot {
        node: Some(Arc::new(serde_json::from_value(uninitialized).unwrap())),
        ..joins(join())
    };
    assert_eq!(patch(&by_cloud), Value::Null, "a cloud has yet to label it");

    let first = patch(&joins(join()));
    let mut listed = json!({});
    merge(&mut listed, &first["spec"]);
    let again = |spec: &Value, status: Value| Snapshot {
        image: Some(image(&json!({"zone": "a"}), spec, &status)),
        ..joins(join())
    };
    assert_eq!(patch(&again(&listed, json!(null))), Value::Null);
    listed["firstPullsListed"] = json!(false);
    assert_eq!(
        patch(&again(&listed, json!(null))),
        json!({"spec": {"firstPullsListed": true}}),
        "what was asked stays"
    );
    let told = json!({"desired": 0, "firstSyncStatus": {"status": "Succeeded"}});
    assert_eq!(
        patch(&again(&json!({}), told.clone())),
        Value::Null,
        "a node that joined before there was this word"
    );
    assert!(!is_joining(Some(&*image(&json!({}), &json!({}), &told))) && is_joining(None));
}

#[test]
fn nodeimage_older_than_its_node_is_recreated() {
    let made = |at: i64, object: &mut Value| object["metadata"]["creationTimestamp"] = ago(at);
    for (node_age, image_age, expected) in [
        (60, 61, vec!["DeleteNodeImage"]),
        (60, 60, vec![]),
        (60, 59, vec![]),
    ] {
        let mut node = node(&json!({}));
        made(node_age, &mut node);
        let mut old = (*image(&json!({}), &json!({}), &json!(null))).clone();
        old.metadata.creation_timestamp = serde_json::from_value(ago(image_age)).unwrap();
        let old = Arc::new(old);
        assert_eq!(
            kinds(&snapshot(Some(node), Some(old))),
            expected,
            "{node_age} {image_age}"
        );
    }
}

#[test]
fn only_spec_of_endless_job_wakes_waiting_nodes() {
    let generation = |job: &Arc<ImagePullJob>, generation: i64| {
        let mut job = (**job).clone();
        job.metadata.generation = Some(generation);
        job
    };
    let waits = never("a", json!({}));
    assert!(may_end_a_wait(&waits, None));
    assert!(may_end_a_wait(
        &generation(&waits, 1),
        Some(&generation(&waits, 2))
    ));
    let mut beat = generation(&waits, 1);
    beat.status = Some(Default::default());
    assert!(
        !may_end_a_wait(&generation(&waits, 1), Some(&beat)),
        "a status"
    );
    assert!(
        !may_end_a_wait(&job("a", json!({}), json!(null)), None),
        "one that ends"
    );
}
