use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::names::condition;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Event, Plan};
use berth_workload::update::inplace::resize::Ability;
use berth_workload::update::inplace::steps;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cloneset::simulation::{self, World};

fn template(image: &str, cpu: &str) -> Value {
    let mut template = simulation::template(image);
    template["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": cpu, "memory": "64Mi"}});
    template
}

fn world(template: Value, more: Value) -> World {
    let mut rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1});
    for (key, value) in more.as_object().unwrap() {
        rolling[key] = value.clone();
    }
    let mut world = World::new(
        3,
        template,
        json!({"type": "RollingUpdate", "rollingUpdate": rolling}),
    );
    world.resize = Ability::On;
    world.settle();
    world
}

fn kinds(plan: &Plan) -> Vec<String> {
    let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
    steps
        .flat_map(|step| &step.actions)
        .map(|action| action.write().to_string())
        .collect()
}

/// The message of the condition, if the set is blocked.
fn blocked(world: &World) -> Option<String> {
    world
        .status()
        .conditions
        .into_iter()
        .find(|c| c.type_ == condition::BLOCKED)
        .map(|c| c.reason)
}

/// Cpu in the spec and in the status, in thousandths.
fn cpu(pod: &Pod) -> (i64, i64) {
    let of = |resources: &Option<Box<berth_workload::objects::pod::resources::Resources>>| {
        resources.as_ref().map_or(0, |r| r.requests.cpu)
    };
    (
        of(&pod.spec.containers[0].resources),
        pod.container_status("main")
            .map_or(0, |status| of(&status.resources)),
    )
}

#[test]
fn cpu_resize_keeps_pods_in_service() {
    let mut world = world(
        template("web:1", "100m"),
        json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 30}}),
    );
    let (pods, containers) = (world.identities(), world.containers());
    world.set_template(template("web:1", "200m"));
    world.step();
    assert_eq!(
        kinds(&world.step()),
        ["PatchPod", "ResizePod"],
        "one pod at a time, and no time of grace"
    );
    let under_way: Vec<_> = world
        .pods()
        .into_iter()
        .filter(|pod| steps::is_under_way(pod))
        .collect();
    assert!(
        under_way[0].is_true("Ready") && under_way[0].is_true("InPlaceUpdateReady"),
        "it goes on serving"
    );
    assert_eq!(
        world.status().updated_available_replicas,
        0,
        "but it is not updated before that is proven"
    );
    world.run_kubelets();
    assert!(world.step().is_idle());
    assert!(
        world
            .plan()
            .waiting
            .iter()
            .any(|w| w.reason.contains("is being resized on node node"))
    );
    let writes = 2 + world.settle();
    assert_eq!(
        (world.identities(), world.containers()),
        (pods, containers),
        "the same pods, and nothing restarted"
    );
    assert!(world.pods().iter().all(|pod| cpu(pod) == (200, 200)));
    assert_eq!(
        (writes, world.status().updated_available_replicas),
        (3 * 3, 3)
    );
}

#[test]
fn resize_with_restart_takes_pod_out_of_service() {
    let restarting = |cpu: &str| {
        let mut template = template("web:1", cpu);
        template["spec"]["containers"][0]["resizePolicy"] =
            json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
        template
    };
    for (old, new) in [
        (template("web:1", "1"), template("web:2", "2")),
        (restarting("1"), restarting("2")),
    ] {
        let mut world = world(
            old,
            json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 5}}),
        );
        let (pods, containers) = (world.identities(), world.containers());
        world.set_template(new);
        world.step();
        assert_eq!(
            kinds(&world.step()),
            ["PatchPodStatus"],
            "out of service for the time of grace"
        );
        world.run_kubelets();
        world.pass(5);
        assert_eq!(kinds(&world.step()), ["PatchPod", "ResizePod"]);
        world.run_kubelets();
        world.settle();
        assert_eq!(world.identities(), pods);
        let now = world.containers();
        assert!(
            now.iter().all(|id| !containers.contains(id)),
            "each was restarted"
        );
        assert!(world.pods().iter().all(|pod| cpu(pod) == (2000, 2000)));
        assert_eq!(world.status().updated_available_replicas, 3);
    }
}

#[test]
fn a_resize_that_was_not_written_is_written() {
    let mut world = world(template("web:1", "1"), json!({}));
    world.set_template(template("web:1", "2"));
    world.step();
    let mut plan = world.plan();
    let step = &mut plan
        .stages
        .iter_mut()
        .flat_map(|stage| &mut stage.steps)
        .next()
        .unwrap();
    step.actions.truncate(1);
    world.execute(&plan, usize::MAX);
    assert!(
        world.pods().iter().all(|pod| cpu(pod) == (1000, 1000)),
        "the controller died between the two writes"
    );
    assert_eq!(kinds(&world.plan()), ["ResizePod"]);
    world.settle();
    assert!(world.pods().iter().all(|pod| cpu(pod) == (2000, 2000)));
}

/// Runs rounds until nothing changes, though each round retries refused writes. Returns the events
/// about resizes, and the pods for which a resize was tried.
fn rounds(world: &mut World) -> (Vec<Event>, BTreeSet<String>) {
    let (mut events, mut tried) = (Vec::new(), BTreeSet::new());
    for _ in 0..9 {
        let plan = world.step();
        tried.extend(plan.actions().filter_map(|action| match action {
            Action::ResizePod { target, .. } => Some(target.name.clone()),
            _ => None,
        }));
        events.extend(
            plan.events
                .into_iter()
                .filter(|event| event.reason.starts_with("Resize")),
        );
        world.run_kubelets();
        world.pass(1);
    }
    (events, tried)
}

/// The updated pods, the ready and available ones among them, and all available pods.
fn updated(world: &World) -> [i32; 4] {
    let status = world.status();
    [
        status.updated_replicas,
        status.updated_ready_replicas,
        status.updated_available_replicas,
        status.available_replicas,
    ]
}

#[test]
fn infeasible_resize_has_one_reason_for_both_sources() {
    for (refuses, who) in [("Infeasible", "kubelet"), ("NodeCapacity", "apiserver")] {
        let mut world = world(template("web:1", "1"), json!({}));
        let containers = world.containers();
        world.refuses = refuses;
        world.set_template(template("web:1", "9"));
        let (events, tried) = rounds(&mut world);
        assert_eq!(
            tried.len(),
            1,
            "{who}: one pod is tried, as maxUnavailable says"
        );
        let pod = tried.first().unwrap();
        let conditions = world.status().conditions;
        let told = conditions
            .iter()
            .find(|c| c.type_ == condition::BLOCKED)
            .unwrap();
        let words = format!(
            "CloneSet default/web: pod {pod} cannot be resized on node node (container main, requests.cpu from 1 to 9); the {who} says: "
        );
        assert_eq!(told.reason, "ResizeInfeasible", "{who}");
        assert!(
            told.message.starts_with(&words) && told.message.ends_with("for its successor"),
            "{}",
            told.message
        );
        assert_eq!(events.len(), 1, "{who}: the event comes once: {events:?}");
        assert!(
            events[0].warning && events[0].message == told.message,
            "{events:?}"
        );
        assert_eq!(
            updated(&world),
            [0, 0, 0, 2],
            "{who}: the pod has its old resources"
        );
        // The template changes back.
        world.set_template(template("web:1", "1"));
        world.settle();
        assert_eq!(
            (world.containers(), blocked(&world)),
            (containers, None),
            "{who}"
        );
        assert_eq!(updated(&world), [3; 4], "{who}");
    }
}

#[test]
fn failed_resize_delays_the_other_pods() {
    for refuses in ["Infeasible", "NodeCapacity", "a policy"] {
        let mut world = world(template("web:1", "1"), json!({}));
        world.refuses = refuses;
        world.set_template(template("web:1", "9"));
        let (_, first) = rounds(&mut world);
        world.edit_rolling_update("maxUnavailable", json!("100%"));
        let (_, later) = rounds(&mut world);
        assert!(
            later.is_subset(&first) && first.len() == 1,
            "{refuses}: {first:?}, then {later:?}"
        );
        let words = format!(
            "waits for pod {}, which lacks its new resources",
            first.first().unwrap()
        );
        let waiting = world.plan().waiting;
        let others = waiting
            .iter()
            .filter(|waiting| waiting.reason.contains(&words))
            .count();
        assert_eq!(others, 2, "{refuses}: {waiting:?}");
        // Another template may fit.
        world.refuses = "";
        world.set_template(template("web:1", "2"));
        world.settle();
        assert_eq!(
            (updated(&world), blocked(&world)),
            ([3; 4], None),
            "{refuses}"
        );
    }
}

#[test]
fn resize_that_a_webhook_refuses_is_an_update_refused() {
    let mut world = world(template("web:1", "1"), json!({}));
    world.refuses = "no-resizes";
    world.set_template(template("web:1", "2"));
    let (events, tried) = rounds(&mut world);
    let conditions = world.status().conditions;
    let told = conditions
        .iter()
        .find(|c| c.type_ == condition::BLOCKED)
        .unwrap();
    let words = format!(
        "CloneSet default/web: pod {} cannot be resized; the apiserver says: ",
        tried.first().unwrap()
    );
    assert_eq!(told.reason, "UpdateRefused");
    assert!(
        told.message.starts_with(&words) && told.message.contains("\"no-resizes\" denied"),
        "{}",
        told.message
    );
    assert_eq!((events, updated(&world)), (vec![], [0, 0, 0, 2]));
    world.refuses = "";
    world.settle();
    assert_eq!(
        (updated(&world), blocked(&world)),
        ([3; 4], None),
        "it is tried again"
    );
}

#[test]
fn infeasible_resize_is_reported_after_any_crash() {
    for writes in 0..3 {
        let mut world = world(template("web:1", "1"), json!({}));
        world.refuses = "NodeCapacity";
        world.set_template(template("web:1", "9"));
        world.step();
        world.die_after(writes);
        let (events, tried) = rounds(&mut world);
        assert_eq!((events.len(), tried.len()), (1, 1), "after {writes} writes");
        assert_eq!(
            (blocked(&world).as_deref(), updated(&world)),
            (Some("ResizeInfeasible"), [0, 0, 0, 2])
        );
        // A new controller knows only the pods and the status.
        world.die_after(0);
        let (events, again) = rounds(&mut world);
        assert_eq!(
            (events, again, blocked(&world).as_deref()),
            (vec![], tried, Some("ResizeInfeasible"))
        );
    }
}

#[test]
fn deferred_resize_sends_no_event() {
    let mut world = world(template("web:1", "1"), json!({}));
    world.refuses = "Deferred";
    world.set_template(template("web:1", "9"));
    assert_eq!(rounds(&mut world).0, []);
    assert_eq!(updated(&world), [1, 1, 0, 2], "it comes by itself");
}

#[test]
fn deferred_resize_is_done_later() {
    let mut world = world(template("web:1", "1"), json!({"maxUnavailable": "100%"}));
    world.refuses = "Deferred";
    world.set_template(template("web:1", "2"));
    world.settle();
    assert_eq!(
        blocked(&world).as_deref(),
        Some("ResizeDeferred"),
        "for a while now"
    );
    world.refuses = "";
    world.run_kubelets();
    world.settle();
    assert_eq!(
        (world.status().updated_available_replicas, blocked(&world)),
        (3, None)
    );
}

#[test]
fn resize_without_subresource_recreates_pods() {
    let mut world = world(template("web:1", "1"), json!({}));
    world.resize = Ability::Missing;
    world.set_template(template("web:1", "2"));
    world.step();
    let plan = world.step();
    assert_eq!(kinds(&plan), ["DeletePod"]);
    let reason = &plan.stages[0].steps[0].reason;
    assert!(
        reason.contains("containers[main].resources (this cluster has no pods/resize"),
        "{reason}"
    );
}

/// Steps of a user, of the cluster, and of time.
#[derive(Debug, Clone)]
enum Happens {
    Template(u8, u8),
    Refuses(&'static str),
    Kubelets,
    Kubelet(usize),
    /// The controller dies after so many writes of its plan.
    Dies(usize),
    Decides,
    Time(i64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => (0u8..3, 1u8..4).prop_map(|(image, cpu)| Happens::Template(image, cpu)),
        1 => prop_oneof![Just(""), Just("Deferred"), Just("Infeasible"), Just("NodeCapacity"), Just("a policy")].prop_map(Happens::Refuses),
        3 => Just(Happens::Kubelets),
        3 => (0usize..3).prop_map(Happens::Kubelet),
        2 => (0usize..4).prop_map(Happens::Dies),
        4 => Just(Happens::Decides),
        1 => (1i64..4).prop_map(Happens::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// In every order of steps: pods stay, each is patched once for one revision, and in the end
    /// all are exact.
    #[test]
    fn every_rollout_ends_exact_and_touches_no_pod_twice(
        events in prop::collection::vec(happens(), 1..40),
        restarts in any::<bool>(),
        grace in prop_oneof![Just(0), Just(2)],
    ) {
        let template = |image: u8, cpu: u8| {
            let mut template = template(&format!("web:{image}"), &cpu.to_string());
            if restarts {
                template["spec"]["containers"][0]["resizePolicy"] =
                    json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
            }
            template
        };
        let mut world = world(template(0, 1), json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": grace}}));
        let pods = world.identities();
        for event in &events {
            match event {
                Happens::Template(image, cpu) => world.set_template(template(*image, *cpu)),
                Happens::Refuses(how) => world.refuses = how,
                Happens::Kubelets => world.run_kubelets(),
                Happens::Kubelet(at) => world.run_kubelet(*at),
                Happens::Dies(after) => world.die_after(*after),
                Happens::Decides => { world.step(); }
                Happens::Time(seconds) => world.pass(*seconds),
            }
        }
        world.refuses = "";
        world.settle();
        // A rollout without disturbance: one patch and one resize for each pod.
        world.set_template(template(7, 7));
        let mut patched: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..60 {
            let plan = world.step();
            for action in plan.actions() {
                if let Action::ResizePod { target, .. } = action {
                    *patched.entry(target.name.clone()).or_default() += 1;
                }
            }
            world.run_kubelets();
            world.pass(1);
        }
        prop_assert!(patched.len() == 3 && patched.values().all(|times| *times == 1), "{patched:?}");
        prop_assert_eq!(world.identities(), pods);
        let status = world.status();
        prop_assert_eq!((status.updated_available_replicas, blocked(&world)), (3, None));
        let exact = |pod: &Arc<Pod>| cpu(pod) == (7000, 7000) && !steps::is_under_way(pod);
        prop_assert!(world.pods().iter().all(exact));
        prop_assert!(world.created_from().iter().all(|image| image == "web:7"));
        prop_assert!(world.plan().is_idle());
    }
}
