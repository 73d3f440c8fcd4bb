//! `kubectl berth rollout status` in whole histories of a DaemonSet.

use berth_cli::commands::rollout::kind::RolloutKind;
use proptest::prelude::*;
use serde_json::json;

use super::super::held::holds_revision;
use super::super::places::{Place, Places};
use super::super::settings::settings;
use super::super::simulation::World;
use super::properties::{Change, apply, change, rolling};
use crate::model::rollout_status::{Follower, is_new};

/// What the pods lack to the end of the rollout.
fn missing(world: &World) -> Option<String> {
    let snapshot = world.snapshot();
    let template = snapshot.set.spec.template.value();
    let places = Places::new(&snapshot, &template);
    let total = places.wanted().count();
    let settings = settings(&snapshot, &template, total).ok()?;
    let expected = total - settings.partition;
    let with_pod = places
        .wanted()
        .filter(|(_, place)| place.active().next().is_some())
        .count();
    let created = if settings.is_partitioned {
        expected
    } else {
        total
    };
    if with_pod < created {
        return Some(format!("{with_pod} of {created} nodes have a pod"));
    }
    // Without maxSurge the command reads no pods; a second pod is from an earlier maxSurge.
    let mut pairs = places
        .wanted()
        .filter(|(_, place)| place.active().count() > 1);
    if let Some((node, _)) = pairs.next().filter(|_| settings.max_surge > 0) {
        return Some(format!("{node} has two pods"));
    }
    let seconds = settings.min_ready_seconds;
    let has_new = |place: &Place<'_>| {
        place
            .active()
            .any(|pod| is_new(pod, &template, seconds, world))
    };
    if holds_revision(&snapshot.set) {
        // partitionedScaling may leave any node empty.
        let is_empty = |place: &Place<'_>| settings.is_partitioned && place.pods.is_empty();
        let mut allowed = places.wanted().rev().take(expected);
        let old = allowed.find(|(_, place)| !has_new(place) && !is_empty(place));
        return old.map(|(node, _)| format!("{node} outside of the partition is not updated"));
    }
    let updated = places.wanted().filter(|(_, place)| has_new(place)).count();
    (updated < expected).then(|| format!("{updated} of {expected} nodes are updated"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 72, ..ProptestConfig::default() })]

    #[test]
    fn rollout_status_is_done_only_when_it_is(
        changes in prop::collection::vec((change(), any::<bool>()), 1..40),
        is_partitioned in any::<bool>(), holds in any::<bool>(), partition in 0i32..4,
    ) {
        let mut world = World::settled(3, json!({"scaleStrategy": {"partitionedScaling": is_partitioned}}));
        let mut follower = Follower::new(&world, RolloutKind::DaemonSet, missing);
        // A node that does not tolerate the pods of a held revision stays empty, and the status
        // does not count such nodes.
        let is_left_out = |change: &Change| match change {
            Change::Hold(_) => !holds,
            Change::Tolerate(_) => holds,
            _ => false,
        };
        for (change, decides) in changes.iter().filter(|(change, _)| !is_left_out(change)) {
            let is_outside = !matches!(
                change,
                Change::Image(_) | Change::Restart(_) | Change::Tolerate(_) | Change::Strategy(_) | Change::Partition(_)
                    | Change::Pause(_) | Change::Select(_) | Change::MinReady(_) | Change::Daemons | Change::Kubelets
                    | Change::OneKubelet(_) | Change::Time(_)
            );
            follower.change(&mut world, format!("{change:?}"), is_outside, |world| apply(world, change))?;
            if *decides {
                follower.step(&mut world)?;
            }
        }
        follower.settle(&mut world)?;
        for (image, partition) in [("log:8", 0), ("log:9", partition), ("log:8", partition)] {
            follower.change(&mut world, format!("{image}, partition {partition}"), true, |world| {
                for node in world.nodes.keys().cloned().collect::<Vec<_>>() {
                    world.set_ready(&node, true);
                }
                world.merge(&rolling(&json!({"partition": partition, "paused": false, "selector": null})));
                world.set_image(image);
            })?;
            follower.step(&mut world)?;
            follower.settle(&mut world)?;
        }
        prop_assert!(follower.settle(&mut world)?, "done at last");
    }
}
