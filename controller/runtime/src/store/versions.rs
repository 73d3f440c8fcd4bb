//! The versions up to which a store is complete.

use super::Store;
use super::version::{NO_VERSION, is_before};
use crate::object::Object;

impl<T: Object> Store<T> {
    /// The resource version up to which the store has seen every change. `None` until a list has
    /// ended.
    pub fn position(&self) -> Option<Box<str>> {
        self.read().position.clone()
    }

    /// The newest version of which any reader of the store may have seen anything. It is ahead of
    /// the position while subscribers are called, while a list is under way, and after an object
    /// was read outside of the feed. Then changes in between may be missing. `None` until a first
    /// list has ended.
    pub fn newest_shown(&self) -> Option<Box<str>> {
        let inner = self.read();
        let position = inner.position.as_deref()?;
        let newest = inner.newest.0.as_str();
        Some(if is_before(position, newest) {
            newest.into()
        } else {
            position.into()
        })
    }

    /// The version of the last known write: of an existing object, or of a deletion in the feed;
    /// `0` if there is neither. `None` before a first list has ended, or while an unreadable object
    /// does not even show its version.
    pub fn newest_version(&self) -> Option<Box<str>> {
        let inner = self.read();
        inner.position.as_ref()?;
        let mut newest = inner.last_deletion.as_deref().unwrap_or(NO_VERSION);
        let readable = inner
            .objects
            .iter()
            .map(|held| held.object.resource_version());
        for version in readable.chain(inner.unreadable.versions()) {
            if version.is_empty() {
                return None;
            }
            newest = if is_before(newest, version) {
                version
            } else {
                newest
            };
        }
        Some(newest.into())
    }
}
