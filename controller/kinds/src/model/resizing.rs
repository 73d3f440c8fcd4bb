//! A kubelet that resizes, puts off, or refuses.

use berth_workload::objects::pod::lifecycle;
use berth_workload::plan::{Action, Failure};
use berth_workload::update::inplace::resize::Resizes;
use berth_workload::update::inplace::state::ANNOTATION;
use berth_workload::update::revision::REVISION_LABEL;
use serde_json::{Value, json};

use super::apiserver::{count_change, set_condition};

/// The apiserver's handling of a patch of the `resize` subresource.
pub(crate) fn patch(pod: &mut Value, resources: &Resizes) {
    let before = pod["spec"].clone();
    for (name, resize) in resources {
        let all = pod["spec"][resize.list()].as_array_mut().unwrap();
        let container = all
            .iter_mut()
            .find(|container| container["name"] == **name)
            .unwrap();
        for (kind, amounts) in [("requests", &resize.requests), ("limits", &resize.limits)] {
            for (resource, quantity) in amounts {
                container["resources"][kind][resource] = json!(quantity);
            }
        }
    }
    count_change(pod, &before);
}

/// The apiserver's refusal of a resize.
pub(crate) fn refusal(action: &Action, refuses: &str) -> Option<Failure> {
    let Action::ResizePod { target, .. } = action else {
        return None;
    };
    let message = match refuses {
        "" | "Deferred" | "Infeasible" => return None,
        "NodeCapacity" => {
            "node didn't have enough allocatable resources: cpu, requested: 9000, allocatable: 2000"
                .to_owned()
        }
        other => format!("admission webhook \"{other}\" denied the request"),
    };
    Some(Failure {
        write: action.write(),
        namespace: target.namespace.clone(),
        object: target.name.clone(),
        message: format!("pods \"{}\" is forbidden: {message}", target.name),
        code: 403,
        permanent: true,
        outdated: false,
        taken: false,
        infeasible: refuses == "NodeCapacity",
    })
}

/// One sync: the container gets the allocated resources, and the wanted ones are allocated, or
/// refused. A resize takes two syncs. Returns true if the container must restart for it. A new pod
/// or container starts with the wanted resources.
pub(crate) fn sync(pod: &mut Value, refuses: &str) -> bool {
    let wanted = pod["spec"]["containers"][0]["resources"].clone();
    if let Some(Value::Array(conditions)) = pod.pointer_mut("/status/conditions") {
        conditions.retain(|c| {
            !c["type"]
                .as_str()
                .unwrap_or_default()
                .starts_with("PodResize")
        });
    }
    if pod["allocated"].is_null() {
        pod["allocated"] = wanted.clone();
    }
    let statuses = pod["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    let name = &pod["spec"]["containers"][0]["name"];
    // The first container may wait for its turn.
    let Some(at) = statuses
        .into_iter()
        .position(|status| status["name"] == *name)
    else {
        return false;
    };
    let is_new = pod["status"]["containerStatuses"][at]["resources"].is_null();
    if pod["allocated"] != pod["status"]["containerStatuses"][at]["resources"] {
        pod["status"]["containerStatuses"][at]["resources"] = pod["allocated"].clone();
        if !is_new {
            return !pod["spec"]["containers"][0]["resizePolicy"].is_null();
        }
    }
    if pod["allocated"] == wanted {
        return false;
    }
    if !["Deferred", "Infeasible"].contains(&refuses) {
        pod["allocated"] = wanted;
        set_condition(
            pod,
            json!({"type": "PodResizeInProgress", "status": "True"}),
        );
    } else {
        let message = "Node didn't have enough capacity: cpu, requested: 9000, capacity: 2000";
        set_condition(
            pod,
            json!({"type": "PodResizePending", "status": "True", "reason": refuses, "message": message}),
        );
    }
    false
}

/// Gives the pod the record of an update to its own revision whose resources its spec lacks, as
/// after the apiserver's refusal.
pub(crate) fn lack(pod: &mut Value) {
    let labels = &mut pod["metadata"]["labels"];
    let record = json!({
        "revision": labels[REVISION_LABEL], "updateResources": true,
        "berthResources": {"main": {"requests": {"cpu": "9"}}},
    });
    labels[lifecycle::STATE_LABEL] = json!(lifecycle::UPDATING);
    pod["metadata"]["annotations"][ANNOTATION] = json!(record.to_string());
}
