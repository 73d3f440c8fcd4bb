//! A PodUnavailableBudget over the pods of a CloneSet.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, APP};
use k8s_openapi::api::core::v1::Pod;
use kube::api::EvictParams;
use kube::{Api, Client};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::clone_set::{REPLICAS, SET};
use crate::world::PATIENCE;

const BUDGET: &str = "policy.kruise.io/v1beta1/PodUnavailableBudget";
/// The status fields that do not differ from run to run.
const SAID: [&str; 6] = [
    "unavailableAllowed",
    "currentAvailable",
    "desiredAvailable",
    "totalReplicas",
    "disruptedPods",
    "unavailablePods",
];

/// Creates a budget with so many pods as `minAvailable`.
pub(crate) async fn make(client: &Client, namespace: &str, spared: usize) -> Result<()> {
    let budget = json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": SET},
        "spec": {"selector": {"matchLabels": {APP: SET}}, "minAvailable": spared},
    });
    objects::create(client, namespace, &budget).await.map(drop)
}

/// Waits until the budget has counted its pods, and the webhook enforces it.
pub(crate) async fn until_asked(client: &Client, namespace: &str, spared: usize) -> Result<()> {
    let is_asked = |budget: &Value| {
        condition(budget, "Enforced") == "True"
            && budget["status"]["unavailableAllowed"] == REPLICAS - spared
    };
    objects::until(client, namespace, BUDGET, SET, PATIENCE, is_asked)
        .await
        .map(drop)
}

/// The budget's status, limited to these pods. A leader that has not seen other pods go keeps their
/// entries for 75 s; they take nothing from the budget.
pub(crate) async fn read(client: &Client, namespace: &str, pods: &[Value]) -> Result<Value> {
    let budget = objects::get(client, namespace, BUDGET, SET).await?;
    let has = |field: &str, value: &Value| pods.iter().any(|pod| pod["metadata"][field] == *value);
    let mut said: Value = SAID
        .into_iter()
        .map(|field| (field, budget["status"][field].clone()))
        .collect();
    for field in ["disruptedPods", "unavailablePods"] {
        if let Some(named) = said[field].as_object_mut() {
            named.retain(|name, _| has("name", &json!(name)));
        }
        if said[field].as_object().is_some_and(Map::is_empty) {
            said[field] = Value::Null;
        }
    }
    let entries = budget["status"]["ledger"]["entries"]
        .as_array()
        .into_iter()
        .flatten();
    let entries: Vec<_> = entries.filter(|entry| has("uid", &entry["uid"])).collect();
    said["entries"] = if entries.is_empty() {
        Value::Null
    } else {
        json!(entries)
    };
    said["enforced"] = condition(&budget, "Enforced").into();
    said["blocked"] = condition(&budget, "Blocked").into();
    Ok(said)
}

/// Whether all of so many pods count, and none is being taken out of service.
pub(crate) fn is_at_rest(budget: &Value, pods: usize) -> bool {
    let entries =
        ["entries", "disruptedPods", "unavailablePods"].map(|field| match &budget[field] {
            Value::Array(entries) => entries.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        });
    budget["currentAvailable"] == pods && budget["totalReplicas"] == pods && entries == [0; 3]
}

/// Evicts a pod: tries until its budget allows it, and a controller answers.
pub(crate) async fn evict(client: &Client, namespace: &str, pod: &str) -> Result<()> {
    let (pods, deadline) = (
        Api::<Pod>::namespaced(client.clone(), namespace),
        Instant::now() + PATIENCE,
    );
    loop {
        match pods.evict(pod, &EvictParams::default()).await {
            Ok(_) => return Ok(()),
            // The pod was gone before the answer came.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => {
                ensure!(
                    Instant::now() < deadline,
                    "pod {pod} cannot be evicted in {PATIENCE:?}: {error}"
                );
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn condition(budget: &Value, name: &str) -> String {
    let conditions = budget["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == name);
    found
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
        .to_owned()
}
