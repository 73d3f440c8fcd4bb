//! The fields that a ContainerRecreateRequest copies from its pod when it is created. The webhook
//! fills them in with its answer to the creation, or the controller does it later if the webhook
//! was not called.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::kinds::containerrecreaterequest::v1beta1::MAX_GRACE_SECONDS;
use crate::names::annotation::MIRROR_POD;
use crate::names::condition::SIDECAR_TERMINATED;
use crate::names::finalizer::RECREATE_UNREADY_ACQUIRED;
use crate::names::label::{
    NODE_TYPE, RECREATE_ACTIVE, RECREATE_NODE_NAME, RECREATE_POD_UID, VIRTUAL_KUBELET,
};
use crate::weight::Limits;

/// The fields of a container that only the controller fills in.
const READ_ONLY: [&str; 3] = ["preStop", "ports", "statusContext"];
/// The longest value of a label.
const LABEL_VALUE: usize = 63;

/// An object with the fields that this module reads.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Slim {
    metadata: SlimMetadata,
    spec: SlimSpec,
    status: SlimStatus,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SlimMetadata {
    name: String,
    uid: String,
    deletion_timestamp: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SlimSpec {
    node_name: String,
    termination_grace_period_seconds: Option<i64>,
    containers: Vec<SlimContainer>,
    init_containers: Vec<SlimContainer>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SlimContainer {
    name: String,
    restart_policy: String,
    lifecycle: SlimLifecycle,
    ports: Value,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SlimLifecycle {
    pre_stop: Value,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SlimStatus {
    phase: String,
    conditions: Vec<SlimCondition>,
    container_statuses: Vec<SlimContainerStatus>,
    init_container_statuses: Vec<SlimContainerStatus>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct SlimCondition {
    r#type: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SlimContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: String,
    restart_count: i64,
}

/// Parses a pod or a node, with the fields that [`node_of`] and [`fill`] read.
///
/// # Errors
/// It exceeds a limit of pods, or is no such object.
pub fn read(text: &str) -> Result<Value, String> {
    Limits::check_pod(text)?;
    // The parser's message may quote a value of any length.
    let mut slim: Slim =
        serde_json::from_str(text).map_err(|_| "it has fields of unknown types".to_owned())?;
    slim.metadata.annotations.retain(|key, _| key == MIRROR_POD);
    slim.metadata.labels.retain(|key, _| key == NODE_TYPE);
    serde_json::to_value(slim).map_err(|error| error.to_string())
}

/// The node of the pod. Refuses the request if the pod is unknown.
///
/// # Errors
/// Why the request is refused: the field, its value and the remedy.
pub fn node_of<'a>(request: &Value, pod: Option<&'a Value>) -> Result<&'a str, String> {
    let name = text(&request["spec"], "podName");
    let refuse = |problem: &str| Err(format!("spec.podName: pod {name} {problem}"));
    let Some(pod) = pod else {
        return refuse("does not exist in this namespace: name one that does");
    };
    let conditions = pod["status"]["conditions"].as_array();
    let is_terminated = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == SIDECAR_TERMINATED);
    let has_ended = matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed");
    let is_going = pod["metadata"]["deletionTimestamp"].is_string();
    if (has_ended || is_going) && !is_terminated {
        return refuse(
            "has ended or is being deleted, so its containers are not restarted: name one that runs",
        );
    }
    if pod["metadata"]["annotations"][MIRROR_POD].is_string() {
        return refuse(
            "is a static pod, whose node alone has its containers: change its manifest there",
        );
    }
    match text(&pod["spec"], "nodeName") {
        "" => refuse("is not scheduled yet, so it has no containers: wait until it runs"),
        node => Ok(node),
    }
}

/// Fills in a request of any version, which the type of its version must be able to read. `node`
/// has the node's labels.
///
/// # Errors
/// Why the request is refused: the field, its value and the remedy.
pub fn fill(request: &mut Value, pod: &Value, node: &Value) -> Result<(), String> {
    let node_name = node_of(request, Some(pod))?.to_owned();
    let is_virtual = node["metadata"]["labels"][NODE_TYPE] == VIRTUAL_KUBELET;
    if let Some(strategy) = object(&mut request["spec"], "strategy")
        && strategy.get("terminationGracePeriodSeconds").is_none()
        && let Some(grace) = pod["spec"]["terminationGracePeriodSeconds"].as_i64()
    {
        strategy.insert(
            "terminationGracePeriodSeconds".to_owned(),
            grace.min(MAX_GRACE_SECONDS).into(),
        );
    }
    let mut seen = BTreeSet::new();
    for container in request["spec"]["containers"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let name = text(container, "name").to_owned();
        if !seen.insert(name.clone()) {
            return Err(format!(
                "spec.containers: names {name} twice: remove one of them"
            ));
        }
        fill_container(container, &name, pod)?;
    }
    let mut labels = vec![
        (RECREATE_POD_UID, text(&pod["metadata"], "uid")),
        (RECREATE_ACTIVE, "true"),
    ];
    labels.extend(
        (node_name.len() <= LABEL_VALUE).then_some((RECREATE_NODE_NAME, node_name.as_str())),
    );
    labels.extend(is_virtual.then_some((NODE_TYPE, VIRTUAL_KUBELET)));
    if let Some(all) = object(&mut request["metadata"], "labels") {
        // The label would claim that another service restarts the containers. It is removed from
        // requests on nodes with a kubelet.
        if all
            .get(NODE_TYPE)
            .is_some_and(|value| value == VIRTUAL_KUBELET)
        {
            all.remove(NODE_TYPE);
        }
        all.extend(
            labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), json!(value))),
        );
    }
    hold(request);
    Ok(())
}

/// A request that takes its pod out of service must put it back before the request is deleted. A
/// finalizer ensures this. It is set at the creation, so that the controller needs no write for it
/// later.
fn hold(request: &mut Value) {
    if request["spec"]["strategy"]["unreadyGracePeriodSeconds"].is_null() {
        return;
    }
    let Some(metadata) = object(request, "metadata") else {
        return;
    };
    let mut finalizers = metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if !finalizers
        .iter()
        .any(|finalizer| finalizer == RECREATE_UNREADY_ACQUIRED)
    {
        finalizers.push(json!(RECREATE_UNREADY_ACQUIRED));
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}

fn fill_container(container: &mut Value, name: &str, pod: &Value) -> Result<(), String> {
    let refuse = |problem: &str| Err(format!("spec.containers[{name}]: {problem}"));
    if let Some(field) = READ_ONLY.iter().find(|field| !container[**field].is_null()) {
        return refuse(&format!(
            "has {field}, which is filled in by itself: leave it out"
        ));
    }
    let named = |list: &'static str| {
        pod["spec"][list]
            .as_array()
            .into_iter()
            .flatten()
            .find(|found| found["name"] == name)
    };
    let native = || named("initContainers").filter(|init| init["restartPolicy"] == "Always");
    let Some(found) = named("containers").or_else(native) else {
        return refuse(&format!(
            "is none of pod {}, or one that runs before the others and ends: name one that runs",
            text(&pod["metadata"], "name")
        ));
    };
    let lists = ["containerStatuses", "initContainerStatuses"]
        .iter()
        .filter_map(|list| pod["status"][*list].as_array());
    let status = lists.flatten().find(|status| status["name"] == name);
    let Some(id) = status
        .map(|status| text(status, "containerID"))
        .filter(|id| !id.is_empty())
    else {
        return refuse("has no containerID in the pod's status yet: wait until it was started");
    };
    let restarts = status.map_or(0, |status| {
        status["restartCount"].as_i64().unwrap_or_default()
    });
    let hook = &found["lifecycle"]["preStop"];
    if hook.is_object() {
        container["preStop"] = hook.clone();
    }
    if hook["httpGet"].is_object() && found["ports"].is_array() {
        container["ports"] = found["ports"].clone();
    }
    container["statusContext"] = json!({"containerID": id, "restartCount": restarts});
    Ok(())
}

/// A merge patch with the fields that filling in has changed.
pub fn patch(request: &Value, filled: &Value) -> Value {
    let mut labels = filled["metadata"]["labels"].clone();
    if !request["metadata"]["labels"][NODE_TYPE].is_null() && labels[NODE_TYPE].is_null() {
        labels[NODE_TYPE] = Value::Null;
    }
    json!({"metadata": {"labels": labels}, "spec": {
        "containers": filled["spec"]["containers"],
        "strategy": filled["spec"].get("strategy").or_else(|| request["spec"].get("strategy")),
    }})
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// The object in a field. Creates an empty one if the field is missing.
fn object<'a>(parent: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let value = parent
        .as_object_mut()?
        .entry(field)
        .or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

#[cfg(test)]
mod tests;
