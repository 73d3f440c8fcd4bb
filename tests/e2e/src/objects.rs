//! Objects as manifests.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_api::kinds;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::ask::PORT;
use crate::install;

/// The label of all pods that [`clone_set`] makes, with the CloneSet's name.
pub const APP: &str = "app";
/// The name of their container.
pub const CONTAINER: &str = "main";

/// An API by the `apiVersion` and `kind` of a manifest.
///
/// # Errors
/// When the manifest has none.
pub fn api_of(client: &Client, namespace: &str, manifest: &Value) -> Result<Api<DynamicObject>> {
    let text = |key: &str| {
        manifest[key]
            .as_str()
            .with_context(|| format!("the manifest has no {key}: {manifest}"))
    };
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Ok(if is_namespaced(kind) {
        Api::namespaced_with(client.clone(), namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    })
}

fn is_namespaced(kind: &str) -> bool {
    const OF_THE_CLUSTER: [&str; 12] = [
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ];
    kinds::named(kind).map_or(!OF_THE_CLUSTER.contains(&kind), |ours| ours.namespaced)
}

/// Creates an object and returns it as the server stored it.
///
/// # Errors
/// The server's, unchanged.
pub async fn create(client: &Client, namespace: &str, manifest: &Value) -> Result<Value> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())?;
    let created = api_of(client, namespace, manifest)?
        .create(&PostParams::default(), &object)
        .await?;
    Ok(serde_json::to_value(created)?)
}

/// Changes an object by a merge patch. `kind` is `GROUP/VERSION/KIND` or `VERSION/KIND`.
///
/// # Errors
/// The server's, unchanged.
pub async fn patch(
    client: &Client,
    namespace: &str,
    kind: &str,
    name: &str,
    patch: &Value,
) -> Result<Value> {
    let api = api_by_kind(client, namespace, kind)?;
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(serde_json::to_value(patched)?)
}

/// Reads an object.
///
/// # Errors
/// The server's, unchanged.
pub async fn get(client: &Client, namespace: &str, kind: &str, name: &str) -> Result<Value> {
    Ok(serde_json::to_value(
        api_by_kind(client, namespace, kind)?.get(name).await?,
    )?)
}

/// Lists objects with these labels; all, when there are none.
///
/// # Errors
/// The server's, unchanged.
pub async fn list(
    client: &Client,
    namespace: &str,
    kind: &str,
    labels: &str,
) -> Result<Vec<Value>> {
    let list = api_by_kind(client, namespace, kind)?
        .list(&ListParams::default().labels(labels))
        .await?;
    list.items
        .into_iter()
        .map(|object| Ok(serde_json::to_value(object)?))
        .collect()
}

/// Requests the deletion of an object.
///
/// # Errors
/// The server's, unchanged.
pub async fn delete(
    client: &Client,
    namespace: &str,
    kind: &str,
    name: &str,
    how: &DeleteParams,
) -> Result<()> {
    api_by_kind(client, namespace, kind)?
        .delete(name, how)
        .await?;
    Ok(())
}

/// Waits until the object does not exist.
///
/// # Errors
/// When it exists after `patience`.
pub async fn until_gone(
    client: &Client,
    namespace: &str,
    kind: &str,
    name: &str,
    patience: Duration,
) -> Result<()> {
    let (api, deadline) = (
        api_by_kind(client, namespace, kind)?,
        Instant::now() + patience,
    );
    while api.get_opt(name).await?.is_some() {
        ensure!(
            Instant::now() < deadline,
            "{kind} {namespace}/{name} is there after {patience:?}"
        );
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

fn api_by_kind(client: &Client, namespace: &str, kind: &str) -> Result<Api<DynamicObject>> {
    let (version, kind) = kind
        .rsplit_once('/')
        .with_context(|| format!("{kind:?} is not GROUP/VERSION/KIND"))?;
    api_of(
        client,
        namespace,
        &json!({"apiVersion": version, "kind": kind}),
    )
}

/// Kinds, for [`get`], [`list`] and [`patch`].
pub mod kind {
    /// CloneSet as it is stored.
    pub const CLONE_SET: &str = "apps.kruise.io/v1beta1/CloneSet";
    /// CloneSet as older manifests have it.
    pub const CLONE_SET_V1ALPHA1: &str = "apps.kruise.io/v1alpha1/CloneSet";
    /// Advanced DaemonSet.
    pub const DAEMON_SET: &str = "apps.kruise.io/v1beta1/DaemonSet";
    /// BroadcastJob.
    pub const BROADCAST_JOB: &str = "apps.kruise.io/v1beta1/BroadcastJob";
    /// ContainerRecreateRequest.
    pub const CONTAINER_RECREATE_REQUEST: &str = "apps.kruise.io/v1beta1/ContainerRecreateRequest";
    /// ImageListPullJob.
    pub const IMAGE_LIST_PULL_JOB: &str = "apps.kruise.io/v1beta1/ImageListPullJob";
    /// ImagePullJob.
    pub const IMAGE_PULL_JOB: &str = "apps.kruise.io/v1beta1/ImagePullJob";
    /// NodeImage.
    pub const NODE_IMAGE: &str = "apps.kruise.io/v1beta1/NodeImage";
    /// Advanced StatefulSet.
    pub const STATEFUL_SET: &str = "apps.kruise.io/v1beta1/StatefulSet";
    /// PodUnavailableBudget.
    pub const POD_UNAVAILABLE_BUDGET: &str = "policy.kruise.io/v1beta1/PodUnavailableBudget";
    /// PersistentPodState.
    pub const PERSISTENT_POD_STATE: &str = "apps.kruise.io/v1beta1/PersistentPodState";
    /// SidecarSet.
    pub const SIDECAR_SET: &str = "apps.kruise.io/v1beta1/SidecarSet";
    /// UnitedDeployment.
    pub const UNITED_DEPLOYMENT: &str = "apps.kruise.io/v1beta1/UnitedDeployment";
    /// Kubernetes' own DaemonSet.
    pub const NATIVE_DAEMON_SET: &str = "apps/v1/DaemonSet";
    /// Deployment.
    pub const DEPLOYMENT: &str = "apps/v1/Deployment";
    /// Kubernetes' own StatefulSet.
    pub const NATIVE_STATEFUL_SET: &str = "apps/v1/StatefulSet";
    /// Claim.
    pub const CLAIM: &str = "v1/PersistentVolumeClaim";
    /// Node.
    pub const NODE: &str = "v1/Node";
    /// A step of a workload's history.
    pub const REVISION: &str = "apps/v1/ControllerRevision";
    /// Pod.
    pub const POD: &str = "v1/Pod";
    /// Event.
    pub const EVENT: &str = "v1/Event";
}

/// Reads an object again and again until it is as wanted, and returns it.
///
/// # Errors
/// When it is not so within `patience`; the error has the object.
pub async fn until(
    client: &Client,
    namespace: &str,
    kind: &str,
    name: &str,
    patience: Duration,
    as_wanted: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let deadline = Instant::now() + patience;
    loop {
        let object = get(client, namespace, kind, name).await;
        match object {
            Ok(object) if as_wanted(&object) => return Ok(object),
            Ok(object) if Instant::now() > deadline => {
                bail!("{kind} {namespace}/{name} is not as wanted after {patience:?}: {object}")
            }
            Err(error) if Instant::now() > deadline => return Err(error),
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Makes a namespace, whose objects are deleted with it.
///
/// # Errors
/// When it cannot be made.
pub async fn make_namespace(client: &Client, name: &str) -> Result<()> {
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    create(client, "", &manifest)
        .await
        .with_context(|| format!("cannot make namespace {name}"))?;
    Ok(())
}

/// Requests the deletion of a namespace and does not wait for its end.
///
/// # Errors
/// When the server refuses.
pub async fn delete_namespace(client: &Client, name: &str) -> Result<()> {
    install::delete(&Api::<Namespace>::all(client.clone()), name).await
}

/// A manifest that creates the object again.
pub fn again(object: &Value) -> Value {
    let mut again = object.clone();
    if let Some(again) = again.as_object_mut() {
        again.remove("status");
    }
    if let Some(metadata) = again["metadata"].as_object_mut() {
        for field in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            metadata.remove(field);
        }
    }
    again
}

/// A CloneSet whose pods serve the name of their image. `rolling_update` becomes
/// `spec.updateStrategy.rollingUpdate`.
pub fn clone_set(name: &str, replicas: usize, image: &str, rolling_update: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {APP: name}},
            "template": {
                "metadata": {"labels": {APP: name}},
                "spec": {
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{
                        "name": CONTAINER,
                        "image": image,
                        "ports": [{"containerPort": PORT}],
                        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                    }],
                },
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update},
        },
    })
}

/// The service of the pods of [`clone_set`].
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {APP: name}, "ports": [{"port": PORT}]},
    })
}

/// The patch that changes the image of a CloneSet.
pub fn image_patch(clone_set: &Value, image: &str) -> Value {
    let mut containers = clone_set["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["image"] = image.into();
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

/// Whether the status is of the present spec, and says that all replicas are updated and ready, and
/// nothing else is under way.
pub fn is_done(clone_set: &Value) -> bool {
    let (status, replicas) = (&clone_set["status"], &clone_set["spec"]["replicas"]);
    // A status leaves out some counts that are zero.
    let all = |count: &str| status[count].as_i64().unwrap_or(0) == replicas.as_i64().unwrap_or(1);
    status["observedGeneration"] == clone_set["metadata"]["generation"]
        && [
            "replicas",
            "readyReplicas",
            "updatedReplicas",
            "updatedReadyReplicas",
            "updatedAvailableReplicas",
        ]
        .iter()
        .all(|count| all(count))
}

/// Is the status of a StatefulSet of the present spec, with so many pods updated and available, and
/// all available?
pub fn is_stateful_set_done(set: &Value, updated: usize) -> bool {
    let (status, replicas) = (&set["status"], &set["spec"]["replicas"]);
    let all = |count: &str| status[count].as_i64().unwrap_or(0) == replicas.as_i64().unwrap_or(1);
    status["observedGeneration"] == set["metadata"]["generation"]
        && all("replicas")
        && all("availableReplicas")
        && status["updatedAvailableReplicas"].as_u64().unwrap_or(0) == updated as u64
}

#[cfg(test)]
mod tests;
