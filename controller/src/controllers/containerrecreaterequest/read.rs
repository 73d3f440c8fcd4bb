//! Facts about a request's pod and node that only the apiserver knows.

use berth_api::kinds::containerrecreaterequest::filled_in::{self, fill, node_of, patch};
use berth_api::v1beta1::ContainerRecreateRequest;
use berth_runtime::Resource;
use berth_runtime::client::{self, Failed};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{NODES, PODS};
use berth_workload::update::recreate::{is_over, pod_uid};
use kube::Client;
use serde_json::Value;
use serde_json::value::RawValue;

/// Does the request's pod exist although the store does not have it yet? Then it is not gone.
///
/// # Errors
/// The server's answer.
pub(super) async fn is_unseen(
    client: &Client,
    request: &ContainerRecreateRequest,
    seen: Option<&Pod>,
) -> Result<bool, Failed> {
    let Some(uid) = pod_uid(request).filter(|_| !is_over(request)) else {
        return Ok(false);
    };
    if seen.is_some_and(|pod| *pod.metadata.uid == *uid) {
        return Ok(false);
    }
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let pod = read(client, &PODS, namespace, &request.spec.pod_name).await?;
    let pod = pod.and_then(|pod| filled_in::read(pod.get()).ok());
    Ok(pod.is_some_and(|pod| pod["metadata"]["uid"] == uid))
}

/// The patch that fills in the fields that the webhook left empty when the request was created; the
/// inner error is the reason to refuse the request. The function reads the pod from the apiserver,
/// because no store keeps the pod's hooks.
///
/// # Errors
/// The apiserver's error.
pub(super) async fn filled(
    client: &Client,
    request: &ContainerRecreateRequest,
) -> Result<Result<Value, String>, Failed> {
    let Ok(before) = serde_json::to_value(request) else {
        return Ok(Err("the request cannot be read".to_owned()));
    };
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let name = &request.spec.pod_name;
    let pod = read(client, &PODS, namespace, name).await?;
    let pod = match pod.map(|pod| filled_in::read(pod.get())).transpose() {
        Ok(pod) => pod,
        Err(why) => {
            return Ok(Err(format!(
                "spec.podName: pod {name} cannot be read: {why}"
            )));
        }
    };
    let node = match node_of(&before, pod.as_ref()) {
        Ok(node) => node.to_owned(),
        Err(refusal) => return Ok(Err(refusal)),
    };
    let node = read(client, &NODES, "", &node).await?;
    let node = node
        .and_then(|node| filled_in::read(node.get()).ok())
        .unwrap_or_default();
    let mut after = before.clone();
    let pod = pod.unwrap_or_default();
    Ok(fill(&mut after, &pod, &node).map(|()| patch(&before, &after)))
}

/// The text of an object as the apiserver has it; `None` if it does not exist.
pub(super) async fn read(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Box<RawValue>>, Failed> {
    let Ok(path) = resource.path(namespace, name) else {
        return Ok(None);
    };
    match client::get(client, &path).await {
        Ok(text) => Ok(Some(text)),
        Err(failed) if failed.code == 404 => Ok(None),
        Err(failed) => Err(failed),
    }
}
