//! `kubectl berth rollout status` in whole histories of a CloneSet.

use std::sync::Arc;

use berth_cli::commands::rollout::kind::RolloutKind;
use berth_workload::feature_gates::Gate;
use proptest::prelude::*;
use serde_json::json;

use super::super::simulation::{World, template};
use super::properties::{Change, LAST, apply, change, given};
use crate::model::rollout_status::{Follower, is_new, own_pods};

/// What the pods lack to the end of the rollout.
fn missing(world: &World) -> Option<String> {
    let mut pods = own_pods(world);
    pods.retain(|pod| pod.is_active());
    let template = world.set.spec.template.value();
    let updated = pods
        .iter()
        .filter(|pod| is_new(pod, &template, 0, world))
        .count();
    let (replicas, partition) = (world.replicas(), world.partition());
    if pods.len() != replicas {
        return Some(format!("{} pods, {replicas} are wanted", pods.len()));
    }
    (updated + partition < replicas)
        .then(|| format!("{updated} of {replicas} are updated, the partition is {partition}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 72, ..ProptestConfig::default() })]

    #[test]
    fn rollout_status_is_done_only_when_it_is(
        changes in prop::collection::vec((change(), any::<bool>()), 1..30), given in given(),
        lingers in any::<bool>(), replicas in 1i32..7, partition in 0i32..4,
    ) {
        let mut world = given.world();
        // With the gate, a raised partition returns pods to the current revision, and the object
        // does not say whether the gate is on.
        world.gates = world.gates.with(Gate::CloneSetPartitionRollback, false);
        world.lingers = lingers;
        let mut follower = Follower::new(&world, RolloutKind::CloneSet, missing);
        for (change, decides) in &changes {
            let is_outside = matches!(change, Change::AskToGo(_) | Change::Break(_) | Change::Crash(_));
            follower.change(&mut world, format!("{change:?}"), is_outside, |world| apply(world, change))?;
            if *decides {
                follower.step(&mut world)?;
            }
        }
        follower.settle(&mut world)?;
        // To one image everywhere, then to another, and back at the same partition.
        for (image, partition) in [("web:next", 0), (LAST, partition), ("web:next", partition)] {
            follower.change(&mut world, format!("{image}, partition {partition}"), false, |world| {
                world.set_template(template(image));
                Arc::make_mut(&mut world.set).spec.replicas = Some(replicas);
                world.edit_rolling_update("paused", json!(false));
                world.edit_rolling_update("partition", json!(partition));
            })?;
            follower.step(&mut world)?;
            follower.settle(&mut world)?;
        }
        prop_assert!(follower.settle(&mut world)?, "done at last");
    }
}
