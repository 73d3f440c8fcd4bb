use std::sync::Arc;

use berth_api::names::condition;
use berth_workload::plan::{Action, Outcome};
use berth_workload::update::podset::Unreadable;
use serde_json::json;

use super::super::simulation::{World, template};
use super::super::{decide, status};

fn unreadable(kind: &'static str, name: &str) -> Unreadable {
    Unreadable {
        kind,
        name: name.to_owned(),
        error: "invalid type".to_owned(),
    }
}

#[test]
fn unreadable_object_prevents_new_pod_changes() {
    for kind in ["Pod", "PersistentVolumeClaim", "ControllerRevision"] {
        for replicas in [1, 3] {
            let mut world = World::settled(2, template("web:1"), json!({}));
            world.set_template(template("web:2"));
            Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
            world.ask_to_go(0);
            let mut snapshot = world.snapshot();
            assert!(!decide(&snapshot, world.now()).is_idle());
            snapshot.unreadable = vec![unreadable(kind, "odd")];
            let plan = decide(&snapshot, world.now());
            assert!(plan.is_idle(), "{plan:#?}");
            let told = status(&snapshot, &plan, &Outcome::default(), world.now()).unwrap();
            let blocked = told
                .conditions
                .iter()
                .find(|c| c.type_ == condition::BLOCKED)
                .unwrap();
            assert_eq!(blocked.reason, "Unreadable");
            assert!(
                blocked
                    .message
                    .contains(&format!("{kind} odd cannot be read")),
                "{}",
                blocked.message
            );
            assert_eq!(told.replicas, 2, "what was counted stays");
            snapshot.set = world.set.clone();
            snapshot.unreadable.clear();
            assert!(
                !decide(&snapshot, world.now()).is_idle(),
                "it goes on when it can be read"
            );
        }
    }
}

#[test]
fn held_set_finishes_updates_of_readable_pods() {
    let mut world = World::settled(
        2,
        template("web:1"),
        json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2}}),
    );
    world.set_template(template("web:2"));
    world.step();
    world.step();
    world.run_kubelets();
    let mut snapshot = world.snapshot();
    let odd = snapshot.pods[0].metadata.name.to_string();
    let other = snapshot.pods[1].metadata.name.to_string();
    snapshot.unreadable = vec![unreadable("Pod", &odd)];
    let plan = decide(&snapshot, world.now());
    let steps = plan.actions();
    let written: Vec<_> = steps
        .map(|action| match action {
            Action::PatchPodStatus { target, .. } => target.name.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(written, [other]);
}
