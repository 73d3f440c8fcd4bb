//! Events of a request's pod.

use berth_api::v1beta1::containerrecreaterequest::ContainerRecreateRequestStatus;
use berth_workload::plan::Event;

use super::{Snapshot, pod};

/// Events when the status changes: the containers that were stopped, and hooks that failed.
pub fn pod_events(snapshot: &Snapshot, next: &ContainerRecreateRequestStatus) -> Vec<Event> {
    let Some(pod) = pod(snapshot) else {
        return Vec::new();
    };
    let request = &*snapshot.request;
    let before = request
        .status
        .iter()
        .flat_map(|status| &status.container_recreate_states);
    let was_killed: Vec<_> = before
        .filter(|state| state.is_killed)
        .map(|state| state.name.as_str())
        .collect();
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let course = snapshot.course(pod);
    let mut events = Vec::new();
    for state in &next.container_recreate_states {
        if !state.is_killed || was_killed.contains(&&*state.name) {
            continue;
        }
        let message = format!(
            "Stopping container {} by ContainerRecreateRequest {name}",
            state.name
        );
        events.push(Event::normal("Killing", message));
        let answer = course
            .requested_stop(&state.name)
            .and_then(|stop| course.answer(stop));
        if let Some(answer) = answer.filter(|answer| !answer.hook_message.is_empty()) {
            let message = format!(
                "PreStopHook of container {} failed: {}",
                state.name, answer.hook_message
            );
            events.push(Event::warning("FailedPreStopHook", message));
        }
    }
    events
}
