//! A pod whose labels `spec.selector` does not match any more is let go: it runs on, and is its workload's no longer.
//!
//! Whoever takes a label off a pod wants it out of the way, to look at it or to keep it from its Service, and another in its
//! place. OpenKruise does the same; neither takes such a pod back when it gets its labels again.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Scene;
use crate::objects::pod::Pod;
use crate::objects::selector::Selector;
use crate::plan::{Action, Event, Plan, Step};
use crate::update::inplace::steps;

/// Pods that the selector matches, and those that it does not. One that cannot be read, or that matches everything, matches
/// all.
pub fn split_by_selector(
    selector: &LabelSelector,
    pods: Vec<Arc<Pod>>,
) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    match Selector::new(selector) {
        Ok(selector) => pods
            .into_iter()
            .partition(|pod| selector.matches(|key| pod.metadata.label(key))),
        Err(_) => (pods, Vec::new()),
    }
}

/// Lets the strays go, as they are seen: a label may be back. One that is being deleted goes anyway.
pub fn release(scene: &Scene<'_>, plan: &mut Plan) {
    let owner = scene.workload.metadata.uid.clone().unwrap_or_default();
    let staying = scene
        .strays
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let steps = staying.map(|pod| {
        let name = &pod.metadata.name;
        let message =
            format!("pod {name} is released: spec.selector does not match its labels any more");
        Step {
            actions: vec![Action::ReleasePod {
                target: steps::target_as_seen(pod),
                owner: owner.clone(),
            }],
            reason: message.clone(),
            done: Some(Event::normal("PodReleased", message)),
            failed: None,
        }
    });
    plan.add_stage("release", steps.collect());
}
