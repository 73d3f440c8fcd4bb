//! Makes the controller's view fall behind the apiserver's state.
//!
//! Only watches lag: Berth's reads require the newest state, so that no apiserver may answer them
//! with an older one. A read that does not is noted, and fails the run.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{Stream, StreamExt, stream};
use http::Uri;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use tokio::sync::watch;

use crate::fault::Lag;
use crate::write;

/// How many versions of each resource are remembered, for a watch that repeats events.
const REMEMBERED: usize = 8;

/// A watch that the controller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) resource: String,
    /// The version that it continues from; empty for a watch that begins with a list.
    version: String,
    /// The watch must repeat events that were sent already.
    pub(crate) tells_again: bool,
}

impl Watch {
    /// Reads a request's address; `None` if it is no watch.
    pub(crate) fn of(uri: &Uri) -> Option<Watch> {
        let pairs: Vec<_> = form_urlencoded::parse(uri.query()?.as_bytes()).collect();
        let value = |name: &str| {
            pairs
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.clone().into_owned())
        };
        let is_watch = value("watch").is_some_and(|watch| matches!(&*watch, "1" | "true"));
        let lists = value("sendInitialEvents").is_some_and(|lists| lists == "true");
        let version = value("resourceVersion")
            .filter(|_| !lists)
            .unwrap_or_default();
        let resource = || write::resource(uri).unwrap_or_default();
        is_watch.then(|| Watch {
            resource: resource(),
            version,
            tells_again: false,
        })
    }

    /// The same address, beginning at another version.
    fn from_version(uri: &Uri, version: &str) -> Option<Uri> {
        let pairs = form_urlencoded::parse(uri.query()?.as_bytes());
        let other = |(key, value)| {
            if key == "resourceVersion" {
                (key, version.into())
            } else {
                (key, value)
            }
        };
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs.map(other))
            .finish();
        format!("{}?{query}", uri.path()).parse().ok()
    }
}

/// Whether an apiserver may answer this read with an older state: the read names a version, and
/// does not only continue from it.
pub(crate) fn asks_for_the_past(uri: &Uri) -> bool {
    let goes_on = Watch::of(uri).is_some_and(|watch| !watch.version.is_empty());
    let pairs = uri
        .query()
        .into_iter()
        .flat_map(|query| form_urlencoded::parse(query.as_bytes()));
    let names_version = pairs
        .into_iter()
        .any(|(key, value)| key == "resourceVersion" && !value.is_empty());
    names_version && !goes_on
}

/// The answer to a watch request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is forwarded.
    Forward,
    /// It is forwarded to this address.
    Instead(Uri),
    /// Its version has expired.
    Expired,
}

type Held = Option<(Lag, &'static str)>;

/// Which watches lag, and how.
pub(crate) struct Lags {
    held: watch::Sender<Held>,
    /// The lag that broke off a watch, until the controller requests that watch again.
    interrupted: Mutex<Held>,
    /// The last versions that were sent, by resource.
    versions: Mutex<HashMap<String, VecDeque<String>>>,
    /// How many events of the run were held back, lost or repeated.
    hidden: AtomicUsize,
    /// The namespace of the run.
    namespace: Mutex<String>,
}

impl Lags {
    pub(crate) fn new() -> Lags {
        Lags {
            held: watch::channel(None).0,
            interrupted: Mutex::default(),
            versions: Mutex::default(),
            hidden: AtomicUsize::new(0),
            namespace: Mutex::default(),
        }
    }

    /// Begins a run in this namespace: none of its events has been hidden.
    pub(crate) fn begin_run(&self, namespace: &str) {
        namespace.clone_into(&mut lock(&self.namespace));
        self.hidden.store(0, Ordering::Relaxed);
    }

    /// How many events of the run were held back, lost or repeated. Events of objects without a
    /// namespace count, too.
    pub(crate) fn hidden(&self) -> usize {
        self.hidden.load(Ordering::Relaxed)
    }

    /// Begins a lag of this resource.
    pub(crate) fn begin(&self, lag: Lag, resource: &'static str) {
        *lock(&self.interrupted) = Some((lag, resource)).filter(|(lag, _)| *lag != Lag::Late);
        self.held.send_replace(Some((lag, resource)));
    }

    /// Ends the lag.
    pub(crate) fn end(&self) {
        self.held.send_replace(None);
    }

    /// Whether a resource lags.
    pub(crate) fn any(&self) -> bool {
        self.held.borrow().is_some()
    }

    /// Answers a watch request. A watch that broke off is answered when the lag is over.
    pub(crate) async fn answer(&self, watch: &Watch, uri: &Uri) -> Answer {
        if watch.version.is_empty() {
            return Answer::Forward;
        }
        let broken =
            |held: &Held| held.is_some_and(|(lag, r)| lag != Lag::Late && r == watch.resource);
        let _ = self.held.subscribe().wait_for(|held| !broken(held)).await;
        let interrupted =
            { lock(&self.interrupted).take_if(|(_, resource)| *resource == watch.resource) };
        match interrupted {
            Some((Lag::Missed, _)) => Answer::Expired,
            Some((Lag::Repeated, _)) => {
                let earliest = lock(&self.versions)
                    .get(&watch.resource)
                    .and_then(|known| known.front().cloned());
                let instead = earliest.and_then(|version| Watch::from_version(uri, &version));
                instead.map_or(Answer::Forward, Answer::Instead)
            }
            Some((Lag::Late, _)) | None => Answer::Forward,
        }
    }

    /// Whether the event belongs to the run.
    fn is_of_run(&self, event: &Event, resource: &str) -> bool {
        let namespace = event
            .object
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default();
        event.kind != "BOOKMARK" && write::is_of_run(&lock(&self.namespace), namespace, resource)
    }

    fn hides(&self, event: &Event, resource: &str) {
        if self.is_of_run(event, resource) {
            self.hidden.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn told(&self, watch: &Watch, line: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Event>(line) else {
            return;
        };
        let mut versions = lock(&self.versions);
        let known = versions.entry(watch.resource.clone()).or_default();
        if watch.tells_again && known.contains(&event.object.metadata.resource_version) {
            self.hides(&event, &watch.resource);
        }
        known.push_back(event.object.metadata.resource_version);
        if known.len() > REMEMBERED {
            known.pop_front();
        }
    }

    /// The events of a watch, line by line, when the controller may see them. `arrives` is called
    /// before that for each event of the run that is no part of a list.
    pub(crate) fn events(
        self: Arc<Self>,
        (watch, arrives): (Watch, impl Fn() + Send + 'static),
        body: Body,
    ) -> impl Stream<Item = kube::Result<Bytes>> + Send {
        let lines = Lines {
            body: Box::pin(body.into_data_stream()),
            rest: Vec::new(),
        };
        let (held, lists) = (self.held.subscribe(), watch.version.is_empty());
        let events = Events {
            lines: Some(lines),
            held,
            lists,
            watch,
            arrives: Box::new(arrives),
            lags: self,
        };
        stream::unfold(events, |mut events| async move {
            Some((events.next().await?, events))
        })
    }
}

/// A watch that is being served.
struct Events {
    /// `None` after the watch broke off.
    lines: Option<Lines>,
    held: watch::Receiver<Held>,
    /// The watch is still in the list at its beginning.
    lists: bool,
    watch: Watch,
    arrives: Box<dyn Fn() + Send>,
    lags: Arc<Lags>,
}

impl Events {
    /// The next event, once the controller may see it; `None` when the watch ends.
    async fn next(&mut self) -> Option<kube::Result<Bytes>> {
        let Events {
            lines,
            held,
            lists,
            watch,
            arrives,
            lags,
        } = self;
        let lines = lines.as_mut()?;
        let of = |held: &Held| {
            held.filter(|(_, resource)| !*lists && *resource == watch.resource)
                .map(|(lag, _)| lag)
        };
        let breaks = |held: &Held| of(held).is_some_and(|lag| lag != Lag::Late);
        let line = tokio::select! {
            biased;
            _ = held.wait_for(breaks) => None,
            line = lines.next() => Some(line?),
        };
        let Some(line) = line else {
            self.leave();
            return None;
        };
        let Ok(line) = line else { return Some(line) };
        let event: Option<Event> = serde_json::from_slice(&line).ok().filter(|_| !*lists);
        if event
            .as_ref()
            .is_some_and(|event| lags.is_of_run(event, &watch.resource))
        {
            arrives();
        }
        let lag = of(&held.borrow());
        if let Some(event) = event.filter(|_| matches!(lag, Some(Lag::Late | Lag::Missed))) {
            lags.hides(&event, &watch.resource);
        }
        // Events that have arrived wait until the controller may see them.
        let passes = |held: &Held| of(held) != Some(Lag::Late);
        if held
            .wait_for(passes)
            .await
            .ok()
            .is_some_and(|held| breaks(&held))
        {
            self.leave();
            return None;
        }
        *lists &= !line.windows(LIST_END.len()).any(|part| part == LIST_END);
        lags.told(watch, &line);
        Some(Ok(line))
    }

    /// The watch breaks off. If its further events are lost, they are counted.
    fn leave(&mut self) {
        let Some(lines) = self.lines.take() else {
            return;
        };
        if self
            .held
            .borrow()
            .is_some_and(|(lag, _)| lag == Lag::Missed)
        {
            tokio::spawn(lost(
                lines,
                self.held.clone(),
                (Arc::clone(&self.lags), self.watch.resource.clone()),
            ));
        }
    }
}

/// Counts the events that no watch gets, until the lag ends.
async fn lost(
    mut lines: Lines,
    mut held: watch::Receiver<Held>,
    (lags, resource): (Arc<Lags>, String),
) {
    let ends = held.wait_for(Option::is_none);
    let counts = async {
        while let Some(Ok(line)) = lines.next().await {
            if let Ok(event) = serde_json::from_slice(&line) {
                lags.hides(&event, &resource);
            }
        }
    };
    tokio::select! {
        biased;
        () = counts => {}
        _ = ends => {}
    }
}

/// An annotation of the bookmark that ends the list at the beginning of a watch.
const LIST_END: &[u8] = b"k8s.io/initial-events-end";

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: Option<String>,
    resource_version: String,
}

type Chunks = std::pin::Pin<Box<dyn Stream<Item = kube::Result<Bytes>> + Send>>;

/// A body in lines.
struct Lines {
    body: Chunks,
    rest: Vec<u8>,
}

impl Lines {
    /// The next line with its end. Bytes after the last line are dropped. Cancelling this call
    /// loses nothing.
    async fn next(&mut self) -> Option<kube::Result<Bytes>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let rest = self.rest.split_off(end + 1);
                return Some(Ok(std::mem::replace(&mut self.rest, rest).into()));
            }
            match self.body.next().await? {
                Ok(chunk) => self.rest.extend_from_slice(&chunk),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests;
