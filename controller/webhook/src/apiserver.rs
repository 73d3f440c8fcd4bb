//! Requests to the apiserver: their parameters, and the API of definitions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, PatchParams, PostParams};
use kube::core::Object;
use kube::{Api, Client};

use crate::places::{CrdSpec, CrdStatus};

/// Our name in `managedFields`.
pub(crate) const FIELD_MANAGER: &str = "berth-controller";

/// A CRD without its schemas.
pub(crate) type Crd = Object<CrdSpec, CrdStatus>;

/// The CRDs' API, decoded to [`Crd`].
pub(crate) fn crds(client: &Client) -> Api<Crd> {
    Api::all_with(
        client.clone(),
        &ApiResource::erase::<CustomResourceDefinition>(&()),
    )
}

pub(crate) fn posting() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

pub(crate) fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
