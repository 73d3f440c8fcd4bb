//! Who of ours waits until a budget has room: woken when it has, and asks again now and then all the same, for a wake may be missed, and
//! not all that lets a pod go is room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_runtime::executor::Owner;
use berth_runtime::queue::Queue;
use berth_runtime::{Change, Key, Object, Resource, Store};
use parking_lot::Mutex;

use crate::budgets::{Budget, BudgetKey};
use crate::watched::Watched;

/// For so long whoever was refused counts as waiting. Longer than it takes to ask again where nothing fails.
const WAITS: Duration = Duration::from_secs(10);

/// Between two turns of whoever is woken. What an object of ours does in its turn may raise a budget in ways that are not seen here.
const BETWEEN: Duration = Duration::from_millis(50);

/// What was refused, and when.
type Waiting = BTreeMap<(Resource, Key), Instant>;

/// How long an object waits at least when it is woken.
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
    /// By which queue objects of this kind are woken, and at which pace.
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

    /// The queue of a kind of ours, by its plural.
    pub(in crate::budgets) fn queue(&self, plural: &str) -> Option<Arc<Queue<Key>>> {
        let wakers = self.wakers.lock();
        wakers
            .iter()
            .find(|(resource, _)| resource.plural == plural)
            .map(|(_, waker)| waker.queue.clone())
    }

    /// This budget has refused something to this object. Whoever counts the budget is woken, for it may have put a count off because nobody
    /// waited.
    pub(in crate::budgets) fn note(&self, budget: &BudgetKey, owner: &Owner) {
        let mut all = self.waiting.lock();
        let is_first = !all.get(budget).is_some_and(is_awaited);
        if is_first {
            // Of budgets that are gone, too.
            all.retain(|_, waiting| is_awaited(waiting));
        }
        let waiting = all.entry(budget.clone()).or_default();
        waiting.retain(|_, since| since.elapsed() < WAITS);
        waiting.entry(object(owner)).or_insert_with(Instant::now);
        drop(all);
        if is_first {
            self.add(budget.resource, budget.key.clone(), Duration::ZERO);
        }
    }

    /// Whether somebody waits for this budget.
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

    /// Wakes those that wait for this budget, as many as may get a pod each, those first that wait longest.
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
            .for_each(|(_, (resource, key))| self.add(resource, key, BETWEEN));
    }

    fn add(&self, resource: Resource, key: Key, wait: Duration) {
        if let Some(waker) = self.wakers.lock().get(&resource) {
            let wait = wait.max((waker.pace)(&key));
            waker.queue.add_after(key, wait);
        }
    }

    /// Wakes who waits whenever a budget has more room than before, or is gone.
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

    /// A budget was this one, and is that one now. Room that comes of a recount was drawn in vain, because another budget refused: whoever
    /// did that would be at it again at once, and for ever.
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

fn object(owner: &Owner) -> (Resource, Key) {
    (owner.resource, Key::new(&owner.namespace, &owner.name))
}

fn is_awaited(waiting: &Waiting) -> bool {
    waiting.values().any(|since| since.elapsed() < WAITS)
}

#[cfg(test)]
mod tests {
    use berth_runtime::metrics::QueueMetrics;
    use berth_runtime::object::{CLONE_SETS, SIDECAR_SETS, STATEFUL_SETS};
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
        Owner {
            resource,
            namespace,
            name,
            uid,
        }
    }

    fn queue() -> Arc<Queue<Key>> {
        Queue::new(Backoff::default(), QueueMetrics::unread())
    }

    fn at_once() -> Pace {
        Box::new(|_| Duration::ZERO)
    }

    /// What of these is in the queue, in the order in which it is taken.
    async fn woken(queue: &Arc<Queue<Key>>) -> Vec<String> {
        let mut names = Vec::new();
        while let Ok(Some(work)) = tokio::time::timeout(BETWEEN * 4, queue.take()).await {
            names.push(work.key.name.to_string());
        }
        names
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_wait_longest_are_woken_by_more_room_as_many_as_may_get_a_pod() {
        let recounted = |allowed| {
            let mut budget = budget("web", allowed);
            let Budget::Unavailable(of) = &mut budget else {
                unreachable!()
            };
            let status = Arc::get_mut(of).unwrap().status.as_mut().unwrap();
            status.ledger.get_or_insert_default().recount = true;
            budget
        };
        let plain = |allowed| budget("web", allowed);
        for (old, new, expected) in [
            (Some(plain(0)), Some(plain(2)), vec!["b", "a"]),
            (Some(plain(1)), Some(plain(9)), vec!["b", "a", "c"]),
            (Some(plain(1)), Some(plain(1)), vec![]),
            (Some(plain(2)), Some(plain(1)), vec![]),
            (None, Some(plain(3)), vec![]),
            (Some(plain(1)), None, vec!["b", "a", "c"]),
            // Drawn in vain, and given back.
            (Some(recounted(0)), Some(plain(2)), vec![]),
        ] {
            let (awaited, queue) = (Arc::new(Waiters::default()), queue());
            awaited.wake_by(CLONE_SETS, &queue, at_once());
            let (web, other) = (budget("web", 0).key(), budget("other", 0).key());
            for name in ["b", "a", "c", "a"] {
                awaited.note(&web, &owner(CLONE_SETS, name));
                std::thread::sleep(Duration::from_millis(1));
            }
            awaited.note(&other, &owner(CLONE_SETS, "other"));
            awaited.changed(old.as_ref(), new.as_ref());
            let mut found = woken(&queue).await;
            found.sort_by_key(|name| expected.iter().position(|expected| expected == name));
            assert_eq!(found, expected, "{old:?} {new:?}");
            assert_eq!(
                (awaited.has(&web), awaited.has(&other)),
                (expected.len() < 3, true),
                "{old:?} {new:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_is_counted_when_somebody_begins_to_wait_for_it() {
        let (awaited, queue) = (Waiters::default(), queue());
        awaited.wake_by(POD_UNAVAILABLE_BUDGETS, &queue, at_once());
        let web = budget("web", 0).key();
        awaited.note(&web, &owner(SIDECAR_SETS, "a"));
        assert!(awaited.has(&web) && woken(&queue).await == ["web"]);
        let waits = |name| awaited.is_waiting(&web, &owner(SIDECAR_SETS, name));
        assert!(waits("a") && !waits("b"));
        awaited.note(&web, &owner(STATEFUL_SETS, "b"));
        assert_eq!(
            woken(&queue).await,
            Vec::<String>::new(),
            "somebody waits already"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_with_a_pace_of_its_own_is_woken_at_it() {
        const LONG: Duration = Duration::from_millis(500);
        for (pace, expected) in [(Duration::ZERO, BETWEEN), (LONG, LONG)] {
            let (awaited, queue, web) = (Waiters::default(), queue(), budget("web", 0).key());
            awaited.wake_by(
                SIDECAR_SETS,
                &queue,
                Box::new(move |key| if &*key.name == "log" { pace } else { 2 * LONG }),
            );
            awaited.note(
                &web,
                &Owner {
                    namespace: String::new(),
                    ..owner(SIDECAR_SETS, "log")
                },
            );
            let begun = tokio::time::Instant::now();
            awaited.wake(&web, 1);
            let work = queue.take().await.unwrap();
            assert_eq!(
                (work.key.clone(), begun.elapsed()),
                (Key::new("", "log"), expected)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_when_the_store_shows_room() {
        let watched = |version: &str, allowed| {
            let Budget::Unavailable(of) = budget("web", allowed) else {
                unreachable!()
            };
            let mut of = Arc::unwrap_or_clone(of);
            of.metadata.resource_version = Some(version.to_owned());
            Watched(Arc::new(of))
        };
        let (awaited, queue) = (Arc::new(Waiters::default()), queue());
        awaited.wake_by(CLONE_SETS, &queue, at_once());
        let store = Store::new(&[]);
        awaited.follow(&store, Budget::Unavailable);
        store.apply(watched("1", 0));
        awaited.note(&budget("web", 0).key(), &owner(CLONE_SETS, "web"));
        store.apply(watched("2", 1));
        assert_eq!(woken(&queue).await, ["web"]);
    }

    #[test]
    fn who_was_refused_long_ago_waits_no_more() {
        let (awaited, web) = (Waiters::default(), budget("web", 0).key());
        assert!(!awaited.has(&web));
        awaited.note(&web, &owner(CLONE_SETS, "web"));
        for waiting in awaited.waiting.lock().values_mut() {
            waiting
                .values_mut()
                .for_each(|since| *since = since.checked_sub(WAITS).unwrap());
        }
        assert!(!awaited.has(&web));
        awaited.note(&budget("other", 0).key(), &owner(CLONE_SETS, "other"));
        assert!(!awaited.waiting.lock().contains_key(&web), "it may be gone");
    }
}
