//! The containers of a simulated pod. In addition to the apiserver's fields, a pod has `created`.
//! By container, `created` has the image and the variables of the container's creation, the restart
//! time that was wanted then, and whether the container was stopped.

use std::collections::BTreeMap;

use berth_api::env_hash;
use berth_api::names::annotation::RESTARTED_AT;
use berth_api::v1beta1::nodeimage::{InspectEnv, InspectedContainer};
use berth_workload::objects::pod::Pod;
use berth_workload::update::inplace::kubelet_hash::kubelet_hash;
use serde_json::{Value, json};

use crate::nodeimage;

/// Creates every container that is missing, stopped, or of another image than the spec's, unless
/// its barrier's key is missing. A slow container becomes ready at the next call.
pub(crate) fn sync(pod: &mut Value, id: u64, barrier: Option<&Value>, slow: bool) {
    let statuses = pod
        .pointer_mut("/status/containerStatuses")
        .and_then(Value::as_array_mut);
    for status in statuses.into_iter().flatten() {
        status["ready"] = json!(true);
    }
    for container in pod["spec"]["containers"].as_array().unwrap().clone() {
        let name = container["name"].as_str().unwrap();
        let created = &pod["created"][name];
        if created["image"] != container["image"] || created["stopped"] == true {
            let variables = container["env"].as_array().into_iter().flatten();
            let mut keys =
                variables.filter_map(|env| env["valueFrom"]["configMapKeyRef"]["key"].as_str());
            if keys.any(|key| barrier.is_none_or(|barrier| barrier["data"][key].is_null())) {
                continue;
            }
            let env = environment(pod, &container);
            let restarted_at = pod["metadata"]["annotations"][RESTARTED_AT].clone();
            pod["created"][name] =
                json!({"image": container["image"], "env": env, RESTARTED_AT: restarted_at});
            start(pod, name, id);
            let statuses = pod["status"]["containerStatuses"].as_array_mut().unwrap();
            statuses
                .iter_mut()
                .find(|status| status["name"] == name)
                .unwrap()["ready"] = json!(!slow);
        }
    }
}

/// The first container dies and is started again from what it was created from.
pub(crate) fn crash(pod: &mut Value, id: u64) {
    let name = pod["spec"]["containers"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    if pod["created"][&name].is_object() {
        pod["created"][&name][RESTARTED_AT] = pod["metadata"]["annotations"][RESTARTED_AT].clone();
        start(pod, &name, id);
    }
}

/// The entry for the daemon, as if its NodeImage were always up to date.
fn question(pod: &Value) -> BTreeMap<String, InspectEnv> {
    let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
    let env = nodeimage::question(&typed).env;
    env.into_iter()
        .map(|env| (env.container.clone(), env))
        .collect()
}

/// Stops containers of the right image with wrong variables, and containers that must not run any
/// more.
pub(crate) fn stop(pod: &mut Value) {
    for (name, inspection) in question(pod) {
        let statuses = pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten();
        let id = statuses
            .filter(|status| status["name"] == *name)
            .find_map(|status| status["containerID"].as_str());
        let is_named =
            id.is_some_and(|id| id == format!("containerd://{}", inspection.container_id));
        let created = &mut pod["created"][&name];
        let differs = |(variable, wanted): (&String, &String)| {
            !wanted.is_empty()
                && *wanted
                    != env_hash::of_value(created["env"][variable].as_str().unwrap_or_default())
        };
        if created["image"] == inspection.image
            && (is_named || inspection.values.iter().any(differs))
        {
            created["stopped"] = json!(true);
        }
    }
}

/// The daemon's report about the pod's containers.
pub(crate) fn inspected(pod: &Value) -> Vec<InspectedContainer> {
    let inspections = question(pod);
    let statuses = pod["status"]["containerStatuses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    statuses
        .iter()
        .map(|status| container(pod, status, &inspections))
        .collect()
}

fn container(
    pod: &Value,
    status: &Value,
    inspections: &BTreeMap<String, InspectEnv>,
) -> InspectedContainer {
    let name = status["name"].as_str().unwrap().to_owned();
    let created = &pod["created"][&name];
    let mut container = InspectedContainer {
        container_id: status["containerID"].as_str().unwrap_or("").to_owned(),
        hash: kubelet_hash(&name, created["image"].as_str().unwrap_or_default()),
        ..InspectedContainer::default()
    };
    if let Some(inspection) = inspections
        .get(&name)
        .filter(|_| created["stopped"] != true)
    {
        let value = |variable: &str| {
            created["env"][variable]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        container.update.clone_from(&inspection.update);
        container.env = inspection
            .values
            .keys()
            .map(|name| (name.clone(), env_hash::of_value(&value(name))))
            .collect();
    }
    InspectedContainer { name, ..container }
}

/// The variables that read labels and annotations, as the kubelet resolves them.
fn environment(pod: &Value, container: &Value) -> Value {
    let mut env = json!({});
    for variable in container["env"].as_array().into_iter().flatten() {
        let Some(path) = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() else {
            continue;
        };
        let (field, key) = path.trim_end_matches("']").split_once("['").unwrap();
        let value = &pod["metadata"][field.trim_start_matches("metadata.")][key];
        env[variable["name"].as_str().unwrap()] = json!(value.as_str().unwrap_or_default());
    }
    env
}

/// Starts a new container from the values in `created`. Images named `same` have the same digest.
fn start(pod: &mut Value, name: &str, id: u64) {
    let image = pod["created"][name]["image"].as_str().unwrap().to_owned();
    let digest = if image.starts_with("same:") {
        "sha256:same".to_owned()
    } else {
        format!("sha256:{image}")
    };
    if !pod["status"]["containerStatuses"].is_array() {
        pod["status"]["containerStatuses"] = json!([]);
    }
    let statuses = pod["status"]["containerStatuses"].as_array_mut().unwrap();
    let before = statuses.iter().position(|status| status["name"] == name);
    let restarts = before.map_or(0, |at| {
        statuses.remove(at)["restartCount"].as_u64().unwrap() + 1
    });
    statuses.push(json!({
        "name": name, "image": image, "imageID": digest, "containerID": format!("containerd://{name}-{id}"),
        "ready": true, "restartCount": restarts,
    }));
    statuses.sort_by_key(|status| status["name"].to_string());
}
