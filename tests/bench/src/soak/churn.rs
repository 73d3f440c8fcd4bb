//! The changes of an hour.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, APP, kind};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::PARALLEL;
use super::count::Counts;
use crate::phases::{NAMESPACE, Stage};

/// The replicas at the end of each hour.
const REPLICAS: usize = 3;
/// Every so-many-th CloneSet's pods have claims.
const CLAIMS: usize = 10;
/// The number of old revisions to keep.
const HISTORY: usize = 3;
/// The maximum number of jobs that pull at a time.
const JOBS: usize = 10;
pub(crate) const JOB: &str = "apps.kruise.io/v1beta1/ImagePullJob";
/// The time until all CloneSets are at rest.
const PATIENCE: Duration = Duration::from_secs(300);

/// A change of the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    Scale(usize, usize),
    Image(usize, u32),
    /// A user requests the deletion of the n-th pod of a CloneSet.
    Ask(usize, usize),
    /// A user deletes the pod.
    Delete(usize, usize),
    /// A CloneSet is deleted and created anew.
    Renew(usize),
    /// A job pulls an image to all nodes, or another one than before.
    Pull(usize, u32),
    /// The job is deleted.
    PullNoMore(usize),
    /// A node is deleted with its pods, and comes back.
    Lose(usize),
}

/// The CloneSets and the nodes.
pub(crate) struct Churn {
    client: Client,
    sets: usize,
    nodes: Vec<Value>,
}

fn job_name(job: usize) -> String {
    format!("ahead-{job}")
}

fn job_path(job: usize) -> String {
    format!(
        "/apis/apps.kruise.io/v1beta1/namespaces/{NAMESPACE}/imagepulljobs/{}",
        job_name(job)
    )
}

fn name(set: usize) -> String {
    format!("churn-{set}")
}

fn manifest(set: usize) -> Value {
    // Half of them in place, half by new pods.
    let policy = if set.is_multiple_of(2) {
        "InPlaceIfPossible"
    } else {
        "ReCreate"
    };
    let rolling_update = json!({"podUpdatePolicy": policy, "maxUnavailable": "50%"});
    let mut manifest = objects::clone_set(&name(set), REPLICAS, "web:0", &rolling_update);
    manifest["spec"]["revisionHistoryLimit"] = json!(HISTORY);
    if set.is_multiple_of(CLAIMS) {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
        manifest["spec"]["volumeClaimTemplates"] =
            json!([{"metadata": {"name": "data"}, "spec": spec}]);
    }
    manifest
}

impl Churn {
    /// Creates the CloneSets.
    pub(crate) async fn begin(stage: &Stage, sets: usize, nodes: usize) -> Result<Self> {
        let client = stage.client.clone();
        let deadline = Instant::now() + PATIENCE;
        let nodes = loop {
            let made = objects::list(&client, "", "v1/Node", "").await?;
            // The server reads the kind's definition anew after the controller has changed it.
            let asked = objects::list(&client, "", kind::NODE_IMAGE, "")
                .await
                .unwrap_or_default();
            if made.len() == nodes && asked.len() == nodes {
                break made;
            }
            ensure!(
                Instant::now() < deadline,
                "there are {} nodes and {} NodeImages",
                made.len(),
                asked.len()
            );
            sleep(Duration::from_millis(200)).await;
        };
        for set in 0..sets {
            objects::create(&client, NAMESPACE, &manifest(set)).await?;
        }
        Ok(Self {
            client,
            sets,
            nodes,
        })
    }

    /// The next change, at random.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> Change {
        let set = random.usize(0..self.sets);
        match random.u32(0..100) {
            0..40 => Change::Scale(set, random.usize(0..7)),
            40..70 => Change::Image(set, random.u32(1..6)),
            70..82 => Change::Ask(set, random.usize(0..REPLICAS)),
            82..92 => Change::Delete(set, random.usize(0..REPLICAS)),
            92..95 => Change::Renew(set),
            95..98 => Change::Pull(random.usize(0..JOBS), random.u32(0..3)),
            98 => Change::PullNoMore(random.usize(0..JOBS)),
            _ => Change::Lose(random.usize(0..self.nodes.len())),
        }
    }

    /// Carries out the change.
    pub(crate) async fn apply(&self, change: Change) -> Result<()> {
        let set = |set: usize, patch: Value| async move {
            objects::patch(&self.client, NAMESPACE, kind::CLONE_SET, &name(set), &patch)
                .await
                .map(|_| ())
        };
        match change {
            Change::Scale(which, replicas) => {
                self.unless_gone(set(which, json!({"spec": {"replicas": replicas}})).await)
            }
            Change::Image(which, tag) => {
                let patch = objects::image_patch(&manifest(which), &format!("web:{tag}"));
                self.unless_gone(set(which, patch).await)
            }
            Change::Ask(which, at) => {
                let Some(pod) = self.pod(which, at).await? else {
                    return Ok(());
                };
                let patch =
                    json!({"metadata": {"labels": {"apps.kruise.io/specified-delete": "true"}}});
                self.unless_gone(
                    objects::patch(&self.client, NAMESPACE, kind::POD, &pod, &patch)
                        .await
                        .map(|_| ()),
                )
            }
            Change::Delete(which, at) => match self.pod(which, at).await? {
                Some(pod) => {
                    self.delete(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}"))
                        .await
                }
                None => Ok(()),
            },
            Change::Renew(which) => {
                let path = format!(
                    "/apis/apps.kruise.io/v1beta1/namespaces/{NAMESPACE}/clonesets/{}",
                    name(which)
                );
                self.delete(&path).await?;
                self.unless_there(
                    objects::create(&self.client, NAMESPACE, &manifest(which))
                        .await
                        .map(|_| ()),
                )
            }
            Change::Pull(job, tag) => self.pull(job, tag).await,
            Change::PullNoMore(job) => self.delete(&job_path(job)).await,
            Change::Lose(node) => self.lose(&self.nodes[node]).await,
        }
    }

    async fn pull(&self, job: usize, tag: u32) -> Result<()> {
        let (name, image) = (job_name(job), format!("ahead-{job}:{tag}"));
        let manifest = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": name},
            "spec": {"image": image, "parallelism": 3, "completionPolicy": {"type": "Never"}},
        });
        self.unless_there(
            objects::create(&self.client, NAMESPACE, &manifest)
                .await
                .map(|_| ()),
        )?;
        let patch = json!({"spec": {"image": image}});
        self.unless_gone(
            objects::patch(&self.client, NAMESPACE, JOB, &name, &patch)
                .await
                .map(|_| ()),
        )
    }

    async fn lose(&self, node: &Value) -> Result<()> {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        self.delete(&format!("/api/v1/nodes/{name}")).await?;
        for pod in objects::list(&self.client, NAMESPACE, kind::POD, "").await? {
            if pod["spec"]["nodeName"] == name {
                let pod = pod["metadata"]["name"].as_str().unwrap_or_default();
                self.delete(&format!(
                    "/api/v1/namespaces/{NAMESPACE}/pods/{pod}?gracePeriodSeconds=0"
                ))
                .await?;
            }
        }
        let mut again = json!({"apiVersion": "v1", "kind": "Node", "status": node["status"]});
        again["metadata"] = json!({"name": name, "labels": node["metadata"]["labels"]});
        self.unless_there(objects::create(&self.client, "", &again).await.map(|_| ()))
    }

    /// The n-th pod of a CloneSet that is not terminating.
    async fn pod(&self, set: usize, at: usize) -> Result<Option<String>> {
        let pods = objects::list(
            &self.client,
            NAMESPACE,
            kind::POD,
            &format!("{APP}={}", name(set)),
        )
        .await?;
        let mut here = pods
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        Ok(here
            .nth(at)
            .and_then(|pod| pod["metadata"]["name"].as_str())
            .map(str::to_owned))
    }

    async fn delete(&self, path: &str) -> Result<()> {
        let request = Request::builder()
            .method(Method::DELETE)
            .uri(path)
            .body(Vec::new())?;
        self.unless_gone(
            self.client
                .request::<Value>(request)
                .await
                .map(|_| ())
                .map_err(Into::into),
        )
    }

    /// Changes may conflict with each other.
    fn unless_gone(&self, done: Result<()>) -> Result<()> {
        unless(done, 404)
    }

    fn unless_there(&self, done: Result<()>) -> Result<()> {
        unless(done, 409)
    }

    /// Brings all to the state of every hour's end, and waits for it: no job is left, and each
    /// CloneSet has its replicas.
    pub(crate) async fn settle(&self, hour: usize) -> Result<()> {
        for job in 0..JOBS {
            self.delete(&job_path(job)).await?;
        }
        let image = format!("web:hour-{hour}");
        let settle = |set: usize| {
            let image = &image;
            async move {
                let mut patch = objects::image_patch(&manifest(set), image);
                patch["spec"]["replicas"] = json!(REPLICAS);
                objects::patch(&self.client, NAMESPACE, kind::CLONE_SET, &name(set), &patch)
                    .await?;
                objects::until(
                    &self.client,
                    NAMESPACE,
                    kind::CLONE_SET,
                    &name(set),
                    PATIENCE,
                    objects::is_done,
                )
                .await
            }
        };
        stream::iter(0..self.sets)
            .map(settle)
            .buffer_unordered(PARALLEL)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    /// Compares the numbers at the end of an hour with the wanted ones.
    pub(crate) fn check(&self, counts: &Counts) -> Result<()> {
        let with_claims = self.sets.div_ceil(CLAIMS);
        let wanted = Counts {
            pods: self.sets * REPLICAS,
            claims: with_claims * REPLICAS,
            // The newest revisions of a history are kept, beside the one in use.
            revisions: counts.revisions.min(self.sets * (HISTORY + 1)),
            node_images: self.nodes.len(),
            entries: 0,
            jobs: 0,
            // Each CloneSet and each NodeImage keeps the expectations of its last round until its
            // next reconcile.
            awaited: counts.awaited.min(self.sets + self.nodes.len()),
        };
        ensure!(*counts == wanted, "there are {counts:?}, not {wanted:?}");
        Ok(())
    }
}

fn unless(done: Result<()>, code: u16) -> Result<()> {
    match done {
        Err(error) if matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == code) => {
            Ok(())
        }
        done => done,
    }
}
