//! Records the server's state over time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use berth_api::v1beta1::NodeImage;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::record::{Change, Moment, PodView, Record};

/// A running record. It ends when this value is dropped.
pub struct PodWatch {
    shared: Arc<Shared>,
    changed: watch::Receiver<()>,
    task: JoinHandle<()>,
}

struct Shared {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    record: Record,
    /// The present pods, by uid.
    now: BTreeMap<String, PodView>,
    /// The reason why the record has a gap.
    broken: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl PodWatch {
    /// Begins to record the pods with these labels (`app=web`). Times count from `began`.
    ///
    /// # Errors
    /// When the pods cannot be listed.
    pub async fn start(
        client: &Client,
        namespace: &str,
        labels: &str,
        began: Instant,
    ) -> Result<PodWatch> {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let list = api
            .list(&ListParams::default().labels(labels))
            .await
            .context("cannot list pods")?;
        let pods: Vec<PodView> = list.items.iter().map(PodView::of).collect();
        let now = pods
            .iter()
            .map(|pod| (pod.uid.clone(), pod.clone()))
            .collect();
        let state = State {
            record: Record::starting_with(pods),
            now,
            broken: None,
        };
        let shared = Arc::new(Shared {
            began,
            state: Mutex::new(state),
        });
        let (announce, changed) = watch::channel(());
        let version = list.metadata.resource_version.unwrap_or_default();
        let labels = labels.to_owned();
        let sink = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let store = |pod: Pod, gone: bool| {
                let view = PodView::of(&pod);
                let mut state = sink.state();
                let change = if gone {
                    state.now.remove(&view.uid);
                    Change::Gone(view.uid)
                } else {
                    state.now.insert(view.uid.clone(), view.clone());
                    Change::Is(view)
                };
                // Taken under the lock, so that times never go back.
                let at = sink.began.elapsed();
                state.record.push(at, change);
                drop(state);
                announce.send_replace(());
            };
            if let Err(error) = follow(&api, &labels, version, store).await {
                sink.state().broken = Some(format!("{error:#}"));
                announce.send_replace(());
            }
        });
        Ok(PodWatch {
            shared,
            changed,
            task,
        })
    }

    /// When the record began.
    pub fn began(&self) -> Instant {
        self.shared.began
    }

    /// The record so far.
    ///
    /// # Errors
    /// When the watch had a gap: then the record proves nothing.
    pub fn record(&self) -> Result<Record> {
        self.whole(|state| state.record.clone())
    }

    /// The present pods.
    ///
    /// # Errors
    /// When the watch had a gap.
    pub fn pods(&self) -> Result<Vec<PodView>> {
        self.whole(|state| state.now.values().cloned().collect())
    }

    fn whole<T>(&self, read: impl FnOnce(&State) -> T) -> Result<T> {
        let state = self.shared.state();
        match &state.broken {
            Some(why) => bail!("the record of pods is not whole: {why}"),
            None => Ok(read(&state)),
        }
    }

    /// Waits until the pods are as `as_wanted` requires, and returns that time.
    ///
    /// # Errors
    /// When the watch had a gap, and when the pods are not so within `patience`; the error
    /// describes them.
    pub async fn until(
        &self,
        what: &str,
        patience: Duration,
        as_wanted: impl Fn(&Moment<'_>) -> bool,
    ) -> Result<Duration> {
        let mut changed = self.changed.clone();
        let wait = async {
            loop {
                changed.borrow_and_update();
                let found = self.whole(|state| {
                    let last = state.record.last();
                    as_wanted(&last).then_some(last.at)
                })?;
                if let Some(at) = found {
                    return anyhow::Ok(at);
                }
                changed.changed().await.context("the watch of pods ended")?;
            }
        };
        match tokio::time::timeout(patience, wait).await {
            Ok(found) => found,
            Err(_) => bail!(
                "timed out after {patience:?} until {what}: {}",
                self.record()?.last().describe()
            ),
        }
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Every version of the NodeImages that the server shows, in its order. It ends when this value is
/// dropped.
pub struct NodeImageWatch {
    seen: Arc<Mutex<Result<Vec<NodeImage>, String>>>,
    task: JoinHandle<()>,
}

impl NodeImageWatch {
    /// Begins with the present versions.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn start(client: &Client) -> Result<NodeImageWatch> {
        let api: Api<NodeImage> = Api::all(client.clone());
        let list = api
            .list(&ListParams::default())
            .await
            .context("cannot list NodeImages")?;
        let seen = Arc::new(Mutex::new(Ok(list.items)));
        let version = list.metadata.resource_version.unwrap_or_default();
        let sink = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let seen = || sink.lock();
            let store = |image: NodeImage, _: bool| {
                if let Ok(versions) = seen().as_mut() {
                    versions.push(image);
                }
            };
            if let Err(error) = follow(&api, "", version, store).await {
                *seen() = Err(format!("{error:#}"));
            }
        });
        Ok(NodeImageWatch { seen, task })
    }

    /// The versions so far.
    ///
    /// # Errors
    /// When the watch had a gap.
    pub fn seen(&self) -> Result<Vec<NodeImage>> {
        let seen = self.seen.lock().clone();
        seen.map_err(|why| anyhow!("the record of NodeImages is not whole: {why}"))
    }
}

impl Drop for NodeImageWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The IPs that the EndpointSlices of a service mark as ready, as a client's watch shows them. It
/// ends when this value is dropped.
pub struct ReadyIps {
    ready: Arc<Mutex<BTreeMap<String, EndpointSlice>>>,
    task: JoinHandle<()>,
}

impl ReadyIps {
    /// Begins to follow the EndpointSlices of a service.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn start(client: &Client, namespace: &str, service: &str) -> Result<ReadyIps> {
        let api: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
        let labels = format!("kubernetes.io/service-name={service}");
        let list = api
            .list(&ListParams::default().labels(&labels))
            .await
            .context("cannot list EndpointSlices")?;
        let name = |slice: &EndpointSlice| slice.metadata.name.clone().unwrap_or_default();
        let slices: BTreeMap<_, _> = list
            .items
            .into_iter()
            .map(|slice| (name(&slice), slice))
            .collect();
        let ready = Arc::new(Mutex::new(slices));
        let version = list.metadata.resource_version.unwrap_or_default();
        let sink = Arc::clone(&ready);
        let task = tokio::spawn(async move {
            let store = |slice: EndpointSlice, gone: bool| {
                let mut slices = sink.lock();
                match gone {
                    true => slices.remove(&name(&slice)),
                    false => slices.insert(name(&slice), slice),
                };
            };
            if follow(&api, &labels, version, store).await.is_err() {
                // No address counts as ready any more, because requests must not be judged by an
                // outdated state.
                sink.lock().clear();
            }
        });
        Ok(ReadyIps { ready, task })
    }

    /// The IPs that are ready now.
    pub fn now(&self) -> Vec<String> {
        let slices = self.ready.lock();
        slices.values().flat_map(ready_ips).collect()
    }
}

impl Drop for ReadyIps {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Kubernetes' rule: an endpoint without the field `ready` is ready.
fn ready_ips(slice: &EndpointSlice) -> impl Iterator<Item = String> {
    let ready = slice
        .endpoints
        .iter()
        .filter(|e| e.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true));
    ready.flat_map(|endpoint| endpoint.addresses.clone())
}

/// Hands every change after `version` to `store`, with whether the object is gone, without a gap,
/// until the server reports a gap. A watch that ends continues from its last version.
///
/// # Errors
/// When the server does not know the version any more: the changes since then are lost.
pub async fn follow<K>(
    api: &Api<K>,
    labels: &str,
    mut version: String,
    mut store: impl FnMut(K, bool),
) -> Result<()>
where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let params = WatchParams::default().labels(labels).timeout(290);
    loop {
        let mut events = match api.watch(&params, &version).await {
            Ok(events) => events.boxed(),
            // Any other error requests the same version again, so that nothing is missed.
            Err(kube::Error::Api(status)) if status.code == 410 => {
                bail!("version {version} is gone")
            }
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while let Ok(Some(event)) = events.try_next().await {
            let (object, gone) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) if status.code == 410 => {
                    bail!("version {version} is gone")
                }
                WatchEvent::Error(_) => break,
            };
            if let Some(seen) = object.meta().resource_version.clone() {
                version = seen;
            }
            store(object, gone);
        }
    }
}
