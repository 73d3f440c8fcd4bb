//! The begin and the end of a list: objects that a list does not show are gone.

use super::version::NO_VERSION;
use super::version::is_before;
use super::version::reaches;
use crate::object::Object;
use std::collections::HashSet;

use super::{Change, Held, Store, is_at};

impl<T: Object> Store<T> {
    /// Begins a list: the feed is about to show every object that exists. With `force` the store
    /// accepts older versions.
    pub(crate) fn begin_list(&self, force: bool) {
        let mut inner = self.write();
        inner.list = inner.list.wrapping_add(1);
        inner.force = force;
        inner.older = Some(HashSet::new());
        // Its version may belong to a history that is no longer the server's.
        inner.last_deletion = inner.last_deletion.take().filter(|_| !force);
        if force {
            inner.newest.forget();
        }
    }

    /// The server does not know the kind, so that no objects exist and no reader needs to wait for
    /// the first list.
    pub(crate) fn set_missing(&self) {
        self.begin_list(true);
        self.write().missing = true;
        self.end_list(NO_VERSION);
    }

    /// Ends a list. The store deletes objects that the list did not show, unless they are newer
    /// than the list: they were read outside of the feed or written since, and the watch that
    /// follows reports them. Returns true if the list contradicts the store: the list's version is
    /// newer than a change, but the list shows the object as it was before. Then etcd was restored,
    /// and its versions were set forward.
    pub(crate) fn end_list(&self, version: &str) -> bool {
        let (gone, unreadable, contradicts) = {
            let mut inner = self.write();
            let (list, force) = (inner.list, inner.force);
            let is_newer =
                |held: &Held<T>| !force && is_before(version, held.object.resource_version());
            let is_gone = |held: &mut Held<T>| held.list != list && !is_newer(held);
            let gone: Vec<_> = inner
                .objects
                .extract_if(is_gone)
                .map(|held| held.object)
                .collect();
            for object in &gone {
                self.unindex(&mut inner, object);
            }
            // Otherwise the memory of a burst at the start would stay allocated.
            let (inner, hash) = (&mut *inner, |held: &Held<T>| self.hash_of(&*held.object));
            inner.objects.shrink_to_fit(hash);
            (inner.position, inner.force) = (Some(version.into()), false);
            inner.missing &= version == NO_VERSION;
            let contradicts = inner
                .older
                .take()
                .into_iter()
                .flatten()
                .any(|(namespace, name)| {
                    let is_it = |held: &Held<T>| is_at(&*held.object, &namespace, &name);
                    let held = inner.objects.find(self.hash(&namespace, &name), is_it);
                    held.is_some_and(|held| reaches(version, held.object.resource_version()))
                });
            (
                gone,
                inner.unreadable.end_list(list, version, force),
                contradicts,
            )
        };
        self.tell_unreadable(unreadable);
        self.tell(gone.into_iter().map(|old| Change::Deleted { old }));
        self.synced
            .send_if_modified(|synced| !std::mem::replace(synced, true));
        self.tell([Change::Synced]);
        contradicts
    }

    /// Every change up to this version has been applied.
    pub(crate) fn advance(&self, version: &str) {
        let mut inner = self.write();
        if inner.position.as_deref() != Some(version) {
            inner.position = Some(version.into());
        }
    }
}
