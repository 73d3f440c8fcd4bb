//! Which pods have entries of requests in their gates.

use std::collections::{BTreeSet, HashMap};

use berth_kinds::containerrecreaterequest::entries;
use berth_runtime::{Change, Key};
use berth_workload::pod::Pod;
use parking_lot::{Mutex, MutexGuard};

/// By request, the names of the pods in whose gates it has an entry.
#[derive(Default)]
pub(super) struct Entries(Mutex<HashMap<Key, BTreeSet<Box<str>>>>);

impl Entries {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, BTreeSet<Box<str>>>> {
        self.0.lock()
    }

    /// Notes a change of a pod; gives the requests that have an entry in it now.
    pub(super) fn note(&self, change: &Change<Pod>) -> Vec<Key> {
        let (old, new) = match change {
            Change::Applied { old, new } => (old.as_deref(), Some(&**new)),
            Change::Deleted { old } => (Some(&**old), None),
            Change::Synced => return Vec::new(),
        };
        let (before, now) = (
            old.map(keys).unwrap_or_default(),
            new.map(keys).unwrap_or_default(),
        );
        let is_without = before.is_empty() && now.is_empty();
        let Some(pod) = new.or(old).filter(|_| !is_without) else {
            return now;
        };
        let mut all = self.lock();
        for gone in before.iter().filter(|key| !now.contains(key)) {
            if let Some(pods) = all.get_mut(gone) {
                pods.remove(&pod.metadata.name);
            }
            if all.get(gone).is_some_and(BTreeSet::is_empty) {
                all.remove(gone);
            }
        }
        for key in &now {
            all.entry(key.clone())
                .or_default()
                .insert(pod.metadata.name.clone());
        }
        now
    }

    /// The pods in whose gates the request has an entry.
    pub(super) fn of(&self, request: &Key) -> Vec<Box<str>> {
        self.lock()
            .get(request)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

fn keys(pod: &Pod) -> Vec<Key> {
    entries(pod)
        .iter()
        .map(|name| Key::new(&pod.metadata.namespace, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn pod(name: &str, requests: &[&str]) -> Arc<Pod> {
        let entries: Vec<_> = requests
            .iter()
            .map(|request| json!({"userAgent": "ContainerRecreateRequest", "key": format!("default/{request}")}))
            .collect();
        let gate = json!({"type": "KruisePodReady", "status": "False", "message": json!(entries).to_string()});
        let pod = json!({"metadata": {"namespace": "default", "name": name}, "status": {"conditions": [gate]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn the_pods_of_a_request_are_known_as_long_as_it_has_an_entry_in_them() {
        let (all, key) = (Entries::default(), |name: &str| Key::new("default", name));
        let applied = |old: Option<&Arc<Pod>>, new: &Arc<Pod>| Change::Applied {
            old: old.cloned(),
            new: new.clone(),
        };
        let (bare, one, both) = (pod("web", &[]), pod("web", &["a"]), pod("web", &["a", "b"]));
        let of = |request: &str| {
            all.of(&key(request))
                .iter()
                .map(|pod| pod.to_string())
                .collect::<Vec<_>>()
        };
        assert!(all.note(&applied(None, &bare)).is_empty());
        assert_eq!(all.note(&applied(Some(&bare), &both)), [key("a"), key("b")]);
        assert_eq!(all.note(&applied(None, &pod("db", &["a"]))), [key("a")]);
        assert_eq!(of("a"), ["db", "web"]);
        assert_eq!(of("b"), ["web"]);
        assert_eq!(all.note(&applied(Some(&both), &one)), [key("a")]);
        assert!(of("b").is_empty());
        all.note(&Change::Deleted { old: one });
        assert_eq!(of("a"), ["db"]);
        all.note(&applied(Some(&pod("db", &["a"])), &pod("db", &[])));
        assert!(all.lock().is_empty(), "nothing is kept of what is over");
    }
}
