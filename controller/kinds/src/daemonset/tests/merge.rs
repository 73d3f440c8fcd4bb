//! Revisions of the same content are merged, and no pod restarts.

use berth_api::names::annotation::{INPLACE_UPDATE_GRACE, INPLACE_UPDATE_STATE};
use berth_workload::plan::{Action, Plan};
use serde_json::{Value, json};

use super::super::simulation::World;

const LABEL: &str = "controller-revision-hash";

/// Three nodes, and the one revision there is once more, with this number.
fn world(fields: Value, number: i64) -> World {
    let mut world = World::settled(3, fields);
    assert!(world.duplicate_revision(number, "log-twin").is_some());
    world
}

/// The plan's writes to revisions and pods, in order.
fn writes(plan: &Plan) -> Vec<String> {
    let of = |action: &Action| match action {
        Action::PatchPod { target, patch } => {
            assert!(
                !patch.restarts() && target.resource_version.is_some(),
                "{patch:?}"
            );
            let label = patch.labels[LABEL].clone().unwrap_or_default();
            format!("{} is {label}", target.name)
        }
        Action::DeleteRevision { target } => format!("deletes {}", target.name),
        other => other.write().to_string(),
    };
    plan.actions().map(of).collect()
}

fn names(world: &World) -> Vec<&str> {
    world.revisions.keys().map(String::as_str).collect()
}

fn labels(world: &World) -> Vec<String> {
    world
        .all_pods()
        .iter()
        .map(|pod| pod.metadata.label(LABEL).unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn pods_move_to_newest_duplicate_revision() {
    for kind in ["Standard", "InPlaceIfPossible"] {
        let fields = json!({"updateStrategy": {"rollingUpdate": {"rollingUpdateType": kind}}});
        let mut world = world(fields, 7);
        let pods: Vec<_> = world.pods.keys().cloned().collect();
        let first = world.step();
        assert_eq!(
            writes(&first),
            pods.iter()
                .map(|pod| format!("{pod} is twin"))
                .collect::<Vec<_>>(),
            "{kind}"
        );
        let second = world.step();
        let [deleted] = &writes(&second)[..] else {
            panic!("{second:#?}")
        };
        assert!(
            deleted.starts_with("deletes log-") && deleted != "deletes log-twin",
            "{deleted}"
        );
        world.settle();
        assert_eq!(names(&world), ["log-twin"], "{kind}");
        assert_eq!(labels(&world), ["twin"; 3]);
        assert_eq!(
            world.pods.keys().cloned().collect::<Vec<_>>(),
            pods,
            "no pod was made anew"
        );
        let status = world.status();
        assert_eq!(
            (
                status.update_revision.as_str(),
                status.updated_number_scheduled
            ),
            ("twin", 3)
        );
    }
}

#[test]
fn unused_older_duplicate_is_deleted_at_once() {
    let mut world = world(json!({}), 0);
    let kept = labels(&world);
    assert_eq!(writes(&world.step()), ["deletes log-twin"]);
    assert!(world.plan().is_idle());
    assert_eq!(labels(&world), kept);
}

#[test]
fn rollout_continues_from_duplicate_revisions() {
    let mut world = world(json!({}), 7);
    let pod = world.pod_of("n1");
    world.label(&pod, LABEL, "twin");
    world.set_image("log:1");
    assert_eq!(
        writes(&world.step()).len(),
        2,
        "before anything is replaced"
    );
    world.settle();
    assert_eq!(world.images(), ["n0 1", "n1 1", "n2 1"]);
    assert_eq!(world.revisions.len(), 2, "the new one, and one of before");
}

#[test]
fn merge_completes_after_controller_restart() {
    // Of three labels, `written` were written, or all, and then some of the revisions deleted.
    for written in 0..=3 {
        let mut world = world(json!({}), 7);
        for node in ["n0", "n1", "n2"].iter().take(written) {
            let pod = world.pod_of(node);
            world.label(&pod, LABEL, "twin");
        }
        let left = writes(&world.step());
        assert_eq!(
            left.len(),
            if written == 3 { 1 } else { 3 - written },
            "{left:?}"
        );
        world.settle();
        assert_eq!(
            (names(&world), labels(&world)),
            (vec!["log-twin"], vec!["twin".to_owned(); 3]),
            "{written}"
        );
    }
}

#[test]
fn running_update_is_proven_for_the_kept_revision() {
    let fields =
        json!({"updateStrategy": {"rollingUpdate": {"rollingUpdateType": "InPlaceIfPossible"}}});
    let mut world = World::settled(1, fields);
    world.set_image("log:1");
    let pod = world.pod_of("n0");
    let is_patched = |world: &World| world.pods[&pod]["spec"]["containers"][0]["image"] == "log:1";
    for _ in 0..9 {
        if !is_patched(&world) {
            world.step();
        }
    }
    assert!(is_patched(&world));
    world.duplicate_revision(7, "log-twin");
    assert_eq!(writes(&world.step()), [format!("{pod} is twin")]);
    let record = world.pods[&pod]["metadata"]["annotations"][INPLACE_UPDATE_STATE]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        serde_json::from_str::<Value>(&record).unwrap()["revision"],
        "log-twin"
    );
    let created = world.pods[&pod]["metadata"]["uid"].clone();
    world.settle();
    assert_eq!(world.pods[&pod]["metadata"]["uid"], created);
    assert_eq!(
        (world.status().updated_number_scheduled, world.available()),
        (1, 1)
    );
}

#[test]
fn revision_of_foreign_or_grace_period_pod_stays() {
    type Edit = fn(&mut World, &str);
    let edits: [(&str, Edit); 2] = [
        ("another DaemonSet of this name has it", |world, pod| {
            let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "other", "controller": true}]);
            world.pods.get_mut(pod).unwrap()["metadata"]["ownerReferences"] = owner;
        }),
        ("OpenKruise began an update", |world, pod| {
            let annotations = &mut world.pods.get_mut(pod).unwrap()["metadata"]["annotations"];
            annotations[INPLACE_UPDATE_GRACE] = json!(r#"{"graceSeconds":3600}"#);
            annotations[INPLACE_UPDATE_STATE] =
                json!(r#"{"revision":"log-twin","updateTimestamp":"1970-01-12T13:46:40Z"}"#);
        }),
    ];
    for (what, edit) in edits {
        let mut world = World::settled(2, json!({}));
        world.duplicate_revision(0, "log-twin");
        let pod = world.pod_of("n0");
        world.label(&pod, LABEL, "twin");
        edit(&mut world, &pod);
        let revisions = world.revisions.len();
        world.add_node("n2");
        let plan = world.step();
        assert_eq!(world.revisions.len(), revisions, "{what}");
        assert!(
            writes(&plan).contains(&"CreatePod".to_owned()),
            "{what}: {plan:#?}"
        );
    }
}

#[test]
fn terminating_pod_keeps_no_revision() {
    let mut world = world(json!({}), 0);
    let pod = world.pod_of("n0");
    world.label(&pod, LABEL, "twin");
    world.delete(&pod);
    assert!(writes(&world.step()).contains(&"deletes log-twin".to_owned()));
}
