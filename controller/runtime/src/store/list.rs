//! The beginning and the end of a list: what a list does not show is gone.

use super::version::NO_VERSION;
use super::version::is_before;
use super::version::reaches;
use crate::object::Object;
use std::collections::HashSet;

use super::{Change, Held, Store, is_at};

impl<T: Object> Store<T> {
    /// The feed is about to show every object that exists. With `force` it is believed even where it shows older versions.
    pub(crate) fn begin_list(&self, force: bool) {
        let mut inner = self.write();
        inner.list = inner.list.wrapping_add(1);
        inner.force = force;
        inner.older = Some(HashSet::new());
        // Of a history that may not be the server's any more.
        inner.last_deletion = inner.last_deletion.take().filter(|_| !force);
        if force {
            inner.newest.forget();
        }
    }

    /// The server does not know the kind: there is none of it, and whoever waits for the first list need not.
    pub(crate) fn set_missing(&self) {
        self.begin_list(true);
        self.write().missing = true;
        self.end_list(NO_VERSION);
    }

    /// The list has ended: what it did not show is gone, unless it is newer than the list: it was read beside it, or written
    /// since, and the watch that follows tells of it. True if the list contradicts the store: it showed an object as it was before
    /// a change that the list's version is past. So that change was undone: etcd was restored, and its versions set forward.
    pub(crate) fn end_list(&self, version: &str) -> bool {
        let (gone, told, contradicts) = {
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
            // A burst at the start would otherwise be paid for ever.
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
        self.tell_unreadable(told);
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
