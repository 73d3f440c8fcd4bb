//! A watch, which begins with a streaming list if the server supports it.

use std::time::Duration;

use hyper::body::Bytes;
use tokio::time::Instant;

use super::lines::Lines;
use super::{End, Feed, is_before, is_reported};
use crate::client::{self, Failed};
use crate::object::Object;
use crate::store::event::{Event, event};

/// The longest time until the answer's headers arrive.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// A server that ignores the request for a streaming list, or whose etcd is too old for it, sends
/// the objects without an end mark.
const STREAM_IDLE: Duration = Duration::from_secs(10);

impl<T: Object> Feed<T> {
    /// Watches from `position`, or streams a list first if there is none. Updates `position`.
    pub(super) async fn watch(&mut self, position: &mut Option<String>) -> End {
        match self.follow_watch(position).await {
            Ok(()) => End::Closed,
            Err(end) => end,
        }
    }

    async fn follow_watch(&mut self, position: &mut Option<String>) -> Result<(), End> {
        let mut streaming = position.is_none();
        if streaming {
            self.store.begin_list(self.force);
        }
        let mut lines = self.open(position.as_deref()).await?;
        while let Some(line) = self.next_line(&mut lines, streaming).await? {
            match event::<T>(&line, self.store.limits())? {
                Event::Applied(object) => {
                    let version = object.resource_version().to_owned();
                    if streaming || !is_reported(position.as_deref(), &version) {
                        self.take(object);
                    }
                    self.passed(position, version, streaming);
                }
                Event::Deleted(object) => {
                    let version = object.resource_version().to_owned();
                    if streaming || !is_reported(position.as_deref(), &version) {
                        self.remove(
                            (object.namespace(), object.name()),
                            Some(object.uid()),
                            &version,
                        );
                    }
                    self.passed(position, version, streaming);
                }
                Event::Odd(odd) => {
                    if streaming || !is_reported(position.as_deref(), &odd.version) {
                        self.odd(&odd);
                    }
                    self.passed(position, odd.version, streaming);
                }
                Event::Bookmark {
                    version,
                    initial_end,
                } if streaming => {
                    if initial_end {
                        if !self.listed(&version) {
                            return Err(End::Expired);
                        }
                        streaming = false;
                        *position = Some(version);
                    }
                }
                Event::Bookmark { version, .. } => self.passed(position, version, false),
                Event::Error(failed) => return Err(failed.into()),
            }
        }
        Ok(())
    }

    async fn open(&mut self, position: Option<&str>) -> Result<Lines, End> {
        let (name, value) = match position {
            Some(version) => ("resourceVersion", version),
            None => ("sendInitialEvents", "true"),
        };
        let seconds = 290 + fastrand::u64(..290);
        self.watch_ends = Some(Instant::now() + Duration::from_secs(seconds));
        let request = self.request(&[
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &seconds.to_string()),
            (name, value),
            (
                "resourceVersionMatch",
                if position.is_none() {
                    "NotOlderThan"
                } else {
                    ""
                },
            ),
        ])?;
        let opened = tokio::time::timeout(OPEN_TIMEOUT, client::open(&self.client, request)).await;
        match opened {
            Err(_) if position.is_none() => Err(End::NotStreaming),
            Err(_) => Err(End::Failed(Failed {
                message: "no answer to a watch".to_owned(),
                ..Failed::default()
            })),
            // Servers without the feature call its parameters invalid.
            Ok(Err(failed)) if position.is_none() && matches!(failed.code, 400 | 422) => {
                Err(End::NotStreaming)
            }
            Ok(Err(failed)) => Err(failed.into()),
            Ok(Ok(response)) => Ok(Lines::new(response.into_body())),
        }
    }

    async fn next_line(&self, lines: &mut Lines, streaming: bool) -> Result<Option<Bytes>, End> {
        let idle = if streaming {
            STREAM_IDLE
        } else {
            self.options.idle
        };
        match tokio::time::timeout(idle, lines.next()).await {
            Ok(line) => Ok(line?),
            Err(_) if streaming => Err(End::NotStreaming),
            Err(_) => {
                let message = format!("nothing received for {idle:?}, the connection may be dead");
                Err(End::Failed(Failed {
                    message,
                    ..Failed::default()
                }))
            }
        }
    }

    fn passed(&mut self, position: &mut Option<String>, version: String, streaming: bool) {
        self.progress = true;
        self.options.metrics.events.inc();
        // The objects of a list come in no order, and a server may be behind another server's list.
        let behind = position
            .as_deref()
            .is_some_and(|position| is_before(&version, position));
        if !streaming && !behind && !version.is_empty() {
            self.store.advance(&version);
            *position = Some(version);
        }
    }
}
