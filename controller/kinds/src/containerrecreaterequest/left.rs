//! Entries that requests left behind in the readiness gates of pods. A request releases its pod
//! before it is deleted, and a finalizer ensures that. But a user who may change a request may
//! remove the finalizer, and then no request would ever put the pod back into service.

use std::borrow::Cow;

use berth_api::v1beta1::ContainerRecreateRequest;
use berth_workload::objects::pod::Pod;
use berth_workload::objects::pod::gates::KRUISE_POD_READY;
use berth_workload::objects::pod::unready::{self, Reason};
use berth_workload::plan::{Action, Plan, PodPatch, Step, Target};
use berth_workload::update::recreate::pod_uid;
use jiff::Timestamp;

/// The user agent of the entries that requests write.
pub(super) const USER_AGENT: &str = "ContainerRecreateRequest";

/// The names of the requests of its namespace that have an entry in the pod's gate.
pub fn entries(pod: &Pod) -> Vec<String> {
    // This runs at each change of each pod, and almost no pod has an entry.
    if !pod
        .condition(KRUISE_POD_READY)
        .is_some_and(|condition| condition.message.contains(USER_AGENT))
    {
        return Vec::new();
    }
    let of_request = |reason: Reason| {
        let name = reason
            .key
            .strip_prefix(&*pod.metadata.namespace)?
            .strip_prefix('/')?;
        (reason.user_agent == USER_AGENT).then(|| name.to_owned())
    };
    unready::reasons(pod)
        .into_iter()
        .filter_map(of_request)
        .collect()
}

/// Removes the entry of a request that is gone. A request of the same name may exist by now for
/// another pod.
pub fn let_go_of_gone(
    pod: &Pod,
    name: &str,
    request: Option<&ContainerRecreateRequest>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    let is_of_pod = |request: &ContainerRecreateRequest| {
        let uid = pod_uid(request);
        request.spec.pod_name == *pod.metadata.name
            && uid.is_none_or(|uid| *uid == *pod.metadata.uid)
    };
    if request.is_some_and(is_of_pod) || pod.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let key = format!("{}/{name}", pod.metadata.namespace);
    let reason = Reason {
        user_agent: Cow::Borrowed(USER_AGENT),
        key: Cow::Owned(key),
    };
    if let Some(open) = unready::without(pod, &reason, now) {
        let target = Target::as_seen(&pod.metadata);
        let action = Action::PatchPodStatus {
            target,
            conditions: vec![open],
            patch: PodPatch::default(),
        };
        let why = format!(
            "pod {} was out of service for request {name}, which is gone",
            pod.metadata.name
        );
        plan.add_stage("back in service", vec![Step::new(action, why)]);
    }
    plan
}

#[cfg(test)]
mod tests;
