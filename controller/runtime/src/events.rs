//! Events about workloads: repeated ones are counted, and recording never blocks.

mod correlate;
mod owner;

use std::sync::Arc;
use std::time::Duration;

use berth_workload::plan::Event;
use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{self, Failed};
use crate::metrics::Metrics;
use crate::object::EVENTS;
use correlate::{Correlator, Decision, Series};
pub use owner::Owner;

/// Records events. Cheap to clone; events that do not fit into its queue are dropped and counted.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Record>,
    metrics: Arc<Metrics>,
}

struct Record {
    regarding: Owner,
    event: Event,
}

/// Most events that wait in the queue.
const QUEUE: usize = 512;
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the queue is sent after `stop`.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The apiserver's limit for a message.
const LONGEST_MESSAGE: usize = 1024;

impl Recorder {
    /// A recorder, and the future that sends the recorded events until `stop`.
    ///
    /// `component` is the source that people see, `instance` this process.
    pub fn new(
        client: Client,
        component: &str,
        instance: &str,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, records) = mpsc::channel(QUEUE);
        let sender = Sender {
            client,
            component: component.to_owned(),
            instance: instance.to_owned(),
            metrics: metrics.clone(),
            correlator: Correlator::default(),
        };
        (Self { queue, metrics }, sender.run(records, stop))
    }

    /// Records an event about an object.
    pub fn record(&self, regarding: &Owner, event: &Event) {
        let record = Record {
            regarding: regarding.clone(),
            event: event.clone(),
        };
        if self.queue.try_send(record).is_err() {
            self.metrics.events_dropped.inc();
        }
    }
}

struct Sender {
    client: Client,
    component: String,
    instance: String,
    metrics: Arc<Metrics>,
    correlator: Correlator,
}

impl Sender {
    async fn run(mut self, mut records: mpsc::Receiver<Record>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                record = records.recv() => match record {
                    Some(record) => self.send(record).await,
                    None => return,
                }
            }
        }
        records.close();
        let rest = async {
            while let Some(record) = records.recv().await {
                self.send(record).await;
            }
        };
        // Events that take longer are lost, because the process must not wait for events.
        let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    }

    async fn send(
        &mut self,
        Record {
            regarding,
            mut event,
        }: Record,
    ) {
        truncate(&mut event.message);
        let decision = self
            .correlator
            .correlate(&regarding, &event, Instant::now());
        let sent = match &decision {
            Decision::Drop => {
                self.metrics.events_dropped.inc();
                return;
            }
            Decision::Create(series) => self.create(&regarding, &event, series).await,
            Decision::Count(series) => match self.count(&regarding, series).await {
                // The event has expired; events live for an hour.
                Err(failed) if failed.code == 404 => self.create(&regarding, &event, series).await,
                done => done,
            },
        };
        if let Err(failed) = sent {
            self.metrics.events_dropped.inc();
            let (kind, name) = (regarding.resource.kind, regarding.name);
            tracing::warn!(kind, name, reason = event.reason, error = %failed, "cannot record an event");
        }
    }

    async fn create(
        &self,
        regarding: &Owner,
        event: &Event,
        series: &Series,
    ) -> Result<(), Failed> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let namespace = namespace(regarding);
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": series.name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": regarding.resource.api_version(), "kind": regarding.resource.kind,
                "namespace": regarding.namespace, "name": regarding.name, "uid": regarding.uid,
            },
            "type": if event.warning { "Warning" } else { "Normal" },
            "reason": event.reason, "message": series.message, "count": series.count,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self.component},
            "reportingComponent": self.component, "reportingInstance": self.instance,
        });
        self.request(
            Method::POST,
            &EVENTS.collection(namespace)?,
            "application/json",
            &body,
        )
        .await
    }

    async fn count(&self, regarding: &Owner, series: &Series) -> Result<(), Failed> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let body = json!({"count": series.count, "message": series.message, "lastTimestamp": now});
        let path = EVENTS.path(namespace(regarding), &series.name)?;
        self.request(Method::PATCH, &path, "application/merge-patch+json", &body)
            .await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<(), Failed> {
        let request = client::request(method, path, content, body.to_string().into_bytes())?;
        client::send(&self.client, request, Instant::now() + TIMEOUT)
            .await
            .map(|_| ())
    }
}

/// Events about cluster-scoped objects live in `default`.
fn namespace(regarding: &Owner) -> &str {
    if regarding.namespace.is_empty() {
        "default"
    } else {
        &regarding.namespace
    }
}

fn truncate(message: &mut String) {
    if message.len() > LONGEST_MESSAGE {
        let end = message.floor_char_boundary(LONGEST_MESSAGE - '…'.len_utf8());
        message.truncate(end);
        message.push('…');
    }
}
