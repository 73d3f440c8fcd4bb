//! Objects that leave a store.

use std::sync::Arc;

use super::version::NO_VERSION;
use super::{Change, Held, Store, is_at, is_before};
use crate::object::Object;

impl<T: Object> Store<T> {
    /// Removes an object. With a uid, only the object with that uid.
    pub fn remove(&self, namespace: &str, name: &str, uid: Option<&str>) {
        self.remove_unreadable(namespace, name, |odd| {
            uid.is_none_or(|uid| odd.uid.is_empty() || odd.uid == uid)
        });
        self.remove_if(namespace, name, |held| {
            uid.is_none_or(|uid| held.uid() == uid)
        });
    }

    /// Notes a deletion of this version, or a change after which the feed's filter excludes an
    /// object. Call it before the removal.
    pub(crate) fn note_deletion(&self, version: &str) {
        let mut inner = self.write();
        inner.newest.raise(version);
        if is_before(
            inner.last_deletion.as_deref().unwrap_or(NO_VERSION),
            version,
        ) {
            inner.last_deletion = Some(version.into());
        }
    }

    /// Removes an object that a read outside of the feed did not find, if it is still the one that
    /// the store had before the read. An object that was created meanwhile stays.
    pub(crate) fn remove_seen(&self, seen: &Arc<T>) {
        self.remove_if(seen.namespace(), seen.name(), |held| {
            Arc::ptr_eq(held, seen)
        });
    }

    pub(super) fn remove_if(
        &self,
        namespace: &str,
        name: &str,
        is_meant: impl Fn(&Arc<T>) -> bool,
    ) {
        let old = {
            let mut inner = self.write();
            let is_it =
                |held: &Held<T>| is_at(&*held.object, namespace, name) && is_meant(&held.object);
            let Ok(entry) = inner.objects.find_entry(self.hash(namespace, name), is_it) else {
                return;
            };
            let (held, _) = entry.remove();
            self.unindex(&mut inner, &held.object);
            held.object
        };
        self.tell([Change::Deleted { old }]);
    }
}
