//! The end state of a set, without the parts that differ from run to run: generated names, uids,
//! addresses, times.

use anyhow::Result;
use berth_e2e::objects::{self, kind};
use kube::Client;
use serde_json::{Value, json};

use super::SET;
use super::expected::Expected;
use crate::pod_ending::PodEnding;
use crate::sidecar_set::status;
use crate::world::World;

/// The objects, and the status of the set.
pub(super) struct Ending {
    /// Node and pod.
    pods: Vec<(String, PodEnding)>,
    /// Numbers, images, and kinds of owners.
    history: Vec<(i64, String, String)>,
    status: Value,
}

impl Ending {
    pub(super) async fn read(client: &Client, namespace: &str) -> Result<Ending> {
        let list = async |kind: &str| objects::list(client, namespace, kind, "").await;
        let set = list(kind::DAEMON_SET)
            .await?
            .into_iter()
            .find(|set| set["metadata"]["name"] == SET);
        let of_node =
            |pod: &Value| anyhow::Ok((text(&pod["spec"]["nodeName"]), PodEnding::read(pod, true)?));
        let mut pods = list(kind::POD)
            .await?
            .iter()
            .map(of_node)
            .collect::<Result<Vec<_>>>()?;
        pods.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut history: Vec<_> = list(kind::REVISION).await?.iter().map(revision).collect();
        history.sort();
        Ok(Ending {
            pods,
            history,
            status: set.map(|set| status(&set)).unwrap_or_default(),
        })
    }

    /// The state, and the reason why it is not the wanted one, if it is not.
    pub(super) fn judged(
        self,
        world: &World,
        wanted: &Expected,
        updated: usize,
    ) -> (Value, Option<String>) {
        let is_pod =
            |((node, pod), (wanted_node, image)): (&(String, PodEnding), &(&str, &str))| {
                let digest = world
                    .digests
                    .get(image)
                    .map(String::as_str)
                    .unwrap_or_default();
                node == wanted_node && pod.has_image((image, digest)) && pod.is_at_rest()
            };
        let has_pods =
            self.pods.len() == wanted.pods.len() && self.pods.iter().zip(wanted.pods).all(is_pod);
        let history = self
            .history
            .iter()
            .map(|(number, image, _)| (*number, image.as_str()));
        let is_done = has_pods
            && history.eq(wanted.history.iter().copied())
            && says(&self.status, wanted, updated);
        let Ending {
            pods,
            history,
            status,
        } = self;
        let now = json!({"pods": pods, "history": history, "status": status});
        let flaw = (!is_done).then(|| now.to_string());
        (now, flaw)
    }
}

/// The status counts the existing pods, and no condition says Blocked.
fn says(status: &Value, wanted: &Expected, updated: usize) -> bool {
    let counts = |field: &str, count: usize| status[field].as_u64().unwrap_or(0) == count as u64;
    let all = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "numberAvailable",
    ];
    status["observedGeneration"] == true
        && all.iter().all(|field| counts(field, wanted.pods.len()))
        && counts("updatedNumberScheduled", updated)
        && counts("numberUnavailable", 0)
        && counts("numberMisscheduled", 0)
        && status["conditions"].as_array().is_none_or(Vec::is_empty)
}

fn revision(revision: &Value) -> (i64, String, String) {
    let owners = revision["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    let owners: Vec<_> = owners.map(|owner| text(&owner["apiVersion"])).collect();
    let image = &revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"];
    (
        revision["revision"].as_i64().unwrap_or_default(),
        text(image),
        owners.join(","),
    )
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
