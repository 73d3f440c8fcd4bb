//! Whether the cluster resizes pods in place.

use std::time::Duration;

use berth_runtime::CancellationToken;
use berth_runtime::client::{self, Failed};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::update::inplace::resize::Ability;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;

/// The time between two reads, while there is no answer.
const AGAIN: Duration = Duration::from_secs(2);

/// Reads it from the cluster once, and only if the feature gate is on.
///
/// # Errors
/// The server's answer.
pub(crate) async fn ability(client: &Client, gates: Gates) -> Result<Ability, Failed> {
    if !gates.has(Gate::InPlaceWorkloadVerticalScaling) {
        return Ok(Ability::Off);
    }
    let served: APIResourceList = client::get(client, "/api/v1").await?;
    let has = served
        .resources
        .iter()
        .any(|resource| resource.name == "pods/resize");
    Ok(if has { Ability::On } else { Ability::Missing })
}

/// Reads until there is an answer, and logs the result.
pub(crate) async fn discover(client: &Client, gates: Gates, stop: &CancellationToken) -> Ability {
    loop {
        match ability(client, gates).await {
            Ok(Ability::Missing) => {
                tracing::warn!(
                    "feature gate InPlaceWorkloadVerticalScaling is on, but the cluster has no pods/resize (Kubernetes \
                     1.33 and later do): a change of resources recreates pods"
                );
                return Ability::Missing;
            }
            Ok(ability) => return ability,
            Err(error) => {
                tracing::warn!(%error, "cannot ask whether the cluster resizes pods in place; asks again")
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ability::Off,
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}
