//! Rounds without a status write, with unreadable objects, and with objects of an earlier
//! UnitedDeployment.

use std::sync::Arc;

use berth_api::v1beta1::uniteddeployment::UnitedDeployment;
use berth_workload::plan::Outcome;
use berth_workload::update::podset::Unreadable;

use super::super::{Round, Snapshot, status};
use super::world::World;
use super::*;

fn adaptive() -> World {
    let topology = json!({
        "subsets": [{"name": "subset-0", "maxReplicas": 2}, {"name": "subset-1"}],
        "scheduleStrategy": {
            "type": "Adaptive",
            "adaptive": {"rescheduleCriticalSeconds": 3, "unschedulableDuration": 60},
        },
    });
    World::new("cloneSetTemplate", 3, topology)
}

/// 22 rounds of one second. One round does not write its status.
fn with_lost_status(lost: usize) -> World {
    let mut world = adaptive();
    world.cut_off.insert("subset-0");
    for number in 0..22 {
        if number == lost {
            world.round_without_status();
        } else {
            world.round();
        }
        world.rest_one_second();
    }
    world
}

#[test]
fn unschedulable_subset_stays_so_with_lost_status() {
    for lost in 0..22 {
        let world = with_lost_status(lost);
        assert_eq!((world.by_subset(), world.made), (vec![0, 3], 5), "{lost}");
    }
}

fn unreadable(mut snapshot: Snapshot, kind: &'static str) -> Snapshot {
    snapshot.unreadable = vec![Unreadable {
        kind,
        name: "web-x".to_owned(),
        error: "spec: odd".to_owned(),
    }];
    snapshot
}

#[test]
fn unreadable_workload_stops_the_round() {
    let mut world = adaptive();
    world.rest();
    // Without it, the round would create the workload again and give its replicas to others.
    let mut snapshot = world.snapshot();
    snapshot.workloads.remove(0);
    for kind in ["CloneSet", "ControllerRevision"] {
        let snapshot = unreadable(snapshot.clone(), kind);
        let round = Round::of(&snapshot, world.now);
        let plan = world.plan(&snapshot);
        assert_eq!(plan.actions().count(), 0, "{plan:?}");
        let status = status(&snapshot, &round, &plan, &Outcome::default(), world.now).unwrap();
        let blocked = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Blocked")
            .unwrap();
        assert_eq!(blocked.reason, "Unreadable");
        let words = format!("UnitedDeployment default/web: {kind} web-x cannot be read");
        assert!(blocked.message.starts_with(&words), "{}", blocked.message);
        assert_eq!(status.subset_statuses, world.status().subset_statuses);
        let united = Arc::new(UnitedDeployment {
            status: Some(status),
            ..(*snapshot.united).clone()
        });
        assert!(
            world
                .plan(&Snapshot { united, ..snapshot })
                .events
                .is_empty(),
            "the event is sent once"
        );
    }
}

#[test]
fn workloads_of_a_predecessor_are_awaited() {
    let mut world = adaptive();
    world.rest();
    let mut left = world.revisions.remove(0);
    left["metadata"]["uid"] = json!("revision");
    let owners = |owner: &str| {
        json!([{
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment",
            "name": "web", "uid": owner, "controller": true,
        }])
    };
    let mut actions = |world: &mut World, of_workloads: Value, of_revision: Value| {
        world
            .workloads
            .iter_mut()
            .for_each(|(_, it)| it["metadata"]["ownerReferences"] = of_workloads.clone());
        left["metadata"]["ownerReferences"] = of_revision;
        let mut snapshot = world.snapshot();
        snapshot
            .orphans
            .push(Arc::new(serde_json::from_value(left.clone()).unwrap()));
        world.plan(&snapshot).actions().count()
    };
    assert_eq!(actions(&mut world, owners("earlier"), json!([])), 0);
    assert_eq!(actions(&mut world, json!([]), owners("earlier")), 0);
    assert_eq!(
        actions(&mut world, json!([]), json!([])),
        2,
        "the revision is adopted"
    );
}

#[test]
fn added_subset_starts_beside_its_substitutes() {
    let adaptive = json!({
        "rescheduleCriticalSeconds": 20,
        "unschedulableDuration": 1,
        "reserveUnschedulablePods": true,
    });
    let strategy = json!({"type": "Adaptive", "adaptive": adaptive});
    let topology = json!({"subsets": [{"name": "old"}], "scheduleStrategy": strategy});
    let mut world = World::new("cloneSetTemplate", 2, topology);
    world.rest();
    world.set(
        "/spec/topology/subsets",
        json!([{"name": "new"}, {"name": "old"}]),
    );
    let mut most = 0;
    for _ in 0..20 {
        world.round();
        world.rest_one_second();
        most = most.max(world.pods.len());
    }
    assert_eq!((world.by_subset(), most), (vec![2, 0], 4));
}

#[test]
fn division_stays_with_lost_status() {
    for lost in 0..6 {
        let topology = json!({"subsets": [{"name": "a"}, {"name": "b"}]});
        let mut world = World::new("cloneSetTemplate", 3, topology);
        for number in 0..12 {
            if number == lost {
                world.round_without_status();
            } else {
                world.round();
            }
            // Of two workloads the apiserver creates one before the controller ends.
            if number == lost && world.workloads.len() == 2 {
                world.workloads.pop();
            }
            world.rest_one_second();
        }
        assert_eq!((world.by_subset(), world.made), (vec![1, 2], 3), "{lost}");
    }
}
