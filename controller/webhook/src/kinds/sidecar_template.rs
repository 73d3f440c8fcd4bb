//! A SidecarSet's containers as a pod template, for the apiserver to judge. A fault that it would
//! refuse in each pod with these containers is refused once, before there is any pod.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The namespace for the dry run, which exists in every cluster.
pub(crate) const NAMESPACE: &str = "default";

/// Fields of a sidecar that are no fields of a container, or are computed from pods.
const OWN: [&str; 7] = [
    "podInjectPolicy",
    "upgradeStrategy",
    "shareVolumePolicy",
    "shareVolumeDevicePolicy",
    "transferEnv",
    "resourcesPolicy",
    // A device needs a claim, and only a pod says how the claim is used.
    "volumeDevices",
];

/// The pod template with a SidecarSet's containers and volumes. Containers keep their indexes, so
/// that the apiserver's messages name the fields of the SidecarSet.
pub(crate) fn of(object: &Value) -> Value {
    let spec = &object["spec"];
    let mut containers = containers_of(&spec["containers"]);
    let init = containers_of(&spec["initContainers"]);
    let mut volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    volumes.extend(volumes_of_pods(&volumes, containers.iter().chain(&init)));
    if containers.is_empty() {
        containers.push(json!({"name": "container-of-the-pod", "image": "image"}));
    }
    let secrets = &spec["imagePullSecrets"];
    json!({"spec": {"containers": containers, "initContainers": init, "volumes": volumes, "imagePullSecrets": secrets}})
}

/// The items of a list of sidecars as [containers](container) of a pod.
fn containers_of(containers: &Value) -> Vec<Value> {
    containers
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .map(|of| container(of.clone()))
        .collect()
}

/// A sidecar as a container of a pod, without the fields in [`OWN`]. A sidecar with hot upgrade
/// gets the name of the first container of its pair, `NAME-1`.
fn container(mut container: Map<String, Value>) -> Value {
    let is_hot = container
        .get("upgradeStrategy")
        .is_some_and(|strategy| strategy["upgradeType"] == "HotUpgrade");
    OWN.iter().for_each(|field| drop(container.remove(*field)));
    if let (true, Some(name)) = (is_hot, container.get("name").and_then(Value::as_str)) {
        container.insert("name".to_owned(), json!(format!("{name}-1")));
    }
    Value::Object(container)
}

/// Empty volumes in place of the ones that the containers use and the SidecarSet lacks, because the
/// pods may have them. Mounts and variables from files use volumes.
fn volumes_of_pods<'a>(
    volumes: &[Value],
    containers: impl Iterator<Item = &'a Value>,
) -> Vec<Value> {
    let mut used = BTreeSet::new();
    for container in containers {
        let list = |key: &str| container[key].as_array().into_iter().flatten();
        used.extend(list("volumeMounts").filter_map(|mount| mount["name"].as_str()));
        used.extend(
            list("env")
                .filter_map(|variable| variable["valueFrom"]["fileKeyRef"]["volumeName"].as_str()),
        );
    }
    let lacks = |name: &&str| !volumes.iter().any(|volume| volume["name"] == **name);
    used.into_iter()
        .filter(lacks)
        .map(|name| json!({"name": name, "emptyDir": {}}))
        .collect()
}

#[cfg(test)]
mod tests;
