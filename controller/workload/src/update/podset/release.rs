//! Releases pods whose labels `spec.selector` no longer matches: they keep running without their
//! workload.
//!
//! A user removes a label from a pod to debug the pod or to take it out of its Service, and wants
//! another pod in its place. OpenKruise does the same. Neither adopts such a pod again when it gets
//! its labels back.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::WorkloadView;
use crate::objects::pod::Pod;
use crate::objects::selector::Selector;
use crate::plan::{Action, Event, Plan, Step};
use crate::update::inplace::steps;

/// Splits pods by whether the selector matches. An invalid selector, or one that matches
/// everything, matches all.
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

/// Releases the strays in the version that was seen, because a label may be back. Pods that are
/// being deleted are left out.
pub fn release(view: &WorkloadView<'_>, plan: &mut Plan) {
    let owner = view.workload.metadata.uid.clone().unwrap_or_default();
    let staying = view
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
