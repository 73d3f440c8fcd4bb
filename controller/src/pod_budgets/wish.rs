//! What somebody wants of a pod, as budgets are asked about it.

use berth_api::budget::MOST_CONTAINERS;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_webhook::pods::{Change, Disruption};
use berth_workload::budget::count::is_available;
use berth_workload::budget::ledger::Request;
use berth_workload::inplace::resize;
use berth_workload::pod::Pod;
use jiff::Timestamp;
use serde_json::Value;

use super::Stores;

/// What is to befall the pod. Resources that restart a container change the pod like its image does.
pub(super) fn operation(disruption: &Disruption) -> ProtectedOperation {
    match disruption.change {
        Change::Delete => ProtectedOperation::Delete,
        Change::Evict => ProtectedOperation::Evict,
        Change::Update => ProtectedOperation::Update,
        Change::Resize if !restarted(disruption).is_empty() => ProtectedOperation::Update,
        Change::Resize => ProtectedOperation::Resize,
    }
}

/// The containers that restart for the resources that they get, by name.
fn restarted(disruption: &Disruption) -> Vec<&str> {
    let Some(new) = &disruption.new else { return Vec::new() };
    resize::restarted(disruption.object.as_ref().unwrap_or(&Value::Null), new)
}

/// The containers that run and get another image, by id.
pub(super) fn replaced(pod: &Pod, new: &Value) -> Vec<String> {
    let image = |name: &str| {
        let lists = ["containers", "initContainers"].into_iter();
        let mut all = lists.flat_map(|list| new["spec"][list].as_array().into_iter().flatten());
        all.find(|container| container["name"] == name).and_then(|container| container["image"].as_str())
    };
    ids(pod, |name| pod.container(name).is_some_and(|old| image(name).is_some_and(|new| *new != *old.image)))
}

/// The ids of these containers of the pod.
pub(super) fn ids(pod: &Pod, is_its: impl Fn(&str) -> bool) -> Vec<String> {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let ids = statuses.filter(|status| is_its(&status.name) && !status.container_id.is_empty());
    ids.map(|status| status.container_id.to_string()).take(MOST_CONTAINERS).collect()
}

/// What somebody wants of a pod.
pub(super) fn request(stores: &Stores, pod: &Pod, operation: ProtectedOperation, holder: String) -> Request {
    let has_node = !stores.nodes.is_synced() || stores.nodes.get("", &pod.spec.node_name).is_some();
    Request {
        pod: pod.metadata.name.to_string(),
        uid: pod.metadata.uid.to_string(),
        operation,
        holder,
        is_available: is_available(pod, has_node, Timestamp::now()),
        generation: operation.is_change().then_some(pod.metadata.generation),
        container_ids: Vec::new(),
        grant: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resize_that_restarts_a_container_is_an_update() {
        use ProtectedOperation::{Resize, Update};
        let pod = |policy: &str, memory: &str, cpu: &str| {
            let resources = json!({"limits": {"memory": memory}, "requests": {"cpu": cpu, "memory": memory}});
            let policies = json!([{"resourceName": "memory", "restartPolicy": policy}]);
            json!({"spec": {"containers": [{"name": "main", "resources": resources, "resizePolicy": policies}]}})
        };
        let old = |policy: &str| Some(pod(policy, "1Gi", "1"));
        for (old, new, expected) in [
            (old("NotRequired"), pod("NotRequired", "2Gi", "1"), Resize),
            (old("RestartContainer"), pod("RestartContainer", "2Gi", "1"), Update),
            (old("RestartContainer"), pod("RestartContainer", "1Gi", "2"), Resize),
            (None, pod("RestartContainer", "1Gi", "1"), Update),
        ] {
            let disruption =
                Disruption { change: Change::Resize, object: old, new: Some(new), ..Disruption::default() };
            assert_eq!(operation(&disruption), expected, "{disruption:?}");
        }
    }
}
