//! The state of a view now and after each change, as Server-Sent Events.

use std::sync::Arc;
use std::time::Duration;

use berth_workload::objects::resource::{NODE_IMAGES, NODES, PODS, Resource};
use futures::stream::{BoxStream, select_all};
use futures::{FutureExt, Stream, StreamExt, stream};
use kube::Api;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::session::api_resource;

use super::read::State;
use super::routes::{View, WORKLOADS};
use super::views;

/// The time after which the state is read again without a change, because plans depend on time.
const IDLE: Duration = Duration::from_secs(5);
/// The longest silence, after which a comment shows that the stream lives.
const SILENCE: Duration = Duration::from_secs(15);
/// The longest stream. The page then opens another one.
const LONGEST: Duration = Duration::from_secs(600);

struct Watch {
    state: Arc<State>,
    view: View,
    changes: BoxStream<'static, ()>,
    /// The last message.
    last: String,
    last_sent: Instant,
    /// When the state may be read next.
    next: Instant,
    end: Instant,
}

/// The messages of a view.
pub(super) fn stream(state: Arc<State>, view: View) -> impl Stream<Item = String> + Send + 'static {
    let now = Instant::now();
    let changes = changes(&state, &view);
    let watch = Watch {
        state,
        view,
        changes,
        last: String::new(),
        last_sent: now,
        next: now,
        end: now + LONGEST,
    };
    stream::unfold(watch, |mut watch| async move {
        let message = watch.next().await?;
        Some((message, watch))
    })
}

impl Watch {
    async fn next(&mut self) -> Option<String> {
        loop {
            if Instant::now() >= self.end {
                return None;
            }
            if !self.last.is_empty() {
                tokio::select! {
                    Some(()) = self.changes.next() => {}
                    () = sleep(IDLE) => {}
                }
            }
            sleep_until(self.next).await;
            while let Some(Some(())) = self.changes.next().now_or_never() {}
            let message = message(&self.state, &self.view).await;
            self.next = Instant::now() + pause(&self.view);
            if message != self.last {
                self.last.clone_from(&message);
                self.last_sent = Instant::now();
                return Some(message);
            }
            if self.last_sent.elapsed() >= SILENCE {
                self.last_sent = Instant::now();
                return Some(": nothing changed\n\n".to_owned());
            }
        }
    }
}

async fn message(state: &State, view: &View) -> String {
    match views::show(state, view).await {
        Ok(data) => format!("event: state\ndata: {data}\n\n"),
        Err(refused) => {
            let (status, error) = (refused.status.as_u16(), refused.sentence);
            let data = json!({"status": status, "error": error});
            format!("event: refused\ndata: {data}\n\n")
        }
    }
}

/// The shortest time between two reads: a list of many workloads is large.
fn pause(view: &View) -> Duration {
    match view {
        View::Workload(_) => Duration::from_millis(500),
        View::Workloads(_) | View::Nodes | View::Node(_) => Duration::from_secs(2),
    }
}

/// A stream with an item for each change of the objects of a view. Without the right to watch them,
/// the state is read every [`IDLE`].
fn changes(state: &State, view: &View) -> BoxStream<'static, ()> {
    let watched: Vec<(Resource, String, String)> = match view {
        View::Workloads(namespace) => {
            let namespace = namespace.as_ref().unwrap_or(&state.session.namespace);
            let of = |resource| (resource, namespace.clone(), String::new());
            WORKLOADS.into_iter().map(of).collect()
        }
        View::Workload(key) => {
            let own = (key.resource, key.namespace.clone(), key.name.clone());
            let pods = (PODS, key.namespace.clone(), String::new());
            let has_pods = key.resource.namespaced;
            std::iter::once(own)
                .chain(has_pods.then_some(pods))
                .collect()
        }
        View::Nodes | View::Node(_) => [NODES, NODE_IMAGES]
            .into_iter()
            .map(|resource| (resource, String::new(), String::new()))
            .collect(),
    };
    let streams = watched.into_iter().map(|(resource, namespace, name)| {
        let kind = api_resource(resource);
        let client = state.session.client.clone();
        let api: Api<PartialObjectMeta<DynamicObject>> =
            if resource.namespaced && !namespace.is_empty() {
                Api::namespaced_with(client, &namespace, &kind)
            } else {
                Api::all_with(client, &kind)
            };
        let mut config = watcher::Config::default();
        if !name.is_empty() {
            config = config.fields(&format!("metadata.name={name}"));
        }
        let events = watcher(api, config).default_backoff();
        events
            .filter_map(async |event| event.ok().map(|_| ()))
            .boxed()
    });
    select_all(streams).boxed()
}
