//! Who of ours waits until a budget has room: woken when it has, instead of asking again and again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_runtime::executor::Owner;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store};

use super::{Budget, BudgetKey};
use crate::watched::Watched;

/// For so long whoever was refused counts as waiting. Longer than anything of ours is silent that waits for a budget.
const WAITS: Duration = Duration::from_secs(10);

/// What was refused, and since when.
type Waiting = BTreeMap<(Resource, Key), Instant>;

/// Objects that a budget refused something, and the queues by which they are woken.
#[derive(Default)]
pub(super) struct Awaited {
    queues: Mutex<BTreeMap<Resource, Arc<Queue<Key>>>>,
    waiting: Mutex<BTreeMap<BudgetKey, Waiting>>,
}

impl Awaited {
    /// By which queue objects of this kind are woken.
    pub(super) fn wake_by(&self, resource: Resource, queue: &Arc<Queue<Key>>) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).insert(resource, queue.clone());
    }

    /// This budget has refused something to this object. To be called for the budget that has no room alone: of one that has, and from
    /// which was drawn in vain, the room that is given back would wake the object at once. Whoever counts the budget is woken, for it may
    /// have put a count off because nobody waited.
    pub(super) fn note(&self, budget: &BudgetKey, owner: &Owner) {
        let mut all = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = all.entry(budget.clone()).or_default();
        waiting.retain(|_, since| since.elapsed() < WAITS);
        let is_first = waiting.is_empty();
        waiting.insert((owner.resource, Key::new(&owner.namespace, &owner.name)), Instant::now());
        drop(all);
        if is_first {
            self.add(budget.resource, budget.key.clone());
        }
    }

    /// Whether somebody waits for this budget.
    pub(super) fn has(&self, budget: &BudgetKey) -> bool {
        let all = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(budget).is_some_and(|waiting| waiting.values().any(|since| since.elapsed() < WAITS))
    }

    /// Wakes all that wait for this budget.
    fn wake(&self, budget: &BudgetKey) {
        let woken = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(budget).unwrap_or_default();
        woken.into_keys().for_each(|(resource, key)| self.add(resource, key));
    }

    fn add(&self, resource: Resource, key: Key) {
        if let Some(queue) = self.queues.lock().unwrap_or_else(PoisonError::into_inner).get(&resource) {
            queue.add(key);
        }
    }

    /// Wakes who waits whenever a budget has more room than before, or is gone.
    pub(super) fn follow<T: 'static>(self: &Arc<Self>, budgets: &Store<Watched<T>>, either: fn(Arc<T>) -> Budget)
    where
        Watched<T>: Object,
    {
        let this = self.clone();
        budgets.on_change(move |change| {
            let either = |budget: &Arc<Watched<T>>| either(budget.0.clone());
            match change {
                Change::Applied { old, new } => this.changed(old.as_ref().map(either).as_ref(), Some(&either(new))),
                Change::Deleted { old } => this.changed(Some(&either(old)), None),
                Change::Synced => {}
            }
        });
    }

    /// A budget was this one, and is that one now.
    fn changed(&self, old: Option<&Budget>, new: Option<&Budget>) {
        if let Some(old) = old
            && new.is_none_or(|new| new.allowed() > old.allowed())
        {
            self.wake(&old.key());
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_runtime::metrics::QueueMetrics;
    use berth_runtime::object::{CLONE_SETS, STATEFUL_SETS};
    use berth_runtime::queue::Backoff;
    use berth_workload::resource::POD_UNAVAILABLE_BUDGETS;
    use serde_json::json;

    use super::*;

    fn budget(name: &str, allowed: i32) -> Budget {
        let budget = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"maxUnavailable": 1},
            "status": {"observedGeneration": 1, "unavailableAllowed": allowed},
        });
        Budget::read("podunavailablebudgets", &budget.to_string()).unwrap()
    }

    fn owner(resource: Resource, name: &str) -> Owner {
        let [namespace, name, uid] = ["default", name, "u"].map(str::to_owned);
        Owner { resource, namespace, name, uid }
    }

    #[test]
    fn who_waits_for_a_budget_is_woken_once_when_that_one_has_more_room_or_is_gone() {
        for (old, new, is_woken) in [
            (Some(0), Some(2), true),
            (Some(1), Some(1), false),
            (Some(2), Some(1), false),
            (None, Some(3), false),
            (Some(1), None, true),
        ] {
            let awaited = Arc::new(Awaited::default());
            let queues = [CLONE_SETS, STATEFUL_SETS, POD_UNAVAILABLE_BUDGETS].map(|resource| {
                let queue = Queue::new(Backoff::default(), QueueMetrics::unread());
                awaited.wake_by(resource, &queue);
                queue
            });
            let (web, other) = (budget("web", 0).key(), budget("other", 0).key());
            awaited.note(&web, &owner(CLONE_SETS, "web"));
            awaited.note(&web, &owner(CLONE_SETS, "web"));
            awaited.note(&web, &owner(STATEFUL_SETS, "db"));
            awaited.note(&other, &owner(CLONE_SETS, "other"));
            let [old, new] = [old, new].map(|allowed| allowed.map(|allowed| budget("web", allowed)));
            awaited.changed(old.as_ref(), new.as_ref());
            let lengths = queues.map(|queue| queue.len());
            assert_eq!(
                (lengths, awaited.has(&web), awaited.has(&other)),
                (if is_woken { [1, 1, 2] } else { [0, 0, 2] }, !is_woken, true),
                "{old:?} {new:?}"
            );
        }
    }

    #[test]
    fn who_was_refused_long_ago_waits_no_more() {
        let (awaited, web) = (Awaited::default(), budget("web", 0).key());
        assert!(!awaited.has(&web));
        awaited.note(&web, &owner(CLONE_SETS, "web"));
        for waiting in awaited.waiting.lock().unwrap().values_mut() {
            waiting.values_mut().for_each(|since| *since = since.checked_sub(WAITS).unwrap());
        }
        assert!(!awaited.has(&web));
        awaited.note(&web, &owner(CLONE_SETS, "other"));
        assert_eq!(awaited.waiting.lock().unwrap()[&web].len(), 1, "the old one is forgotten");
    }
}
