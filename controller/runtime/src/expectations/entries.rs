//! The writes that are entered: by the owner that waits for them, and by the object that was written.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

use crate::object::Resource;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) resource: Resource,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) want: Want,
    pub(super) doubt_at: Instant,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Want {
    /// Sent, not answered.
    Answer,
    /// No answer will come: it may have happened.
    Unknown,
    /// This version of the object, a later one, or its end.
    Version { uid: Box<str>, version: Box<str> },
    /// The object's end, or that it is being deleted.
    Gone { uid: Box<str> },
}

impl Want {
    /// The object's uid, which the server's answer tells.
    fn uid(&self) -> Option<&str> {
        match self {
            Self::Answer | Self::Unknown => None,
            Self::Version { uid, .. } | Self::Gone { uid } => Some(uid),
        }
    }
}

/// All writes that are entered and not dropped yet.
#[derive(Default)]
pub(super) struct Entries {
    by_owner: HashMap<Box<str>, BTreeMap<u64, Entry>>,
    /// By the uid of an object: for which owners it was written, and which entry that is. Only what the server has answered.
    writers: HashMap<Box<str>, Vec<(Box<str>, u64)>>,
}

impl Entries {
    pub(super) fn add(&mut self, owner: &str, id: u64, entry: Entry) {
        self.by_owner.entry(owner.into()).or_default().insert(id, entry);
    }

    /// Those for an owner.
    pub(super) fn of(&self, owner: &str) -> impl Iterator<Item = (u64, &Entry)> {
        self.by_owner.get(owner).into_iter().flatten().map(|(id, entry)| (*id, entry))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.by_owner.values().flat_map(BTreeMap::values)
    }

    pub(super) fn len(&self) -> usize {
        self.by_owner.values().map(BTreeMap::len).sum()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_owner.is_empty() && self.writers.is_empty()
    }

    /// From now on the entry waits for this.
    pub(super) fn expect(&mut self, owner: &str, id: u64, want: Want, doubt_at: Instant) {
        let Some(entry) = self.by_owner.get_mut(owner).and_then(|entries| entries.get_mut(&id)) else { return };
        if let Some(uid) = want.uid() {
            self.writers.entry(uid.into()).or_default().push((owner.into(), id));
        }
        (entry.want, entry.doubt_at) = (want, doubt_at);
    }

    /// The entry is settled, or nothing came of it.
    pub(super) fn remove(&mut self, owner: &str, id: u64) {
        let Some(entries) = self.by_owner.get_mut(owner) else { return };
        let dropped = entries.remove(&id);
        if entries.is_empty() {
            self.by_owner.remove(owner);
        }
        let Some(uid) = dropped.as_ref().and_then(|entry| entry.want.uid()) else { return };
        if let Some(writers) = self.writers.get_mut(uid) {
            writers.retain(|(_, written)| *written != id);
            if writers.is_empty() {
                self.writers.remove(uid);
            }
        }
    }

    /// Removes those for an owner of which this is true.
    pub(super) fn remove_where(&mut self, owner: &str, is_to_go: impl Fn(&Entry) -> bool) {
        let ids: Vec<u64> = self.of(owner).filter(|(_, entry)| is_to_go(entry)).map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.remove(owner, id));
    }

    /// The answered writes of an object that were made for others than this owner.
    pub(super) fn of_others(&self, owner: &str, uid: &str) -> impl Iterator<Item = &Entry> {
        let others = self.writers.get(uid).into_iter().flatten().filter(move |(writer, _)| **writer != *owner);
        others.filter_map(|(writer, id)| self.by_owner.get(writer)?.get(id))
    }
}
