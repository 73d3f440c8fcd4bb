//! The entered writes, by the owner that waits for them and by the written object.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::time::Instant;

use crate::object::Resource;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// The uid of the owner that waits for the write.
    pub(super) owner: Arc<str>,
    pub(super) resource: Resource,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) want: Want,
    pub(super) doubt_at: Instant,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Want {
    /// The write is sent and not answered.
    Answer,
    /// No answer will come: the write may have happened.
    Unknown,
    /// Wait for this version of the object, a later one, or its deletion.
    Version { uid: Box<str>, version: Box<str> },
    /// Wait until the object is gone or being deleted.
    Gone { uid: Box<str> },
}

impl Want {
    /// The object's uid from the server's answer.
    fn uid(&self) -> Option<&str> {
        match self {
            Self::Answer | Self::Unknown => None,
            Self::Version { uid, .. } | Self::Gone { uid } => Some(uid),
        }
    }
}

/// All writes that are entered and not dropped yet. A large rollout has one for each pod, so that
/// the indexes hold numbers.
#[derive(Default)]
pub(super) struct Entries {
    by_id: BTreeMap<u64, Entry>,
    by_owner: HashMap<Arc<str>, BTreeSet<u64>>,
    /// The answered writes: a hash of the object's uid, and the entry's id.
    by_object: BTreeSet<(u64, u64)>,
    numbers: RandomState,
}

impl Entries {
    /// The owner's uid, shared with existing entries.
    pub(super) fn owner(&self, uid: &str) -> Arc<str> {
        self.by_owner
            .get_key_value(uid)
            .map_or_else(|| uid.into(), |(owner, _)| owner.clone())
    }

    pub(super) fn add(&mut self, id: u64, entry: Entry) {
        self.by_owner
            .entry(entry.owner.clone())
            .or_default()
            .insert(id);
        self.by_id.insert(id, entry);
    }

    /// The entries of an owner.
    pub(super) fn of(&self, owner: &str) -> impl Iterator<Item = (u64, &Entry)> {
        let ids = self.by_owner.get(owner).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.by_id.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty() && self.by_owner.is_empty() && self.by_object.is_empty()
    }

    /// Changes what the entry waits for.
    pub(super) fn expect(&mut self, id: u64, want: Want, doubt_at: Instant) {
        let Some(entry) = self.by_id.get_mut(&id) else {
            return;
        };
        if let Some(uid) = want.uid() {
            self.by_object.insert((self.numbers.hash_one(uid), id));
        }
        (entry.want, entry.doubt_at) = (want, doubt_at);
    }

    /// Removes an entry that is settled or whose write did not happen.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(entry) = self.by_id.remove(&id) else {
            return;
        };
        if let Some(uid) = entry.want.uid() {
            self.by_object.remove(&(self.numbers.hash_one(uid), id));
        }
        let Some(ids) = self.by_owner.get_mut(&entry.owner) else {
            return;
        };
        ids.remove(&id);
        if ids.is_empty() {
            self.by_owner.remove(&entry.owner);
        }
    }

    /// Removes the entries of an owner for which `is_to_go` returns true.
    pub(super) fn remove_where(&mut self, owner: &str, is_to_go: impl Fn(&Entry) -> bool) {
        let ids: Vec<u64> = self
            .of(owner)
            .filter(|(_, entry)| is_to_go(entry))
            .map(|(id, _)| id)
            .collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    /// The answered writes to an object for other owners than this one.
    pub(super) fn of_others(&self, owner: &str, uid: &str) -> impl Iterator<Item = &Entry> {
        let number = self.numbers.hash_one(uid);
        let of_object = self
            .by_object
            .range((number, 0)..=(number, u64::MAX))
            .filter_map(|(_, id)| self.by_id.get(id));
        of_object.filter(move |entry| *entry.owner != *owner && entry.want.uid() == Some(uid))
    }
}
