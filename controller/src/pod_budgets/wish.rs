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

/// The containers that run and get another image, or restart for other resources, by id; and whether it is a resize that restarts some.
pub(super) fn replaced(pod: &Pod, disruption: &Disruption) -> (Vec<String>, bool) {
    let Some(new) = &disruption.new else { return (Vec::new(), false) };
    let restarted = restarted(disruption);
    let image = |name: &str| {
        let lists = ["containers", "initContainers"].into_iter();
        let mut all = lists.flat_map(|list| new["spec"][list].as_array().into_iter().flatten());
        all.find(|container| container["name"] == name).and_then(|container| container["image"].as_str())
    };
    let has_another_image =
        |name: &str| pod.container(name).is_some_and(|old| image(name).is_some_and(|new| *new != *old.image));
    let ids = ids(pod, |name| restarted.contains(&name) || has_another_image(name));
    (ids, matches!(disruption.change, Change::Resize) && !restarted.is_empty())
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
        resizes: false,
        grant: None,
        is_again: false,
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

    // Else a resize would be settled when the kubelet has seen it and before the container stops.
    #[test]
    fn the_containers_that_a_change_replaces_are_those_of_another_image_and_those_that_restart() {
        let pod = |image: &str, memory: [&str; 2], policy: &str| {
            let container = |name: &str, image: &str, memory: &str| {
                let policies = json!([{"resourceName": "memory", "restartPolicy": policy}]);
                json!({"name": name, "image": image, "resources": {"limits": {"memory": memory}}, "resizePolicy": policies})
            };
            let mut sidecar = container("side", "side:1", memory[1]);
            sidecar["restartPolicy"] = json!("Always");
            let status = |name: &str| json!([{"name": name, "containerID": format!("containerd://{name}")}]);
            json!({
                "metadata": {"name": "web"},
                "spec": {"containers": [container("main", image, memory[0])], "initContainers": [sidecar]},
                "status": {"containerStatuses": status("main"), "initContainerStatuses": status("side")},
            })
        };
        let (main, side) = ("containerd://main", "containerd://side");
        for (change, image, memory, policy, expected) in [
            (Change::Update, "web:1", ["1Gi", "1Gi"], "RestartContainer", vec![]),
            (Change::Update, "web:2", ["1Gi", "1Gi"], "RestartContainer", vec![main]),
            (Change::Resize, "web:1", ["2Gi", "1Gi"], "RestartContainer", vec![main]),
            (Change::Resize, "web:1", ["1Gi", "2Gi"], "RestartContainer", vec![side]),
            (Change::Resize, "web:1", ["2Gi", "2Gi"], "RestartContainer", vec![main, side]),
            (Change::Resize, "web:1", ["2Gi", "2Gi"], "NotRequired", vec![]),
        ] {
            let old = pod("web:1", ["1Gi", "1Gi"], policy);
            let now: Pod = serde_json::from_value(old.clone()).unwrap();
            let new = Some(pod(image, memory, policy));
            let disruption = Disruption { change, object: Some(old), new, ..Disruption::default() };
            let resizes = matches!(change, Change::Resize) && !expected.is_empty();
            let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(replaced(&now, &disruption), (expected, resizes), "{disruption:?}");
        }
        let gone = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        assert_eq!(replaced(&gone, &Disruption::default()), (Vec::new(), false), "it does not change");
    }
}
