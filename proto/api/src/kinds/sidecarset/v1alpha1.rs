//! SidecarSet: it can name a namespace, and has the custom version in a label. All else is as in
//! v1beta1.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::sidecarset::v1beta1;
use crate::kinds::sidecarset::v1beta1::SidecarSetStatus;
use crate::kinds::sidecarset::v1beta1::container_rules::NAME;
use crate::kinds::sidecarset::v1beta1::rules::{namespace, one_namespace};
use crate::schema::field::checks;
use crate::schema::rules::label_name;

/// Which pods get which containers, and how a change reaches those that have them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "SidecarSet",
    storage = false,
    status = "SidecarSetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "SidecarSet gives pods further containers when they are created, and updates those containers in place, without the workload of the pods.",
    validation = label_name(63, "labels of its revisions are made from it"),
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([one_namespace()]))]
pub struct SidecarSetSpec {
    /// The fields of v1beta1.
    #[serde(flatten)]
    pub spec: v1beta1::SidecarSetSpec,
    /// The one namespace whose pods get the containers. Not together with namespaceSelector.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = NAME), transform = checks([namespace()]))]
    pub namespace: String,
}
