//! Rounds without a status write, with unreadable objects, and with objects of an earlier
//! UnitedDeployment.

use std::sync::Arc;

use berth_api::v1beta1::uniteddeployment::UnitedDeployment;
use berth_workload::plan::Outcome;
use berth_workload::podset::Unreadable;

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

fn unreadable(mut snapshot: Snapshot, kind: &'static str) -> Snapshot {
    snapshot.unreadable = vec![Unreadable {
        kind,
        name: "web-x".to_owned(),
        error: "spec: odd".to_owned(),
    }];
    snapshot
}

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

