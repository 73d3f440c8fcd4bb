use berth_workload::objects::resource::NATIVE_STATEFUL_SETS;
use berth_workload::plan::{Failure, Outcome, Verb, Write};
use berth_workload::update::podset::Unreadable;

use super::super::{Round, Snapshot, decide, status};
use super::world::World;
use super::*;

fn one_subset(field: &str) -> World {
    World::new(field, 1, json!({"subsets": [{"name": "a"}]}))
}

/// Reason and message of `Blocked` after a round with this outcome.
fn blocked(world: &World, snapshot: &Snapshot, outcome: &Outcome) -> Option<(String, String)> {
    let round = Round::of(snapshot, world.now);
    let plan = decide(snapshot, &round, world.now);
    let conditions = status(snapshot, &round, &plan, outcome, world.now)
        .unwrap()
        .conditions;
    let blocked = conditions
        .into_iter()
        .find(|condition| condition.type_ == "Blocked")?;
    Some((blocked.reason, blocked.message))
}

#[test]
fn unreadable_workload_holds_all_subsets() {
    let world = one_subset("cloneSetTemplate");
    let mut snapshot = world.snapshot();
    let error = "spec: has 9 bytes of JSON".to_owned();
    snapshot.unreadable.push(Unreadable {
        kind: "Deployment",
        name: "web-a".to_owned(),
        error,
    });
    assert_eq!(world.plan(&snapshot).actions().count(), 0);
    let (reason, message) = blocked(&world, &snapshot, &Outcome::default()).unwrap();
    assert_eq!(reason, "Unreadable");
    assert!(
        message.contains("Deployment web-a cannot be read") && message.contains("9 bytes"),
        "{message}"
    );
}

#[test]
fn template_too_large_makes_no_workload() {
    let large = "x".repeat(17_000);
    let subsets: Vec<_> = (0..200)
        .map(|at| json!({"name": format!("s{at}")}))
        .collect();
    let annotations = json!({"annotations": {"apps.kruise.io/a": large, "other.io/a": large}});
    let table = [
        (
            "/spec/topology/subsets",
            json!(subsets),
            "spec.template: comes to",
        ),
        (
            "/spec/template/deploymentTemplate/metadata",
            annotations,
            "spec.template.deploymentTemplate.metadata: labels and",
        ),
    ];
    for (field, value, says) in table {
        let mut world = one_subset("deploymentTemplate");
        let spec = &mut world.united["spec"]["template"]["deploymentTemplate"]["spec"];
        spec["template"]["spec"]["containers"][0]["args"] = json!(["x".repeat(22_000)]);
        assert_ne!(world.plan(&world.snapshot()).actions().count(), 0);
        world.set(field, value);
        let snapshot = world.snapshot();
        assert_eq!(world.plan(&snapshot).actions().count(), 0, "{field}");
        let (reason, message) = blocked(&world, &snapshot, &Outcome::default()).unwrap();
        assert!(
            reason == "InvalidSpec" && message.contains(says),
            "{message}"
        );
    }
}

#[test]
fn refused_write_names_field_and_remedy() {
    let mut world = one_subset("statefulSetTemplate");
    world.rest();
    let spec = json!({"serviceName": "other", "minReadySeconds": 3, "template": {"metadata": {"labels": {"app": "web"}}}});
    world.set("/spec/template/statefulSetTemplate/spec", spec);
    world.round();
    let snapshot = world.snapshot();
    let failure = |permanent: bool, message: &str| Failure {
        write: Write::of(Verb::Patch, NATIVE_STATEFUL_SETS),
        namespace: "default".to_owned(),
        object: snapshot.workloads[0].name().to_owned(),
        message: message.to_owned(),
        code: 422,
        permanent,
        outdated: false,
        taken: !permanent,
        infeasible: false,
    };
    let others = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'template', 'minReadySeconds' \
                  are forbidden";
    let says = |permanent: bool, message: &str| {
        let outcome = Outcome {
            failures: vec![failure(permanent, message)],
        };
        blocked(&world, &snapshot, &outcome).unwrap().1
    };
    let told = says(true, others);
    let ends = "; spec.template.statefulSetTemplate.spec.serviceName is \"other\", which cannot be changed: \
                take the change back, or create another UnitedDeployment with it";
    assert!(told.ends_with(ends), "{told}");
    assert!(says(true, "no").ends_with(
        "no; correct spec.template, or the patch of the subset in spec.topology.subsets"
    ));
    assert!(says(false, "exists: rename or delete it").ends_with("exists: rename or delete it"));
}
