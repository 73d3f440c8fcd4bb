//! Objects as watches keep them.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Error, Event, watcher};
use serde_json::Value;

use crate::objects::{name, namespace};

/// The sentence while the connection is lost.
pub const LOST: &str = "the apiserver does not answer; trying again";

/// The objects of one watch, by namespace and name.
#[derive(Debug, Default)]
pub struct Cache {
    /// Takes away what nothing shows; without it objects are kept whole.
    keep: Option<fn(Value) -> Value>,
    objects: BTreeMap<(String, String), Value>,
    /// The objects of a list that is not yet complete.
    list: BTreeMap<(String, String), Value>,
    /// Whether there has been a complete list.
    pub is_complete: bool,
    /// Whether the user may not watch them.
    pub is_refused: bool,
}

impl Cache {
    /// The objects, by namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// Applies an event.
    ///
    /// # Errors
    /// An object is no JSON.
    pub fn apply(&mut self, event: Event<DynamicObject>) -> serde_json::Result<()> {
        let keep = self.keep;
        let keyed = |object| -> serde_json::Result<_> {
            let value = serde_json::to_value(object)?;
            let key = (namespace(&value).to_owned(), name(&value).to_owned());
            Ok(match keep {
                Some(keep) => (key, keep(value)),
                None => (key, value),
            })
        };
        match event {
            Event::Init => self.list.clear(),
            Event::InitApply(object) => {
                let (key, value) = keyed(object)?;
                self.list.insert(key, value);
            }
            Event::InitDone => {
                self.objects = std::mem::take(&mut self.list);
                self.is_complete = true;
                self.is_refused = false;
            }
            Event::Apply(object) => {
                let (key, value) = keyed(object)?;
                self.objects.insert(key, value);
            }
            Event::Delete(object) => {
                let (key, _) = keyed(object)?;
                self.objects.remove(&key);
            }
        }
        Ok(())
    }
}

type Events = BoxStream<'static, (usize, watcher::Result<Event<DynamicObject>>)>;

/// Several watches.
#[derive(Default)]
pub struct Watched {
    streams: SelectAll<Events>,
    /// The objects of each watch.
    pub caches: Vec<Cache>,
    /// A sentence about a watch that fails now.
    pub trouble: Option<String>,
    /// What the user may not watch, as sentences of the apiserver.
    pub refused: Vec<String>,
}

impl Watched {
    /// Adds a watch of whole objects, or of the parts that a function keeps.
    pub fn add(
        &mut self,
        api: Api<DynamicObject>,
        config: Config,
        keep: Option<fn(Value) -> Value>,
    ) {
        let number = self.caches.len();
        self.caches.push(Cache {
            keep,
            ..Cache::default()
        });
        let events = watcher(api, config).default_backoff();
        self.streams
            .push(events.map(move |event| (number, event)).boxed());
    }

    /// Waits for the next event, applies it, and returns the number of its watch. Waits for ever
    /// without a watch.
    ///
    /// # Errors
    /// The apiserver does not accept the credentials.
    pub async fn next(&mut self) -> anyhow::Result<usize> {
        let Some((watch, event)) = self.streams.next().await else {
            return std::future::pending().await;
        };
        match event {
            Ok(event) => {
                // A watch that begins again says nothing about the connection.
                if !matches!(event, Event::Init) {
                    self.trouble = None;
                }
                if let Some(cache) = self.caches.get_mut(watch) {
                    cache.apply(event)?;
                }
            }
            Err(error) => self.fail(watch, error)?,
        }
        Ok(watch)
    }

    fn fail(&mut self, watch: usize, error: Error) -> anyhow::Result<()> {
        let (code, message) = match &error {
            Error::InitialListFailed(kube::Error::Api(status))
            | Error::WatchStartFailed(kube::Error::Api(status))
            | Error::WatchFailed(kube::Error::Api(status)) => (status.code, status.message.clone()),
            Error::WatchError(status) => (status.code, status.message.clone()),
            _ => (0, String::new()),
        };
        match code {
            401 => {
                anyhow::bail!("the apiserver does not accept your credentials any more: {message}")
            }
            // A right may be granted later, so the watch goes on.
            403 | 404 => {
                if let Some(cache) = self.caches.get_mut(watch) {
                    cache.is_complete = true;
                    cache.is_refused = code == 403;
                }
                if code == 403 && !self.refused.contains(&message) {
                    self.refused.push(message);
                }
            }
            // The history that the watch had read is gone, and the watch lists again.
            410 => {}
            _ => self.trouble = Some(LOST.to_owned()),
        }
        Ok(())
    }

    /// Whether each watch has had a complete list.
    pub fn is_complete(&self) -> bool {
        self.caches.iter().all(|cache| cache.is_complete)
    }
}

#[cfg(test)]
mod tests;
