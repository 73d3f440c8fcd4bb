//! A pod whose labels `spec.selector` does not match any more is let go: it runs on, and is the CloneSet's no longer.
//!
//! Whoever takes a label off a pod wants it out of the way, to look at it or to keep it from its Service, and another in its
//! place. OpenKruise does the same; neither takes such a pod back when it gets its labels again.

use std::sync::Arc;

use berth_api::v1beta1::cloneset::CloneSet;

use super::Snapshot;
use super::decide::push;
use crate::inplace::steps;
use crate::plan::{Action, Event, Plan, Step};
use crate::pod::Pod;
use crate::selector::Selector;

/// Parts pods that the selector matches from those that it does not. One that cannot be read, or that matches everything, parts none.
pub fn part(set: &CloneSet, pods: Vec<Arc<Pod>>) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    match Selector::new(&set.spec.selector) {
        Ok(selector) => pods.into_iter().partition(|pod| selector.matches(|key| pod.metadata.label(key))),
        Err(_) => (pods, Vec::new()),
    }
}

/// Lets the strays go, as they are seen: a label may be back. One that is being deleted goes anyway.
pub(super) fn plan(snapshot: &Snapshot, plan: &mut Plan) {
    let owner = snapshot.set.metadata.uid.clone().unwrap_or_default();
    let staying = snapshot.strays.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let steps = staying.map(|pod| {
        let name = &pod.metadata.name;
        let message = format!("pod {name} is released: spec.selector does not match its labels any more");
        Step {
            actions: vec![Action::ReleasePod { target: steps::target_as_seen(pod), owner: owner.clone() }],
            reason: message.clone(),
            done: Some(Event { warning: false, reason: "PodReleased", message }),
            failed: None,
        }
    });
    push(plan, "release", steps.collect());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::simulation::{World, template};
    use super::*;

    fn kinds(plan: &Plan) -> Vec<String> {
        let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
        steps.flat_map(|step| &step.actions).map(|action| action.deed().to_string()).collect()
    }

    #[test]
    fn a_pod_that_loses_a_label_of_the_selector_is_released_and_replaced() {
        let mut world = World::settled(2, template("web:1"), json!({}));
        let stray = world.pods()[0].metadata.name.to_string();
        world.label(0, "app", "debug");
        let plan = world.step();
        assert_eq!(kinds(&plan), ["ReleasePod", "CreatePod"]);
        assert_eq!(world.pods[&stray]["metadata"]["ownerReferences"], json!([]));
        assert_eq!(world.status().replicas, 2, "it is not counted");
        // The pod of nobody is left alone, whatever becomes of it.
        world.settle();
        assert_eq!((world.pods.len(), world.status().available_replicas), (3, 2));
        world.label(0, "app", "web");
        assert!(world.step().is_idle());
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_not_released() {
        let mut world = World::settled(2, template("web:1"), json!({}));
        let now = world.now();
        world.label(0, "app", "debug");
        let pod = world.pods.values_mut().next().unwrap();
        pod["metadata"]["deletionTimestamp"] = json!(now);
        assert_eq!(kinds(&world.plan()), ["CreatePod"]);
    }

    #[test]
    fn expressions_count_and_a_selector_that_cannot_be_read_releases_nobody() {
        let world = World::settled(2, template("web:1"), json!({}));
        for (selector, strays) in [
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}), 0),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), 2),
            (json!({"matchExpressions": [{"key": "app", "operator": "Odd"}]}), 0),
            (json!({}), 0),
        ] {
            let mut set = (*world.set).clone();
            set.spec.selector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(part(&set, world.pods()).1.len(), strays, "{selector}");
        }
    }
}
