//! `kubectl berth rollout status` in whole histories of a StatefulSet.

use berth_cli::commands::rollout::kind::RolloutKind;
use berth_workload::objects::ordinals::ordinal_of;
use berth_workload::objects::pod::Pod;
use proptest::prelude::*;
use serde_json::json;

use super::super::simulation::World;
use super::properties::{Change, apply, change, given, rolling, wanted};
use crate::model::rollout_status::{Follower, is_new, own_pods};

/// What the pods lack to the end of the rollout.
fn missing(world: &World) -> Option<String> {
    let mut pods = own_pods(world);
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    let ordinal = |name: &str| ordinal_of("db", name).unwrap();
    pods.sort_by_key(|pod| ordinal(&pod.metadata.name));
    let names: Vec<_> = pods.iter().map(|pod| ordinal(&pod.metadata.name)).collect();
    let wanted = wanted(world);
    if names != wanted {
        return Some(format!("pods {names:?}, wanted are {wanted:?}"));
    }
    let spec = json!(world.set.spec);
    let template = world.set.spec.template.value();
    let is_new = |pod: &Pod| {
        let mut claims = world.set.spec.volume_claim_templates.iter();
        let has = |name: &str| {
            pod.spec
                .claim_volumes
                .iter()
                .any(|volume| **volume == *name)
        };
        is_new(pod, &template, 0, world) && claims.all(|claim| has(claim.name()))
    };
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    let partition = usize::try_from(rolling["partition"].as_i64().unwrap_or(0)).unwrap();
    let is_ordered =
        rolling["unorderedUpdate"].is_null() || spec["podManagementPolicy"] != "Parallel";
    let is_done = if is_ordered {
        pods.iter().skip(partition).all(|pod| is_new(pod))
    } else {
        pods.iter().filter(|pod| is_new(pod)).count() + partition >= pods.len()
    };
    (!is_done).then(|| format!("a pod outside of partition {partition} is not updated"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 72, ..ProptestConfig::default() })]

    #[test]
    fn rollout_status_is_done_only_when_it_is(
        changes in prop::collection::vec((change(), any::<bool>()), 1..30), given in given(),
        is_unordered in any::<bool>(), replicas in 1i32..6, partition in 0i32..4,
    ) {
        let mut world = given.world();
        if is_unordered {
            world.merge(&rolling("unorderedUpdate", &json!({})));
        }
        let mut follower = Follower::new(&world, RolloutKind::StatefulSet, missing);
        // The object does not say whether the feature gate of ordinals.start is on.
        let counts = |change: &Change| !matches!(change, Change::Start(_));
        for (change, decides) in changes.iter().filter(|(change, _)| counts(change)) {
            let is_outside = matches!(
                change,
                Change::AskToGo(_) | Change::Break(_) | Change::Fail(_) | Change::Delete(_) | Change::Orphan(_)
            );
            follower.change(&mut world, format!("{change:?}"), is_outside, |world| apply(world, change))?;
            if *decides {
                follower.step(&mut world)?;
            }
        }
        follower.settle(&mut world)?;
        for (image, partition) in [("db:next", 0), ("db:last", partition), ("db:next", partition)] {
            follower.change(&mut world, format!("{image}, partition {partition}"), false, |world| {
                world.set_image(image);
                world.merge(&json!({"replicas": replicas}));
                world.merge(&rolling("paused", &json!(false)));
                world.merge(&rolling("partition", &json!(partition)));
            })?;
            follower.step(&mut world)?;
            follower.settle(&mut world)?;
        }
    }
}
