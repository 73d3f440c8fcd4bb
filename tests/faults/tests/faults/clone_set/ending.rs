//! The end of a run, without the parts that differ from run to run: generated names, uids,
//! addresses, times.

use anyhow::Result;
use berth_api::names::{annotation, label};
use berth_e2e::objects::{self, APP, kind};
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use crate::clone_set::{Rollout, SET, budget};
use crate::pod_ending::{Image, PodEnding};

/// All differences that users could find.
#[derive(Debug, Serialize)]
pub(crate) struct Ending {
    status: Value,
    /// Names and numbers, in the order of the numbers.
    revisions: Vec<(i64, String)>,
    pods: Vec<PodEnding>,
    /// For each claim, whether it belongs to an existing pod, and stays the CloneSet's.
    claims: Vec<bool>,
    /// Pods that a NodeImage still lists for inspection.
    inspected: usize,
    /// Names of pods that are still listed for deletion.
    named: usize,
    /// The status of the pods' budget, if there is one.
    budget: Option<Value>,
}

/// The requirements for a good ending.
pub(crate) struct Good<'a> {
    /// The images of the newest template, and of the first.
    pub(crate) images: [Image<'a>; 2],
    pub(crate) templates: usize,
    pub(crate) pods: usize,
    /// How many of them are of the first template.
    pub(crate) kept: usize,
    pub(crate) claims: usize,
}

impl Ending {
    /// `node` is the only node; all pods are on it.
    pub(crate) async fn read(
        client: &Client,
        node: &str,
        namespace: &str,
        rollout: Rollout,
    ) -> Result<Ending> {
        let set = objects::get(client, namespace, kind::CLONE_SET, SET).await?;
        let pods = objects::list(client, namespace, kind::POD, &format!("{APP}={SET}")).await?;
        let revisions = objects::list(client, namespace, kind::REVISION, "").await?;
        let node_image = objects::get(client, "", kind::NODE_IMAGE, node).await?;
        let mut status = set["status"].clone();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"].take();
            condition["lastUpdateTime"].take();
        }
        // Included, so that a status of an older spec is no ending.
        status["observedGeneration"] =
            (status["observedGeneration"] == set["metadata"]["generation"]).into();
        let mut revisions: Vec<_> = revisions
            .iter()
            .map(|r| {
                (
                    r["revision"].as_i64().unwrap_or_default(),
                    text(&r["metadata"]["name"]),
                )
            })
            .collect();
        revisions.sort();
        let claims = claims(client, namespace, &pods).await?;
        let uids: Vec<_> = pods
            .iter()
            .map(|pod| text(&pod["metadata"]["uid"]))
            .collect();
        let asked = node_image["spec"]["inspectPods"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let inspected = asked
            .iter()
            .filter(|pod| uids.contains(&text(&pod["uid"])))
            .count();
        let named = set["spec"]["scaleStrategy"]["podsToDelete"]
            .as_array()
            .map_or(0, Vec::len);
        let budget = if rollout.spared().is_some() {
            Some(budget::read(client, namespace, &pods).await?)
        } else {
            None
        };
        let mut pods = pods
            .iter()
            .map(|pod| PodEnding::read(pod, rollout.restarts_are_certain()))
            .collect::<Result<Vec<_>>>()?;
        pods.sort_by(|a, b| (&a.labels, a.restarts).cmp(&(&b.labels, b.restarts)));
        Ok(Ending {
            status,
            revisions,
            pods,
            claims,
            inspected,
            named,
            budget,
        })
    }

    /// The first difference from a good ending; `None` if there is none.
    pub(crate) fn flaw(&self, good: &Good<'_>) -> Option<String> {
        let Good {
            images: [newest, first],
            templates,
            pods,
            kept,
            claims,
        } = *good;
        if self.claims != vec![true; claims] {
            return Some(format!(
                "there are not {claims} claims, each with its pod: {:?}",
                self.claims
            ));
        }
        let counts = ["replicas", "readyReplicas", "availableReplicas"].map(|count| (count, pods));
        let updated = ["updatedReplicas", "updatedReadyReplicas"].map(|count| (count, pods - kept));
        let wrong = counts
            .into_iter()
            .chain(updated)
            .find(|(count, number)| self.status[count] != *number);
        if let Some(count) = wrong
            .map(|(count, _)| count)
            .or((self.status["observedGeneration"] != true).then_some("observedGeneration"))
        {
            return Some(format!("the status has the wrong {count}: {}", self.status));
        }
        if (self.status["currentRevision"] == self.status["updateRevision"]) != (kept == 0) {
            return Some(format!(
                "the status is wrong about whether the rollout goes on: {}",
                self.status
            ));
        }
        if self.revisions.len() != templates {
            return Some(format!(
                "there are not {templates} revisions: {:?}",
                self.revisions
            ));
        }
        if self.pods.len() != pods {
            return Some(format!(
                "there are {} pods: {:?}",
                self.pods.len(),
                self.pods
            ));
        }
        let old = self
            .pods
            .iter()
            .filter(|pod| !pod.has_image(newest))
            .count();
        if old != kept {
            return Some(format!(
                "{old} pods have another image, not {kept}: {:?}",
                self.pods
            ));
        }
        let is_good = |pod: &PodEnding| {
            (pod.has_image(newest) || pod.has_image(first)) && pod.is_in_service()
        };
        let flawed = self.pods.iter().find(|pod| !is_good(pod));
        if let Some(pod) = flawed {
            return Some(format!("a pod is not as wanted: {pod:?}"));
        }
        if let Some(budget) = self
            .budget
            .as_ref()
            .filter(|budget| !budget::is_at_rest(budget, pods))
        {
            return Some(format!("the budget is not at rest: {budget}"));
        }
        if self.named > 0 {
            return Some(format!(
                "{} names of pods to delete are still on the list",
                self.named
            ));
        }
        (self.inspected > 0)
            .then(|| format!("the node is still asked about {} pods", self.inspected))
    }
}

async fn claims(client: &Client, namespace: &str, pods: &[Value]) -> Result<Vec<bool>> {
    let claims = objects::list(client, namespace, kind::CLAIM, "").await?;
    let is_sound = |claim: &Value| {
        let metadata = &claim["metadata"];
        let id = &metadata["labels"][label::CLONESET_INSTANCE_ID];
        pods.iter()
            .any(|pod| pod["metadata"]["labels"][label::CLONESET_INSTANCE_ID] == *id)
            && metadata["ownerReferences"][0]["kind"] == "CloneSet"
            && metadata["annotations"][annotation::CLAIM_UNUSED].is_null()
            && metadata["deletionTimestamp"].is_null()
    };
    Ok(claims.iter().map(is_sound).collect())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
