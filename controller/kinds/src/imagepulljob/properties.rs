//! Properties of jobs in every order of steps around them.

use berth_workload::objects::intstr::{self, Round};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::simulation::{Daemon, World};

#[derive(Debug, Clone)]
enum Change {
    Daemon(usize),
    Daemons,
    Behave(usize, Daemon),
    Time(i64),
    Join(usize),
    Leave(usize),
    Label(usize, u8),
    Create(usize, Value),
    Edit(usize, Value),
    Delete(usize),
    Tend,
}

const JOBS: [&str; 3] = ["a", "b", "c"];

fn spec() -> impl Strategy<Value = Value> {
    let parallelism = prop_oneof![
        Just(json!(1)),
        Just(json!(2)),
        Just(json!("50%")),
        Just(json!(0))
    ];
    let selector = prop_oneof![
        3 => Just(json!(null)),
        1 => Just(json!({"names": ["n0", "n2", "n4"]})),
        1 => Just(json!({"matchLabels": {"number": "1"}})),
    ];
    let policy = prop_oneof![Just("Always"), Just("IfNotPresent")];
    let image = prop_oneof![3 => Just("app:1"), 1 => Just("app:2"), 1 => Just("other")];
    let deadline =
        prop_oneof![3 => Just(json!(null)), 1 => Just(json!({"activeDeadlineSeconds": 50}))];
    (parallelism, selector, policy, image, deadline).prop_map(|(parallelism, selector, policy, image, completion)| {
        json!({
            "parallelism": parallelism, "selector": selector, "imagePullPolicy": policy, "image": image,
            "completionPolicy": completion, "pullSecrets": ["s"],
        })
    })
}

fn change() -> impl Strategy<Value = Change> {
    let daemon =
        prop_oneof![3 => Just(Daemon::Pulls), 1 => Just(Daemon::Fails), 1 => Just(Daemon::Silent)];
    prop_oneof![
        6 => (0usize..6).prop_map(Change::Daemon),
        2 => Just(Change::Daemons),
        1 => ((0usize..6), daemon).prop_map(|(n, daemon)| Change::Behave(n, daemon)),
        2 => prop_oneof![0i64..20, Just(700i64)].prop_map(Change::Time),
        1 => (0usize..6).prop_map(Change::Join),
        1 => (0usize..6).prop_map(Change::Leave),
        1 => ((0usize..6), 0u8..3).prop_map(|(n, label)| Change::Label(n, label)),
        2 => ((0usize..3), spec()).prop_map(|(n, spec)| Change::Create(n, spec)),
        1 => ((0usize..3), spec()).prop_map(|(n, spec)| Change::Edit(n, spec)),
        1 => (0usize..3).prop_map(Change::Delete),
        2 => Just(Change::Tend),
    ]
}

fn apply(world: &mut World, change: &Change) {
    let node = |n: &usize| format!("n{n}");
    let exists = |world: &World, n: &usize| world.names().contains(&node(n));
    match change {
        Change::Daemon(n) if exists(world, n) => world.run_daemon(&node(n)),
        Change::Daemons => world.run_daemons(),
        Change::Behave(n, daemon) => {
            world.daemons.insert(node(n), *daemon);
        }
        Change::Time(seconds) => world.pass(*seconds),
        Change::Join(n) if !exists(world, n) => world.join(&node(n), json!({})),
        Change::Leave(n) if *n > 0 => world.drop_node(&node(n)),
        Change::Label(n, label) if exists(world, n) => {
            world.edit_node(&node(n), |node| {
                node["metadata"]["labels"] = json!({"number": label.to_string()})
            });
        }
        Change::Create(n, spec) if !world.exists(JOBS[*n]) => world.create(JOBS[*n], spec),
        Change::Edit(n, spec) => world.edit(JOBS[*n], spec),
        Change::Delete(n) => world.delete(JOBS[*n]),
        Change::Tend => world.tend_nodes(),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// In every order of steps: no job makes more nodes pull than it may, every job ends, and none
    /// leaves entries behind except those that other owners want.
    #[test]
    fn jobs_keep_their_limits_and_end(changes in prop::collection::vec(change(), 1..40)) {
        let mut world = World::new(4);
        world.edit_node("n0", |node| node["spec"]["images"] = json!({"app": {"tags": [{"tag": "1"}]}}));
        for change in &changes {
            apply(&mut world, change);
            for job in JOBS {
                if !world.exists(job) {
                    continue;
                }
                let before = world.active(job);
                let spec = world.job(job).spec.template.parallelism.clone();
                world.step(job);
                if !world.exists(job) {
                    continue;
                }
                let desired = usize::try_from(world.status(job).desired).unwrap();
                let limit = spec.map_or(1, |spec| {
                    intstr::resolve(&spec, desired, Round::Up).unwrap()
                });
                prop_assert!(world.active(job) <= before.max(limit), "{job} after {change:?}");
            }
        }
        for job in JOBS {
            world.edit(job, &json!({"parallelism": 2, "selector": null}));
        }
        for _ in 0..12 {
            world.run(6);
            world.pass(700);
        }
        for job in JOBS.into_iter().filter(|job| world.exists(job)) {
            let status = world.status(job);
            prop_assert!(status.completion_time.is_some(), "{job}: {status:?}");
            prop_assert_eq!(status.succeeded + status.failed, status.desired);
            prop_assert!(world.plan(job).is_idle(), "{job} rests");
        }
        for job in JOBS {
            world.delete(job);
        }
        world.run(3);
        prop_assert!(JOBS.iter().all(|job| !world.exists(job)));
        prop_assert_eq!(world.entries().len(), 1, "what was put in by hand: {:?}", world.entries());
    }

    /// The same if every plan is based on an old view: the apiserver's preconditions keep it
    /// harmless.
    #[test]
    fn stale_snapshot_leaves_no_entries(changes in prop::collection::vec(change(), 1..20), parallelism in 1usize..3) {
        let mut world = World::new(4);
        world.create("a", &json!({"parallelism": parallelism}));
        for change in &changes {
            if !world.exists("a") {
                break;
            }
            let old = world.snapshot("a");
            apply(&mut world, change);
            world.act(&old);
        }
        world.delete("a");
        world.delete("b");
        world.delete("c");
        world.run(3);
        prop_assert_eq!(world.entries(), Vec::<String>::new());
    }
}
