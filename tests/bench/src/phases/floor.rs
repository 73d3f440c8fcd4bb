//! The limit: the same writes as Berth's, sent by a bare loop without decisions.

use std::sync::Arc;

use anyhow::{Context, Result};
use berth_e2e::objects::{self, APP, CONTAINER};
use berth_runtime::{CancellationToken, Change, Store, feed};
use berth_simnode::kubelet::image_id;
use berth_simnode::pod::Pod;
use futures::{StreamExt, TryStreamExt};
use http::{Method, Request};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use super::Options;
use super::measure::{Phase, begin};
use super::stage::{NAMESPACE, PATIENCE, Stage};

/// Writes at once, as in Berth's executor.
const PARALLEL: usize = 32;
const GATES: [&str; 2] = ["InPlaceUpdateReady", "KruisePodReady"];
const STRATEGIC: &str = "application/strategic-merge-patch+json";

struct Loop {
    client: Client,
    writes: Semaphore,
    pods: Arc<Store<Pod>>,
    /// Counts the events of the store.
    news: watch::Receiver<u64>,
    wanted: usize,
    /// How many pods are updated at once.
    at_once: usize,
}

/// Runs the loop through the phases that it supports.
pub(crate) async fn run(stage: &mut Stage, options: &Options, round: usize) -> Result<Vec<Phase>> {
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let this = Loop::connect(stage, options.pods, stop).await?;
    let (subject, pods) = (("floor", round), options.pods);
    let mut phases = Vec::new();
    let phase = begin(stage, None).await?;
    this.all(PARALLEL, async |number| this.create(number).await)
        .await?;
    phases.push(phase.end(stage, None, subject, ("create", pods)).await?);
    for (name, image) in [("in place", "web:2"), ("again", "web:3")] {
        let phase = begin(stage, None).await?;
        this.all(this.at_once, async |number| {
            this.update(number, image).await
        })
        .await?;
        phases.push(phase.end(stage, None, subject, (name, pods)).await?);
    }
    let phase = begin(stage, None).await?;
    this.all(PARALLEL, async |number| this.delete(number).await)
        .await?;
    phases.push(
        phase
            .end(stage, None, subject, ("scale down", pods))
            .await?,
    );
    Ok(phases)
}

fn name(number: usize) -> String {
    format!("floor-{number}")
}

fn path(number: usize) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods/{}", name(number))
}

impl Loop {
    async fn connect(stage: &Stage, wanted: usize, stop: CancellationToken) -> Result<Self> {
        let config = Kubeconfig::read_from(&stage.kubeconfig)?;
        let config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let client =
            berth_runtime::client::connect(config, berth_runtime::metrics::Metrics::new(|_| {}))?;
        let pods = Store::<Pod>::new(&[]);
        let (tell, news) = watch::channel(0);
        pods.on_change(move |_: &Change<Pod>| tell.send_modify(|count| *count += 1));
        tokio::spawn(feed::run(
            client.clone(),
            pods.clone(),
            feed::Options::default(),
            stop,
        ));
        let at_once = wanted.div_ceil(4);
        Ok(Self {
            client,
            writes: Semaphore::new(PARALLEL),
            pods,
            news,
            wanted,
            at_once,
        })
    }

    /// Calls `one` for every pod, for so many at once.
    async fn all(&self, at_once: usize, one: impl AsyncFn(usize) -> Result<()>) -> Result<()> {
        futures::stream::iter(0..self.wanted)
            .map(|number| one(number))
            .buffer_unordered(at_once)
            .try_collect()
            .await
    }

    /// Creates a pod with its gates, and waits until it is ready: two writes.
    async fn create(&self, number: usize) -> Result<()> {
        let set = objects::clone_set("floor", 1, "web:1", &json!({}));
        let gates: Vec<_> = GATES
            .iter()
            .map(|gate| json!({"conditionType": gate}))
            .collect();
        let mut spec = set["spec"]["template"]["spec"].clone();
        spec["readinessGates"] = gates.into();
        let metadata = json!({"name": name(number), "labels": {APP: "floor"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        self.write(
            Method::POST,
            &format!("/api/v1/namespaces/{NAMESPACE}/pods"),
            "application/json",
            &pod,
        )
        .await?;
        self.set_gates(number, &GATES, true).await?;
        self.until(number, |pod| pod.condition("Ready") == Some("True"))
            .await
    }

    /// Changes an image in place, and waits until the pod is ready: three writes.
    async fn update(&self, number: usize, image: &str) -> Result<()> {
        self.set_gates(number, &GATES[..1], false).await?;
        let patch = json!({"spec": {"containers": [{"name": CONTAINER, "image": image}]}});
        self.write(Method::PATCH, &path(number), STRATEGIC, &patch)
            .await?;
        let id = image_id(image);
        let runs = |pod: &Pod| {
            pod.status
                .container_statuses
                .iter()
                .all(|container| *container.image_id == *id)
        };
        self.until(number, runs).await?;
        self.set_gates(number, &GATES[..1], true).await?;
        self.until(number, |pod| {
            runs(pod) && pod.condition("Ready") == Some("True")
        })
        .await
    }

    async fn delete(&self, number: usize) -> Result<()> {
        self.write(
            Method::DELETE,
            &path(number),
            "application/json",
            &json!({}),
        )
        .await?;
        self.until_gone(number).await
    }

    async fn set_gates(&self, number: usize, gates: &[&str], open: bool) -> Result<()> {
        let (status, now) = (if open { "True" } else { "False" }, berth_simnode::now());
        let mut types = gates.to_vec();
        if !open {
            types.push("Ready");
        }
        let condition = |type_| json!({"type": type_, "status": status, "lastTransitionTime": now});
        let conditions: Vec<_> = types.into_iter().map(condition).collect();
        let metadata = json!({"labels": {"lifecycle.apps.kruise.io/state": if open { "Normal" } else { "Updating" }}});
        let patch = json!({"metadata": metadata, "status": {"conditions": conditions}});
        self.write(
            Method::PATCH,
            &format!("{}/status", path(number)),
            STRATEGIC,
            &patch,
        )
        .await
    }

    async fn write(&self, method: Method, path: &str, content: &str, body: &Value) -> Result<()> {
        let _permit = self.writes.acquire().await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content);
        self.client
            .request::<Value>(request.body(body.to_string().into_bytes())?)
            .await?;
        Ok(())
    }

    async fn until(&self, number: usize, is_so: impl Fn(&Pod) -> bool) -> Result<()> {
        let name = name(number);
        self.wait(&name, || {
            self.pods
                .get(NAMESPACE, &name)
                .is_some_and(|pod| is_so(&pod))
        })
        .await
    }

    async fn until_gone(&self, number: usize) -> Result<()> {
        let name = name(number);
        self.wait(&name, || self.pods.get(NAMESPACE, &name).is_none())
            .await
    }

    async fn wait(&self, name: &str, is_so: impl Fn() -> bool) -> Result<()> {
        let mut news = self.news.clone();
        let wait = async {
            while !is_so() {
                news.changed().await?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .with_context(|| format!("{name} never gets so"))?
    }
}
