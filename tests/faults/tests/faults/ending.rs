//! How a case ends, without what differs from run to run: names that were drawn, uids, addresses, times.

use std::collections::BTreeMap;

use anyhow::Result;
use berth_api::names::{annotation, label};
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use berth_e2e::record::PodView;
use kube::Client;
use serde_json::Value;

use crate::case::SET;
use crate::rollout::Rollout;

/// Everything that a user could find to be different.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ending {
    status: Value,
    /// Names and numbers, in the order of the numbers.
    pub(crate) revisions: Vec<(i64, String)>,
    pods: Vec<PodEnding>,
    /// Of each claim, whether it is a pod's that there is, and stays the CloneSet's.
    claims: Vec<bool>,
    /// Pods that a node is still asked about.
    inspected: usize,
    /// Names of pods that are still to be deleted.
    named: usize,
}

/// An image, and its digest.
pub(crate) type Image<'a> = (&'a str, &'a str);

/// What a good ending has.
pub(crate) struct Good<'a> {
    /// Of the newest template, and of the first.
    pub(crate) images: [Image<'a>; 2],
    pub(crate) templates: usize,
    pub(crate) pods: usize,
    /// So many of them are of the first template.
    pub(crate) kept: usize,
    pub(crate) claims: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct PodEnding {
    labels: BTreeMap<String, String>,
    /// Of each container.
    images: Vec<String>,
    image_id: String,
    /// Types and statuses.
    conditions: BTreeMap<String, String>,
    serves: bool,
    /// The record of an in-place update speaks of the pod's revision, and is closed.
    settled: bool,
    restarts: Option<i32>,
}

impl Ending {
    /// `node` is the one that all pods are on.
    pub(crate) async fn read(client: &Client, node: &str, namespace: &str, rollout: Rollout) -> Result<Ending> {
        let set = objects::get(client, namespace, kind::CLONE_SET, SET).await?;
        let pods = objects::list(client, namespace, kind::POD, &format!("{APP}={SET}")).await?;
        let revisions = objects::list(client, namespace, "apps/v1/ControllerRevision", "").await?;
        let node_image = objects::get(client, "", kind::NODE_IMAGE, node).await?;
        let mut status = set["status"].clone();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"].take();
            condition["lastUpdateTime"].take();
        }
        // Said, so that a status of an older spec is no ending.
        status["observedGeneration"] = (status["observedGeneration"] == set["metadata"]["generation"]).into();
        let mut revisions: Vec<_> = revisions
            .iter()
            .map(|r| (r["revision"].as_i64().unwrap_or_default(), text(&r["metadata"]["name"])))
            .collect();
        revisions.sort();
        let claims = claims(client, namespace, &pods).await?;
        let uids: Vec<_> = pods.iter().map(|pod| text(&pod["metadata"]["uid"])).collect();
        let asked = node_image["spec"]["inspectPods"].as_array().map(Vec::as_slice).unwrap_or_default();
        let inspected = asked.iter().filter(|pod| uids.contains(&text(&pod["uid"]))).count();
        let named = set["spec"]["scaleStrategy"]["podsToDelete"].as_array().map_or(0, Vec::len);
        let mut pods = pods.iter().map(|pod| PodEnding::of(pod, rollout)).collect::<Result<Vec<_>>>()?;
        pods.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(Ending { status, revisions, pods, claims, inspected, named })
    }

    /// Why this is no good ending; none when it is one.
    pub(crate) fn flaw(&self, good: &Good<'_>) -> Option<String> {
        let Good { images: [newest, first], templates, pods, kept, claims } = *good;
        if self.claims != vec![true; claims] {
            return Some(format!("there are not {claims} claims, each with its pod: {:?}", self.claims));
        }
        let counts = ["replicas", "readyReplicas", "availableReplicas"].map(|count| (count, pods));
        let updated = ["updatedReplicas", "updatedReadyReplicas"].map(|count| (count, pods - kept));
        let wrong = counts.into_iter().chain(updated).find(|(count, number)| self.status[count] != *number);
        if let Some(count) = wrong
            .map(|(count, _)| count)
            .or((self.status["observedGeneration"] != true).then_some("observedGeneration"))
        {
            return Some(format!("the status has the wrong {count}: {}", self.status));
        }
        if (self.status["currentRevision"] == self.status["updateRevision"]) != (kept == 0) {
            return Some(format!("the status is wrong about whether the rollout goes on: {}", self.status));
        }
        if self.revisions.len() != templates {
            return Some(format!("there are not {templates} revisions: {:?}", self.revisions));
        }
        if self.pods.len() != pods {
            return Some(format!("there are {} pods: {:?}", self.pods.len(), self.pods));
        }
        let is_exact = |pod: &PodEnding, (image, digest): Image<'_>| {
            pod.images.iter().all(|own| own == image) && pod.image_id.ends_with(digest)
        };
        let old = self.pods.iter().filter(|pod| !is_exact(pod, newest)).count();
        if old != kept {
            return Some(format!("{old} pods have another image, not {kept}: {:?}", self.pods));
        }
        let flawed = self.pods.iter().find(|pod| {
            let exact = is_exact(pod, newest) || is_exact(pod, first);
            let gates = ["InPlaceUpdateReady", "KruisePodReady", "Ready"];
            let open = gates.iter().all(|gate| pod.conditions.get(*gate).is_some_and(|status| status == "True"));
            let normal = pod.labels.get(label::LIFECYCLE_STATE).is_some_and(|state| state == "Normal");
            // Nothing of the status tells that somebody asks for a pod's end.
            let stays = !pod.labels.contains_key(label::SPECIFIED_DELETE);
            !(exact && open && normal && stays && pod.serves && pod.settled)
        });
        if let Some(pod) = flawed {
            return Some(format!("a pod is not as wanted: {pod:?}"));
        }
        if self.named > 0 {
            return Some(format!("{} names of pods to delete are still on the list", self.named));
        }
        (self.inspected > 0).then(|| format!("the node is still asked about {} pods", self.inspected))
    }

    /// The name of the newest revision.
    pub(crate) fn update_revision(&self) -> &str {
        self.status["updateRevision"].as_str().unwrap_or_default()
    }

    /// How this differs from another ending; none when it does not.
    pub(crate) fn difference(&self, other: &Ending) -> Option<String> {
        (self != other).then(|| format!("it should have ended so:\n{other:?}\nand is so:\n{self:?}"))
    }
}

impl PodEnding {
    fn of(pod: &Value, rollout: Rollout) -> Result<PodEnding> {
        let view = PodView::of(&serde_json::from_value(pod.clone())?);
        let container = view.containers.get(CONTAINER).cloned().unwrap_or_default();
        let strings = |value: &Value| -> BTreeMap<String, String> {
            value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
        };
        let mut labels = strings(&pod["metadata"]["labels"]);
        labels.remove(label::CLONESET_INSTANCE_ID);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let annotations = strings(&pod["metadata"]["annotations"]);
        Ok(PodEnding {
            settled: annotations.get(annotation::INPLACE_UPDATE_STATE).is_none_or(|state| is_settled(state, &view)),
            images: view.containers.values().map(|container| container.wanted.clone()).collect(),
            image_id: container.image_id,
            conditions: conditions.map(|c| (text(&c["type"]), text(&c["status"]))).collect(),
            serves: view.serves(),
            restarts: rollout.restarts_are_certain().then_some(container.restarts),
            labels,
        })
    }
}

async fn claims(client: &Client, namespace: &str, pods: &[Value]) -> Result<Vec<bool>> {
    let claims = objects::list(client, namespace, "v1/PersistentVolumeClaim", "").await?;
    let is_sound = |claim: &Value| {
        let metadata = &claim["metadata"];
        let id = &metadata["labels"][label::CLONESET_INSTANCE_ID];
        pods.iter().any(|pod| pod["metadata"]["labels"][label::CLONESET_INSTANCE_ID] == *id)
            && metadata["ownerReferences"][0]["kind"] == "CloneSet"
            && metadata["annotations"][annotation::CLAIM_UNUSED].is_null()
            && metadata["deletionTimestamp"].is_null()
    };
    Ok(claims.iter().map(is_sound).collect())
}

fn is_settled(state: &str, pod: &PodView) -> bool {
    let state: Value = serde_json::from_str(state).unwrap_or_default();
    text(&state["revision"]) == pod.revision && !text(&state["berthVerifiedBy"]).is_empty()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
