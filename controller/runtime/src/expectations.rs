//! Expectations: writes that have not come back through the feed yet.
//!
//! A workload must not be reconciled from a store that lacks the workload's own last writes.
//! Otherwise the controller would create the same pod twice. So every write is entered here before
//! it is sent. It is confirmed with the server's answer, or removed if the server refused it. An
//! entry is settled when the store has the object in the written version or a later one. For an
//! object that was created and deleted in between, it is settled when the store has passed that
//! version. No event can be missed, because the entries are checked against the store and not
//! against events.
//!
//! An owner waits for all of its own writes. It also waits for writes of other owners to its
//! objects, once the server has answered them. Preconditions of its own writes detect other owners'
//! writes that are still under way.
//!
//! A write without an answer may have happened or not, and a feed can fall behind. After a time in
//! doubt the object is read from the apiserver and put into the store, which settles the entry
//! either way.

mod entries;
pub(crate) mod followed;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::client::Failed;
use crate::object::{Object, Resource};
use crate::store::{Store, is_before, reaches};
use entries::{Entries, Entry, Want};
use followed::{Followed, Followee};

/// The expectations of all owners, by the owner's uid.
pub struct Expectations {
    entries: Mutex<Entries>,
    followed: Mutex<HashMap<Resource, Followee>>,
    doubt: Duration,
}

/// Versions of objects by the plural of their resource.
pub type Versions = BTreeMap<String, Box<str>>;

/// The state of an owner's writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The stores have everything, so that the owner may be reconciled.
    Settled,
    /// The owner must not be reconciled yet. The object's event wakes the key; check again after
    /// this time in case the event never comes.
    Waiting(Duration),
    /// A write is in doubt for too long: call [`Expectations::settle`].
    Doubtful,
}

/// An owner that waits for its writes is checked again after this time.
const AT_LATEST: Duration = Duration::from_secs(1);

/// A write under way. If it is dropped without an answer, it stays in doubt until the object is
/// read.
#[must_use]
pub struct Ticket {
    expectations: Arc<Expectations>,
    deadline: Instant,
    /// 0 if no store follows the resource.
    id: u64,
}

impl Expectations {
    /// Creates empty expectations. An entry is in doubt after `doubt` (30 s is a good value).
    pub fn new(doubt: Duration) -> Arc<Self> {
        Arc::new(Self {
            entries: Mutex::default(),
            followed: Mutex::default(),
            doubt,
        })
    }

    /// Expects writes of this resource in this store from now on. A feed must keep the store.
    /// Writes of other resources are not expected.
    pub fn follow<T: Object>(&self, store: &Arc<Store<T>>) {
        let followee = Followee {
            resource: T::RESOURCE,
            store: store.clone(),
        };
        self.followed.lock().insert(T::RESOURCE, followee);
    }

    /// All followed stores.
    pub(crate) fn followed(&self) -> Vec<Followee> {
        self.followed.lock().values().cloned().collect()
    }

    /// Enters a write of an object, for an owner, before it is sent. After `deadline` the server
    /// does not carry the write out any more.
    pub fn enter(
        self: &Arc<Self>,
        owner: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        deadline: Instant,
    ) -> Ticket {
        let mut ticket = Ticket {
            expectations: self.clone(),
            deadline,
            id: 0,
        };
        if self.followed_store(resource).is_some() {
            ticket.id = fastrand::u64(1..);
            let mut entries = self.lock();
            let entry = Entry {
                owner: entries.owner(owner),
                resource: *resource,
                namespace: namespace.into(),
                name: name.into(),
                want: Want::Answer,
                doubt_at: deadline + self.doubt,
            };
            entries.add(ticket.id, entry);
        }
        ticket
    }

    /// The state of the owner's writes. Drops settled entries.
    pub fn standing(&self, owner: &str) -> Standing {
        let mut entries = self.lock();
        entries.remove_where(owner, |entry| !self.is_unseen(entry));
        let Some(doubt_at) = entries.of(owner).map(|(_, entry)| entry.doubt_at).min() else {
            return Standing::Settled;
        };
        match doubt_at.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Standing::Doubtful,
            left => Standing::Waiting(left),
        }
    }

    /// Reads the objects of overdue entries from the apiserver into the stores, and drops the
    /// entries.
    pub async fn settle(&self, client: &Client, owner: &str) -> Result<(), Failed> {
        let now = Instant::now();
        let doubtful =
            |(id, entry): (u64, &Entry)| (entry.doubt_at <= now).then(|| (id, entry.clone()));
        let doubtful: Vec<_> = self.lock().of(owner).filter_map(doubtful).collect();
        for (id, entry) in doubtful {
            let Some(store) = self.followed_store(&entry.resource) else {
                continue;
            };
            let (kind, namespace, name) = (entry.resource.kind, &*entry.namespace, &*entry.name);
            tracing::warn!(kind, namespace, name, owner, want = ?entry.want, "the feed has not shown a write, reading the object");
            store.read(client, namespace, name).await?;
            self.lock().remove(id);
        }
        Ok(())
    }

    /// Settles overdue entries and returns `None` if the owner may be reconciled now. Otherwise
    /// returns when to check again at the latest, because some events that settle a write do not
    /// trigger its owner.
    pub async fn ready(&self, client: &Client, owner: &str) -> Result<Option<Duration>, Failed> {
        if self.standing(owner) == Standing::Doubtful {
            self.settle(client, owner).await?;
        }
        Ok(match self.standing(owner) {
            Standing::Settled => None,
            Standing::Waiting(wait) => Some(wait.min(AT_LATEST)),
            Standing::Doubtful => Some(Duration::ZERO),
        })
    }

    /// Whether the server has answered a write to one of these objects for another owner which the
    /// objects do not show yet. A pod has several writers, and a write by one of them counts for
    /// all.
    pub fn others_wrote<T: Object>(&self, owner: &str, objects: &[Arc<T>]) -> bool {
        let entries = self.lock();
        let is_unseen = |object: &T, want: &Want| match want {
            Want::Answer | Want::Unknown => false,
            Want::Gone { .. } => !object.terminating(),
            Want::Version { version, .. } => !reaches(object.resource_version(), version),
        };
        objects.iter().any(|object| {
            entries
                .of_others(owner, object.uid())
                .any(|entry| is_unseen(object, &entry.want))
        })
    }

    /// The version, by resource, of the newest write that the stores have seen or the server has
    /// answered, deletions included. A process that has seen these versions knows this leader's
    /// decisions and their results. A resource is missing if its version is unknown: after a write
    /// without an answer, or an unseen deletion of our own, whose answer has no version.
    pub fn newest_versions(&self) -> Versions {
        // Reads the writes first. A write that a store shows only afterwards is among its objects
        // in the next call.
        let mut unseen: HashMap<Resource, Option<Box<str>>> = HashMap::new();
        for entry in self.lock().all().filter(|entry| self.is_unseen(entry)) {
            let newest = unseen
                .entry(entry.resource)
                .or_insert_with(|| Some("0".into()));
            *newest = match &entry.want {
                Want::Version { version, .. } => {
                    newest.take().map(|newest| newer(newest, version.clone()))
                }
                Want::Answer | Want::Unknown | Want::Gone { .. } => None,
            };
        }
        let of_followee = |followee: Followee| {
            let unseen = unseen
                .get(&followee.resource)
                .cloned()
                .unwrap_or_else(|| Some("0".into()))?;
            Some((
                followee.resource.plural.to_owned(),
                newer(followee.store.newest_version()?, unseen),
            ))
        };
        self.followed()
            .into_iter()
            .filter_map(of_followee)
            .collect()
    }

    /// How many writes are entered and not dropped yet.
    fn len(&self) -> usize {
        self.lock().len()
    }

    /// Registers a metric with the number of entries. A settled entry counts until its owner is
    /// checked.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        registry.register_collector(Box::new(Awaited(self.clone())));
    }

    /// Drops all entries of a deleted owner.
    pub fn forget(&self, owner: &str) {
        self.lock().remove_where(owner, |_| true);
    }

    /// Whether the store that follows the resource has not seen the write yet.
    fn is_unseen(&self, entry: &Entry) -> bool {
        self.followed_store(&entry.resource)
            .is_some_and(|store| !is_settled(entry, &*store))
    }

    fn followed_store(&self, resource: &Resource) -> Option<Arc<dyn Followed>> {
        let followed = self.followed.lock();
        followed
            .get(resource)
            .map(|followee| followee.store.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

struct Awaited(Arc<Expectations>);

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Awaited")
    }
}

impl Collector for Awaited {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauge = ConstGauge::<i64>::new(self.0.len().try_into().unwrap_or(i64::MAX));
        let (name, help) = (
            "berth_awaited_writes",
            "Writes that were sent and are not known to be seen yet",
        );
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}

impl Ticket {
    /// The server answered with this version of the object.
    pub fn written(mut self, uid: &str, version: &str) {
        self.answered(Want::Version {
            uid: uid.into(),
            version: version.into(),
        });
    }

    /// The server deleted the object, or began the deletion.
    pub fn deleted(mut self, uid: &str) {
        self.answered(Want::Gone { uid: uid.into() });
    }

    /// The server refused the write, so that nothing happened.
    pub fn refused(mut self) {
        let id = std::mem::take(&mut self.id);
        self.expectations.lock().remove(id);
    }

    fn answered(&mut self, want: Want) {
        let doubt_at = Instant::now() + self.expectations.doubt;
        self.end(want, doubt_at);
    }

    fn end(&mut self, want: Want, doubt_at: Instant) {
        let id = std::mem::take(&mut self.id);
        if id != 0 {
            self.expectations.lock().expect(id, want, doubt_at);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(Want::Unknown, self.deadline);
    }
}

fn newer(one: Box<str>, other: Box<str>) -> Box<str> {
    if is_before(&one, &other) { other } else { one }
}

fn is_settled(entry: &Entry, store: &dyn Followed) -> bool {
    let seen = store.state(&entry.namespace, &entry.name);
    match (&entry.want, seen) {
        (Want::Answer | Want::Unknown, _) => false,
        (Want::Gone { uid }, seen) => seen.is_none_or(|seen| seen.uid != *uid || seen.terminating),
        (Want::Version { uid, version }, Some(seen)) if seen.uid == *uid => {
            reaches(&seen.version, version)
        }
        // The object is not in the store: not created there yet, or deleted already.
        (Want::Version { version, .. }, _) => store
            .position()
            .is_some_and(|position| reaches(&position, version)),
    }
}

#[cfg(test)]
mod tests;
