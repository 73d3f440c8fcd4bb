//! The configuration as it is written.

use serde::{Deserialize, de::DeserializeOwned};
use std::collections::HashMap;

/// When files are synced to disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// Files that must outlive a loss of power: those of addresses kept for a pod. Other leases end
    /// with the boot anyway.
    #[default]
    Kept,
    /// Every lease.
    Always,
    /// Nothing.
    Never,
}

/// The plugin's reaction when every address of a set is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WhenExhausted {
    /// Of the namespace with the most addresses kept unused, the reservation that was released
    /// first ends.
    #[default]
    TakeOldest,
    /// ADD fails until a reservation ends by itself.
    Fail,
}

/// The pods whose addresses are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Keep {
    /// The number of minutes without an annotation; 0 keeps nothing.
    pub minutes: u32,
    /// The namespaces for pods without an annotation; `*` is all.
    pub namespaces: Vec<String>,
    /// The namespaces in which a pod's annotation sets the number of minutes; `*` is all. In all
    /// other namespaces it can only set less than `minutes`, because users who may create pods
    /// there must not keep addresses from all others.
    pub annotation_namespaces: Vec<String>,
    /// The maximum number of minutes, for every source of the number. `None`: [`MAX_MINUTES`].
    pub max_minutes: Option<u32>,
    /// The reaction when every address is taken.
    pub when_exhausted: WhenExhausted,
}

/// A route of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct Route {
    /// The destination.
    pub dst: String,
    /// The next hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gw: Option<String>,
    /// All other fields of CNI's routes.
    #[serde(flatten)]
    pub more: HashMap<String, serde_json::Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Document {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) cni_version: String,
    pub(super) ipam: Option<Ipam>,
    #[serde(deserialize_with = "or_default")]
    pub(super) runtime_config: RuntimeConfig,
    pub(super) args: Option<Args>,
    #[serde(rename = "cni.dev/valid-attachments")]
    pub(super) valid_attachments: Option<Vec<ValidAttachment>>,
    pub(super) prev_result: Option<PreviousResult>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ipam {
    #[serde(flatten)]
    pub(super) range: RangeText,
    #[serde(deserialize_with = "or_default")]
    pub(super) ranges: Vec<Vec<RangeText>>,
    #[serde(deserialize_with = "or_default")]
    pub(super) routes: Vec<Route>,
    #[serde(deserialize_with = "or_default")]
    pub(super) data_dir: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) resolv_conf: String,
    #[serde(rename = "reservedIPs", deserialize_with = "or_default")]
    pub(super) reserved: Keep,
    #[serde(deserialize_with = "or_default")]
    pub(super) sync: Sync,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RangeText {
    #[serde(deserialize_with = "or_default")]
    pub(super) subnet: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) range_start: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) range_end: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) gateway: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RuntimeConfig {
    #[serde(rename = "ipRanges", deserialize_with = "or_default")]
    pub(super) ip_ranges: Vec<Vec<RangeText>>,
    #[serde(deserialize_with = "or_default")]
    pub(super) ips: Vec<String>,
    #[serde(rename = "io.kubernetes.cri.pod-annotations")]
    pub(super) annotations: Option<HashMap<String, String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Args {
    #[serde(deserialize_with = "or_default")]
    pub(super) cni: CniArgs,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct CniArgs {
    #[serde(deserialize_with = "or_default")]
    pub(super) ips: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ValidAttachment {
    #[serde(rename = "containerID")]
    pub(super) container: String,
    pub(super) ifname: String,
}

/// The forms of every version. Fields that are in none of them are ignored.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PreviousResult {
    pub(super) ips: Option<Vec<PreviousAddress>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PreviousAddress {
    pub(super) address: String,
}

fn or_default<'a, T: DeserializeOwned + Default, D: serde::Deserializer<'a>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
