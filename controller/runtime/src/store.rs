//! Objects in memory, as the apiserver last sent them.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use berth_api::weight::Limits;
use berth_workload::objects::owner::OwnerKey;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

use crate::object::{Object, Owned, compare_versions};
use crate::store::event::Odd;

pub mod event;
mod index;
mod list;
mod newest;
pub mod pods;
mod removal;
mod undecoded;
mod unreadable;
mod version;
mod versions;

pub use index::Index;
use newest::Newest;
use undecoded::Undecoded;

pub(crate) use version::is_before;
pub use version::reaches;

/// A change of one object. Subscribers get it after the store has changed.
#[derive(Debug, Clone)]
pub enum Change<T> {
    /// The object is new or differs from the one before.
    Applied {
        /// The version before, if the store had one.
        old: Option<Arc<T>>,
        /// The object in the store now.
        new: Arc<T>,
    },
    /// The object is gone, or the feed's filter no longer keeps it.
    Deleted {
        /// Its last known version.
        old: Arc<T>,
    },
    /// A list has ended: the store has all objects of one moment. Sent again after every relist.
    Synced,
}

/// Signals when a store is complete for the first time. See [`Store::sync_state`].
pub type SyncState = watch::Receiver<bool>;

type Hook<T> = Arc<dyn Fn(&Change<T>) + Send + Sync>;
type UnreadableHook = Arc<dyn Fn(&Odd) + Send + Sync>;

struct Held<T> {
    object: Arc<T>,
    /// The last list that showed the object; an object that a later list does not show is gone.
    list: u32,
}

struct Inner<T> {
    objects: HashTable<Held<T>>,
    indexed: Vec<HashMap<Box<str>, HashTable<Arc<T>>>>,
    /// Objects that exist but are unreadable in their present version.
    unreadable: Undecoded,
    list: u32,
    /// Whether to accept older versions from the list under way.
    force: bool,
    /// The objects of which the list under way shows older versions. `None` between lists.
    older: Option<HashSet<(Box<str>, Box<str>)>>,
    position: Option<Box<str>>,
    /// The newest version of any object that the store has had; its position may be newer.
    newest: Newest,
    /// The version of the newest deletion that the feed has shown.
    last_deletion: Option<Box<str>>,
    /// Whether the server does not know the kind.
    missing: bool,
}

/// Objects by namespace and name, with secondary indexes. Calls are short and never wait for I/O.
pub struct Store<T> {
    inner: RwLock<Inner<T>>,
    indexes: Vec<Index<T>>,
    hooks: RwLock<Vec<Hook<T>>>,
    unreadable_hooks: RwLock<Vec<UnreadableHook>>,
    hasher: RandomState,
    synced: watch::Sender<bool>,
    limits: OnceLock<Limits>,
}

impl<T: Owned> Index<T> {
    /// By the owner's uid. Only [`Store::owned_by`] reads it, because a uid proves no ownership.
    const OWNER: Self = Self::new("owner", |object| object.owner().map(|owner| owner.uid));
}

impl<T: Owned> Store<T> {
    /// An empty store that finds objects by their owner as well as by these indexes.
    pub fn with_owners(indexes: &[Index<T>]) -> Arc<Self> {
        Self::new(&[&[Index::OWNER], indexes].concat())
    }

    /// The objects of this owner: in its namespace, with its uid, group and kind. In no order.
    pub fn owned_by(&self, owner: &OwnerKey<'_>) -> Vec<Arc<T>> {
        let mut claimed = self.by_index(&Index::OWNER, owner.uid);
        let owns = |object: &T| {
            object
                .owner()
                .is_some_and(|reference| owner.owns(object.namespace(), &reference))
        };
        claimed.retain(|object| owns(object));
        claimed
    }
}

impl<T: Object> Store<T> {
    /// An empty store with these indexes.
    pub fn new(indexes: &[Index<T>]) -> Arc<Self> {
        Arc::new(Self {
            inner: RwLock::new(Inner {
                objects: HashTable::new(),
                indexed: indexes.iter().map(|_| HashMap::new()).collect(),
                unreadable: Undecoded::default(),
                list: 0,
                force: false,
                older: None,
                position: None,
                newest: Newest::default(),
                last_deletion: None,
                missing: false,
            }),
            indexes: indexes.to_vec(),
            hooks: RwLock::default(),
            unreadable_hooks: RwLock::default(),
            hasher: RandomState::new(),
            synced: watch::Sender::new(false),
            limits: OnceLock::new(),
        })
    }

    /// Sets the size limits for objects that are read for the store. Only the first call counts.
    pub(crate) fn set_limits(&self, limits: Option<Limits>) {
        if let Some(limits) = limits {
            let _known = self.limits.set(limits);
        }
    }

    /// The size limits for an object; `None` if there are none.
    pub(crate) fn limits(&self) -> Option<&Limits> {
        self.limits.get()
    }

    /// Calls `hook` after every change; it must not block. Subscribe before the feed starts.
    pub fn on_change(&self, hook: impl Fn(&Change<T>) + Send + Sync + 'static) {
        self.hooks.write().push(Arc::new(hook));
    }

    /// The object of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let inner = self.read();
        let found = inner.objects.find(self.hash(namespace, name), |held| {
            is_at(&*held.object, namespace, name)
        });
        found.map(|held| held.object.clone())
    }

    /// The objects with `value` in an index, in no order. An index that the store lacks costs a
    /// scan.
    pub fn by_index(&self, index: &Index<T>, value: &str) -> Vec<Arc<T>> {
        let inner = self.read();
        match self
            .indexes
            .iter()
            .position(|known| known.name == index.name)
        {
            Some(at) => inner.indexed[at]
                .get(value)
                .map(|set| set.iter().cloned().collect())
                .unwrap_or_default(),
            None => {
                let all = inner.objects.iter().map(|held| &held.object);
                all.filter(|object| index.value(object) == Some(value))
                    .cloned()
                    .collect()
            }
        }
    }

    /// Every object, in no order.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read()
            .objects
            .iter()
            .map(|held| held.object.clone())
            .collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True once a first list has ended.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// A handle on which to wait for the first list's end.
    pub fn sync_state(&self) -> SyncState {
        self.synced.subscribe()
    }

    /// Whether the server does not know the kind, so that the store is empty.
    pub fn is_missing(&self) -> bool {
        self.read().missing
    }

    /// Puts an object in, as a feed does. An older version of an object that is there is ignored.
    pub fn apply(&self, object: T) {
        let changes = self.put(object, false);
        self.tell(changes);
    }

    /// Stores an object that was read outside of the feed, unless the feed has passed its version.
    /// Otherwise a deleted object would come back for good.
    pub(crate) fn apply_read(&self, object: T) {
        let changes = self.put(object, true);
        self.tell(changes);
    }

    fn put(&self, object: T, beside: bool) -> Vec<Change<T>> {
        let hash = self.hash(object.namespace(), object.name());
        let mut guard = self.write();
        let inner = &mut *guard;
        let passed = |position: &str| reaches(position, object.resource_version());
        if beside && inner.position.as_deref().is_some_and(passed) {
            return Vec::new();
        }
        let force = inner.force;
        if !inner.unreadable.make_way(&object, force) {
            return Vec::new();
        }
        // A list that is under way has not shown an object that was read outside of the feed.
        let list = if beside {
            inner.list.wrapping_sub(1)
        } else {
            inner.list
        };
        let is_it = |held: &Held<T>| is_at(&*held.object, object.namespace(), object.name());
        let (old, new) = match inner
            .objects
            .entry(hash, is_it, |held| self.hash_of(&*held.object))
        {
            Entry::Occupied(mut entry) => {
                let held = entry.get_mut();
                if !beside {
                    held.list = list;
                    let older =
                        is_before(object.resource_version(), held.object.resource_version());
                    note_older(&mut inner.older, &object, older);
                }
                // Also an older object of this name, if the newer one was read outside of the feed.
                if !is_news(&*held.object, &object, force) {
                    return Vec::new();
                }
                let new = Arc::new(object);
                (Some(std::mem::replace(&mut held.object, new.clone())), new)
            }
            Entry::Vacant(entry) => {
                let new = Arc::new(object);
                entry.insert(Held {
                    object: new.clone(),
                    list,
                });
                (None, new)
            }
        };
        if let Some(old) = &old {
            self.unindex(inner, old);
        }
        self.index(inner, &new);
        inner.newest.raise(new.resource_version());
        match old {
            // Deleted and created again under one name between two events.
            Some(old) if old.uid() != new.uid() => {
                vec![Change::Deleted { old }, Change::Applied { old: None, new }]
            }
            old => vec![Change::Applied { old, new }],
        }
    }

    fn index(&self, inner: &mut Inner<T>, object: &Arc<T>) {
        for (index, sets) in self.indexes.iter().zip(&mut inner.indexed) {
            let Some(value) = index.value(object) else {
                continue;
            };
            let insert = |set: &mut HashTable<Arc<T>>| {
                set.insert_unique(self.hash_of(&**object), object.clone(), |o| {
                    self.hash_of(&**o)
                });
            };
            match sets.get_mut(value) {
                Some(set) => insert(set),
                None => insert(sets.entry(value.into()).or_default()),
            }
        }
    }

    fn unindex(&self, inner: &mut Inner<T>, object: &Arc<T>) {
        for (index, sets) in self.indexes.iter().zip(&mut inner.indexed) {
            let Some(value) = index.value(object) else {
                continue;
            };
            let Some(set) = sets.get_mut(value) else {
                continue;
            };
            if let Ok(entry) =
                set.find_entry(self.hash_of(&**object), |held| Arc::ptr_eq(held, object))
            {
                entry.remove();
            }
            if set.is_empty() {
                sets.remove(value);
            }
        }
    }

    fn tell(&self, changes: impl IntoIterator<Item = Change<T>>) {
        let hooks = self.hooks.read().clone();
        for change in changes {
            for hook in &hooks {
                hook(&change);
            }
        }
    }

    fn hash(&self, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }

    fn hash_of(&self, object: &T) -> u64 {
        self.hash(object.namespace(), object.name())
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner<T>> {
        self.inner.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<T>> {
        self.inner.write()
    }
}

fn is_at<T: Object>(object: &T, namespace: &str, name: &str) -> bool {
    object.name() == name && object.namespace() == namespace
}

/// Notes an object that a list shows in an older version than the store, or again in a newer one.
fn note_older<T: Object>(
    noted: &mut Option<HashSet<(Box<str>, Box<str>)>>,
    object: &T,
    is_older: bool,
) {
    let Some(noted) = noted.as_mut().filter(|noted| is_older || !noted.is_empty()) else {
        return;
    };
    let key = (object.namespace().into(), object.name().into());
    if is_older {
        noted.insert(key)
    } else {
        noted.remove(&key)
    };
}

/// False for the same version, or, unless forced, if `new` is the older version.
fn is_news<T: Object>(old: &T, new: &T, force: bool) -> bool {
    match compare_versions(old.resource_version(), new.resource_version()) {
        Some(Ordering::Less) | None => true,
        Some(Ordering::Equal) => false,
        Some(Ordering::Greater) => force,
    }
}

#[cfg(test)]
mod tests;
