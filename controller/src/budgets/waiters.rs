//! Objects of ours that wait until a budget has capacity. The budget wakes them. They also retry
//! now and then, because a wake-up may be missed and a pod may be let go for other reasons than
//! capacity.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_runtime::events::Owner;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store};
use parking_lot::Mutex;

use crate::budgets::{Budget, BudgetKey};
use crate::stores::watched::Watched;

/// How long a refused object counts as waiting: longer than a retry takes when nothing fails.
const WAITS: Duration = Duration::from_secs(10);

/// The time between two reconciles of a woken object. Its reconcile may free capacity in a budget
/// in ways that this file does not see.
const BETWEEN: Duration = Duration::from_millis(50);

/// The objects that were refused, and when.
type Waiting = BTreeMap<(Resource, Key), Instant>;

/// The shortest time until a woken object of the kind is reconciled.
pub(crate) type Pace = Box<dyn Fn(&Key) -> Duration + Send + Sync>;

/// How objects of one kind are woken.
struct Waker {
    queue: Arc<Queue<Key>>,
    pace: Pace,
}

/// Objects that a budget refused something, and how they are woken.
#[derive(Default)]
pub(in crate::budgets) struct Waiters {
    wakers: Mutex<BTreeMap<Resource, Waker>>,
    waiting: Mutex<BTreeMap<BudgetKey, Waiting>>,
}

impl Waiters {
    /// Sets the queue that wakes objects of this kind, and the pace.
    pub(in crate::budgets) fn wake_by(
        &self,
        resource: Resource,
        queue: &Arc<Queue<Key>>,
        pace: Pace,
    ) {
        let waker = Waker {
            queue: queue.clone(),
            pace,
        };
        self.wakers.lock().insert(resource, waker);
    }

    /// Notes that this budget refused something to this object. Also wakes the budget, because it
    /// may have delayed a count while nothing waited for it.
    pub(in crate::budgets) fn note(&self, budget: &BudgetKey, owner: &Owner) {
        let mut all = self.waiting.lock();
        let is_first = !all.get(budget).is_some_and(is_awaited);
        if is_first {
            // This removes entries of deleted budgets, too.
            all.retain(|_, waiting| is_awaited(waiting));
        }
        let waiting = all.entry(budget.clone()).or_default();
        waiting.retain(|_, since| since.elapsed() < WAITS);
        waiting.entry(object(owner)).or_insert_with(Instant::now);
        drop(all);
        if is_first {
            self.enqueue(budget.resource, budget.key.clone(), Duration::ZERO);
        }
    }

    /// Whether an object waits for this budget.
    pub(in crate::budgets) fn has(&self, budget: &BudgetKey) -> bool {
        let all = self.waiting.lock();
        all.get(budget).is_some_and(is_awaited)
    }

    /// Whether this object waits for this budget.
    pub(in crate::budgets) fn is_waiting(&self, budget: &BudgetKey, owner: &Owner) -> bool {
        let all = self.waiting.lock();
        all.get(budget)
            .is_some_and(|waiting| waiting.contains_key(&object(owner)))
    }

    /// Wakes objects that wait for this budget: at most `most`, the longest waiting ones first,
    /// because each may get a pod.
    fn wake(&self, budget: &BudgetKey, most: usize) {
        let mut all = self.waiting.lock();
        let Some(waiting) = all.get_mut(budget) else {
            return;
        };
        waiting.retain(|_, since| since.elapsed() < WAITS);
        let mut longest: Vec<_> = waiting
            .iter()
            .map(|(object, since)| (*since, object.clone()))
            .collect();
        longest.sort_unstable();
        longest.truncate(most);
        for (_, object) in &longest {
            waiting.remove(object);
        }
        drop(all);
        longest
            .into_iter()
            .for_each(|(_, (resource, key))| self.enqueue(resource, key, BETWEEN));
    }

    /// Queues an object after `wait`, or after its pace if that is longer.
    fn enqueue(&self, resource: Resource, key: Key, wait: Duration) {
        if let Some(waker) = self.wakers.lock().get(&resource) {
            let wait = wait.max((waker.pace)(&key));
            waker.queue.add_after(key, wait);
        }
    }

    /// Wakes waiting objects when a budget has more capacity than before, or is gone.
    pub(in crate::budgets) fn follow<T: 'static>(
        self: &Arc<Self>,
        budgets: &Store<Watched<T>>,
        either: fn(Arc<T>) -> Budget,
    ) where
        Watched<T>: Object,
    {
        let this = self.clone();
        budgets.on_change(move |change| {
            let either = |budget: &Arc<Watched<T>>| either(budget.0.clone());
            match change {
                Change::Applied { old, new } => {
                    this.changed(old.as_ref().map(either).as_ref(), Some(&either(new)))
                }
                Change::Deleted { old } => this.changed(Some(&either(old)), None),
                Change::Synced => {}
            }
        });
    }

    /// Wakes waiting objects if the change of a budget added capacity or deleted the budget.
    /// Capacity that a recount returns wakes no object: a request released that capacity because
    /// another budget refused, and a woken object would repeat the request at once, and for ever.
    fn changed(&self, old: Option<&Budget>, new: Option<&Budget>) {
        match (old, new) {
            (Some(old), None) => self.wake(&old.key(), usize::MAX),
            (Some(old), Some(new))
                if new.allowed() > old.allowed() && !old.is_to_be_recounted() =>
            {
                self.wake(&new.key(), usize::try_from(new.allowed()).unwrap_or(0));
            }
            _ => {}
        }
    }
}

/// The entry in [`Waiting`] of an owner.
fn object(owner: &Owner) -> (Resource, Key) {
    (owner.resource, Key::new(&owner.namespace, &owner.name))
}

/// Whether any of a budget's objects was refused less than [`WAITS`] ago.
fn is_awaited(waiting: &Waiting) -> bool {
    waiting.values().any(|since| since.elapsed() < WAITS)
}

#[cfg(test)]
mod tests;
