//! The kubelets of all nodes as one process: one watch, one queue, a bounded number of writes at
//! once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use berth_api::v1beta1::nodeimage::StopContainer;
use berth_runtime::driver::{Driver, Next};
use berth_runtime::election::Leadership;
use berth_runtime::handover::Handover;
use berth_runtime::metrics::Metrics;
use berth_runtime::object::{NODE_IMAGES, PODS};
use berth_runtime::queue::{Backoff, Queue};
use berth_runtime::{CancellationToken, Change, Key, Object, Store, feed};
use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kubelet::{self, Action, Habits};
use crate::nodeimage::{self, Held};
use crate::nodes;
use crate::pod::Pod;

/// The settings of the simulation.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many further nodes there are, that get no pods.
    pub idle_nodes: usize,
    /// The settings of their kubelets.
    pub habits: Habits,
    /// How many of them, the first, are slow.
    pub slow_nodes: usize,
    /// How long a container takes to start on a slow node.
    pub slow_start_delay: Duration,
    /// Whether NodeImages get reports, as from the nodes' daemons.
    pub node_images: bool,
    /// How often each node renews its lease; never without it.
    pub heartbeat: Option<Duration>,
    /// Writes at once.
    pub parallel: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 10,
            idle_nodes: 0,
            habits: Habits::default(),
            slow_nodes: 0,
            slow_start_delay: Duration::from_secs(5),
            node_images: false,
            heartbeat: None,
            parallel: 32,
        }
    }
}

/// Simulates until `stop`.
///
/// # Errors
/// The nodes cannot be created. All other failures are tried again.
pub async fn run(client: Client, options: Options, stop: CancellationToken) -> Result<()> {
    let nodes = options.nodes + options.idle_nodes;
    nodes::make(&client, 0..nodes, &now()).await?;
    let kubelets = Arc::new(Kubelets {
        slow: Habits {
            start_delay: options.slow_start_delay,
            ..options.habits.clone()
        },
        pods: Store::new(&[]),
        images: Store::new(&[]),
        seen: Mutex::default(),
        turn: AtomicUsize::new(0),
        client,
        options,
    });
    let metrics = Metrics::new(|_| {});
    let pods = kubelets.driver("pods", &kubelets.pods, &metrics);
    let gone = kubelets.clone();
    kubelets.pods.on_change(move |change| {
        if let Change::Deleted { old } = change {
            gone.seen().remove(&Key::of(&**old));
        }
    });
    let images = kubelets.driver("nodeimages", &kubelets.images, &metrics);
    if kubelets.options.node_images {
        // The daemon's report of a pod may have changed with it.
        let asked = images.queue.clone();
        kubelets.pods.on_change(move |change| {
            if let Change::Applied { new, .. } = change
                && !new.spec.node_name.is_empty()
            {
                asked.add(Key::new("", &new.spec.node_name));
            }
        });
    }
    tokio::spawn(feed::run(
        kubelets.client.clone(),
        kubelets.pods.clone(),
        feed::Options::default(),
        stop.clone(),
    ));
    if kubelets.options.node_images {
        tokio::spawn(feed::run(
            kubelets.client.clone(),
            kubelets.images.clone(),
            feed::Options::default(),
            stop.clone(),
        ));
    }
    let beats = async {
        match kubelets.options.heartbeat {
            Some(interval) => nodes::beat(&kubelets.client, nodes, interval).await,
            None => std::future::pending().await,
        }
    };
    let (of_pods, of_images) = (kubelets.clone(), kubelets.clone());
    let pod = move |key| {
        let kubelets = of_pods.clone();
        async move { kubelets.pod(key).await }
    };
    let image = move |key| {
        let kubelets = of_images.clone();
        async move { kubelets.image(key).await }
    };
    tokio::select! {
        () = pods.run(stop.clone(), pod) => {}
        () = images.run(stop.clone(), image) => {}
        () = beats => {}
    }
    Ok(())
}

struct Kubelets {
    client: Client,
    options: Options,
    slow: Habits,
    pods: Arc<Store<Pod>>,
    images: Arc<Store<Held>>,
    /// Since when the pods that wait have been in their state.
    seen: Mutex<HashMap<Key, Seen>>,
    /// The number of the node for the next pod.
    turn: AtomicUsize,
}

struct Seen {
    uid: Box<str>,
    generation: i64,
    since: Instant,
}

impl Kubelets {
    fn driver<T: Object>(
        &self,
        name: &'static str,
        store: &Store<T>,
        metrics: &Metrics,
    ) -> Driver<Key> {
        let queue = Queue::<Key>::new(Backoff::default(), metrics.queue(name));
        let to = queue.clone();
        store.on_change(move |change| {
            if let Change::Applied { new, .. } = change {
                to.add(Key::of(&**new));
            }
        });
        Driver {
            controller: name,
            queue,
            workers: self.options.parallel,
            leadership: Leadership::always(),
            handover: Handover::without_election(),
            stores: vec![store.sync_state()],
            metrics: metrics.driver(name, self.options.parallel),
        }
    }

    fn seen(&self) -> parking_lot::MutexGuard<'_, HashMap<Key, Seen>> {
        self.seen.lock()
    }

    fn habits(&self, node: &str) -> &Habits {
        let slow = nodes::number(node).is_some_and(|number| number < self.options.slow_nodes);
        if slow {
            &self.slow
        } else {
            &self.options.habits
        }
    }

    /// Handles a pod once.
    async fn pod(&self, key: Key) -> Next {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            return Next::Done;
        };
        let seen = self
            .seen()
            .get(&key)
            .filter(|seen| seen.is_of(&pod))
            .map(|seen| seen.since);
        let age = seen.map(|since| since.elapsed()).unwrap_or_default();
        match kubelet::next(&pod, age, self.habits(&pod.spec.node_name), &now()) {
            Action::Wait(wait) => {
                let first = || Seen {
                    uid: pod.metadata.uid.clone(),
                    generation: pod.version(),
                    since: Instant::now(),
                };
                if seen.is_none() {
                    self.seen().insert(key, first());
                }
                Next::After(wait)
            }
            Action::Rest => {
                if seen.is_some() {
                    self.seen().remove(&key);
                }
                Next::Done
            }
            action => after(self.act(&pod, action).await),
        }
    }

    async fn act(&self, pod: &Pod, action: Action) -> kube::Result<()> {
        let (namespace, name) = (&*pod.metadata.namespace, &*pod.metadata.name);
        let path = PODS
            .path(namespace, name)
            .map_err(|error| kube::Error::Service(error.into()))?;
        match action {
            Action::Bind => {
                let next = || {
                    nodes::name(
                        self.turn.fetch_add(1, Ordering::Relaxed) % self.options.nodes.max(1),
                    )
                };
                let node = pod
                    .spec
                    .pinned_to
                    .as_deref()
                    .map_or_else(next, str::to_owned);
                let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
                let metadata =
                    json!({"name": name, "namespace": namespace, "uid": pod.metadata.uid});
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target});
                self.send::<Value>(Method::POST, &format!("{path}/binding"), JSON, &binding)
                    .await
                    .map(|_| ())
            }
            Action::Report(patch) => {
                let patched = self
                    .send(Method::PATCH, &format!("{path}/status"), STRATEGIC, &patch)
                    .await?;
                // So that no other change leads to the same report again.
                self.pods.apply(patched);
                Ok(())
            }
            Action::Remove => {
                let options =
                    json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}});
                self.send::<Value>(Method::DELETE, &path, JSON, &options)
                    .await
                    .map(|_| ())
            }
            Action::Rest | Action::Wait(_) => Ok(()),
        }
    }

    /// Handles a NodeImage once.
    async fn image(&self, key: Key) -> Next {
        let Some(held) = self.images.get("", &key.name) else {
            return Next::Done;
        };
        if !nodes::is_ours(&key.name) {
            return Next::Done;
        }
        let missing = &self.options.habits.missing_images;
        let asked = held.0.spec.inspect_pods.iter();
        let found =
            asked.filter_map(|asked| Some((asked, self.pods.get(&asked.namespace, &asked.name)?)));
        let pods: Vec<_> = found
            .filter(|(asked, pod)| *asked.uid == *pod.metadata.uid)
            .map(|(_, pod)| pod)
            .collect();
        let pods: Vec<_> = pods.iter().map(|pod| &**pod).collect();
        let before = held.0.status.clone().unwrap_or_default();
        let mut status = nodeimage::answer(&held.0, &pods, missing, &Time(Timestamp::now()))
            .unwrap_or_else(|| before.clone());
        let of = |stop: &StopContainer| self.pods.get(&stop.namespace, &stop.name);
        let (stopped, reports) = nodeimage::stopped(&held.0, of, &now());
        for (pod, report) in reports {
            if let Err(error) = self.act(&pod, Action::Report(report)).await {
                return after(Err(error));
            }
        }
        // Results of stops that are not requested any more are worth no write.
        if !stopped.is_empty() {
            status.stopped_containers = stopped;
        }
        if status == before {
            return Next::Done;
        }
        let patch =
            json!({"metadata": {"uid": held.uid()}, "status": replaced(&held.0.status, &status)});
        let Ok(path) = NODE_IMAGES.path("", &key.name) else {
            return Next::Done;
        };
        let path = format!("{path}/status");
        let patched: kube::Result<Held> = self.send(Method::PATCH, &path, MERGE, &patch).await;
        after(patched.map(|held| self.images.apply(held)))
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> kube::Result<T> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content);
        let request = request
            .body(body.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

impl Seen {
    fn is_of(&self, pod: &Pod) -> bool {
        self.uid == pod.metadata.uid && self.generation == pod.version()
    }
}

impl Pod {
    /// A number for the kubelet's next work: the generation, or less than any once the pod is being
    /// deleted.
    fn version(&self) -> i64 {
        if self.terminating() {
            -1
        } else {
            self.metadata.generation
        }
    }
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// An object that has changed or gone meanwhile is handled again when the watch shows it.
fn after(done: kube::Result<()>) -> Next {
    match done {
        Ok(()) => Next::Done,
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Next::Done,
        Err(error) => Next::Retry(error.to_string()),
    }
}

/// A status for a merge patch: images that it does not contain any more are set to null.
fn replaced(
    before: &Option<berth_api::v1beta1::nodeimage::NodeImageStatus>,
    status: &berth_api::v1beta1::nodeimage::NodeImageStatus,
) -> Value {
    let mut value = json!(status);
    let before = before
        .iter()
        .flat_map(|before| before.image_statuses.keys());
    for name in before.filter(|name| !status.image_statuses.contains_key(*name)) {
        value["imageStatuses"][name] = Value::Null;
    }
    if status.inspected_pods.is_empty() {
        value["inspectedPods"] = Value::Null;
    }
    value
}

/// The time in whole seconds, as Kubernetes writes it.
pub fn now() -> String {
    format!("{:.0}", Timestamp::now())
}
