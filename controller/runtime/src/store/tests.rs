use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::object::Resource;

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Thing {
    namespace: String,
    name: String,
    uid: String,
    version: String,
    node: String,
}

impl Object for Thing {
    const RESOURCE: Resource = Resource::new("", "v1", "things", "Thing");

    fn namespace(&self) -> &str {
        &self.namespace
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn resource_version(&self) -> &str {
        &self.version
    }
    fn terminating(&self) -> bool {
        false
    }
}

const BY_NODE: Index<Thing> = Index::new("node", |thing| Some(&thing.node));
const BY_UID: Index<Thing> = Index::new("uid", |thing| Some(&thing.uid));

fn thing(name: &str, uid: &str, version: u32, node: &str) -> Thing {
    Thing {
        namespace: "ns".into(),
        name: name.into(),
        uid: uid.into(),
        version: version.to_string(),
        node: node.into(),
    }
}

fn pod(namespace: &str, name: &str, owner: serde_json::Value) -> berth_workload::objects::pod::Pod {
    let metadata = serde_json::json!({"namespace": namespace, "name": name, "uid": name, "ownerReferences": [owner]});
    serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
}

#[test]
fn pods_are_owned_only_within_namespace_and_kind() {
    use berth_workload::objects::owner::{CLONE_SET, OwnerKey};
    let store = Store::with_owners(&[]);
    let owner = |group: &str, kind: &str, uid: &str, controls: bool| {
        serde_json::json!({
            "apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": "web", "uid": uid, "controller": controls,
        })
    };
    let genuine = owner("apps.kruise.io", "CloneSet", "u", true);
    store.apply(pod("victim", "genuine", genuine.clone()));
    store.apply(pod("attacker", "elsewhere", genuine));
    store.apply(pod(
        "victim",
        "other-kind",
        owner("apps.kruise.io", "Nothing", "u", true),
    ));
    store.apply(pod(
        "victim",
        "other-group",
        owner("none.example", "CloneSet", "u", true),
    ));
    store.apply(pod(
        "victim",
        "other-uid",
        owner("apps.kruise.io", "CloneSet", "v", true),
    ));
    store.apply(pod(
        "victim",
        "not-managed",
        owner("apps.kruise.io", "CloneSet", "u", false),
    ));
    let names = |namespace| -> Vec<_> {
        let owned = store.owned_by(&OwnerKey {
            kind: CLONE_SET,
            namespace,
            uid: "u",
        });
        owned
            .iter()
            .map(|pod| pod.metadata.name.to_string())
            .collect()
    };
    assert_eq!(names("victim"), ["genuine"]);
    assert_eq!(
        names("attacker"),
        ["elsewhere"],
        "as a CloneSet there with that uid would own it"
    );
    assert!(names("").is_empty());
}

/// The same pod in an unreadable version.
fn odd(name: &str, uid: &str, version: &str) -> Odd {
    let owner = serde_json::json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "u", "controller": true,
    });
    Odd {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        version: version.to_owned(),
        owners: Box::new([serde_json::from_value(owner).unwrap()]),
        ..Odd::default()
    }
}

fn versioned(name: &str, uid: &str, version: &str) -> berth_workload::objects::pod::Pod {
    let metadata = serde_json::json!({"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version});
    serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
}

#[test]
fn unreadable_object_stays_until_gone_or_readable() {
    use berth_workload::objects::owner::{CLONE_SET, OwnerKey};
    let store = Store::new(&[]);
    let told = Arc::new(Mutex::new(0));
    let telling = told.clone();
    store.on_unreadable(move |_| *telling.lock() += 1);
    let owner = OwnerKey {
        kind: CLONE_SET,
        namespace: "ns",
        uid: "u",
    };
    let names = || {
        store
            .unreadable_of(&owner)
            .iter()
            .map(|odd| odd.name.clone())
            .collect::<Vec<_>>()
    };
    for name in ["gone", "readable", "deleted"] {
        store.apply(versioned(name, name, "1"));
        store.apply_unreadable(odd(name, name, "3"));
    }
    store.apply_unreadable(odd("never-read", "never-read", "3"));
    assert_eq!((names().len(), *told.lock()), (4, 4));
    // An older version of an unreadable object, from a server that is behind, makes nothing
    // readable.
    store.apply(versioned("readable", "readable", "2"));
    assert_eq!(names().len(), 4);
    store.begin_list(false);
    for name in ["gone", "readable", "deleted", "never-read"] {
        store.apply_unreadable(odd(name, name, "3"));
    }
    store.end_list("5");
    assert_eq!(
        (store.len(), names().len()),
        (3, 4),
        "the list has shown them"
    );
    store.apply(versioned("readable", "readable", "6"));
    store.remove("ns", "deleted", Some("deleted"));
    assert_eq!(names(), ["gone", "never-read"]);
    let before = *told.lock();
    store.begin_list(false);
    store.apply(versioned("readable", "readable", "6"));
    store.end_list("8");
    assert_eq!(
        (store.len(), names().len()),
        (1, 0),
        "the list has not shown them"
    );
    assert_eq!(*told.lock(), before + 2);
}

#[test]
fn unreadable_object_replaces_one_of_the_same_name() {
    let store = Store::new(&[]);
    store.apply(versioned("a", "before", "1"));
    store.apply_unreadable(odd("a", "after", "3"));
    assert!(store.is_empty());
    assert_eq!(store.unreadable("ns", "a").unwrap().uid, "after");
    store.remove("ns", "a", Some("before"));
    assert!(store.unreadable("ns", "a").is_some(), "another is deleted");
    store.apply_unreadable_read(odd("b", "b", "3"));
    assert!(
        store.unreadable("ns", "b").is_some(),
        "before the first list"
    );
}

#[test]
fn newest_version_counts_what_cannot_be_read() {
    let store = Store::new(&[]);
    store.begin_list(false);
    store.apply(versioned("a", "a", "4"));
    store.apply_unreadable(odd("b", "b", "7"));
    store.end_list("9");
    assert_eq!(store.newest_version().as_deref(), Some("7"));
    store.apply_unreadable(odd("c", "c", ""));
    assert_eq!(
        store.newest_version(),
        None,
        "its version cannot be read, either"
    );
}

/// The content of the store and the number of lists, computed by a subscriber from the changes
/// alone.
#[derive(Default)]
struct Mirror {
    things: BTreeMap<String, Thing>,
    told: Vec<String>,
}

fn mirrored(indexes: &[Index<Thing>]) -> (Arc<Store<Thing>>, Arc<Mutex<Mirror>>) {
    let (store, mirror) = (Store::new(indexes), Arc::new(Mutex::new(Mirror::default())));
    let hook = mirror.clone();
    store.on_change(move |change| {
        let mut mirror = hook.lock();
        match change {
            Change::Applied { old, new } => {
                let before = mirror.things.insert(new.name.clone(), (**new).clone());
                assert_eq!(
                    before.as_ref(),
                    old.as_deref(),
                    "the old version told is the one told before"
                );
                mirror.told.push(format!("+{}:{}", new.name, new.uid));
            }
            Change::Deleted { old } => {
                assert_eq!(mirror.things.remove(&old.name).as_ref(), Some(&**old));
                mirror.told.push(format!("-{}:{}", old.name, old.uid));
            }
            Change::Synced => mirror.told.push("=".into()),
        }
    });
    (store, mirror)
}

fn told(mirror: &Mutex<Mirror>) -> Vec<String> {
    std::mem::take(&mut mirror.lock().told)
}

#[test]
fn object_missing_in_list_is_reported_as_deleted() {
    let (store, mirror) = mirrored(&[]);
    store.begin_list(false);
    store.apply(thing("a", "1", 1, ""));
    store.apply(thing("b", "2", 2, ""));
    assert!(!store.is_synced() && store.position().is_none());
    store.end_list("2");
    assert!(store.is_synced());
    assert_eq!(told(&mirror), ["+a:1", "+b:2", "="]);

    store.begin_list(false);
    store.apply(thing("b", "2", 2, ""));
    store.apply(thing("c", "3", 5, ""));
    store.end_list("6");
    // There is no event for b, which has not changed.
    assert_eq!(told(&mirror), ["+c:3", "-a:1", "="]);
    assert_eq!(store.position().as_deref(), Some("6"));
}

#[test]
fn newest_shown_is_the_newest_applied_change() {
    let store = Store::<Thing>::new(&[]);
    let versions =
        || [store.position(), store.newest_shown()].map(|version| version.map(String::from));
    let expected =
        |position: &str, newest: &str| [position, newest].map(|version| Some(version.to_owned()));
    store.begin_list(false);
    store.apply(thing("a", "1", 7, ""));
    assert_eq!(versions(), [None, None], "the first list is under way");
    store.end_list("9");
    type Step<'a> = (&'a str, &'a dyn Fn(), [Option<String>; 2]);
    let steps: [Step<'_>; 9] = [
        ("a list has ended", &|| {}, expected("9", "9")),
        (
            "an event is under way",
            &|| store.apply(thing("a", "1", 10, "")),
            expected("9", "10"),
        ),
        (
            "the event has ended",
            &|| store.advance("10"),
            expected("10", "10"),
        ),
        (
            "an older one",
            &|| store.apply(thing("b", "2", 8, "")),
            expected("10", "10"),
        ),
        (
            "a deletion is under way",
            &|| store.note_deletion("11"),
            expected("10", "11"),
        ),
        (
            "one is read beside the feed",
            &|| store.apply_read(thing("c", "3", 100, "")),
            expected("10", "100"),
        ),
        (
            "another comes by the feed",
            &|| store.apply(thing("d", "4", 99, "")),
            expected("10", "100"),
        ),
        (
            "a bookmark",
            &|| store.advance("101"),
            expected("101", "101"),
        ),
        (
            "a history that was set back",
            &|| store.begin_list(true),
            expected("101", "101"),
        ),
    ];
    for (what, step, expected) in steps {
        step();
        assert_eq!(versions(), expected, "{what}");
    }
    store.apply(thing("a", "1", 5, ""));
    store.end_list("6");
    assert_eq!(versions(), expected("6", "6"));
}

#[test]
fn a_new_object_under_an_old_name_is_a_deletion_too() {
    let (store, mirror) = mirrored(&[BY_UID]);
    store.apply(thing("a", "1", 1, ""));
    store.apply(thing("a", "2", 9, ""));
    assert_eq!(told(&mirror), ["+a:1", "-a:1", "+a:2"]);
    assert!(store.by_index(&BY_UID, "1").is_empty());
    assert_eq!(store.by_index(&BY_UID, "2").len(), 1);
}

#[test]
fn list_without_a_known_change_contradicts_store() {
    let list = |had: u32, shows: &[u32], version: &str| {
        let store = Store::new(&[]);
        store.begin_list(false);
        store.apply(thing("a", "1", had, ""));
        assert!(
            !store.end_list(&had.to_string()),
            "nothing was known before"
        );
        store.begin_list(false);
        shows
            .iter()
            .for_each(|shown| store.apply(thing("a", "1", *shown, "")));
        store.end_list(version)
    };
    assert!(list(10, &[7], "1000"), "the change to version 10 never was");
    assert!(list(10, &[7], "10"));
    assert!(!list(10, &[7], "9"), "the list is older than the change");
    assert!(
        !list(10, &[7, 10], "12"),
        "what a streaming list begins with is caught up on"
    );
    assert!(!list(10, &[7, 11], "12"));
    assert!(!list(10, &[10], "12"));
    assert!(!list(10, &[], "12"), "it was deleted");
}

#[test]
fn older_versions_are_ignored_unless_list_is_forced() {
    let (store, mirror) = mirrored(&[]);
    store.apply(thing("a", "1", 10, "new"));
    store.apply(thing("a", "1", 9, "old"));
    store.apply(thing("a", "1", 10, "same version"));
    assert_eq!(store.get("ns", "a").unwrap().node, "new");
    assert_eq!(told(&mirror).len(), 1);
    store.begin_list(true);
    store.apply(thing("a", "1", 9, "restored"));
    store.end_list("9");
    assert_eq!(store.get("ns", "a").unwrap().node, "restored");
    store.apply(thing("a", "1", 8, "old"));
    assert_eq!(store.get("ns", "a").unwrap().node, "restored");
}

#[test]
fn versions_that_are_no_numbers_always_apply() {
    let (store, _) = mirrored(&[]);
    let odd = |version: &str, node: &str| Thing {
        version: version.into(),
        ..thing("a", "1", 0, node)
    };
    store.apply(odd("x", "first"));
    store.apply(odd("w", "second"));
    assert_eq!(store.get("ns", "a").unwrap().node, "second");
}

#[test]
fn deletion_with_another_uid_is_ignored() {
    let (store, _) = mirrored(&[]);
    store.apply(thing("a", "2", 5, ""));
    store.remove("ns", "a", Some("1"));
    assert_eq!(store.len(), 1);
    store.remove("ns", "a", Some("2"));
    assert!(store.is_empty());
}

#[derive(Debug, Clone)]
enum Op {
    Apply {
        name: u8,
        uid: u8,
        version: u32,
        node: u8,
    },
    Remove {
        name: u8,
    },
    Relist {
        shown: Vec<(u8, u8, u32, u8)>,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let object = (0..5u8, 0..3u8, 0..20u32, 0..3u8);
    prop_oneof![
        5 => object.clone().prop_map(|(name, uid, version, node)| Op::Apply { name, uid, version, node }),
        2 => (0..5u8).prop_map(|name| Op::Remove { name }),
        1 => prop::collection::vec(object, 0..4).prop_map(|shown| Op::Relist { shown }),
    ]
}

proptest! {
    /// After any operations, subscribers and indexes agree with the store. After a list the store
    /// has exactly the list's names.
    #[test]
    fn subscribers_and_indexes_agree_with_the_store(ops in prop::collection::vec(op(), 0..40)) {
        let (store, mirror) = mirrored(&[BY_NODE]);
        let make = |(name, uid, version, node): (u8, u8, u32, u8)| {
            let node = if node == 0 { String::new() } else { node.to_string() };
            thing(&name.to_string(), &uid.to_string(), version, &node)
        };
        for op in ops {
            match op {
                Op::Apply { name, uid, version, node } => store.apply(make((name, uid, version, node))),
                Op::Remove { name } => store.remove("ns", &name.to_string(), None),
                Op::Relist { shown } => {
                    store.begin_list(false);
                    let names: std::collections::BTreeSet<_> = shown.iter().map(|shown| shown.0.to_string()).collect();
                    shown.into_iter().for_each(|shown| store.apply(make(shown)));
                    store.end_list("1000");
                    let held: std::collections::BTreeSet<_> = store.all().iter().map(|thing| thing.name.clone()).collect();
                    prop_assert_eq!(held, names);
                }
            }
            let held: BTreeMap<_, _> = store.all().iter().map(|thing| (thing.name.clone(), (**thing).clone())).collect();
            prop_assert_eq!(&held, &mirror.lock().things);
            prop_assert_eq!(held.len(), store.len());
            let mut nodes: HashMap<&str, Vec<&Thing>> = HashMap::new();
            held.values().for_each(|thing| nodes.entry(&thing.node).or_default().push(thing));
            for node in ["", "1", "2"] {
                let mut found: Vec<_> = store.by_index(&BY_NODE, node).iter().map(|thing| thing.name.clone()).collect();
                found.sort();
                let expected = if node.is_empty() { Vec::new() } else { nodes.remove(node).unwrap_or_default() };
                prop_assert_eq!(found, expected.iter().map(|thing| thing.name.clone()).collect::<Vec<_>>());
                // An index that the store does not have gives the same by a scan.
                let mut scanned: Vec<_> = store.by_index(&Index { name: "other", ..BY_NODE }, node).iter().map(|t| t.name.clone()).collect();
                scanned.sort();
                let mut found: Vec<_> = store.by_index(&BY_NODE, node).iter().map(|thing| thing.name.clone()).collect();
                found.sort();
                prop_assert_eq!(scanned, found);
            }
        }
    }
}

#[test]
fn separate_read_does_not_restore_deleted_objects() {
    let store: Arc<Store<Thing>> = Store::new(&[]);
    store.begin_list(false);
    store.end_list("100");
    store.apply(thing("a", "1", 101, ""));
    store.advance("101");
    let seen = store.get("ns", "a").unwrap();
    // Read before the feed shows its deletion, and applied afterwards.
    store.remove("ns", "a", Some("1"));
    store.advance("102");
    store.apply_read(thing("a", "1", 101, ""));
    assert!(store.get("ns", "a").is_none());
    // The feed has not reached this version yet.
    store.apply_read(thing("b", "2", 103, ""));
    assert!(store.get("ns", "b").is_some());
    // Not found, and created again before that is taken in.
    store.apply(thing("a", "3", 104, ""));
    store.remove_seen(&seen);
    assert_eq!(store.get("ns", "a").unwrap().uid, "3");
    store.remove_seen(&store.get("ns", "a").unwrap());
    assert!(store.get("ns", "a").is_none());
    // What a list that was under way does not show is gone, unless it came after the list.
    store.begin_list(false);
    store.apply_read(thing("c", "4", 105, ""));
    store.apply_read(thing("d", "5", 107, ""));
    store.end_list("106");
    assert!(
        store.get("ns", "b").is_none()
            && store.get("ns", "c").is_none()
            && store.get("ns", "d").is_some()
    );
    // A history that was set back does not have this version.
    store.begin_list(true);
    store.end_list("90");
    assert!(store.get("ns", "d").is_none());
}

#[derive(Debug, Clone)]
enum Beside {
    /// The server creates the object, changes it, or deletes it.
    Create,
    Change,
    Delete,
    /// The feed goes on by so many events.
    Feed(usize),
    /// It breaks off, and asks for what there is.
    List,
    /// The list has arrived.
    Listed,
    /// A read is sent, answered, and taken in.
    Ask,
    Answer,
    Take,
}

/// One object on a server, and the feed and the reads that show it.
struct Server {
    store: Arc<Store<Thing>>,
    version: u32,
    uid: u32,
    now: Option<Thing>,
    events: Vec<(u32, Option<Thing>)>,
    fed: usize,
    /// A list that is under way: its version, and how many events had happened by then.
    listing: Option<(u32, Option<Thing>, usize)>,
    /// The uids that the store has shown.
    shown: Vec<String>,
    asked: Option<Option<Arc<Thing>>>,
    answered: Option<Option<Thing>>,
}

impl Server {
    fn new() -> Self {
        let store = Store::new(&[]);
        store.begin_list(false);
        store.end_list("1");
        Self {
            store,
            version: 1,
            uid: 0,
            now: None,
            events: Vec::new(),
            fed: 0,
            listing: None,
            shown: Vec::new(),
            asked: None,
            answered: None,
        }
    }

    fn step(&mut self, step: &Beside) {
        match step {
            Beside::Create if self.now.is_none() => {
                self.uid += 1;
                self.becomes(true);
            }
            Beside::Change if self.now.is_some() => self.becomes(true),
            Beside::Delete if self.now.is_some() => self.becomes(false),
            Beside::Feed(events) if self.listing.is_none() => {
                (0..*events).for_each(|_| self.feed())
            }
            Beside::List if self.listing.is_none() => {
                self.store.begin_list(false);
                self.listing = Some((self.version, self.now.clone(), self.events.len()));
            }
            Beside::Listed => {
                let Some((version, shown, fed)) = self.listing.take() else {
                    return;
                };
                shown.into_iter().for_each(|thing| self.store.apply(thing));
                self.store.end_list(&version.to_string());
                self.fed = fed;
            }
            Beside::Ask => (self.asked, self.answered) = (Some(self.store.get("ns", "a")), None),
            Beside::Answer if self.asked.is_some() => self.answered = Some(self.now.clone()),
            Beside::Take => match (self.asked.take(), self.answered.take()) {
                (Some(_), Some(Some(thing))) => self.store.apply_read(thing),
                (Some(seen), Some(None)) => {
                    seen.iter().for_each(|seen| self.store.remove_seen(seen))
                }
                _ => {}
            },
            Beside::Create
            | Beside::Change
            | Beside::Delete
            | Beside::Feed(_)
            | Beside::List
            | Beside::Answer => {}
        }
    }

    fn becomes(&mut self, exists: bool) {
        self.version += 1;
        self.now = exists.then(|| thing("a", &self.uid.to_string(), self.version, ""));
        self.events.push((self.version, self.now.clone()));
    }

    fn feed(&mut self) {
        let Some((version, thing)) = self.events.get(self.fed) else {
            return;
        };
        let before = self
            .fed
            .checked_sub(1)
            .and_then(|before| self.events[before].1.as_ref());
        match (thing, before) {
            (Some(thing), _) => self.store.apply(thing.clone()),
            (None, before) => self
                .store
                .remove("ns", "a", before.map(|before| &*before.uid)),
        }
        self.store.advance(&version.to_string());
        self.fed += 1;
    }
}

fn beside() -> impl Strategy<Value = Beside> {
    prop_oneof![
        Just(Beside::Create),
        Just(Beside::Change),
        Just(Beside::Delete),
        (1usize..4).prop_map(Beside::Feed),
        Just(Beside::List),
        Just(Beside::Listed),
        Just(Beside::Ask),
        Just(Beside::Answer),
        Just(Beside::Take),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// After any order of reads: once the feed has reported everything, the store equals the
    /// server. An object that the store has shown stays in the store for as long as it exists.
    #[test]
    fn store_equals_server_after_separate_reads(steps in prop::collection::vec(beside(), 1..40)) {
        let mut server = Server::new();
        for step in &steps {
            server.step(step);
            let held = server.store.get("ns", "a").map(|held| held.uid.clone());
            if let Some(now) = &server.now {
                prop_assert!(held.as_ref() == Some(&now.uid) || !server.shown.contains(&now.uid), "it was forgotten");
            }
            server.shown.extend(held);
        }
        server.step(&Beside::Listed);
        server.step(&Beside::Feed(100));
        let held = server.store.get("ns", "a").map(|held| (*held).clone());
        prop_assert_eq!(held, server.now);
    }
}
