//! The settings on which decisions depend, as the leader publishes them for `kubectl berth`.

use std::time::Duration;

use berth_api::names::SYSTEM_NAMESPACE;
use berth_runtime::client::{self, Failed};
use berth_runtime::election::Leadership;
use berth_workload::objects::resource::CONFIG_MAPS;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::settings::flags::{PinnedBy, Run};
use crate::settings::timings;

/// The ConfigMap in the controller's namespace. The chart creates it, and lets each authenticated
/// user read it.
pub const CONFIG_MAP: &str = "kruise-berth";
/// The key of the settings, as JSON.
const KEY: &str = "settings.json";
/// The most bytes of the ConfigMap that a client reads.
const LARGEST: usize = 64 * 1024;
/// The time between two tries to write the ConfigMap.
const AGAIN: Duration = Duration::from_secs(30);

/// The settings of a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    /// The version of the controller.
    pub version: String,
    /// The namespace of the controller.
    pub namespace: String,
    /// The flag `--feature-gates`.
    pub feature_gates: String,
    /// The flag `--custom-resource-enable`.
    pub custom_resource_enable: String,
    /// The flag `--cluster-name`.
    pub cluster_name: String,
    /// The flag `--protected-namespaces`.
    pub protected_namespaces: String,
    /// The flag `--pod-pinning`.
    pub pod_pinning: PinnedBy,
    /// The flag `--pod-pinning-fail-closed`.
    pub pod_pinning_fail_closed: bool,
    /// The flag `--assign-pods-by-scheduler`.
    pub assign_pods_by_scheduler: bool,
    /// Seconds after which a grant of a budget can have no effect any more.
    pub patience_seconds: u64,
}

impl Default for Published {
    /// The settings of a controller whose flags have their defaults.
    fn default() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            namespace: SYSTEM_NAMESPACE.to_owned(),
            feature_gates: String::new(),
            custom_resource_enable: String::new(),
            cluster_name: String::new(),
            protected_namespaces: "kube-system".to_owned(),
            pod_pinning: PinnedBy::None,
            pod_pinning_fail_closed: true,
            assign_pods_by_scheduler: true,
            patience_seconds: 75,
        }
    }
}

impl Published {
    /// The settings that these flags make.
    pub fn of(flags: &Run) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            namespace: flags.namespace.clone(),
            feature_gates: flags.feature_gates.clone(),
            custom_resource_enable: flags.custom_resource_enable.clone(),
            cluster_name: flags.cluster_name.clone(),
            protected_namespaces: flags.protected_namespaces.clone(),
            pod_pinning: flags.pod_pinning,
            pod_pinning_fail_closed: flags.pod_pinning_fail_closed,
            assign_pods_by_scheduler: flags.assign_pods_by_scheduler,
            patience_seconds: timings::patience(flags).as_secs(),
        }
    }

    /// The time after which a grant of a budget can have no effect any more.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_seconds)
    }
}

/// Reads the settings of the controller in this namespace; `None` if no controller published any.
///
/// # Errors
/// The server's answer, or settings that cannot be read.
pub async fn read(client: &Client, namespace: &str) -> Result<Option<Published>, Failed> {
    let path = CONFIG_MAPS.path(namespace, CONFIG_MAP)?;
    let map: Value = match client::get_within(client, &path, LARGEST).await {
        Ok(map) => map,
        Err(failed) if failed.is_not_found() => return Ok(None),
        Err(failed) => return Err(failed),
    };
    let Some(text) = map["data"][KEY].as_str() else {
        return Ok(None);
    };
    serde_json::from_str(text).map(Some).map_err(|error| {
        Failed::unsent(format!(
            "ConfigMap {namespace}/{CONFIG_MAP}: {KEY} cannot be read: {error}"
        ))
    })
}

/// Publishes the settings when this process becomes the leader. Without the ConfigMap, as in an
/// installation without the chart, nothing is published.
pub(crate) async fn publish(client: Client, settings: Published, leadership: Leadership) {
    let maps = Api::<ConfigMap>::namespaced(client, &settings.namespace);
    let content = Patch::Merge(json!({"data": {KEY: json!(settings).to_string()}}));
    leadership.acquired().await;
    loop {
        match maps
            .patch(CONFIG_MAP, &PatchParams::default(), &content)
            .await
        {
            Ok(_) => return,
            Err(kube::Error::Api(refused)) if refused.code == 404 => return,
            Err(error) => {
                tracing::warn!(%error, "cannot write the settings to ConfigMap {CONFIG_MAP}; tries again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
