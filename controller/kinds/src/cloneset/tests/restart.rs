//! Containers that are restarted because the template asks for it.

use berth_api::names::annotation::RESTARTED_AT;
use berth_workload::feature_gates::Gate;
use berth_workload::update::inplace::steps;

use super::super::simulation::owner::LABEL;
use super::*;

const FIRST: &str = "2026-11-26T12:00:00Z";
const SECOND: &str = "2026-11-26T13:00:00Z";

fn two_containers(image: &str, at: Option<&str>) -> Value {
    let mut template = template(image);
    template["metadata"]["annotations"] = json!({"note": "x"});
    if let Some(at) = at {
        template["metadata"]["annotations"][RESTARTED_AT] = json!(at);
    }
    template["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "side", "image": "side:1"}));
    template
}

fn settled(policy: &str, more: Value) -> World {
    World::settled(3, two_containers("web:1", None), strategy(policy, more))
}

fn restarts(world: &World) -> Vec<(u64, u64)> {
    world
        .restarts("main")
        .into_iter()
        .zip(world.restarts("side"))
        .collect()
}

#[test]
fn changed_restart_time_restarts_each_container_once() {
    let mut world = settled("InPlaceOnly", json!({}));
    let before = world.identities();
    for (at, times) in [
        (Some(FIRST), 1),
        (Some(SECOND), 2),
        (Some(FIRST), 3),
        (None, 4),
    ] {
        world.set_template(two_containers("web:1", at));
        assert_eq!(world.settle(), 3 * 3, "{at:?}");
        assert_eq!(world.identities(), before, "the same pods");
        assert_eq!(restarts(&world), [(times, times); 3], "{at:?}");
        assert!(
            world
                .annotations(RESTARTED_AT)
                .iter()
                .all(|is| *is == json!(at)),
            "{at:?}"
        );
        assert_eq!(world.status().updated_available_replicas, 3);
    }
    assert!(world.plan().is_idle(), "the same template restarts nothing");
}

#[test]
fn plan_names_restarting_containers_and_its_wait() {
    let mut world = settled("InPlaceOnly", json!({}));
    world.set_template(two_containers("web:1", Some(FIRST)));
    world.step();
    let plan = world.step();
    let words: Vec<_> = plan
        .stages
        .iter()
        .flat_map(|stage| &stage.steps)
        .map(|step| step.reason.clone())
        .collect();
    assert!(
        words[0].contains(
            "(out of service, and patched; apps.kruise.io/restarted-at restarts main, side)"
        ),
        "{words:?}"
    );
    world.run_kubelets();
    let waiting = world.plan().waiting;
    let is_reported = |words: &str| waiting.iter().any(|waiting| waiting.reason.contains(words));
    assert!(
        is_reported(
            "container main is still the one of before, and is to be restarted; the daemon has yet to check"
        ),
        "{waiting:?}"
    );
}

#[test]
fn partitioned_and_new_pods_are_not_restarted() {
    let mut world = settled("InPlaceIfPossible", json!({"partition": 2}));
    world.set_template(two_containers("web:1", Some(FIRST)));
    world.settle();
    assert_eq!(
        restarts(&world)
            .iter()
            .filter(|restarts| **restarts == (1, 1))
            .count(),
        1
    );
    assert_eq!(
        restarts(&world)
            .iter()
            .filter(|restarts| **restarts == (0, 0))
            .count(),
        2
    );
    world.edit_rolling_update("partition", json!(0));
    world.settle();
    assert_eq!(restarts(&world), [(1, 1); 3]);
    Arc::make_mut(&mut world.set).spec.replicas = Some(5);
    world.settle();
    assert_eq!(
        restarts(&world)
            .iter()
            .filter(|restarts| **restarts == (0, 0))
            .count(),
        2,
        "those are new"
    );
}

#[test]
fn new_image_restarts_container_once_by_kubelet() {
    let mut world = settled("InPlaceOnly", json!({"maxUnavailable": 3}));
    world.set_template(two_containers("web:2", Some(FIRST)));
    world.step();
    world.step();
    world.run_kubelets();
    world.run_daemons();
    assert_eq!(
        restarts(&world),
        [(1, 0); 3],
        "the daemon leaves the new container alone"
    );
    world.settle();
    assert_eq!(restarts(&world), [(1, 1); 3]);
    assert!(world.images().iter().all(|image| image == "web:2"));
    // The template changes back, and back again before any kubelet has seen it: the image stays,
    // and the restart is still due.
    world.set_template(two_containers("web:1", Some(SECOND)));
    world.step();
    world.step();
    world.set_template(two_containers("web:2", Some(SECOND)));
    world.step();
    world.step();
    world.settle();
    assert_eq!(restarts(&world), [(2, 2); 3]);
    assert!(world.created_from().iter().all(|image| image == "web:2"));
}

#[test]
fn restart_waits_for_grace_period_and_can_be_undone() {
    let grace = json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": 30}, "maxUnavailable": 3});
    let mut world = settled("InPlaceOnly", grace);
    let begin = |world: &mut World| {
        world.set_template(two_containers("web:1", Some(FIRST)));
        world.step();
        world.step();
        assert!(
            world.pods().iter().all(|pod| steps::is_under_way(pod)),
            "out of service"
        );
        world.run_daemons();
        world.run_kubelets();
        world.pass(20);
        assert!(world.step().is_idle());
    };
    begin(&mut world);
    world.set_template(two_containers("web:1", None));
    world.settle();
    assert_eq!(restarts(&world), [(0, 0); 3]);
    begin(&mut world);
    world.pass(11);
    assert_eq!(kinds(&world.step()), ["PatchPod"; 3]);
    world.settle();
    assert_eq!(restarts(&world), [(1, 1); 3]);
}

#[test]
fn pod_is_unavailable_until_all_containers_restarted() {
    let mut world = settled("InPlaceOnly", json!({"maxUnavailable": 1}));
    world.set_template(two_containers("web:1", Some(FIRST)));
    world.step();
    assert_eq!(kinds(&world.step()), ["PatchPodStatus", "PatchPod"]);
    for _ in 0..5 {
        world.run_kubelets();
        world.pass(1);
        assert!(
            world.step().is_idle(),
            "nothing restarts them but the node's daemon"
        );
    }
    assert_eq!(world.status().available_replicas, 2);
    assert_eq!(world.status().updated_ready_replicas, 0);
    // The first container dies by itself: that counts as stopped, and the daemon leaves the next
    // one alone.
    let out = world
        .pods()
        .iter()
        .position(|pod| steps::is_under_way(pod))
        .unwrap();
    world.crash(out);
    assert!(
        world.step().is_idle(),
        "the other is still the one of before"
    );
    world.settle();
    assert_eq!(restarts(&world), [(1, 1); 3]);
    assert_eq!(world.status().updated_available_replicas, 3);
}

#[test]
fn silent_daemon_is_reported_while_restart_is_due() {
    let mut world = settled("InPlaceOnly", json!({"maxUnavailable": 1}));
    world.daemons = false;
    world.set_template(two_containers("web:1", Some(FIRST)));
    for _ in 0..90 {
        world.step();
        world.run_kubelets();
        world.pass(1);
    }
    let status = world.status();
    let condition = status
        .conditions
        .iter()
        .find(|c| c.type_ == "Blocked")
        .unwrap();
    assert_eq!(condition.reason, "DaemonSilent", "{condition:?}");
    assert!(
        condition.message.contains("is to be restarted"),
        "{condition:?}"
    );
    assert_eq!(status.available_replicas, 2, "the others serve");
}

#[test]
fn without_daemons_restart_recreates_or_is_refused() {
    let change = |policy: &str| {
        let mut world = settled(policy, json!({}));
        (world.gates, world.daemons) = (world.gates.with(Gate::KruiseDaemon, false), false);
        world.set_template(two_containers("web:1", Some(FIRST)));
        world.step();
        let plan = world.step();
        (world, plan)
    };
    let (mut world, plan) = change("InPlaceIfPossible");
    assert_eq!(kinds(&plan), ["DeletePod"]);
    world.settle();
    assert!(
        world
            .annotations(RESTARTED_AT)
            .iter()
            .all(|at| *at == FIRST)
    );
    assert_eq!(restarts(&world), [(0, 0); 3]);
    let (world, plan) = change("InPlaceOnly");
    assert!(plan.is_idle());
    let message = plan.refusal.unwrap().message;
    for part in [
        "spec.template.metadata.annotations[apps.kruise.io/restarted-at]",
        "KruiseDaemon is off",
        "InPlaceIfPossible",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(
        world
            .status()
            .conditions
            .iter()
            .any(|c| c.type_ == "Blocked")
    );
}

#[test]
fn hooks_hold_a_pod_before_its_restart_and_after() {
    let mut world = settled("InPlaceOnly", json!({"maxUnavailable": 3}));
    (0..3).for_each(|at| world.hold(at, true, false));
    world.set_lifecycle(json!({"inPlaceUpdate": {"labelsHandler": {LABEL: "on"}}}));
    world.set_template(two_containers("web:1", Some(FIRST)));
    world.settle();
    assert_eq!(
        (world.states(), restarts(&world)),
        (vec!["PreparingUpdate".to_owned(); 3], vec![(0, 0); 3])
    );
    (0..3).for_each(|at| world.hold(at, false, false));
    world.settle();
    assert_eq!(
        (world.states(), restarts(&world)),
        (vec!["Updated".to_owned(); 3], vec![(1, 1); 3])
    );
    (0..3).for_each(|at| world.hold(at, true, false));
    world.settle();
    assert_eq!(world.states(), ["Normal"; 3]);
    assert_eq!(world.status().updated_available_replicas, 3);
}

#[test]
fn containers_of_a_launch_order_are_restarted_in_it() {
    let ordered = |at: Option<&str>| {
        let mut template = two_containers("web:1", at);
        template["metadata"]["annotations"]["apps.kruise.io/container-launch-priority"] =
            json!("Ordered");
        template
    };
    let mut world = World::new(
        2,
        ordered(None),
        strategy("InPlaceOnly", json!({"maxUnavailable": 2})),
    );
    world.slow = true;
    world.settle();
    world.set_template(ordered(Some(FIRST)));
    world.step();
    world.step();
    for _ in 0..3 {
        world.run_daemons();
        world.run_kubelets();
    }
    assert_eq!(
        restarts(&world),
        [(1, 0); 2],
        "the turn of the second comes with a write"
    );
    assert_eq!(kinds(&world.step()), ["PatchPod"; 2]);
    // Another restart while the second container's is under way: the first container restarts
    // again, and then the second.
    world.set_template(ordered(Some(SECOND)));
    world.settle();
    assert!(
        restarts(&world)
            .iter()
            .all(|(main, side)| *main == 2 && (1..=2).contains(side)),
        "{:?}",
        restarts(&world)
    );
    assert!(
        world
            .restarted_at()
            .iter()
            .flatten()
            .all(|at| *at == SECOND),
        "{:?}",
        world.restarted_at()
    );
    assert_eq!(world.status().updated_available_replicas, 2);
}

#[derive(Debug, Clone)]
enum Act {
    Restart(u8),
    Image(u8),
    Partition(i32),
    Daemons,
    OneKubelet(usize),
    Crash(usize),
    Time(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0u8..4).prop_map(Act::Restart),
        2 => (0u8..3).prop_map(Act::Image),
        2 => (0i32..4).prop_map(Act::Partition),
        4 => Just(Act::Daemons),
        6 => (0usize..3).prop_map(Act::OneKubelet),
        2 => (0usize..3).prop_map(Act::Crash),
        2 => (1i64..4).prop_map(Act::Time),
    ]
}

/// How often each pod's container had to be restarted, and how often it crashed.
#[derive(Default)]
struct Causes(std::collections::BTreeMap<String, [u64; 2]>);

impl Causes {
    fn note(&mut self, plan: &Plan) {
        for action in plan.actions() {
            let Action::PatchPod { target, patch } = action else {
                continue;
            };
            for (count, name) in self
                .0
                .entry(target.name.clone())
                .or_default()
                .iter_mut()
                .zip(["main", "side"])
            {
                *count +=
                    u64::from(patch.restarted.contains(name) || patch.images.contains_key(name));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    /// In every order of steps: a pod in service has containers that were created after their
    /// restart was wanted, no container is restarted more often than there was a cause, the limits
    /// hold, and in the end all match the template.
    #[test]
    fn pods_in_service_have_restarted_as_requested(
        acts in prop::collection::vec(act(), 1..40), ordered in any::<bool>(), grace in prop::sample::select(vec![0, 3]),
    ) {
        let mut first = two_containers("web:0", None);
        if ordered {
            first["metadata"]["annotations"]["apps.kruise.io/container-launch-priority"] = json!("Ordered");
        }
        let rolling = json!({"maxUnavailable": 2, "inPlaceUpdateStrategy": {"gracePeriodSeconds": grace}});
        let mut world = World::settled(3, first, strategy("InPlaceOnly", rolling));
        world.traced = true;
        let (before, mut causes) = (world.identities(), Causes::default());
        for act in &acts {
            match act {
                Act::Restart(0) => world.edit_template(|t| drop(t["metadata"]["annotations"].as_object_mut().unwrap().remove(RESTARTED_AT))),
                Act::Restart(n) => world.edit_template(|t| t["metadata"]["annotations"][RESTARTED_AT] = json!(format!("2026-11-26T12:00:0{n}Z"))),
                Act::Image(n) => world.edit_template(|t| t["spec"]["containers"][0]["image"] = json!(format!("web:{n}"))),
                Act::Partition(n) => world.edit_rolling_update("partition", json!(n)),
                Act::Daemons => world.run_daemons(),
                Act::OneKubelet(at) => world.run_kubelet(*at),
                Act::Crash(at) => {
                    world.crash(*at);
                    let name = world.pods().get(*at).map(|pod| pod.metadata.name.to_string());
                    name.into_iter().for_each(|name| causes.0.entry(name).or_default()[0] += 1);
                }
                Act::Time(seconds) => world.pass(*seconds),
            }
            world.pass(1);
            let least = world.tally().available.min(1);
            causes.note(&world.step());
            for (action, after) in world.trace.drain(..) {
                prop_assert!(after.available >= least, "maxUnavailable after {act:?}: {action}");
            }
            for (pod, created) in world.pods().iter().zip(world.restarted_at()) {
                let wanted = json!(pod.metadata.annotation(RESTARTED_AT));
                let serves = pod.is_true("InPlaceUpdateReady");
                prop_assert!(!serves || created.iter().all(|at| *at == wanted), "{act:?}: {created:?} {wanted}");
            }
        }
        world.edit_rolling_update("partition", json!(0));
        for _ in 0..100 {
            causes.note(&world.step());
            world.run_daemons();
            world.run_kubelets();
            world.pass(1);
        }
        prop_assert!(world.plan().is_idle(), "{:?}", world.plan().waiting);
        prop_assert_eq!(world.identities(), before);
        let wanted = world.set.spec.template.value()["metadata"]["annotations"][RESTARTED_AT].clone();
        prop_assert!(world.restarted_at().iter().flatten().all(|at| *at == wanted), "{wanted} {:?}", world.restarted_at());
        prop_assert_eq!(world.status().updated_available_replicas, 3);
        for (pod, (main, side)) in world.pods().iter().zip(restarts(&world)) {
            let [of_main, of_side] = causes.0.get(&*pod.metadata.name).copied().unwrap_or_default();
            prop_assert!(main <= of_main && side <= of_side, "{main} of {of_main}, {side} of {of_side}");
        }
    }
}
