use std::sync::Arc;

use berth_workload::plan::Action;

use super::super::{Snapshot, SubsetKind};
use super::world::World;
use super::*;

fn names(count: usize) -> Value {
    let subset = |at: usize| json!({"name": format!("subset-{at}")});
    json!({"subsets": (0..count).map(subset).collect::<Vec<_>>()})
}

const FIELDS: [&str; 4] = [
    "statefulSetTemplate",
    "advancedStatefulSetTemplate",
    "cloneSetTemplate",
    "deploymentTemplate",
];

#[test]
fn united_deployment_of_each_kind_scales() {
    for field in FIELDS {
        let mut world = World::new(field, 7, names(3));
        world.set(
            "/spec/topology/subsets/0",
            json!({"name": "subset-0", "minReplicas": 1, "maxReplicas": 2}),
        );
        world.set(
            "/spec/topology/subsets/1",
            json!({"name": "subset-1", "minReplicas": 1, "maxReplicas": 2}),
        );
        world.set(
            "/spec/topology/subsets/2",
            json!({"name": "subset-2", "minReplicas": 1}),
        );
        for (replicas, wanted) in [
            (7, [2, 2, 3]),
            (3, [1, 1, 1]),
            (1, [1, 0, 0]),
            (7, [2, 2, 3]),
        ] {
            world.set("/spec/replicas", json!(replicas));
            world.rest();
            assert_eq!(world.by_subset(), wanted, "{field} {replicas}");
            let status = world.status();
            assert_eq!(
                (status.replicas, status.ready_replicas),
                (replicas, replicas),
                "{field}"
            );
            assert_eq!(
                status.observed_generation,
                world.united["metadata"]["generation"].as_i64().unwrap()
            );
        }
    }
}

#[test]
fn rollout_stops_at_the_partitions() {
    for field in ["statefulSetTemplate", "cloneSetTemplate"] {
        let mut world = World::new(field, 6, names(2));
        world.rest();
        let first = world.status().current_revision;
        world.set("/spec", {
            let mut spec = world.united["spec"].clone();
            spec["updateStrategy"] = json!({"manualUpdate": {"partitions": {"subset-0": 2}}});
            spec["template"][field]["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!("web:2");
            spec
        });
        let before = world.writes;
        world.rest();
        assert_eq!(
            world.writes - before,
            2,
            "{field}: one write to each workload"
        );
        let status = world.status();
        assert_eq!(
            (status.updated_replicas, &status.current_revision),
            (4, &first),
            "{field}"
        );
        let held = world.writes;
        world.rest();
        assert_eq!(world.writes, held, "{field}: a held rollout writes nothing");
        world.set("/spec/updateStrategy", json!({}));
        world.rest();
        let status = world.status();
        assert_eq!(status.updated_replicas, 6, "{field}");
        assert_eq!(status.current_revision, status.updated_revision, "{field}");
        assert_eq!(world.revisions.len(), 2, "{field}");
    }
}

#[test]
fn patch_rolls_its_subset_alone() {
    let mut world = World::new("cloneSetTemplate", 4, names(2));
    world.rest();
    let (before, revisions) = (world.writes, world.revisions.len());
    let patch = json!({"spec": {"containers": [{"name": "web", "image": "web:arm"}]}});
    world.set(
        "/spec/topology/subsets/1",
        json!({"name": "subset-1", "patch": patch}),
    );
    world.rest();
    assert_eq!(
        (world.writes - before, world.revisions.len()),
        (1, revisions)
    );
    let image = |at: usize| {
        world.workloads[at]
            .1
            .pointer("/spec/template/spec/containers/0/image")
            .cloned()
    };
    assert_eq!(
        (image(0), image(1)),
        (Some(json!("web:1")), Some(json!("web:arm")))
    );
}

#[test]
fn adaptive_moves_unschedulable_replicas() {
    let mut topology = names(2);
    topology["scheduleStrategy"] = json!({"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 10, "unschedulableDuration": 20}});
    let mut world = World::new("cloneSetTemplate", 3, topology);
    world.set(
        "/spec/topology/subsets/0",
        json!({"name": "subset-0", "maxReplicas": 2}),
    );
    world.cut_off.insert("subset-0");
    world.rest();
    assert_eq!(world.by_subset(), [0, 3]);
    let schedulable = |world: &World| {
        world.status().subset_statuses[0].conditions[0]
            .status
            .clone()
    };
    // No pod waits any more, so the subset recovers, and keeps the replicas that others serve.
    assert_eq!(schedulable(&world), "True");
    world.cut_off.clear();
    world.set("/spec/replicas", json!(5));
    world.rest();
    assert_eq!(world.by_subset(), [2, 3]);
}

fn reserving(field: &str) -> World {
    let mut topology = names(3);
    topology["scheduleStrategy"] = json!({"type": "Adaptive", "adaptive": {
        "rescheduleCriticalSeconds": 20, "unschedulableDuration": 1, "reserveUnschedulablePods": true,
    }});
    World::new(field, 2, topology)
}

#[test]
fn reserved_pods_have_substitutes_until_they_serve() {
    for field in ["cloneSetTemplate", "deploymentTemplate"] {
        let mut world = reserving(field);
        world.cut_off.extend(["subset-0", "subset-1"]);
        for (replicas, wanted) in [
            (2, [2, 2, 2]),
            (4, [2, 2, 4]),
            (2, [2, 2, 2]),
            (4, [2, 2, 4]),
        ] {
            world.set("/spec/replicas", json!(replicas));
            world.rest();
            assert_eq!(world.by_subset(), wanted, "{field} {replicas}");
            assert_eq!(
                (world.reserved(), world.status().replicas),
                (4, replicas),
                "{field}"
            );
        }
        let image = format!("/spec/template/{field}/spec/template/spec/containers/0/image");
        world.set(&image, json!("web:2"));
        world.rest();
        assert_eq!(
            (world.by_subset(), world.reserved()),
            (vec![2, 2, 4], 4),
            "{field}"
        );
        let status = world.status();
        let labels = world.pods.iter().map(|(_, pod)| &pod["metadata"]["labels"]);
        let is_updated = |labels: &&Value| {
            labels["apps.kruise.io/controller-revision-hash"] == status.updated_revision
        };
        assert_eq!(
            (labels.filter(is_updated).count(), status.updated_replicas),
            (8, 4),
            "{field}"
        );
        world.cut_off.remove("subset-0");
        world.rest();
        assert_eq!(
            (world.by_subset(), world.reserved()),
            (vec![4, 0, 0], 0),
            "{field}"
        );
        assert!(
            world
                .status()
                .subset_statuses
                .iter()
                .all(|subset| subset.conditions[0].status == "True"),
            "{field}"
        );
    }
}

#[test]
fn reserved_minimum_stays_while_unschedulable() {
    let mut world = reserving("cloneSetTemplate");
    for at in [0, 1] {
        let subset = json!({"name": format!("subset-{at}"), "minReplicas": 1});
        world.set(&format!("/spec/topology/subsets/{at}"), subset);
    }
    world.cut_off.extend(["subset-0", "subset-1"]);
    for (replicas, wanted) in [
        (2, [1, 1, 2]),
        (4, [1, 1, 4]),
        (2, [1, 1, 2]),
        (4, [1, 1, 4]),
    ] {
        world.set("/spec/replicas", json!(replicas));
        world.rest();
        assert_eq!(
            (world.by_subset(), world.reserved()),
            (wanted.to_vec(), 2),
            "{replicas}"
        );
    }
    world.cut_off.remove("subset-0");
    world.rest();
    assert_eq!((world.by_subset(), world.reserved()), (vec![4, 1, 0], 1));
    world.set("/spec/replicas", json!(5));
    world.rest();
    assert_eq!((world.by_subset(), world.reserved()), (vec![5, 1, 0], 1));
}

#[test]
fn substitutes_serve_all_the_while() {
    let mut world = reserving("cloneSetTemplate");
    world.set("/spec/replicas", json!(4));
    world.cut_off.insert("subset-0");
    world.rest();
    world.cut_off.clear();
    for _ in 0..60 {
        world.round();
        let snapshot = world.snapshot();
        let serving = snapshot
            .pods
            .iter()
            .filter(|pod| pod.is_true("Ready"))
            .count();
        assert!(serving >= 4, "{serving} at {}", world.now);
        world.rest_one_second();
    }
    assert_eq!(world.by_subset(), [4, 0, 0]);
}

#[test]
fn changed_kind_replaces_subset_by_subset() {
    let spec = |world: &World, to: &str, from: &str| {
        let mut spec = world.united["spec"].clone();
        let template = spec["template"][from].clone();
        spec["template"] = json!({to: template});
        spec
    };
    for (from, to) in [
        ("cloneSetTemplate", "deploymentTemplate"),
        ("statefulSetTemplate", "cloneSetTemplate"),
    ] {
        let mut world = World::new(from, 4, names(2));
        world.rest();
        let new = spec(&world, to, from);
        world.set("/spec", new);
        let mut least = 4;
        for _ in 0..40 {
            world.round();
            world.rest_one_second();
            least = least.min(world.pods.len());
        }
        assert_eq!(
            (world.by_subset(), world.workloads.len()),
            (vec![2, 2], 2),
            "{from} {to}"
        );
        assert!(
            world
                .workloads
                .iter()
                .all(|(kind, _)| kind.template_field() == to)
        );
        // Pods with identities never run twice; others serve until the new ones do.
        assert_eq!(
            least >= 4,
            from == "cloneSetTemplate",
            "{from} {to}: {least}"
        );
    }
}

#[test]
fn removed_subset_is_deleted() {
    let mut world = World::new("cloneSetTemplate", 4, names(2));
    world.rest();
    world.set("/spec/topology", names(1));
    world.rest();
    assert_eq!((world.by_subset(), world.workloads.len()), (vec![4], 1));
    assert_eq!(world.status().subset_statuses.len(), 1);
}

#[test]
fn label_of_a_subset_that_is_taken_off_returns() {
    for field in FIELDS {
        let mut world = World::new(field, 2, names(2));
        world.rest();
        let before = world.workloads.clone();
        let labels = world.workloads[0].1["metadata"]["labels"]
            .as_object_mut()
            .unwrap();
        labels.remove("apps.kruise.io/subset-name");
        let writes = world.writes;
        world.round();
        let label = |at: usize| {
            world.workloads[at].1["metadata"]["labels"]["apps.kruise.io/subset-name"].clone()
        };
        assert_eq!(
            (world.writes - writes, world.workloads.len()),
            (1, 2),
            "{field}"
        );
        assert_eq!(
            (label(0), label(1)),
            (json!("subset-0"), json!("subset-1")),
            "{field}"
        );
        assert_eq!(world.workloads[0].1["spec"], before[0].1["spec"], "{field}");
    }
}

#[test]
fn workload_of_another_is_left_alone() {
    let mut world = World::new("cloneSetTemplate", 2, names(1));
    let foreign = |name: &str, labels: Value, owner: Option<&str>| {
        let owners = owner.map(|uid| json!([{"apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment", "name": "x", "uid": uid, "controller": true}]));
        let metadata = json!({"name": name, "namespace": "default", "uid": name, "generation": 1, "labels": labels, "ownerReferences": owners});
        (
            SubsetKind::CloneSet,
            json!({"metadata": metadata, "spec": {"replicas": 1, "selector": {"matchLabels": labels}}}),
        )
    };
    let of_subset = json!({"app": "web", "apps.kruise.io/subset-name": "subset-0"});
    world
        .workloads
        .push(foreign("other", of_subset.clone(), Some("another")));
    world
        .workloads
        .push(foreign("unlabelled", json!({"app": "web"}), None));
    world.round();
    world.round();
    world.round();
    let mine = world
        .workloads
        .iter()
        .filter(|(_, it)| it["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_eq!((mine.count(), world.workloads.len()), (1, 3));
    let mut world = World::new("cloneSetTemplate", 2, names(1));
    world.workloads.push(foreign("orphan", of_subset, None));
    world.round();
    world.round();
    world.round();
    let owners = &world.workloads[0].1["metadata"]["ownerReferences"];
    assert_eq!(
        (world.workloads.len(), &owners[0]["uid"]),
        (1, &json!("united"))
    );
}

#[test]
fn differing_division_is_reported_and_applied() {
    let mut world = World::new("cloneSetTemplate", 3, names(2));
    for at in [0, 1] {
        world.set(
            &format!("/spec/topology/subsets/{at}"),
            json!({"name": format!("subset-{at}"), "replicas": 2}),
        );
    }
    world.rest();
    assert_eq!(world.by_subset(), [2, 1]);
    let status = world.status();
    let blocked = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Blocked")
        .unwrap();
    assert!(
        blocked.message.contains("come to 4 and spec.replicas is 3"),
        "{}",
        blocked.message
    );
}

#[test]
fn revision_of_an_earlier_namesake_is_adopted() {
    let mut world = World::new("cloneSetTemplate", 2, names(1));
    world.rest();
    let mut left = world.revisions.remove(0);
    left["metadata"]["ownerReferences"] = json!([]);
    left["metadata"]["uid"] = json!("revision");
    let mut snapshot = world.snapshot();
    snapshot
        .orphans
        .push(Arc::new(serde_json::from_value(left.clone()).unwrap()));
    let actions = |snapshot: &Snapshot| world.plan(snapshot).actions().cloned().collect::<Vec<_>>();
    assert!(
        matches!(&actions(&snapshot)[..], [Action::Confirm { .. }, Action::AdoptRevision { target, .. }] if target.uid == "revision")
    );
    left["data"]["spec"]["template"]["cloneSetTemplate"]["spec"]["minReadySeconds"] = json!(5);
    snapshot.orphans[0] = Arc::new(serde_json::from_value(left).unwrap());
    assert!(
        matches!(&actions(&snapshot)[..], [Action::CreateRevision { .. }]),
        "other data"
    );
}
