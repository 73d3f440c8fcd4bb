//! One run: a job in a namespace of its own, and the test's part that ends its pods.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use berth_api::kinds::broadcastjob::names::label::BROADCASTJOB_CONTROLLER_UID;
use berth_e2e::objects::{self, kind};
use berth_simnode::{nodes, now};
use http::Method;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::expected::Expected;
use super::laws::{more_than_may_run, node_of, runs_twice};
use super::{GUEST, JOB, Job};
use crate::history::History;
use crate::laws;
use crate::run;
use crate::scenario::Run;
use crate::world::{PATIENCE, World};

/// A job, with the history of its pods.
pub(crate) struct JobRun<'a> {
    pub(super) world: &'a World,
    what: Job,
    pub(super) namespace: String,
    pods: History,
}

impl<'a> Run<'a> for JobRun<'a> {
    type Scenario = Job;

    async fn begin(world: &'a World, namespace: &str, what: Job) -> Result<Self> {
        let pods = History::start(&world.client, namespace, kind::POD).await?;
        Ok(JobRun {
            world,
            what,
            namespace: namespace.to_owned(),
            pods,
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        self.what.set_up(self).await
    }

    async fn act(&self) -> Result<()> {
        self.what.act(self).await
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        let jobs =
            objects::list(&self.world.client, &self.namespace, kind::BROADCAST_JOB, "").await?;
        let pods = objects::list(&self.world.client, &self.namespace, kind::POD, "").await?;
        let mut pods: Vec<_> = pods.iter().map(pod_ending).collect();
        pods.sort_by(|(one, _), (other, _)| one.cmp(other));
        let now = json!({"jobs": jobs.iter().map(job_ending).collect::<Vec<_>>(), "pods": pods});
        // Messages contain the job's name.
        let now = serde_json::from_str(&now.to_string().replace(&self.namespace, "NAMESPACE"))?;
        let flaw = flaw(&now, &self.what.expected());
        Ok((now, flaw))
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let wanted = self.what.expected();
        let counts = [
            (Method::POST, "pods", wanted.makes),
            (Method::DELETE, "pods", wanted.deletes),
            (Method::PATCH, "broadcastjobs", wanted.pauses),
            (
                Method::DELETE,
                "broadcastjobs",
                usize::from(wanted.status.is_none()),
            ),
        ];
        laws::writes_are(&self.world.controller.ledger(), counts)?;
        let pods = self.pods.until_now().await?;
        runs_twice(&pods)?;
        more_than_may_run(&pods, wanted.most)
    }

    async fn clean_up(&self) -> Result<()> {
        let (client, how) = (&self.world.client, DeleteParams::background());
        if self.what.expected().status.is_some() {
            objects::delete(client, &self.namespace, kind::BROADCAST_JOB, JOB, &how).await?;
        }
        if self.what == Job::Joined {
            objects::delete(client, "", kind::NODE, GUEST, &how).await?;
            objects::until_gone(client, "", kind::NODE_IMAGE, GUEST, PATIENCE).await?;
            // Otherwise the controller's reaction to nodes would count for the next run.
            run::rest(&self.world.controller, async || Ok(((), None))).await?;
        }
        Ok(())
    }
}

impl JobRun<'_> {
    pub(super) async fn create(&self) -> Result<()> {
        objects::create(&self.world.client, &self.namespace, &self.what.manifest())
            .await
            .map(drop)
    }

    pub(super) async fn patch(&self, patch: &Value) -> Result<()> {
        objects::patch(
            &self.world.client,
            &self.namespace,
            kind::BROADCAST_JOB,
            JOB,
            patch,
        )
        .await
        .map(drop)
    }

    /// Waits until the job's status satisfies the condition.
    pub(super) async fn until(&self, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        let is_so = |job: &Value| is_so(&job["status"]);
        let (client, namespace) = (&self.world.client, &self.namespace);
        objects::until(client, namespace, kind::BROADCAST_JOB, JOB, PATIENCE, is_so)
            .await
            .map(drop)
    }

    /// Waits until the status satisfies the condition, and the controller rests.
    pub(super) async fn rests(&self, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        let look = async || {
            let job = objects::get(
                &self.world.client,
                &self.namespace,
                kind::BROADCAST_JOB,
                JOB,
            )
            .await?;
            Ok(((), (!is_so(&job["status"])).then(|| job.to_string())))
        };
        run::rest(&self.world.controller, look).await
    }

    /// Waits until the node has a running pod, and returns it.
    pub(super) async fn running(&self, node: &str) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pods = objects::list(&self.world.client, &self.namespace, kind::POD, "").await?;
            let runs = |pod: &Value| {
                pod["status"]["phase"] == "Running"
                    && pod["metadata"]["deletionTimestamp"].is_null()
            };
            match pods
                .into_iter()
                .find(|pod| node_of(pod) == node && runs(pod))
            {
                Some(pod) => return Ok(pod),
                None if Instant::now() > deadline => {
                    anyhow::bail!("node {node} has no pod that runs in {PATIENCE:?}")
                }
                None => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Reports the end of the node's pod, as its kubelet would.
    pub(super) async fn end(&self, node: &str, phase: &str) -> Result<()> {
        self.report(&self.running(node).await?, &json!({"phase": phase}))
            .await
    }

    pub(super) async fn end_all(&self, nodes: &[&str]) -> Result<()> {
        for node in nodes {
            self.end(node, "Succeeded").await?;
        }
        Ok(())
    }

    /// Reports two restarts of the container of the node's pod.
    pub(super) async fn restart(&self, node: &str) -> Result<()> {
        let pod = self.running(node).await?;
        let mut containers = pod["status"]["containerStatuses"].clone();
        containers[0]["restartCount"] = json!(2);
        self.report(&pod, &json!({"containerStatuses": containers}))
            .await
    }

    async fn report(&self, pod: &Value, status: &Value) -> Result<()> {
        let api = objects::api_of(
            &self.world.client,
            &self.namespace,
            &json!({"apiVersion": "v1", "kind": "Pod"}),
        )?;
        let name = pod["metadata"]["name"]
            .as_str()
            .context("a pod has a name")?;
        let patch =
            Patch::Merge(json!({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Deletes the node's pod. A later pod on the node is another one.
    pub(super) async fn delete_pod(&self, node: &str) -> Result<()> {
        let pods = objects::list(&self.world.client, &self.namespace, kind::POD, "").await?;
        let pod = pods
            .iter()
            .find(|pod| node_of(pod) == node)
            .with_context(|| format!("node {node} has no pod"))?;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let how = DeleteParams::background().grace_period(0);
        objects::delete(&self.world.client, &self.namespace, kind::POD, name, &how).await
    }

    /// Creates the node that joins.
    pub(super) async fn join(&self) -> Result<()> {
        objects::create(&self.world.client, "", &nodes::node(GUEST, &now()))
            .await
            .map(drop)
    }
}

/// Node, phase and labels.
fn pod_ending(pod: &Value) -> (String, Value) {
    let mut labels = pod["metadata"]["labels"].clone();
    labels[BROADCASTJOB_CONTROLLER_UID] = json!(labels[BROADCASTJOB_CONTROLLER_UID].is_string());
    let is_leaving = pod["metadata"]["deletionTimestamp"].is_string();
    let ending = json!({"phase": pod["status"]["phase"], "labels": labels, "leaving": is_leaving});
    (node_of(pod).to_owned(), ending)
}

/// The job without the hashes of nodes, and without times.
fn job_ending(job: &Value) -> Value {
    let mut status = job["status"].clone();
    let signs = status["endedNodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.as_str()?.chars().next());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    signs.for_each(|sign| *counts.entry(sign.to_string()).or_default() += 1);
    status["endedNodes"] = json!(counts);
    for time in ["startTime", "completionTime"] {
        status[time] = json!(status[time].is_string());
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        for time in ["lastProbeTime", "lastTransitionTime"] {
            condition[time] = json!(condition[time].is_string());
        }
    }
    json!({"status": status, "paused": job["spec"]["paused"]})
}

/// The first difference from a good ending; `None` if there is none.
fn flaw(now: &Value, wanted: &Expected) -> Option<String> {
    let pods = now["pods"].as_array().into_iter().flatten();
    let pods: Vec<_> = pods
        .map(|pod| {
            (
                pod[0].as_str().unwrap_or_default(),
                pod[1]["phase"].as_str(),
            )
        })
        .collect();
    let has_pods = pods.iter().copied().eq(wanted
        .pods
        .iter()
        .map(|(node, phase)| (*node, Some(*phase))));
    let status = &now["jobs"][0]["status"];
    let says = match wanted.status {
        Some((phase, succeeded, failed)) => {
            status["phase"] == phase
                && status["succeeded"] == succeeded
                && status["failed"] == failed
                && status["active"] == 0
                && status["desired"] == succeeded + failed
        }
        None => now["jobs"].as_array().is_some_and(Vec::is_empty),
    };
    (!(has_pods && says)).then(|| now.to_string())
}
