mod batches;
mod blocked;
mod ended;
mod env;
mod gate;
mod hooks;
mod late_views;
mod launch;
mod leaving;
mod numbers;
mod other_nodes;
mod overlap;
mod predownload;
mod properties;
mod release;
mod resized;
mod restart;
mod rollout_status;
mod takeover;
mod unknown;
mod unreadable;
mod words;

use std::sync::Arc;

use berth_workload::objects::resource::{
    CLAIMS, CLONE_SETS, CONTROLLER_REVISIONS, IMAGE_PULL_JOBS, POD_TEMPLATES, PODS,
};
use berth_workload::plan::{Action, Failure, Outcome, Plan, Verb, Write};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Snapshot;
use super::simulation::{World, template};

fn kinds(plan: &Plan) -> Vec<String> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps
        .flat_map(|step| &step.actions)
        .map(|action| action.write().to_string())
        .collect()
}

fn strategy(policy: &str, more: Value) -> Value {
    let mut rolling = json!({"podUpdatePolicy": policy, "maxUnavailable": 1});
    for (key, value) in more.as_object().unwrap() {
        rolling[key] = value.clone();
    }
    json!({"type": "RollingUpdate", "rollingUpdate": rolling})
}

#[test]
fn first_plan_writes_revision_and_second_one_pods() {
    let mut world = World::new(
        3,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    assert_eq!(
        kinds(&world.step()),
        ["ValidatePodTemplate", "CreateControllerRevision"]
    );
    assert_eq!(kinds(&world.step()), ["CreatePod"; 3]);
    assert_eq!(
        kinds(&world.step()),
        ["PatchPodStatus"; 3],
        "the gates of scheduled pods, one write each"
    );
    world.run_kubelets();
    assert!(world.step().is_idle());
    let status = world.status();
    assert_eq!(
        (
            status.replicas,
            status.available_replicas,
            status.updated_replicas
        ),
        (3, 3, 3)
    );
    assert_eq!(status.current_revision, status.update_revision);
}

#[test]
fn many_pods_are_created_in_several_plans() {
    let mut world = World::new(
        600,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.step();
    for (created, left) in [(256, Some("344")), (256, Some("88")), (88, None)] {
        let plan = world.step();
        assert_eq!(
            kinds(&plan)
                .iter()
                .filter(|kind| **kind == "CreatePod")
                .count(),
            created
        );
        let later = plan.waiting.iter().find_map(|waiting| {
            waiting
                .reason
                .strip_suffix(" more pods are created as soon as 256 are")
        });
        assert_eq!(later, left);
        assert!(left.is_none() || plan.look_again.is_some());
    }
    world.settle();
    assert_eq!(world.status().replicas, 600);
}

#[test]
fn an_image_goes_in_place_with_three_writes_per_pod() {
    let mut world = World::settled(
        4,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({"maxUnavailable": 2})),
    );
    let before = world.identities();
    world.set_template(template("web:2"));
    world.step();
    let writes = world.settle();
    assert_eq!(world.identities(), before, "the same pods");
    assert!(world.images().iter().all(|image| image == "web:2"));
    assert_eq!(writes, 3 * 4);
}

#[test]
fn metadata_alone_keeps_pods_in_service() {
    let mut world = World::settled(
        3,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    let mut new = template("web:1");
    new["metadata"]["labels"]["tier"] = json!("front");
    world.set_template(new);
    world.step();
    let plan = world.step();
    assert_eq!(
        kinds(&plan),
        ["PatchPod"],
        "one write, and no readiness gate"
    );
    world.settle();
    assert_eq!(world.status().updated_available_replicas, 3);
}

#[test]
fn change_beyond_in_place_recreates_or_is_refused() {
    let mut env = template("web:1");
    env["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);

    let mut world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.set_template(env.clone());
    world.step();
    assert_eq!(kinds(&world.step()), ["DeletePod"]);

    let mut world = World::settled(2, template("web:1"), strategy("InPlaceOnly", json!({})));
    world.set_template(env);
    world.step();
    let plan = world.step();
    assert!(plan.is_idle());
    let message = plan.refusal.unwrap().message;
    assert!(
        message.contains("default/web")
            && message.contains("spec.template.spec.containers[main].env"),
        "{message}"
    );
    let condition = world
        .status()
        .conditions
        .into_iter()
        .find(|c| c.type_ == "Blocked")
        .unwrap();
    assert!(
        condition.message.contains("InPlaceIfPossible"),
        "the remedy: {}",
        condition.message
    );
    // The author changes the template back: the condition is gone.
    world.set_template(template("web:1"));
    world.settle();
    assert_eq!(world.status().conditions, []);
}

/// Two pods that may only be updated in place. One of them is on its way from web:1 to web:2, when
/// the template changes to one that no update in place can reach.
fn refused_halfway(grace: i64) -> (World, Vec<String>) {
    let grace = json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": grace}});
    let mut world = World::settled(2, template("web:1"), strategy("InPlaceOnly", grace));
    let before = world.identities();
    world.set_template(template("web:2"));
    world.step();
    world.step();
    assert_eq!(world.tally().available, 1, "one is out of service");
    world.edit_template(|t| {
        t["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}])
    });
    world.step();
    (world, before)
}

#[test]
fn update_refused_halfway_leaves_pods_in_service() {
    // With a grace period the pod's image has not changed yet; without one the pod runs web:2.
    for (grace, images) in [(30, ["web:1", "web:1"]), (0, ["web:1", "web:2"])] {
        let (mut world, before) = refused_halfway(grace);
        world.settle();
        let mut created = world.created_from();
        created.sort();
        assert_eq!(
            (created, world.tally().available),
            (images.map(str::to_owned).to_vec(), 2),
            "grace {grace} s"
        );
        assert_eq!(
            world
                .status()
                .conditions
                .iter()
                .filter(|c| c.type_ == "Blocked")
                .count(),
            1,
            "grace {grace} s"
        );
        assert_eq!(world.identities(), before, "grace {grace} s");
    }
}

#[test]
fn in_place_only_keeps_pod_without_revision_label() {
    let mut world = World::settled(2, template("web:1"), strategy("InPlaceOnly", json!({})));
    let before = world.identities();
    let pod = world.pods.values_mut().next().unwrap();
    pod["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove(berth_workload::update::revision::REVISION_LABEL);
    let plan = world.plan();
    assert!(plan.is_idle(), "{plan:?}");
    let message = plan.refusal.unwrap().message;
    for part in [
        "default/web",
        &world.pods()[0].metadata.name,
        "controller-revision-hash",
        "InPlaceIfPossible",
    ] {
        assert!(message.contains(part), "{message} lacks {part}");
    }
    world.settle();
    assert_eq!(world.identities(), before);
}

#[test]
fn a_rollback_in_the_grace_period_restarts_nothing() {
    let grace =
        json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 30}, "maxUnavailable": "100%"});
    let mut world = World::settled(2, template("web:1"), strategy("InPlaceIfPossible", grace));
    let containers = world.containers();
    world.set_template(template("web:2"));
    world.step();
    assert_eq!(kinds(&world.step()), ["PatchPodStatus"; 2]);
    world.run_kubelets();
    world.pass(10);
    let plan = world.step();
    assert!(plan.is_idle());
    assert_eq!(plan.look_again.map(|wait| wait.as_secs()), Some(20));
    world.set_template(template("web:1"));
    world.settle();
    assert_eq!(world.containers(), containers);
    assert_eq!(world.status().updated_available_replicas, 2);
}

#[test]
fn rollback_before_the_kubelet_acts_restarts_nothing() {
    let mut world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({"maxUnavailable": "100%"})),
    );
    let containers = world.containers();
    world.set_template(template("web:2"));
    world.step();
    assert_eq!(
        kinds(&world.step()),
        ["PatchPodStatus", "PatchPod", "PatchPodStatus", "PatchPod"]
    );
    assert!(
        world.images().iter().all(|image| image == "web:2"),
        "patched, but no kubelet has run"
    );
    world.set_template(template("web:1"));
    world.settle();
    assert_eq!(world.containers(), containers);
    assert_eq!(world.status().updated_available_replicas, 2);
}

#[test]
fn a_rollback_after_the_kubelet_saw_it_ends_too() {
    let mut world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({"maxUnavailable": 2})),
    );
    world.set_template(template("web:2"));
    world.step();
    world.step();
    world.run_kubelets();
    world.set_template(template("web:1"));
    world.settle();
    assert!(world.images().iter().all(|image| image == "web:1"));
    assert_eq!(world.status().updated_available_replicas, 2);
}

#[test]
fn two_tags_of_one_digest_are_settled_by_the_node() {
    let mut world = World::settled(
        2,
        template("same:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.set_template(template("same:2"));
    world.settle();
    assert_eq!(world.status().updated_available_replicas, 2);
    let plan = world.plan();
    assert!(plan.is_idle());
}

#[test]
fn two_tags_of_one_digest_wait_for_the_daemon() {
    let mut world = World::settled(
        1,
        template("same:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.daemons = false;
    world.set_template(template("same:2"));
    world.settle();
    let plan = world.plan();
    assert!(
        plan.waiting[0]
            .reason
            .contains("the daemon has yet to check"),
        "{:?}",
        plan.waiting
    );
}

#[test]
fn invalid_spec_is_refused_and_begun_updates_end() {
    let mut world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.set_template(template("web:2"));
    world.step();
    world.step();
    Arc::make_mut(&mut world.set).spec.replicas = Some(-1);
    world.settle();
    let plan = world.plan();
    let message = plan.refusal.unwrap().message;
    assert!(
        message.contains("spec.replicas: -1 is negative"),
        "{message}"
    );
    assert!(
        world
            .pods()
            .iter()
            .all(|pod| pod.is_true("InPlaceUpdateReady")),
        "every pod is in service"
    );
}

#[test]
fn pods_to_delete_are_replaced() {
    let mut world = World::settled(
        3,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    let name = world.pods()[1].metadata.name.to_string();
    Arc::make_mut(&mut world.set)
        .spec
        .scale_strategy
        .pods_to_delete = vec![name.clone(), "no-such-pod".to_owned()];
    world.settle();
    assert!(world.pods().iter().all(|pod| *pod.metadata.name != *name));
    assert_eq!(world.status().available_replicas, 3);
}

#[test]
fn history_is_kept_to_the_limit() {
    let mut world = World::settled(
        1,
        template("web:0"),
        strategy("InPlaceIfPossible", json!({})),
    );
    Arc::make_mut(&mut world.set).spec.revision_history_limit = Some(2);
    for n in 1..6 {
        world.set_template(template(&format!("web:{n}")));
        world.settle();
    }
    assert_eq!(world.revisions(), 3, "the one in use, and two");
}

#[derive(Debug, Clone)]
enum Change {
    Image(u8),
    Env(u8),
    Replicas(i32),
    Partition(i32),
    Pause(bool),
    Kubelets,
    OneKubelet(usize),
    Crash(usize),
    Time(i64),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0u8..4).prop_map(Change::Image),
        1 => (0u8..2).prop_map(Change::Env),
        2 => (0i32..7).prop_map(Change::Replicas),
        2 => (0i32..7).prop_map(Change::Partition),
        1 => any::<bool>().prop_map(Change::Pause),
        4 => Just(Change::Kubelets),
        4 => (0usize..8).prop_map(Change::OneKubelet),
        2 => (0usize..8).prop_map(Change::Crash),
        3 => (0i64..5).prop_map(Change::Time),
    ]
}

fn apply(world: &mut World, change: &Change) {
    let edit =
        |world: &mut World, field: &str, value: Value| world.edit_rolling_update(field, value);
    match change {
        Change::Image(n) => {
            world.edit_template(|t| t["spec"]["containers"][0]["image"] = json!(format!("web:{n}")))
        }
        Change::Env(n) => {
            world.edit_template(|t| {
                t["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": n.to_string()}])
            });
        }
        Change::Replicas(n) => Arc::make_mut(&mut world.set).spec.replicas = Some(*n),
        Change::Partition(n) => edit(world, "partition", json!(n)),
        Change::Pause(paused) => edit(world, "paused", json!(paused)),
        Change::Kubelets => world.run_kubelets(),
        Change::OneKubelet(at) => world.run_kubelet(*at),
        Change::Crash(at) => world.crash(*at),
        Change::Time(seconds) => world.pass(*seconds),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// In every order of steps: no plan takes more pods out of service, or creates more, than the
    /// limits allow, and in the end every pod runs the template.
    #[test]
    fn limits_always_hold_and_every_rollout_ends(
        changes in prop::collection::vec(change(), 1..40),
        policy in prop_oneof![Just("InPlaceIfPossible"), Just("ReCreate")],
        max_unavailable in 1i32..3,
        max_surge in 0i32..3,
        grace in prop_oneof![Just(0), Just(3)],
    ) {
        let more = json!({
            "maxUnavailable": max_unavailable, "maxSurge": max_surge,
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": grace},
        });
        let mut world = World::settled(4, template("web:0"), strategy(policy, more));
        for change in &changes {
            apply(&mut world, change);
            let before = world.tally();
            world.step();
            let after = world.tally();
            let replicas = usize::try_from(world.set.spec.replicas.unwrap()).unwrap();
            let floor = replicas.saturating_sub(usize::try_from(max_unavailable).unwrap());
            prop_assert!(
                after.available >= before.available.min(floor),
                "{change:?}: {before:?} -> {after:?}, replicas {replicas}"
            );
            let ceiling = replicas + usize::try_from(max_surge).unwrap();
            prop_assert!(after.pods <= before.pods.max(ceiling), "{change:?}: {before:?} -> {after:?}");
            if before.pods >= replicas {
                let partition = world.partition().min(replicas);
                prop_assert!(after.old >= before.old.min(partition), "{change:?}: {before:?} -> {after:?}");
            }
        }
        world.edit_rolling_update("paused", json!(false));
        world.edit_rolling_update("partition", json!(0));
        world.settle();
        let status = world.status();
        let replicas = world.set.spec.replicas.unwrap();
        prop_assert_eq!(
            (status.replicas, status.updated_replicas, status.updated_available_replicas),
            (replicas, replicas, replicas)
        );
        let image = world.template_image();
        prop_assert!(world.images().iter().all(|i| *i == image));
        prop_assert!(world.created_from().iter().all(|i| *i == image), "what runs is what the spec says");
        prop_assert!(world.plan().is_idle());
    }
}

#[test]
fn unavailable_image_is_reported_until_it_is_replaced() {
    let mut world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.set_template(template("web:gone"));
    world.step();
    world.step();
    world.refuse_image("web:gone");
    world.step();
    let condition = world
        .status()
        .conditions
        .into_iter()
        .find(|c| c.type_ == "Blocked")
        .unwrap();
    assert_eq!(condition.reason, "ImageUnavailable");
    for part in [
        "default/web",
        "spec.template.spec.containers[main].image",
        "\"web:gone\"",
        "node",
        "correct the image",
    ] {
        assert!(
            condition.message.contains(part),
            "{part}: {}",
            condition.message
        );
    }
    world.set_template(template("web:2"));
    world.settle();
    assert_eq!(world.status().conditions, []);
    assert_eq!(world.status().updated_available_replicas, 2);
}

#[test]
fn refused_spec_sends_one_event() {
    let mut world = World::settled(
        1,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    Arc::make_mut(&mut world.set).spec.replicas = Some(-1);
    assert_eq!(world.step().events.len(), 1);
    assert_eq!(world.step().events.len(), 0);
}

#[test]
fn status_keeps_old_generation_until_revision_exists() {
    let mut world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    let running = world.status().update_revision;
    assert!(running.starts_with("web-"), "{running}");
    Arc::make_mut(&mut world.set).metadata.generation = Some(2);
    world.set_template(template("web:2"));
    // The status of the round that writes the revision, as before the write.
    let (snapshot, plan) = (world.snapshot(), world.plan());
    let pending = super::status(&snapshot, &plan, &Outcome::default(), world.now()).unwrap();
    assert_eq!(
        (pending.observed_generation, pending.updated_replicas),
        (1, 2)
    );
    let failure = Failure {
        write: Write::of(Verb::Validate, POD_TEMPLATES),
        namespace: "default".to_owned(),
        object: "web".to_owned(),
        message: "spec.containers[0].image: Required value".to_owned(),
        code: 422,
        permanent: true,
        outdated: false,
        taken: false,
        infeasible: false,
    };
    let refused = super::status(
        &snapshot,
        &plan,
        &Outcome {
            failures: vec![failure],
        },
        world.now(),
    )
    .unwrap();
    assert_eq!(
        (
            refused.observed_generation,
            refused.updated_replicas,
            refused.replicas
        ),
        (2, 0, 2)
    );
    assert_eq!(
        (&refused.update_revision, &refused.current_revision),
        (&running, &running),
        "they stay as they were"
    );
    assert!(
        refused.conditions[0].message.contains("Required value"),
        "{:?}",
        refused.conditions
    );
    world.settle();
    assert_eq!(
        (
            world.status().observed_generation,
            world.status().updated_replicas
        ),
        (2, 2)
    );
}

#[test]
fn scale_and_update_failures_have_own_conditions() {
    let world = World::settled(
        2,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    let (snapshot, plan) = (world.snapshot(), world.plan());
    for (write, outdated, told) in [
        (Write::of(Verb::Create, PODS), false, Some("FailedScale")),
        (Write::of(Verb::Delete, PODS), false, Some("FailedScale")),
        (Write::of(Verb::Create, CLAIMS), false, Some("FailedScale")),
        (Write::of(Verb::Patch, CLAIMS), false, Some("FailedScale")),
        (Write::of(Verb::Delete, CLAIMS), false, Some("FailedScale")),
        (Write::of(Verb::Patch, PODS), false, Some("FailedUpdate")),
        (
            Write::of(Verb::PatchStatus, PODS),
            false,
            Some("FailedUpdate"),
        ),
        (Write::of(Verb::Delete, PODS), true, None),
        (Write::of(Verb::Patch, PODS), true, None),
        (Write::of(Verb::Create, CONTROLLER_REVISIONS), false, None),
        (Write::of(Verb::Delete, CONTROLLER_REVISIONS), false, None),
        (Write::of(Verb::Create, IMAGE_PULL_JOBS), false, None),
        (Write::of(Verb::Patch, CLONE_SETS), false, None),
    ] {
        let failure = Failure {
            write,
            namespace: "default".to_owned(),
            object: "web-a".to_owned(),
            message: "the server is asleep".to_owned(),
            code: 500,
            permanent: false,
            outdated,
            taken: false,
            infeasible: false,
        };
        let outcome = Outcome {
            failures: vec![failure],
        };
        let mut snapshot = snapshot.clone();
        let failed = |snapshot: &Snapshot, outcome: &Outcome| {
            let conditions = super::status(snapshot, &plan, outcome, world.now())
                .unwrap()
                .conditions;
            let failed = conditions
                .into_iter()
                .find(|condition| condition.type_.starts_with("Failed"));
            failed.map(|condition| (condition.type_, condition.status, condition.message))
        };
        let expected = told.map(|type_| {
            (
                type_.to_owned(),
                "True".to_owned(),
                "the server is asleep".to_owned(),
            )
        });
        assert_eq!(failed(&snapshot, &outcome), expected, "{write} {outdated}");
        // The condition stays while the write fails, and is removed when it does not.
        let status = super::status(&snapshot, &plan, &outcome, world.now());
        Arc::make_mut(&mut snapshot.set).status = status;
        assert_eq!(failed(&snapshot, &outcome), expected, "{write} {outdated}");
        assert_eq!(
            failed(&snapshot, &Outcome::default()),
            None,
            "{write} {outdated}"
        );
    }
}

#[test]
fn new_pod_is_built_from_malformed_revision() {
    let world = World::new(1, template("web:1"), strategy("ReCreate", json!({})));
    let odd = json!({"metadata": {"labels": 1, "annotations": "none"}, "spec": {"readinessGates": 1, "containers": 1}});
    for template in [
        json!("none"),
        json!([]),
        json!(null),
        json!({"metadata": 1, "spec": 1}),
        odd,
    ] {
        let revision =
            json!({"metadata": {"name": "web-1"}, "data": {"spec": {"template": template}}});
        let revision = serde_json::from_value(revision).unwrap();
        let mut pod = berth_workload::update::podset::new_pod::new_pod(
            &world.snapshot().view(),
            &revision,
            &revision.template(),
            "web-abcde",
        );
        berth_workload::objects::pod::lifecycle::begin(&mut pod, "PreparingNormal", world.now());
        assert_eq!(
            pod["metadata"]["labels"]["controller-revision-hash"], "web-1",
            "{template}"
        );
        assert_eq!(pod["metadata"]["name"], "web-abcde", "{template}");
    }
}

#[test]
fn largest_collision_count_still_names_revision() {
    let mut world = World::new(1, template("web:1"), strategy("ReCreate", json!({})));
    let collided = serde_json::from_value(json!({"collisionCount": i32::MAX})).unwrap();
    Arc::make_mut(&mut world.set).status = Some(collided);
    assert_eq!(
        kinds(&world.step()),
        ["ValidatePodTemplate", "CreateControllerRevision"]
    );
}

#[test]
fn taken_revision_name_increments_collision_count() {
    let world = World::new(1, template("web:1"), strategy("ReCreate", json!({})));
    let mut snapshot = world.snapshot();
    let name = |snapshot: &Snapshot| {
        let plan = super::decide(snapshot, world.now());
        match plan.stages[0].steps[0].actions.last() {
            Some(Action::CreateRevision { body }) => {
                (body.value()["metadata"]["name"].clone(), plan.clone())
            }
            other => panic!("{other:?}"),
        }
    };
    let mut names = Vec::new();
    for (code, is_taken, collisions) in [
        (409, true, 1),
        (500, false, 1),
        (409, false, 1),
        (409, true, 2),
    ] {
        let (taken, plan) = name(&snapshot);
        names.push(taken.clone());
        let failure = Failure {
            write: Write::of(Verb::Create, CONTROLLER_REVISIONS),
            namespace: "default".to_owned(),
            object: taken.as_str().unwrap().to_owned(),
            message: "exists and has no controller".to_owned(),
            code,
            permanent: false,
            outdated: is_taken,
            taken: is_taken,
            infeasible: false,
        };
        let status = super::status(
            &snapshot,
            &plan,
            &Outcome {
                failures: vec![failure],
            },
            world.now(),
        )
        .unwrap();
        assert_eq!(status.collision_count, Some(collisions), "{code}");
        assert_eq!(status.conditions, [], "{code}: the next try mends it");
        Arc::make_mut(&mut snapshot.set).status = Some(status);
    }
    assert_ne!(names[0], names[1]);
    assert_eq!(
        names[1], names[2],
        "what failed otherwise is tried again by the same name"
    );
    assert_eq!(
        names[2], names[3],
        "a conflict alone says nothing about the name"
    );
    assert_ne!(name(&snapshot).0, names[3]);
}
