//! The proof that conversion works by way of the apiserver, and the endpoint that makes the first
//! proof possible.
//!
//! A Service sends the apiserver to ready pods only, and a replica is ready only when the apiserver
//! reached it. While no replica serves yet, a replica therefore adds an EndpointSlice of its own to
//! the Service, and removes it when Kubernetes' own slice has the replica.
//! (`publishNotReadyAddresses` would do too, but would for ever after send conversions to pods that
//! still pull their image, crash, or have ended.)

use std::net::IpAddr;
use std::time::Duration;

use berth_api::names::{GROUP, V1ALPHA1, label};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, PostParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::apiserver::{FIELD_MANAGER, crds, posting};
use crate::{Config, Error, PodIdentity};

/// The name of the Service's port, which the slice's port must share.
pub const PORT_NAME: &str = "webhook";
/// How long our slice stays beside Kubernetes' own: until Kubernetes' own has reached every node
/// and apiserver.
const BESIDE: Duration = Duration::from_secs(10);
/// The label of a slice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of a slice that names its writer.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The longest that one proof may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a proof failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unproven {
    /// The reason, as a sentence.
    pub(crate) why: String,
    /// Whether the apiserver answered that it reaches no webhook, or did not answer. That is
    /// expected of a replica that is cut off.
    pub(crate) is_unreached: bool,
}

impl Unproven {
    fn untried(why: String) -> Self {
        Self {
            why,
            is_unreached: false,
        }
    }
}

/// Sends the apiserver a request that needs a working conversion: the dry-run creation of an object
/// in v1alpha1. The error says why it failed. If neither of the kinds that are tried is installed,
/// the call succeeds without a proof.
pub(crate) async fn conversion_works(client: &Client, namespace: &str) -> Result<(), Unproven> {
    for (kind, spec) in [
        ("NodeImage", json!({})),
        ("ImagePullJob", json!({"image": "proof"})),
    ] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, V1ALPHA1, kind));
        let crd = format!("{}.{GROUP}", resource.plural);
        let installed = crds(client).get_metadata_opt(&crd).await;
        let installed = installed
            .map_err(|error| Unproven::untried(format!("{crd} cannot be read: {error}")))?;
        if installed.is_none() {
            continue;
        }
        let api: Api<DynamicObject> = match kind {
            "NodeImage" => Api::all_with(client.clone(), &resource),
            _ => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        return try_kind(
            &api,
            DynamicObject::new("", &resource).data(json!({"spec": spec})),
        )
        .await;
    }
    Ok(())
}

async fn try_kind(api: &Api<DynamicObject>, mut object: DynamicObject) -> Result<(), Unproven> {
    object.metadata = ObjectMeta {
        generate_name: Some("berth-conversion-proof-".to_owned()),
        labels: Some([(label::FAKE_NODE_IMAGE.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let params = PostParams {
        dry_run: true,
        ..posting()
    };
    let kind = object
        .types
        .as_ref()
        .map_or("", |types| types.kind.as_str());
    match tokio::time::timeout(PATIENCE, api.create(&params, &object)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => {
            Err(Unproven::untried(format!(
                "the proof that {V1ALPHA1} works, a dry-run creation of one {kind}, is not allowed: {}; grant create on that kind of {GROUP}",
                status.message
            )))
        }
        Ok(Err(kube::Error::Api(status))) => Err(Unproven {
            why: format!("{V1ALPHA1} does not work yet: {}", status.message),
            is_unreached: status.message.contains("conversion webhook for"),
        }),
        Ok(Err(error)) => Err(Unproven::untried(format!(
            "{V1ALPHA1} cannot be tried: {error}"
        ))),
        Err(_) => Err(Unproven {
            why: format!(
                "{V1ALPHA1} does not work yet: no answer in {} s; may the apiserver open connections to the webhook's port?",
                PATIENCE.as_secs()
            ),
            is_unreached: true,
        }),
    }
}

/// The names of early slices of other pods that Kubernetes calls not ready, if it calls this pod
/// ready.
fn standing_still(slices: &[EndpointSlice], own: &str) -> Vec<String> {
    let is_early = |slice: &EndpointSlice| {
        slice
            .labels()
            .get(MANAGED_BY)
            .is_some_and(|by| by == FIELD_MANAGER)
    };
    let uid = |endpoint: &Endpoint| endpoint.target_ref.as_ref().and_then(|pod| pod.uid.clone());
    let theirs = slices
        .iter()
        .filter(|slice| !is_early(slice))
        .flat_map(|slice| &slice.endpoints);
    let says = |pod: &str| {
        let of_pod = theirs
            .clone()
            .find(|endpoint| uid(endpoint).as_deref() == Some(pod))?;
        of_pod
            .conditions
            .as_ref()
            .and_then(|conditions| conditions.ready)
    };
    if says(own) != Some(true) {
        return Vec::new();
    }
    let stands_still = |slice: &&EndpointSlice| {
        slice
            .endpoints
            .iter()
            .filter_map(uid)
            .any(|pod| pod != own && says(&pod) == Some(false))
    };
    slices
        .iter()
        .filter(|slice| is_early(slice))
        .filter(stands_still)
        .map(ResourceExt::name_any)
        .collect()
}

/// The slice of this name, with this pod alone.
fn slice(name: &str, pod: &PodIdentity, config: &Config) -> EndpointSlice {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(config.namespace.clone()),
        labels: Some(
            [
                (SERVICE_NAME.to_owned(), config.service.clone()),
                (MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned()),
            ]
            .into(),
        ),
        // The slice is deleted with the pod, in case the process ends before it removes the slice.
        owner_references: Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    };
    let endpoint = Endpoint {
        addresses: vec![pod.ip.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            ..EndpointConditions::default()
        }),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some(config.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    };
    EndpointSlice {
        metadata,
        address_type: match pod.ip {
            IpAddr::V4(_) => "IPv4".to_owned(),
            IpAddr::V6(_) => "IPv6".to_owned(),
        },
        endpoints: vec![endpoint],
        ports: Some(vec![EndpointPort {
            name: Some(PORT_NAME.to_owned()),
            port: Some(i32::from(config.bind.port())),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    }
}

/// This pod as an endpoint of the webhook's Service, before it is ready.
pub(crate) struct EarlyEndpoint {
    api: Api<EndpointSlice>,
    slice: EndpointSlice,
    name: String,
    service: String,
    pod_uid: String,
    exists: bool,
    /// Since when Kubernetes' own slice has been seen to have this pod.
    replaced_since: Option<Instant>,
}

impl EarlyEndpoint {
    /// `None` when we run outside the cluster: then there is no Service in the way.
    pub(crate) fn new(client: &Client, config: &Config) -> Option<Self> {
        let pod = config.pod.as_ref().filter(|_| config.host.is_none())?;
        let name = format!("{}-early-{}", config.service, pod.uid);
        let slice = slice(&name, pod, config);
        let api = Api::namespaced(client.clone(), &config.namespace);
        let (service, pod_uid) = (config.service.clone(), pod.uid.clone());
        Some(Self {
            api,
            slice,
            name,
            service,
            pod_uid,
            exists: false,
            replaced_since: None,
        })
    }

    /// Adds the slice. A slice that an earlier process of this pod left is replaced, because its
    /// address may belong to another pod by now.
    pub(crate) async fn add(&mut self) -> Result<(), Error> {
        if self.exists {
            return Ok(());
        }
        self.delete("replace").await?;
        self.api
            .create(&posting(), &self.slice)
            .await
            .map_err(|source| self.failed("create", source))?;
        self.exists = true;
        Ok(())
    }

    /// Removes the slice once Kubernetes' own has had this pod for a while; says whether that is
    /// done. A slice of an earlier process of this pod is removed, too.
    pub(crate) async fn step_back(&mut self) -> Result<bool, Error> {
        if self.exists && !self.replaced().await? {
            return Ok(false);
        }
        self.remove().await?;
        Ok(true)
    }

    async fn replaced(&mut self) -> Result<bool, Error> {
        let theirs = ListParams::default().labels(&format!(
            "{SERVICE_NAME}={},{MANAGED_BY}!={FIELD_MANAGER}",
            self.service
        ));
        let slices = self
            .api
            .list(&theirs)
            .await
            .map_err(|source| self.failed("list beside", source))?;
        let has_us = |endpoint: &Endpoint| {
            endpoint
                .target_ref
                .as_ref()
                .and_then(|pod| pod.uid.as_deref())
                == Some(&self.pod_uid)
                && endpoint
                    .conditions
                    .as_ref()
                    .and_then(|conditions| conditions.ready)
                    != Some(false)
        };
        if !slices
            .items
            .iter()
            .flat_map(|slice| &slice.endpoints)
            .any(has_us)
        {
            self.replaced_since = None;
            return Ok(false);
        }
        let since = *self.replaced_since.get_or_insert_with(Instant::now);
        Ok(since.elapsed() >= BESIDE)
    }

    /// Removes the slices of other pods that Kubernetes calls not ready by now, if it calls this
    /// one ready. A process that hangs cannot remove its own slice, and the apiserver would go on
    /// calling it.
    pub(crate) async fn remove_of_others(&self) -> Result<(), Error> {
        let all = ListParams::default().labels(&format!("{SERVICE_NAME}={}", self.service));
        let slices = self
            .api
            .list(&all)
            .await
            .map_err(|source| self.failed("list beside", source))?;
        for name in standing_still(&slices.items, &self.pod_uid) {
            match self.api.delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                deleted => drop(
                    deleted
                        .map_err(|source| Error::api("delete", "EndpointSlice", &name, source))?,
                ),
            }
        }
        Ok(())
    }

    /// Removes the slice, also one of an earlier process of this pod.
    pub(crate) async fn remove(&mut self) -> Result<(), Error> {
        self.delete("delete").await?;
        self.exists = false;
        Ok(())
    }

    async fn delete(&self, verb: &'static str) -> Result<(), Error> {
        match self.api.delete(&self.name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(source) => Err(self.failed(verb, source)),
        }
    }

    fn failed(&self, verb: &'static str, source: kube::Error) -> Error {
        Error::api(verb, "EndpointSlice", &self.name, source)
    }
}

#[cfg(test)]
mod tests;
