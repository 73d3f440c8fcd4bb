//! Properties of whole histories: after every history, each single write keeps the limits, and in
//! the end the pods match the spec.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use berth_workload::feature_gates::Gate;
use berth_workload::objects::pod::gates::IN_PLACE_UPDATE_READY;
use berth_workload::plan::{Action, Plan};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::simulation::{Tally, World, template};

/// The image of the last template, which no history has.
pub(super) const LAST: &str = "web:last";

/// Something that happens to a CloneSet.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Image(&'static str),
    Env(u8),
    Replicas(i32),
    Partition(Value),
    Pause(bool),
    AskToGo(usize),
    Break(usize),
    Crash(usize),
    Kubelets,
    OneKubelet(usize),
    Time(i64),
}

pub(super) fn change() -> impl Strategy<Value = Change> {
    let partition = prop_oneof![
        (0i32..7).prop_map(|n| json!(n)),
        (0u8..12).prop_map(|n| json!(format!("{}%", n * 10)))
    ];
    let image = prop::sample::select(vec!["web:0", "web:1", "web:2", "bad:1", "bad:2"]);
    prop_oneof![
        4 => image.prop_map(Change::Image),
        1 => (0u8..2).prop_map(Change::Env),
        2 => (0i32..7).prop_map(Change::Replicas),
        3 => partition.prop_map(Change::Partition),
        1 => any::<bool>().prop_map(Change::Pause),
        2 => (0usize..8).prop_map(Change::AskToGo),
        2 => (0usize..8).prop_map(Change::Break),
        1 => (0usize..8).prop_map(Change::Crash),
        4 => Just(Change::Kubelets),
        4 => (0usize..8).prop_map(Change::OneKubelet),
        3 => (0i64..5).prop_map(Change::Time),
    ]
}

pub(super) fn apply(world: &mut World, change: &Change) {
    match change {
        Change::Image(image) => {
            world.edit_template(|t| t["spec"]["containers"][0]["image"] = json!(image))
        }
        Change::Env(n) => {
            world.edit_template(|t| {
                t["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": n.to_string()}])
            });
        }
        Change::Replicas(n) => Arc::make_mut(&mut world.set).spec.replicas = Some(*n),
        Change::Partition(value) => world.edit_rolling_update("partition", value.clone()),
        Change::Pause(paused) => world.edit_rolling_update("paused", json!(paused)),
        Change::AskToGo(at) => world.ask_to_go(*at),
        Change::Break(at) => world.break_pod(*at),
        Change::Crash(at) => world.crash(*at),
        Change::Kubelets => world.run_kubelets(),
        Change::OneKubelet(at) => world.run_kubelet(*at),
        Change::Time(seconds) => world.pass(*seconds),
    }
}

/// The parameters of a whole history.
#[derive(Debug, Clone)]
pub(super) struct Given {
    policy: &'static str,
    max_unavailable: usize,
    max_surge: usize,
    grace: i64,
    rolls_back: bool,
}

pub(super) fn given() -> impl Strategy<Value = Given> {
    let limits = prop_oneof![(1usize..4, 0usize..3), (Just(0), 1usize..3)];
    let policy = prop::sample::select(vec!["InPlaceIfPossible", "ReCreate"]);
    (
        policy,
        limits,
        prop::sample::select(vec![0, 3]),
        any::<bool>(),
    )
        .prop_map(
            |(policy, (max_unavailable, max_surge), grace, rolls_back)| Given {
                policy,
                max_unavailable,
                max_surge,
                grace,
                rolls_back,
            },
        )
}

impl Given {
    pub(super) fn world(&self) -> World {
        let rolling = json!({
            "podUpdatePolicy": self.policy, "maxUnavailable": self.max_unavailable, "maxSurge": self.max_surge,
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": self.grace},
        });
        let mut world = World::settled(
            4,
            template("web:0"),
            json!({"type": "RollingUpdate", "rollingUpdate": rolling}),
        );
        world.gates = world
            .gates
            .with(Gate::CloneSetPartitionRollback, self.rolls_back);
        world.traced = true;
        world
    }
}

/// The text of a history for a failed property: one line for each change and each write.
#[derive(Default)]
struct Story(Vec<String>);

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.0.len().saturating_sub(40);
        self.0[skipped..]
            .iter()
            .try_for_each(|line| write!(f, "\n    {line}"))
    }
}

impl Story {
    /// Makes one decision, and checks each of its writes against the limits.
    fn step(&mut self, world: &mut World, given: &Given) -> Result<Plan, TestCaseError> {
        let replicas = world.replicas();
        let (floor, ceiling) = (
            replicas.saturating_sub(given.max_unavailable),
            replicas + given.max_surge,
        );
        let partition = world.partition();
        let mut before = world.tally();
        let plan = world.step();
        for (action, after) in world.trace.drain(..) {
            self.0.push(format!("{action}: {after}"));
            let held = [
                (
                    "maxUnavailable",
                    after.available >= before.available.min(floor),
                ),
                ("maxSurge", after.pods <= before.pods.max(ceiling)),
                (
                    "partition",
                    before.pods < replicas
                        || after.old >= before.old.min(partition)
                        || after.to_delete < before.to_delete,
                ),
            ];
            for (limit, held) in held {
                prop_assert!(
                    held,
                    "{limit} of {given:?}, {replicas} replicas, partition {partition}: {before}, then{self}"
                );
            }
            before = after;
        }
        Ok(plan)
    }

    /// Decides until nothing is left to do. Returns how often each pod got an image, and how often
    /// it was taken out of service.
    fn settle(
        &mut self,
        world: &mut World,
        given: &Given,
    ) -> Result<BTreeMap<String, (usize, usize)>, TestCaseError> {
        let mut touched: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for _ in 0..300 {
            let plan = self.step(world, given)?;
            for action in plan.actions() {
                match action {
                    Action::PatchPod { target, patch } if !patch.images.is_empty() => {
                        touched.entry(target.name.clone()).or_default().0 += 1;
                    }
                    Action::PatchPodStatus {
                        target, conditions, ..
                    } if conditions
                        .iter()
                        .any(|c| &*c.type_ == IN_PLACE_UPDATE_READY && &*c.status == "False") =>
                    {
                        touched.entry(target.name.clone()).or_default().1 += 1;
                    }
                    _ => {}
                }
            }
            world.run_kubelets();
            world.pass(1);
            if plan.is_idle() && plan.look_again.is_none() && world.plan().is_idle() {
                return Ok(touched);
            }
        }
        Err(TestCaseError::fail(format!(
            "it does not come to rest under {given:?}:{self}\n{:#?}",
            world.plan()
        )))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} pods, {} available, {} old",
            self.pods, self.available, self.old
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// A rollout that repairs ends, regardless of broken pods: every pod runs the last template,
    /// and none was changed twice for it.
    #[test]
    fn a_last_good_template_reaches_every_pod(
        changes in prop::collection::vec(change(), 1..30), given in given(), replicas in 1i32..7,
    ) {
        let (mut world, mut story) = (given.world(), Story::default());
        for change in &changes {
            story.0.push(format!("{change:?}"));
            apply(&mut world, change);
            story.step(&mut world, &given)?;
        }
        story.0.push(format!("the last template, {replicas} replicas, no partition"));
        world.set_template(template(LAST));
        Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
        world.edit_rolling_update("paused", json!(false));
        world.edit_rolling_update("partition", json!(0));
        let touched = story.settle(&mut world, &given)?;
        let status = world.status();
        prop_assert_eq!(
            (status.replicas, status.updated_replicas, status.updated_available_replicas),
            (replicas, replicas, replicas), "replicas, updated, updated and available under {:?}:{}", given, story
        );
        prop_assert!(world.created_from().iter().all(|image| image == LAST), "what runs is what the spec says:{story}");
        for (pod, (patched, out_of_service)) in touched {
            prop_assert!(patched <= 1 && out_of_service <= 1, "{pod} was patched {patched} times and taken out of service {out_of_service} times:{story}");
        }
    }

    /// With a partition, and if every pod is healthy, exactly as many pods as the partition says
    /// stay at the old revision.
    #[test]
    fn the_partition_splits_the_revisions(
        changes in prop::collection::vec(change(), 1..30), given in given(), replicas in 1i32..7, partition in 0i32..7,
    ) {
        let (mut world, mut story) = (given.world(), Story::default());
        for change in &changes {
            story.0.push(format!("{change:?}"));
            apply(&mut world, change);
            story.step(&mut world, &given)?;
        }
        story.0.push(format!("the last template, {replicas} replicas, partition {partition}, all in good health"));
        world.mend();
        world.set_template(template(LAST));
        Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
        world.edit_rolling_update("paused", json!(false));
        world.edit_rolling_update("partition", json!(partition));
        let touched = story.settle(&mut world, &given)?;
        let status = world.status();
        let updated = replicas - partition.min(replicas);
        prop_assert_eq!(
            (status.replicas, status.available_replicas, status.expected_updated_replicas),
            (replicas, replicas, updated), "replicas, available, expected under {:?}:{}", given, story
        );
        prop_assert_eq!(status.updated_replicas, updated, "updated under {:?}:{}", given, story);
        for (pod, (patched, _)) in touched {
            prop_assert!(patched <= 1, "{pod} was patched {patched} times:{story}");
        }
    }

    /// Pods inside a partition have the current revision, after any sequence of `spec.replicas`
    /// that may contain zero.
    #[test]
    fn a_partition_keeps_its_revision_at_any_scale(
        replicas in prop::collection::vec(0i32..7, 1..6),
        partition in prop_oneof![(1i32..7).prop_map(|n| json!(n)), (1u8..11).prop_map(|n| json!(format!("{}%", n * 10)))],
        given in given(), limit in 0i32..2,
    ) {
        let mut world = given.world();
        world.mend();
        world.set_template(template("web:0"));
        world.settle();
        Arc::make_mut(&mut world.set).spec.revision_history_limit = Some(limit);
        world.edit_rolling_update("partition", partition.clone());
        world.set_template(template(LAST));
        for replicas in &replicas {
            Arc::make_mut(&mut world.set).spec.replicas = Some(*replicas);
            world.settle();
            let old = world.images().iter().filter(|image| *image == "web:0").count();
            prop_assert_eq!(old, world.partition(), "{} replicas, partition {}, {:?}", replicas, &partition, given);
        }
        world.edit_rolling_update("partition", json!(0));
        world.settle();
        let status = world.status();
        prop_assert_eq!(status.current_revision, status.update_revision, "the partition is gone");
    }
}
