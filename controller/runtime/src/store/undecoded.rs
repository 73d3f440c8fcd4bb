//! The unreadable objects of a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::version::is_before;
use crate::object::Object;
use crate::store::event::Odd;

/// The unreadable objects by namespace and name, each with the number of the last list that showed
/// it. Usually there are none.
#[derive(Default)]
pub(super) struct Undecoded(pub(super) BTreeMap<(String, String), (Arc<Odd>, u32)>);

impl Undecoded {
    /// The version of each object; empty if it is unreadable, too.
    pub(super) fn versions(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|(odd, _)| odd.version.as_str())
    }

    /// Removes objects that the list did not show and that are not newer than the list, and returns
    /// them. With `force` newer objects are removed, too.
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

    /// Removes the unreadable version of an object of which a readable version arrives. False, and
    /// nothing is removed, if the unreadable version is newer. With `force` versions do not count.
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
