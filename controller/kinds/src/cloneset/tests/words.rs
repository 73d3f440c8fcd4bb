//! The messages of plans and statuses for users.

use berth_workload::objects::resource::PODS;
use berth_workload::plan::{Verb, Write};

use super::*;

fn reasons(plan: &Plan) -> Vec<&str> {
    plan.stages
        .iter()
        .flat_map(|stage| &stage.steps)
        .map(|step| &*step.reason)
        .collect()
}

/// How the one pod that is updated is, in the words of its step.
fn how(plan: &Plan) -> &str {
    let found = reasons(plan)
        .into_iter()
        .filter_map(|reason| reason.split_once(" in place ("))
        .collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{:?}", reasons(plan));
    found[0].1.trim_end_matches(')')
}

#[test]
fn each_write_of_an_update_says_where_it_is() {
    let mut labelled = template("web:1");
    labelled["metadata"]["labels"]["tier"] = json!("front");
    let mut world = World::settled(
        1,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.set_template(labelled);
    world.step();
    assert_eq!(how(&world.step()), "patched");
    world.settle();

    world.set_template(template("web:2"));
    world.step();
    assert_eq!(how(&world.step()), "out of service, and patched");
    world.set_template(template("web:3"));
    world.step();
    assert_eq!(
        how(&world.step()),
        "patched again before the update before was proven"
    );

    let grace = json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 30}});
    let mut world = World::settled(1, template("web:1"), strategy("InPlaceIfPossible", grace));
    world.set_template(template("web:2"));
    world.step();
    assert_eq!(how(&world.step()), "out of service, for the grace period");
    world.pass(30);
    assert_eq!(how(&world.step()), "the grace period is over, patched");
}

#[test]
fn unavailable_pod_reports_what_it_waits_for() {
    let mut world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    Arc::make_mut(&mut world.set).spec.min_ready_seconds = 3600;
    world.pass(60);
    let plan = world.plan();
    let left = plan.look_again.unwrap().as_secs();
    assert!(
        (3400..3601).contains(&left),
        "it looks again when they are available: {left}"
    );
    let expected = format!(
        "is ready, and available in {} s (minReadySeconds)",
        left + 1
    );
    let says = |plan: &Plan| {
        plan.waiting
            .iter()
            .map(|waiting| waiting.reason.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(says(&plan), [expected.clone(), expected]);
    Arc::make_mut(&mut world.set).spec.min_ready_seconds = 0;
    assert_eq!(
        (says(&world.plan()), world.plan().look_again),
        (vec![], None),
        "they serve"
    );

    world.break_pod(0);
    let says = says(&world.plan());
    assert_eq!(
        says,
        ["its container main runs and does not pass its startup or readiness probe"]
    );
}

#[test]
fn plan_looks_again_when_first_pod_is_available() {
    let mut world = World::settled(
        1,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.pass(100);
    Arc::make_mut(&mut world.set).spec.replicas = Some(2);
    world.settle();
    Arc::make_mut(&mut world.set).spec.min_ready_seconds = 3600;
    let ready_for = |pod: &Arc<berth_workload::objects::pod::Pod>| {
        world
            .now()
            .duration_since(
                pod.condition("Ready")
                    .unwrap()
                    .last_transition_time
                    .unwrap(),
            )
            .as_secs()
    };
    let longest = world.pods().iter().map(ready_for).max().unwrap();
    assert!(longest > 100);
    assert_eq!(
        world.plan().look_again.map(|wait| wait.as_secs()),
        Some(3601 - longest)
    );
}

#[test]
fn reworded_failure_keeps_its_start_time() {
    let mut world = World::settled(
        1,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    let plan = world.plan();
    let fails = |message: &str| Outcome {
        failures: vec![Failure {
            write: Write::of(Verb::Create, PODS),
            namespace: "default".to_owned(),
            object: "web-a".to_owned(),
            message: message.to_owned(),
            code: 500,
            permanent: false,
            outdated: false,
            taken: false,
            infeasible: false,
        }],
    };
    let told = |world: &mut World, message: &str| {
        let status =
            crate::cloneset::status(&world.snapshot(), &plan, &fails(message), world.now())
                .unwrap();
        let condition = status
            .conditions
            .iter()
            .find(|c| c.type_ == "FailedScale")
            .cloned()
            .unwrap();
        Arc::make_mut(&mut world.set).status = Some(status);
        assert_eq!(condition.message, message);
        condition.last_transition_time.unwrap().0
    };
    let first = told(&mut world, "the server is asleep");
    assert_eq!(first, world.now());
    world.pass(5);
    assert_eq!(told(&mut world, "the server is dead"), first);
    // Another controller left it behind as over.
    Arc::make_mut(&mut world.set)
        .status
        .as_mut()
        .unwrap()
        .conditions[0]
        .status = "False".to_owned();
    assert_eq!(told(&mut world, "the server is dead"), world.now());
}
