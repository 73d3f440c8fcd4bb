//! The objects of a store that exist and cannot be decoded.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::version::is_before;
use crate::object::Object;
use crate::store::event::Odd;

/// By namespace and name, with the list that showed it last. Nearly always there are none.
#[derive(Default)]
pub(super) struct Undecoded(pub(super) BTreeMap<(String, String), (Arc<Odd>, u32)>);

impl Undecoded {
    /// The version of each; empty where it cannot be read, either.
    pub(super) fn versions(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|(odd, _)| odd.version.as_str())
    }

    /// Takes out what the list did not show, and is not newer than it.
    pub(super) fn end_list(&mut self, list: u32, version: &str, force: bool) -> Vec<Arc<Odd>> {
        let stays = |odd: &Odd, of: u32| of == list || !force && is_before(version, &odd.version);
        let gone: Vec<_> = self
            .0
            .values()
            .filter(|(odd, of)| !stays(odd, *of))
            .map(|(odd, _)| odd.clone())
            .collect();
        self.0.retain(|_, (odd, of)| stays(odd, *of));
        gone
    }

    /// Takes out what was unreadable in a version before this one. False if the object is older than what is unreadable.
    pub(super) fn make_way<T: Object>(&mut self, object: &T, force: bool) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let key = (object.namespace().to_owned(), object.name().to_owned());
        let Some((odd, _)) = self.0.get(&key) else {
            return true;
        };
        if !force && is_before(object.resource_version(), &odd.version) {
            return false;
        }
        self.0.remove(&key);
        true
    }
}
