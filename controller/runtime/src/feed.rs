//! Keeps a store equal to the apiserver's objects: a list, then a watch, for any slim type.
//!
//! If the server streams lists, both are one request and no page is ever in memory. A broken
//! connection resumes at its last version. If the server no longer knows that version, the feed
//! lists everything again, and the store deletes objects that the list does not show. The feed also
//! lists again if its version is newer than the server's, because the server's history went
//! backwards ([`history`]).

mod history;
mod limits;
mod lines;
mod list;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use berth_api::weight::DEFAULT_MAX_BYTES;
use http::{Method, Request};
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{self, Failed};
use crate::metrics::FeedMetrics;
use crate::object::{Object, Resource};
use crate::store::event::Odd;
use crate::store::{Store, is_before, reaches};
use limits::limits;

/// The objects that a feed follows, and how.
#[derive(Clone)]
pub struct Options<T> {
    /// The kind of the objects, if the type can be read from several kinds.
    pub resource: Resource,
    /// One namespace; empty for all.
    pub namespace: String,
    /// Label selector; empty for everything.
    pub labels: String,
    /// Field selector; empty for everything.
    pub fields: String,
    /// Objects for which this is false are not stored; a stored object for which it becomes false
    /// is deleted from the store.
    pub keep: fn(&T) -> bool,
    /// Objects per page of a list, if the server has no streaming lists.
    pub page: u32,
    /// Whether to try a streaming list first.
    pub streaming: bool,
    /// How long a watch may be silent before the feed ends it. The apiserver sends a bookmark about
    /// every minute.
    pub idle: Duration,
    /// The most bytes of the spec of an object of Berth's kinds; a larger one counts as unreadable.
    pub object_max_bytes: usize,
    /// A hook for unreadable objects. The store keeps an earlier version of such an object, if it
    /// had one.
    pub odd: Option<OddHook>,
    /// From [`crate::metrics::Metrics::feed`].
    pub metrics: FeedMetrics,
}

/// Called for an object that cannot be decoded; must be quick and must not block.
pub type OddHook = Arc<dyn Fn(&Odd) + Send + Sync>;

impl<T: Object> Default for Options<T> {
    fn default() -> Self {
        Self {
            resource: T::RESOURCE,
            namespace: String::new(),
            labels: String::new(),
            fields: String::new(),
            keep: |_| true,
            page: 500,
            streaming: true,
            idle: Duration::from_secs(150),
            object_max_bytes: DEFAULT_MAX_BYTES,
            odd: None,
            metrics: FeedMetrics::default(),
        }
    }
}

/// Follows until `stop`. Errors are logged and retried forever; [`Store::sync_state`] says whether
/// the store is complete.
pub async fn run<T: Object>(
    client: Client,
    store: Arc<Store<T>>,
    options: Options<T>,
    stop: CancellationToken,
) {
    store.set_limits(limits(&options.resource, options.object_max_bytes));
    let mut feed = Feed::new(client, store, options);
    tokio::select! {
        () = stop.cancelled() => {}
        () = feed.follow() => {}
    }
}

/// Lists once into the store, without a watch, for commands that read once and end.
///
/// # Errors
/// The server's answer, or a failure of the connection.
pub async fn load<T: Object>(
    client: Client,
    store: Arc<Store<T>>,
    options: Options<T>,
) -> Result<(), Failed> {
    store.set_limits(limits(&options.resource, options.object_max_bytes));
    let plural = options.resource.plural;
    let mut feed = Feed::new(
        client,
        store,
        Options {
            streaming: false,
            ..options
        },
    );
    match feed.list().await {
        Ok(_) => Ok(()),
        Err(End::Failed(failed)) if failed.code == 404 => {
            feed.store.set_missing();
            Ok(())
        }
        Err(End::Failed(failed)) => Err(failed),
        Err(end) => Err(Failed {
            message: format!("the list of {plural} ended: {end:?}"),
            ..Failed::default()
        }),
    }
}

struct Feed<T> {
    client: Client,
    store: Arc<Store<T>>,
    options: Options<T>,
    streaming: bool,
    /// Accept the next list even if it has older versions than the store, because the server's
    /// history went backwards.
    force: bool,
    /// Whether anything was received since the last failure.
    progress: bool,
    /// How many times in a row the server said that it does not know the kind.
    unknown: u32,
    /// Whether a watch was cut short, so that the server of the next watch may have another
    /// history.
    doubt: bool,
    /// When the server is to end the watch, and not earlier.
    watch_ends: Option<Instant>,
}

/// Why a list or watch ended.
#[derive(Debug)]
enum End {
    /// The server closed it, as it does every few minutes.
    Closed,
    /// The server does not know the version to continue from: list again.
    Expired,
    /// The server does not stream lists.
    NotStreaming,
    /// Try again.
    Failed(Failed),
}

impl From<Failed> for End {
    fn from(failed: Failed) -> Self {
        let too_new = failed.message.contains("Too large resource version");
        if failed.code == 410 || too_new {
            Self::Expired
        } else {
            Self::Failed(failed)
        }
    }
}

impl<T: Object> Feed<T> {
    fn new(client: Client, store: Arc<Store<T>>, options: Options<T>) -> Self {
        let streaming = options.streaming;
        Self {
            client,
            store,
            options,
            streaming,
            force: false,
            progress: false,
            unknown: 0,
            doubt: false,
            watch_ends: None,
        }
    }

    async fn follow(&mut self) {
        let kind = self.options.resource.kind;
        let mut position: Option<String> = None;
        let mut failures = 0;
        loop {
            let started = Instant::now();
            let end = self.once(&mut position).await;
            if std::mem::take(&mut self.progress) {
                failures = 0;
                self.unknown = 0;
            }
            self.doubt |= self.is_cut_short(&end);
            match end {
                End::Closed if started.elapsed() >= MIN_WATCH => continue,
                End::Closed => failures += 1,
                End::Expired => {
                    tracing::info!(
                        kind,
                        ?position,
                        "the server forgot this version, listing again"
                    );
                    position = None;
                    failures += 1;
                }
                End::NotStreaming => {
                    tracing::info!(kind, "no streaming list from this server, using pages");
                    self.streaming = false;
                    continue;
                }
                End::Failed(failed) if failed.code == 404 => {
                    failures += 1;
                    position = None;
                    self.not_served(&failed);
                }
                End::Failed(failed) => {
                    failures += 1;
                    let (wait, remedy) = (pause(failures), remedy(failed.code));
                    tracing::warn!(kind, error = %failed, code = failed.code, failures, ?wait, remedy, "feed interrupted");
                    if let Some(wait) = failed.retry_after {
                        tokio::time::sleep(wait).await;
                    }
                }
            }
            tokio::time::sleep(jittered(pause(failures))).await;
        }
    }

    /// The kind is not served: its CustomResourceDefinition is not installed, or not yet. One such
    /// answer may come from a server that is starting. From the second one on the kind counts as
    /// missing, and the feed waits for it.
    fn not_served(&mut self, failed: &Failed) {
        self.unknown += 1;
        if self.unknown != NOT_SERVED_AFTER {
            return;
        }
        let Resource {
            kind,
            plural,
            group,
            ..
        } = self.options.resource;
        let crd = format!("{plural}.{group}");
        tracing::warn!(kind, crd, error = %failed, "the server does not know this kind: nothing is done for it until its \
                       definition is installed");
        self.options.metrics.missing.set(1);
        self.store.set_missing();
    }

    async fn once(&mut self, position: &mut Option<String>) -> End {
        if position.is_none() && !self.streaming {
            match self.list().await {
                Ok(version) => *position = Some(version),
                Err(end) => return end,
            }
        }
        if let Err(end) = self.look_back(position.as_deref()).await {
            return end;
        }
        self.watch(position).await
    }

    /// Handles the end of a list at this version.
    fn listed(&mut self, version: &str) -> bool {
        let before = self.store.position();
        self.progress = true;
        self.options.metrics.lists.inc();
        let kind = self.options.resource.kind;
        if self.store.is_missing() {
            tracing::info!(kind, "the kind is served now");
        }
        self.options.metrics.missing.set(0);
        let contradicted = self.store.end_list(version);
        tracing::debug!(kind, objects = self.store.len(), version, "listed");
        let went_back = contradicted || before.is_some_and(|before| is_before(version, &before));
        if went_back && !self.force {
            tracing::warn!(kind, version, "{WENT_BACK}");
            self.force = true;
            return false;
        }
        (self.force, self.doubt) = (false, false);
        true
    }

    fn take(&self, object: T) {
        if (self.options.keep)(&object) {
            self.store.apply(object);
        } else {
            self.remove(
                (object.namespace(), object.name()),
                None,
                object.resource_version(),
            );
        }
    }

    /// Removes an object that was deleted in this version.
    fn remove(&self, (namespace, name): (&str, &str), uid: Option<&str>, version: &str) {
        // Noted first, because no decision may see the object gone before the deletion is noted.
        self.store.note_deletion(version);
        self.store.remove(namespace, name, uid);
    }

    /// Handles an unreadable object. The store keeps its earlier version, no decision uses it, and
    /// other objects are not affected.
    fn odd(&self, odd: &Odd) {
        let (
            kind,
            Odd {
                namespace,
                name,
                uid,
                error,
                ..
            },
        ) = (self.options.resource.kind, odd);
        tracing::error!(
            kind,
            namespace,
            name,
            error,
            "cannot decode an object, skipped"
        );
        if name.is_empty() {
            return;
        }
        if odd.gone {
            self.remove(
                (namespace, name),
                Some(uid.as_str()).filter(|uid| !uid.is_empty()),
                &odd.version,
            );
            return;
        }
        self.store.apply_unreadable(odd.clone());
        if let Some(hook) = &self.options.odd {
            hook(odd);
        }
    }

    /// A request for the objects that the options select.
    fn request(&self, parameters: &[(&str, &str)]) -> Result<Request<Vec<u8>>, Failed> {
        let selectors = [
            ("labelSelector", &*self.options.labels),
            ("fieldSelector", &*self.options.fields),
        ];
        let parameters = [&selectors[..], parameters].concat();
        let path = self
            .options
            .resource
            .list(&self.options.namespace, &parameters)?;
        client::request(Method::GET, &path, "", Vec::new())
    }
}

/// Whether a watch that resumes at `position` reports this version again. An object that is gone by
/// now would come back with it.
fn is_reported(position: Option<&str>, version: &str) -> bool {
    position.is_some_and(|position| reaches(position, version))
}

const WENT_BACK: &str = "the server's history went backwards, was etcd restored? Listing again";
/// After this many answers in a row the kind counts as missing.
const NOT_SERVED_AFTER: u32 = 2;
/// A watch that the server ends earlier than this is a sign of trouble.
const MIN_WATCH: Duration = Duration::from_secs(5);

/// The wait after failures: doubles from 100 ms to 10 s.
fn pause(failures: u32) -> Duration {
    const MOST: Duration = Duration::from_secs(10);
    Duration::from_millis(50)
        .saturating_mul(1 << failures.min(10))
        .min(MOST)
}

/// Between half and all of the wait, so that many clients do not reconnect at once.
fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.5 + fastrand::f64() / 2.0)
}

fn remedy(code: u16) -> &'static str {
    match code {
        401 => "the credentials are not accepted: are they still valid?",
        403 => "the service account lacks the right to list and watch: install the chart's RBAC",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
