//! Objects that exist but are unreadable. No decision uses them, and no decision treats them as
//! missing.

use std::sync::Arc;

use berth_workload::objects::owner::{OwnerKey, Reference};

use super::version::{is_before, reaches};
use super::{Store, is_at};
use crate::object::Object;
use crate::store::event::Odd;

impl<T: Object> Store<T> {
    /// Calls `hook` when an object has become unreadable, and when an unreadable one is deleted. An
    /// object that has become readable is reported as any other object.
    pub fn on_unreadable(&self, hook: impl Fn(&Odd) + Send + Sync + 'static) {
        self.unreadable_hooks.write().push(Arc::new(hook));
    }

    /// The object of this name, if its present version is unreadable.
    pub fn unreadable(&self, namespace: &str, name: &str) -> Option<Arc<Odd>> {
        let inner = self.read();
        if inner.unreadable.0.is_empty() {
            return None;
        }
        inner
            .unreadable
            .0
            .get(&(namespace.to_owned(), name.to_owned()))
            .map(|(odd, _)| odd.clone())
    }

    /// The names of all unreadable objects that are not being deleted.
    pub fn all_unreadable(&self) -> Vec<String> {
        let inner = self.read();
        let all = inner
            .unreadable
            .0
            .values()
            .filter(|(odd, _)| !odd.terminating);
        all.map(|(odd, _)| odd.name.clone()).collect()
    }

    /// The unreadable objects of this owner, by name.
    pub fn unreadable_of(&self, owner: &OwnerKey<'_>) -> Vec<Arc<Odd>> {
        let inner = self.read();
        let owns = |odd: &Odd| {
            odd.owners
                .iter()
                .any(|other| owner.owns(&odd.namespace, &Reference::from(other)))
        };
        inner
            .unreadable
            .0
            .values()
            .map(|(odd, _)| odd)
            .filter(|odd| owns(odd))
            .cloned()
            .collect()
    }

    /// Notes an unreadable object from the feed. The store keeps its earlier version.
    pub fn apply_unreadable(&self, odd: Odd) {
        self.note(odd, false);
    }

    /// Notes an unreadable object that was read outside of the feed.
    pub(crate) fn apply_unreadable_read(&self, odd: Odd) {
        self.note(odd, true);
    }

    fn note(&self, odd: Odd, beside: bool) {
        let another = {
            let mut inner = self.write();
            if beside
                && inner
                    .position
                    .as_deref()
                    .is_some_and(|position| reaches(position, &odd.version))
            {
                return;
            }
            let force = inner.force;
            let list = if beside {
                inner.list.wrapping_sub(1)
            } else {
                inner.list
            };
            let is_it = |held: &super::Held<T>| is_at(&*held.object, &odd.namespace, &odd.name);
            let held = inner
                .objects
                .find_mut(self.hash(&odd.namespace, &odd.name), is_it);
            let mut another = false;
            if let Some(held) = held {
                if !beside {
                    held.list = list;
                }
                if !force && is_before(&odd.version, held.object.resource_version()) {
                    return;
                }
                another = !odd.uid.is_empty() && held.object.uid() != odd.uid;
            }
            let key = (odd.namespace.clone(), odd.name.clone());
            inner
                .unreadable
                .0
                .insert(key, (Arc::new(odd.clone()), list));
            another
        };
        // Deleted and created again under one name between two versions that the store has seen.
        if another {
            self.remove_if(&odd.namespace, &odd.name, |held| held.uid() != odd.uid);
        }
        self.tell_unreadable([Arc::new(odd)]);
    }

    pub(crate) fn remove_unreadable(
        &self,
        namespace: &str,
        name: &str,
        is_meant: impl Fn(&Odd) -> bool,
    ) {
        let gone = {
            let mut inner = self.write();
            if inner.unreadable.0.is_empty() {
                return;
            }
            let key = (namespace.to_owned(), name.to_owned());
            if !inner
                .unreadable
                .0
                .get(&key)
                .is_some_and(|(odd, _)| is_meant(odd))
            {
                return;
            }
            inner.unreadable.0.remove(&key)
        };
        self.tell_unreadable(gone.map(|(odd, _)| odd));
    }

    pub(super) fn tell_unreadable(&self, changed: impl IntoIterator<Item = Arc<Odd>>) {
        let hooks = self.unreadable_hooks.read().clone();
        for odd in changed {
            hooks.iter().for_each(|hook| hook(&odd));
        }
    }
}
