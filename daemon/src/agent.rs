//! The loop that connects decisions and adapters: it receives events, steps the state, begins and
//! ends pulls and looks, and writes the status when it differs.

mod clock;
mod jobs;
mod publish;
mod pulls;
mod stopping;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::{ImageFact, InspectedPod, NodeImageSpec, NodeImageStatus};
use kube::Api;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::containers::env::{self};
use crate::containers::stops::Stops;
use crate::metrics::Metrics;
use crate::nodeimage;
use crate::pulls::pull_secrets::PullSecrets;
use crate::runtime::{self, Runtime, RuntimeEvent, SocketChoice};
use crate::tasks::manifest::Bytes;
use crate::tasks::{Limits, Tasks};

use clock::now;
use jobs::Done;
use publish::Publisher;

/// The settings that the daemon starts with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The node's name, which is the NodeImage's.
    pub node_name: String,
    /// The node's address.
    pub node_ip: Option<IpAddr>,
    /// The runtime's socket.
    pub socket: SocketChoice,
    /// The source of pull secrets.
    pub secrets: Option<PullSecrets>,
    /// The bounds of pulls.
    pub limits: Limits,
    /// Seconds between two status writes that report only the progress of pulls.
    pub progress_interval: Duration,
}

/// The state of the loop.
struct Agent {
    settings: Settings,
    metrics: Arc<Metrics>,
    publisher: Publisher,
    node: Option<Box<NodeImage>>,
    runtime: Connection,
    tasks: Tasks,
    pulls: HashMap<u64, JoinHandle<()>>,
    inspection: Inspection,
    stops: Stops,
    /// Whether pods wait for an inspection or containers for a stop. The watch of the runtime reads
    /// it.
    waiting: watch::Sender<bool>,
    done: mpsc::Sender<Done>,
    progress: mpsc::Sender<(u64, Bytes)>,
}

/// A watch that ended although the daemon goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the watch of the {0} ended by itself: the process ends")]
pub struct WatchEnded(&'static str);

/// The state of the connection to the runtime.
enum Connection {
    Unknown,
    Ready(Arc<Runtime>),
    Lost(String),
}

#[derive(Default)]
struct Inspection {
    under_way: bool,
    /// Something changed since the running inspection began, or no inspection has begun yet.
    due: bool,
    pods: Vec<InspectedPod>,
    facts: Vec<ImageFact>,
    /// The ids of containers that are being stopped, or were stopped and have no successor yet.
    stopping: HashSet<String>,
}

/// Runs until the process must end. Running pulls are stopped then, and the next daemon takes them
/// up.
///
/// # Errors
/// A watch ended before that: without it the daemon would see nothing any more, and seem healthy.
pub async fn run(
    settings: Settings,
    api: Api<NodeImage>,
    metrics: Arc<Metrics>,
    end: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let (node_tell, mut nodes) = mpsc::channel(4);
    let (runtime_tell, mut runtimes) = mpsc::channel(64);
    let (done, mut dones) = mpsc::channel(64);
    let (progress, mut progresses) = mpsc::channel(64);
    let (waiting, waited) = watch::channel(false);
    let watches = [
        tokio::spawn(nodeimage::watch(
            api.clone(),
            settings.node_name.clone(),
            node_tell,
        )),
        tokio::spawn(runtime::watch(
            settings.socket.clone(),
            waited,
            runtime_tell,
        )),
    ];
    let mut agent = Agent {
        publisher: Publisher::new(api, settings.progress_interval),
        settings,
        metrics,
        node: None,
        runtime: Connection::Unknown,
        tasks: Tasks::default(),
        pulls: HashMap::new(),
        inspection: Inspection::default(),
        stops: Stops::default(),
        waiting,
        done,
        progress,
    };
    tokio::pin!(end);
    let mut wake = None;
    let ended = loop {
        tokio::select! {
            () = &mut end => break Ok(()),
            node = nodes.recv() => match node {
                Some(node) => agent.on_node(node),
                None => break Err(WatchEnded("NodeImage")),
            },
            event = runtimes.recv() => match event {
                Some(event) => agent.on_runtime(event),
                None => break Err(WatchEnded("container runtime")),
            },
            Some(done) = dones.recv() => agent.on_done(done),
            Some((attempt, bytes)) = progresses.recv() => agent.tasks.progressed(attempt, bytes, now()),
            () = sleep_until(wake) => {}
        }
        agent.take_along(&mut runtimes, &mut dones);
        wake = agent.step();
    };
    agent.forget();
    for watch in watches {
        watch.abort();
    }
    info!("the daemon ends");
    ended
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Agent {
    /// Takes all further events, so that a burst costs one step and one write.
    fn take_along(
        &mut self,
        runtimes: &mut mpsc::Receiver<RuntimeEvent>,
        dones: &mut mpsc::Receiver<Done>,
    ) {
        while let Ok(event) = runtimes.try_recv() {
            self.on_runtime(event);
        }
        while let Ok(done) = dones.try_recv() {
            self.on_done(done);
        }
    }

    fn on_node(&mut self, node: Option<Box<NodeImage>>) {
        self.metrics.watching.store(true, Ordering::Relaxed);
        let uid = |n: &Option<Box<NodeImage>>| n.as_ref().and_then(|n| n.metadata.uid.clone());
        if uid(&self.node) != uid(&node) {
            // Another object with the same name, the first one, or none.
            info!(
                node = self.settings.node_name,
                found = node.is_some(),
                "the NodeImage changed"
            );
            self.forget();
            self.publisher.reset();
            self.stops.forget();
            let answers = node.iter().filter_map(|node| node.status.as_ref());
            answers.for_each(|status| self.stops.take_over(&status.stopped_containers, now()));
        }
        if let Some(node) = &node {
            self.publisher.observed(node);
        }
        let pods = |n: &Option<Box<NodeImage>>| {
            n.as_ref()
                .map(|n| n.spec.inspect_pods.clone())
                .unwrap_or_default()
        };
        let wanted = pods(&node);
        self.inspection.due |= wanted != pods(&self.node);
        let stops = node
            .as_ref()
            .map(|node| node.spec.stop_containers.as_slice())
            .unwrap_or_default();
        self.stops.drop_others(stops);
        self.stops.changed();
        let waits = !wanted.is_empty() || self.stops.are_open(stops);
        self.waiting
            .send_if_modified(|waiting| std::mem::replace(waiting, waits) != waits);
        self.node = node;
    }

    fn on_runtime(&mut self, event: RuntimeEvent) {
        match event {
            RuntimeEvent::Ready(runtime) => {
                self.runtime = Connection::Ready(runtime);
                self.tasks.images_changed(now());
                self.inspection.due = true;
                self.stops.changed();
            }
            RuntimeEvent::Lost(why) => self.runtime = Connection::Lost(why),
            RuntimeEvent::Images => {
                self.tasks.images_changed(now());
                self.inspection.due = true;
            }
            RuntimeEvent::Containers => {
                self.inspection.due = true;
                self.stops.changed();
            }
        }
        self.metrics
            .runtime_ready
            .set(i64::from(matches!(self.runtime, Connection::Ready(_))));
    }

    fn on_done(&mut self, done: Done) {
        match done {
            Done::Looked(key, Ok(found)) => self.tasks.looked(&key, found, now()),
            Done::Looked(key, Err(error)) => {
                debug!(image = key.reference(), %error, "the node could not be asked for an image");
                self.tasks.not_looked(&key, now());
                // The connection shows whether the image or the runtime caused it; a refused name
                // fails in its pull.
                if matches!(error, crate::runtime::cri::CriError::Refused(_)) {
                    self.tasks.looked(&key, None, now());
                }
            }
            Done::Ended(attempt, outcome) => {
                if self.pulls.remove(&attempt).is_some() {
                    self.count(attempt, &outcome);
                    self.tasks.ended(attempt, outcome, now());
                }
            }
            Done::Inspected(answer) => {
                self.inspection.under_way = false;
                match answer {
                    Ok(found) => {
                        let newest = found.pods.iter().flat_map(|pod| &pod.containers);
                        let newest: HashSet<&str> = newest.map(env::id).collect();
                        self.inspection
                            .stopping
                            .retain(|id| newest.contains(id.as_str()));
                        (self.inspection.pods, self.inspection.facts) = (found.pods, found.facts);
                        self.stop(found.stop);
                    }
                    // The next event, or the poll while a pod or a stop waits, looks again.
                    Err(error) => warn!(%error, "containers could not be inspected"),
                }
            }
            Done::StopDue(stop) => self.stop_if_still_requested(stop),
            Done::Stopped(id, result) => {
                self.inspection.due = true;
                if let Err(error) = result {
                    self.inspection.stopping.remove(&id);
                    warn!(id, %error, "a container could not be stopped");
                }
            }
            Done::Seen(seen) => self.on_seen(seen),
            Done::Halted(begin, hook, result) => {
                match &result {
                    Ok(()) => info!(
                        container = begin.what,
                        id = begin.id,
                        "stopped, to be created anew"
                    ),
                    Err(error) => {
                        warn!(container = begin.what, id = begin.id, %error, "a container could not be stopped")
                    }
                }
                self.stops
                    .over(&begin, hook.as_deref(), result.as_ref().copied(), now());
            }
            Done::Written(result) => {
                self.publisher
                    .written(result, self.node.as_deref(), &self.metrics)
            }
        }
    }

    /// Starts the work that is due and returns when the next step is due.
    fn step(&mut self) -> Option<Instant> {
        let node = self.node.take()?;
        let runtime = match &self.runtime {
            Connection::Ready(runtime) => Some(runtime.clone()),
            _ => None,
        };
        let (previous, at) = (self.publisher.known().clone(), now().steady);
        let plan = self.tasks.step(
            &node.spec,
            &previous,
            runtime.is_some(),
            self.settings.limits,
            now(),
        );
        let wake = plan.wake_at;
        if let Some(runtime) = &runtime {
            self.act(plan, &node.spec, runtime);
            self.inspect(&node.spec, runtime);
            if self.stops.looks(&node.spec.stop_containers, at) {
                tokio::spawn(jobs::see(runtime.clone(), self.done.clone()));
            }
        } else {
            self.cancel(&plan.cancel);
        }
        if node.spec.inspect_pods.is_empty() {
            (self.inspection.pods, self.inspection.facts) = (Vec::new(), Vec::new());
        }
        self.metrics
            .running
            .set(i64::try_from(self.pulls.len()).unwrap_or(i64::MAX));
        let status = self.report(&node.spec, &previous);
        let stops = self.stops.wake(&node.spec.stop_containers, at);
        let publish = status.and_then(|status| self.publisher.publish(&node, status, &self.done));
        self.node = Some(node);
        [wake, publish, stops].into_iter().flatten().min()
    }

    /// The wanted status. `None` as long as the state of the runtime is not known.
    fn report(&self, spec: &NodeImageSpec, previous: &NodeImageStatus) -> Option<NodeImageStatus> {
        let (ready, message) = match &self.runtime {
            Connection::Unknown => return None,
            Connection::Ready(runtime) => (
                true,
                format!("{} {}", runtime.cri.name(), runtime.cri.version()),
            ),
            Connection::Lost(why) => (false, why.clone()),
        };
        Some(NodeImageStatus {
            conditions: vec![publish::runtime_condition(
                &previous.conditions,
                ready,
                message,
                now().time,
            )],
            inspected_pods: self.inspection.pods.clone(),
            image_facts: self.inspection.facts.clone(),
            stopped_containers: self.stops.answers(&spec.stop_containers, now().steady),
            ..self.tasks.status()
        })
    }

    fn forget(&mut self) {
        let all: Vec<u64> = self.pulls.keys().copied().collect();
        self.cancel(&all);
        self.tasks.clear();
        let stopping = std::mem::take(&mut self.inspection.stopping);
        self.inspection = Inspection {
            under_way: self.inspection.under_way,
            due: true,
            stopping,
            ..Inspection::default()
        };
    }
}
