//! The two hashes of a SidecarSet's containers, by which pods record their containers.
//!
//! OpenKruise hashes the output of Go's encoder for its types: fields in the order in which the
//! types declare them, Kubernetes' defaults filled in by a webhook, `<`, `>` and `&` escaped. The
//! same bytes give the same hash. A hash that differs would make every pod of the other controller
//! outdated. `vectors.json` comes from OpenKruise 1.9's own functions, except where tests say
//! otherwise. A container with a field that OpenKruise loses has another hash than in OpenKruise.

mod defaults;
mod order;
#[cfg(test)]
mod tests;

use berth_api::v1beta1::sidecarset::{
    PodInjectPolicy, ResourcesPolicy, ShareVolumePolicy, SidecarContainer,
    SidecarContainerUpgradeStrategy, SidecarSetSpec, TransferEnvVar,
};
use berth_workload::update::revision::{form, safe};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::sidecarset::sidecar::{self, List};

/// The hashes that pods are compared by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hashes {
    /// The hash of the containers.
    pub hash: String,
    /// The hash of the containers without their images, which is the part that cannot change in a
    /// pod.
    pub without_image: String,
}

/// The hashes of the containers of a spec, regardless of its annotations.
pub fn hashes(spec: &SidecarSetSpec) -> Hashes {
    Hashes {
        hash: hashed(&written(spec, Images::Kept)),
        without_image: hashed(&written(spec, Images::Emptied)),
    }
}

/// The part of a spec that a revision keeps, as OpenKruise writes it.
pub(in crate::sidecarset) fn kept(spec: &SidecarSetSpec) -> Value {
    let containers = |containers: &[SidecarContainer], place| {
        if containers.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&list(containers, place, Images::Kept)).unwrap_or_default()
    };
    let some = |value: Value| {
        if value.as_array().is_some_and(Vec::is_empty) {
            Value::Null
        } else {
            value
        }
    };
    let mut template = form::canonical(&json!({"spec": {"volumes": spec.volumes}}));
    json!({
        "$patch": "replace",
        "containers": containers(&spec.containers, List::Main),
        "imagePullSecrets": some(json!(spec.image_pull_secrets)),
        "initContainers": containers(&spec.init_containers, List::Init),
        "patchPodMetadata": some(json!(spec.patch_pod_metadata)),
        "volumes": template["spec"]["volumes"].take(),
    })
}

fn hashed(text: &str) -> String {
    safe(&format!("{:x}", Sha256::digest(text.as_bytes())))
}

#[derive(Clone, Copy, PartialEq)]
enum Images {
    Kept,
    Emptied,
}

/// The text that is hashed. It has all init containers if one of them runs beside the pod's
/// containers.
fn written(spec: &SidecarSetSpec, images: Images) -> String {
    let containers = list(&spec.containers, List::Main, images);
    let mut text = format!("{{\"containers\":{containers}");
    if spec.init_containers.iter().any(sidecar::is_native) {
        let containers = list(&spec.init_containers, List::Init, images);
        text.push_str(&format!(",\"initContainers\":{containers}"));
    }
    text.push('}');
    form::escaped(&text)
}

fn list(containers: &[SidecarContainer], list: List, images: Images) -> String {
    if containers.is_empty() {
        return "null".to_owned();
    }
    let containers: Vec<String> = containers
        .iter()
        .map(|of| container(of, list, images))
        .collect();
    format!("[{}]", containers.join(","))
}

/// The fields that only a sidecar has, in their order, which come after those of every container.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Own<'a> {
    pod_inject_policy: PodInjectPolicy,
    upgrade_strategy: &'a SidecarContainerUpgradeStrategy,
    share_volume_policy: ShareVolumePolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_volume_device_policy: Option<&'a ShareVolumePolicy>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transfer_env: Vec<TransferEnvVar>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_policy: Option<ResourcesPolicy>,
}

fn text(container: &Map<String, Value>) -> String {
    order::text(&canonical(container))
}

/// Brings a container into the form of a pod template, which drops the fields that Go's types leave
/// out.
fn canonical(container: &Map<String, Value>) -> Value {
    let mut template = form::canonical(&json!({"spec": {"containers": [container]}}));
    template["spec"]["containers"][0].take()
}

fn container(of: &SidecarContainer, list: List, images: Images) -> String {
    let own = Own {
        pod_inject_policy: sidecar::place(of, list),
        upgrade_strategy: &of.upgrade_strategy,
        share_volume_policy: defaults::share_volume_policy(&of.share_volume_policy),
        share_volume_device_policy: of.share_volume_device_policy.as_ref(),
        transfer_env: defaults::transfer_env(&of.transfer_env),
        resources_policy: of.resources_policy.clone().map(defaults::resources_policy),
    };
    let mut container = of.container.clone();
    defaults::fill(&mut container);
    if images == Images::Emptied {
        container.remove("image");
    }
    let (kept, own) = (
        text(&container),
        serde_json::to_string(&own).unwrap_or_default(),
    );
    match (kept.strip_suffix('}'), own.strip_prefix('{')) {
        (Some(kept), Some(own)) => format!("{kept},{own}"),
        _ => kept,
    }
}
