//! The node's own NodeImage: its watch, and the writes of its status.

use std::time::Duration;

use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::NodeImageStatus;
use futures::StreamExt;
use kube::api::{Api, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

/// The pause after the first failure to watch; it doubles up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// A watch is ended by the apiserver after this many seconds.
const WATCH_SECONDS: u32 = 290;
/// A watch without any event for longer has lost its connection.
const WATCH_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);
/// How long the apiserver may take for any other answer.
const ANSWER: Duration = Duration::from_secs(30);

/// An error of the apiserver's.
#[derive(Debug, thiserror::Error)]
pub enum NodeImageError {
    /// The error of the apiserver or of the connection to it.
    #[error("{0}")]
    Kube(#[from] kube::Error),
    /// The apiserver did not answer.
    #[error("no answer within {} s", ANSWER.as_secs())]
    Silent,
    /// The status is not JSON. Cannot happen.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

/// Sends the NodeImage `name` and each of its changes; `None` while there is none. Retries for
/// ever; ends when the receiver is closed.
pub async fn watch(
    api: Api<NodeImage>,
    name: String,
    sender: mpsc::Sender<Option<Box<NodeImage>>>,
) {
    let mut retry = RETRY;
    while !sender.is_closed() {
        let begun = Instant::now();
        match list_and_watch(&api, &name, &sender, &mut retry).await {
            // A watch usually lasts. Pause after one that does not, otherwise it would begin again
            // at once, over and over.
            Ok(()) if begun.elapsed() < RETRY => tokio::time::sleep(RETRY).await,
            Ok(()) => {}
            Err(error) => {
                warn!(node = name, %error, "the NodeImage cannot be watched");
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Sends the NodeImage `name` and its changes until the watch ends or the receiver is closed.
/// Resets `retry` when the apiserver answers the list.
async fn list_and_watch(
    api: &Api<NodeImage>,
    name: &str,
    sender: &mpsc::Sender<Option<Box<NodeImage>>>,
    retry: &mut Duration,
) -> Result<(), NodeImageError> {
    let selector = format!("metadata.name={name}");
    let list = in_time(api.list(&ListParams::default().fields(&selector))).await?;
    let version = list.metadata.resource_version.unwrap_or_default();
    if sender
        .send(list.items.into_iter().next().map(Box::new))
        .await
        .is_err()
    {
        return Ok(());
    }
    *retry = RETRY;
    let params = WatchParams::default()
        .fields(&selector)
        .timeout(WATCH_SECONDS);
    let stream = in_time(api.watch(&params, &version)).await?;
    tokio::pin!(stream);
    loop {
        let news = match tokio::time::timeout(WATCH_SILENCE, stream.next()).await {
            Err(_) | Ok(None) => return Ok(()),
            Ok(Some(event)) => match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => Some(Box::new(object)),
                WatchEvent::Deleted(_) => None,
                WatchEvent::Bookmark(_) => continue,
                // Usually the version is too old: list again.
                WatchEvent::Error(error) => {
                    debug!(node = name, %error, "the watch over the NodeImage ended");
                    return Ok(());
                }
            },
        };
        if sender.send(news).await.is_err() {
            return Ok(());
        }
    }
}

/// Replaces the status of the NodeImage `name`, if it still is the object with `uid`. Returns the
/// resourceVersion that the object has now.
///
/// # Errors
/// The apiserver's error.
pub async fn write_status(
    api: &Api<NodeImage>,
    name: &str,
    uid: &str,
    status: &NodeImageStatus,
) -> Result<String, NodeImageError> {
    // The daemon owns all of the status, so it replaces all of it. So there is no conflict with the
    // spec's writer, and no keys of an older status stay.
    let patch = serde_json::from_value(serde_json::json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "add", "path": "/status", "value": status},
    ]))?;
    let written =
        in_time(api.patch_status(name, &PatchParams::default(), &Patch::<()>::Json(patch))).await?;
    Ok(written.metadata.resource_version.unwrap_or_default())
}

/// The result of a call to the apiserver, or an error after [`ANSWER`].
async fn in_time<T>(
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, NodeImageError> {
    match tokio::time::timeout(ANSWER, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(NodeImageError::Silent),
    }
}
