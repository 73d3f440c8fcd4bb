//! The stores in which writes are expected.

use crate::client::{self, Failed};
use crate::object::{Object, Resource};
use crate::store::Store;
use crate::store::event;
use futures::future::BoxFuture;
use kube::Client;
use serde_json::value::RawValue;
use std::sync::Arc;

/// A store in which writes are expected.
#[derive(Clone)]
pub(crate) struct Followee {
    pub(crate) resource: Resource,
    pub(crate) store: Arc<dyn Followed>,
}

/// The methods of a store that expectations need, for any type of objects.
pub(crate) trait Followed: Send + Sync {
    /// The object as the store has it, readable or not.
    fn state(&self, namespace: &str, name: &str) -> Option<Seen>;
    /// The resource version up to which the store has seen every change.
    fn position(&self) -> Option<Box<str>>;
    /// The resource version of the last write that the store knows.
    fn newest_version(&self) -> Option<Box<str>>;
    /// The number of readable objects.
    fn len(&self) -> usize;
    /// Reads the object from the apiserver into the store. If it does not exist, the store removes
    /// it.
    fn read<'a>(
        &'a self,
        client: &'a Client,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), Failed>>;
}

/// The version of an object that the store has.
pub(crate) struct Seen {
    pub(super) uid: Box<str>,
    pub(super) version: Box<str>,
    pub(super) terminating: bool,
}

impl<T: Object> Followed for Store<T> {
    fn state(&self, namespace: &str, name: &str) -> Option<Seen> {
        // An unreadable object counts as seen, because every decision about it already refuses and
        // reports it.
        if let Some(odd) = self.unreadable(namespace, name) {
            return Some(Seen {
                uid: (*odd.uid).into(),
                version: (*odd.version).into(),
                terminating: odd.terminating,
            });
        }
        self.get(namespace, name).map(|object| Seen {
            uid: object.uid().into(),
            version: object.resource_version().into(),
            terminating: object.terminating(),
        })
    }

    fn position(&self) -> Option<Box<str>> {
        self.position()
    }

    fn newest_version(&self) -> Option<Box<str>> {
        self.newest_version()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn read<'a>(
        &'a self,
        client: &'a Client,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), Failed>> {
        Box::pin(async move {
            let (seen, unreadable) = (self.get(namespace, name), self.unreadable(namespace, name));
            match client::get::<Box<RawValue>>(client, &T::RESOURCE.path(namespace, name)?).await {
                Ok(text) => match event::one(text.get(), self.limits()) {
                    Ok(object) => self.apply_read(object),
                    Err(odd) => self.apply_unreadable_read(*odd),
                },
                Err(failed) if failed.code == 404 => {
                    seen.iter().for_each(|seen| self.remove_seen(seen));
                    unreadable.iter().for_each(|seen| {
                        self.remove_unreadable(namespace, name, |odd| odd == &**seen)
                    });
                }
                Err(failed) => return Err(failed),
            }
            Ok(())
        })
    }
}
