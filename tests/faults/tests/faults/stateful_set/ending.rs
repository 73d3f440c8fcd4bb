//! The end state of a set, without the parts that differ from run to run.

use std::collections::BTreeMap;

use anyhow::Result;
use berth_api::names::label;
use berth_e2e::objects::{self, CONTAINER, kind};
use kube::Client;
use serde_json::{Map, Value, json};

use crate::stateful_set::expected::Expected;
use crate::stateful_set::{REPLICAS, SET, Stateful};

/// The objects by name, and the status of the set.
pub(super) struct Ending {
    pods: BTreeMap<String, Value>,
    claims: BTreeMap<String, Value>,
    records: BTreeMap<String, Value>,
    status: Value,
    /// Kept apart from the status, because conditions contain times.
    conditions: Option<Value>,
    /// The status is of the present spec.
    is_of_spec: bool,
}

impl Ending {
    pub(super) async fn read(client: &Client, namespace: &str, what: Stateful) -> Result<Ending> {
        let list = async |kind: &str| objects::list(client, namespace, kind, "").await;
        let by_name = |objects: Vec<Value>, read: &dyn Fn(&Value) -> Value| -> BTreeMap<_, _> {
            objects
                .iter()
                .map(|object| (name(object), read(object)))
                .collect()
        };
        let set = list(kind::STATEFUL_SET)
            .await?
            .first()
            .cloned()
            .unwrap_or_default();
        let mut status = set["status"].clone();
        let conditions = status
            .as_object_mut()
            .and_then(|status: &mut Map<_, _>| status.remove("conditions"));
        Ok(Ending {
            pods: by_name(list(kind::POD).await?, &pod),
            // It is chance whether a volume exists already that no pod waits for.
            claims: by_name(list(kind::CLAIM).await?, &|it| {
                claim(it, what == Stateful::Resized)
            }),
            records: by_name(list(kind::PERSISTENT_POD_STATE).await?, &|it| {
                it["status"]["podStates"].clone()
            }),
            is_of_spec: status["observedGeneration"] == set["metadata"]["generation"],
            status,
            conditions,
        })
    }

    /// The state, and the reason why it is not the wanted one, if it is not.
    pub(super) fn judged(self, wanted: &Expected, what: Stateful) -> (Value, Option<String>) {
        let is_done = self.has_pods(wanted)
            && self.has_claims(wanted, what)
            && self.has_records(what)
            && self.conditions.is_none()
            && self.has_status(wanted);
        let Ending {
            pods,
            claims,
            records,
            status,
            conditions,
            ..
        } = self;
        let now = json!({"pods": pods, "claims": claims, "records": records, "status": status});
        let flaw = (!is_done).then(|| format!("{now} with conditions {conditions:?}"));
        (now, flaw)
    }

    /// A status is written within a second, and until then nothing else happens.
    fn has_status(&self, wanted: &Expected) -> bool {
        let is_all = |count: &str| self.status[count] == wanted.pods.len();
        let mut claims = self.status["volumeClaims"].as_array().into_iter().flatten();
        [
            "replicas",
            "availableReplicas",
            "currentReplicas",
            "updatedAvailableReplicas",
        ]
        .into_iter()
        .all(is_all)
            && claims.all(|claim| claim["compatibleReplicas"] == wanted.pods.len())
            && self.status["currentRevision"] == self.status["updateRevision"]
            && self.is_of_spec
    }

    fn has_pods(&self, wanted: &Expected) -> bool {
        let is_pod = |at: &usize| {
            let pod = self.pods.get(&format!("{SET}-{at}"));
            pod.is_some_and(|pod| pod["image"] == wanted.image && pod["ready"] == true)
        };
        self.pods.len() == wanted.pods.len() && wanted.pods.iter().all(is_pod)
    }

    fn has_claims(&self, wanted: &Expected, what: Stateful) -> bool {
        let is_claim = |at: &usize| {
            let claim = self.claims.get(&format!("data-{SET}-{at}"));
            let has_volume =
                |claim: &Value| what != Stateful::Resized || claim["capacity"] == wanted.size;
            claim.is_some_and(|claim| claim["size"] == wanted.size && has_volume(claim))
        };
        self.claims.len() == wanted.claims.len() * wanted.templates
            && wanted.claims.iter().all(is_claim)
    }

    /// A record is written within a second, and until then nothing else happens.
    fn has_records(&self, what: Stateful) -> bool {
        if what != Stateful::Recorded {
            return self.records.is_empty();
        }
        self.records.get(SET).is_some_and(has_all)
    }
}

/// Are there records of all pods?
pub(super) fn has_all(records: &Value) -> bool {
    records
        .as_object()
        .is_some_and(|records| records.len() == REPLICAS)
}

fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// A terminating pod does not count as ready: otherwise the beginning would look like the end when
/// another pod takes its place.
fn pod(pod: &Value) -> Value {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let is_ready = conditions.any(|c| c["type"] == "Ready" && c["status"] == "True");
    let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let image = containers
        .find(|container| container["name"] == CONTAINER)
        .map(|main| main["image"].clone());
    let labels = &pod["metadata"]["labels"];
    let state = &labels[label::LIFECYCLE_STATE];
    let is_to_go = !pod["metadata"]["deletionTimestamp"].is_null()
        || !labels[label::SPECIFIED_DELETE].is_null();
    json!({"image": image, "ready": is_ready && !is_to_go, "revision": labels["controller-revision-hash"], "state": state,
           "selector": pod["spec"]["nodeSelector"]})
}

fn claim(claim: &Value, has_volume: bool) -> Value {
    let owners = claim["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    let owners: Value = owners.map(|owner| owner["kind"].clone()).collect();
    let mut seen =
        json!({"owners": owners, "size": claim["spec"]["resources"]["requests"]["storage"]});
    if has_volume {
        seen["capacity"] = claim["status"]["capacity"]["storage"].clone();
    }
    seen
}
