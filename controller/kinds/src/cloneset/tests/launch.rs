use berth_api::names::{annotation, env};
use berth_workload::objects::resource::CONFIG_MAPS;
use berth_workload::plan::{Action, IfExists};
use berth_workload::update::launch::priorities;
use serde_json::{Value, json};

use crate::cloneset::simulation::World;

fn strategy() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}})
}

/// Containers `a`, `b` and `c` with these priorities, if any.
fn template(priorities: [Option<&str>; 3]) -> Value {
    let container = |(name, priority): (&str, Option<&str>)| {
        let variable = |value: &str| json!({"name": env::CONTAINER_PRIORITY, "value": value});
        json!({"name": name, "image": format!("{name}:1"), "env": priority.into_iter().map(variable).collect::<Vec<_>>()})
    };
    let containers: Vec<Value> = ["a", "b", "c"]
        .into_iter()
        .zip(priorities)
        .map(container)
        .collect();
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}})
}

fn ordered() -> Value {
    let mut template = template([None; 3]);
    template["metadata"]["annotations"] =
        json!({annotation::CONTAINER_LAUNCH_PRIORITY: annotation::CONTAINER_LAUNCH_ORDERED});
    template
}

#[test]
fn launch_priorities_of_containers_by_template() {
    let mut single = template([Some("5"), None, None]);
    single["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .truncate(1);
    let table = [
        ("none", template([None; 3]), Ok(None)),
        ("all the same", template([Some("3"); 3]), Ok(None)),
        (
            "some",
            template([None, Some("10"), Some("-1")]),
            Ok(Some(vec![0, 10, -1])),
        ),
        ("as listed", ordered(), Ok(Some(vec![0, -1, -2]))),
        ("one container", single, Ok(None)),
        (
            "no number",
            template([Some("first"), None, None]),
            Err("container \"a\": KRUISE_CONTAINER_PRIORITY is \"first\""),
        ),
    ];
    for (what, template, expected) in table {
        match (priorities(&template), expected) {
            (Err((field, why)), Err(part)) => {
                assert!(
                    field == "template.spec.containers" && why.contains(part),
                    "{what}: {why}"
                );
            }
            (found, expected) => assert_eq!(found.ok(), expected.ok(), "{what}"),
        }
    }
}

#[test]
fn a_priority_that_is_no_number_is_refused() {
    let mut world = World::new(1, template([Some("first"), None, None]), strategy());
    let plan = world.step();
    assert!(
        plan.refusal
            .unwrap()
            .message
            .contains("spec.template.spec.containers")
    );
}

#[test]
fn containers_start_in_order() {
    for (template, order) in [
        (ordered(), [&["a"][..], &["a", "b"], &["a", "b", "c"]]),
        (
            template([Some("-1"), Some("7"), None]),
            [&["b"], &["b", "c"], &["a", "b", "c"]],
        ),
    ] {
        let mut world = World::new(2, template, strategy());
        world.slow = true;
        for _ in 0..3 {
            world.step();
        }
        for started in order {
            world.run_kubelets();
            assert_eq!(
                world.started(),
                vec![started.iter().map(ToString::to_string).collect::<Vec<_>>(); 2]
            );
            assert!(world.step().is_idle(), "they run and are not ready");
            world.run_kubelets();
            assert_eq!(
                world.started(),
                vec![started.iter().map(ToString::to_string).collect::<Vec<_>>(); 2],
                "nothing starts before the next key is there"
            );
            world.step();
        }
        world.settle();
        let completed = world.annotations(annotation::CONTAINER_LAUNCH_PRIORITY_COMPLETED);
        assert_eq!(completed, vec![json!("true"); 2]);
        assert_eq!(world.status().available_replicas, 2);
    }
}

#[test]
fn three_writes_and_the_first_two_may_be_repeated() {
    let mut world = World::new(1, ordered(), strategy());
    world.step();
    world.step();
    // The pod's gates open in the same step, before.
    let gates = world.plan().stages[0].steps[0].actions[0].clone();
    assert_eq!(gates.write().to_string(), "PatchPodStatus");
    world.write_some(&[gates]);
    let plan = world.plan();
    let stage = plan
        .stages
        .iter()
        .find(|stage| stage.name == "launch order")
        .unwrap();
    let [
        Action::Create {
            resource: CONFIG_MAPS,
            body,
            if_exists: IfExists::IsFine,
        },
        Action::OpenBarrier { keys, .. },
        Action::PatchPod { patch, .. },
    ] = stage.steps[0].actions.as_slice()
    else {
        panic!("{stage:?}")
    };
    assert_eq!(body["metadata"]["ownerReferences"][0]["kind"], "Pod");
    assert_eq!(keys, &["p_0"]);
    assert_eq!(
        patch.annotations[annotation::LAUNCHED_PRIORITY].as_deref(),
        Some("0")
    );
    // The controller ends after the first or the second write: the next one plans the same.
    for writes in [1, 2] {
        world.write_some(&stage.steps[0].actions[..writes]);
        assert_eq!(
            world
                .plan()
                .stages
                .iter()
                .find(|s| s.name == "launch order"),
            Some(stage)
        );
    }
    world.settle();
}
