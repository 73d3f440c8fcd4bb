//! Limits how many reviews do the same work at once, and shares the turns out by the namespaces of
//! the reviews.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The longest wait for a turn, and for memory that other reviews hold: less than the apiserver
/// waits for an answer.
pub(super) const WAIT: Duration = Duration::from_secs(2);
/// The most reviews of one namespace that wait for a turn. Each holds a connection of the
/// apiserver, which are few.
const MOST_OF_NAMESPACE: usize = 48;
/// The most reviews that wait for a turn.
const MOST: usize = 64;

/// A semaphore that serves namespaces in turn. A namespace that sends many reviews delays only its
/// own.
#[derive(Clone)]
pub(super) struct Turns(Arc<Mutex<Line<oneshot::Sender<()>>>>);

impl Turns {
    /// A semaphore with this many turns at once.
    pub(super) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(Line::new(places))))
    }

    /// The next turn of this namespace; `None` after [`WAIT`], or at once if too many reviews wait.
    pub(super) async fn take(&self, namespace: &str) -> Option<Turn> {
        let (call, called) = oneshot::channel();
        let number = match self.lock().enter(namespace, call) {
            Entry::Taken => {
                return Some(Turn {
                    turns: self.clone(),
                    namespace: namespace.to_owned(),
                });
            }
            Entry::Full => return None,
            Entry::Waits(number) => number,
        };
        let mut waiting = Waiting {
            turns: self,
            namespace,
            number,
            called,
        };
        let called = tokio::time::timeout(WAIT, &mut waiting.called).await;
        matches!(called, Ok(Ok(()))).then(|| Turn {
            turns: self.clone(),
            namespace: namespace.to_owned(),
        })
    }

    /// Ends a turn of this namespace, and gives turns to the next reviews.
    fn give_back(&self, namespace: &str) {
        let mut line = self.lock();
        line.give_back(namespace);
        while let Some(call) = line.next() {
            // A review that gives up leaves the line before it drops its receiver.
            let _ = call.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line<oneshot::Sender<()>>> {
        self.0.lock()
    }
}

/// A turn, which ends when this is dropped.
pub(super) struct Turn {
    turns: Turns,
    namespace: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.give_back(&self.namespace);
    }
}

/// A review that waits for its turn.
struct Waiting<'a> {
    turns: &'a Turns,
    namespace: &'a str,
    number: u64,
    called: oneshot::Receiver<()>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = self.turns.lock().leave(self.namespace, self.number);
        // The turn may come at the moment when the review gives up.
        if !waited && self.called.try_recv().is_ok() {
            self.turns.give_back(self.namespace);
        }
    }
}

/// The result of a review's request for a turn.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Taken,
    /// The number by which the review leaves.
    Waits(u64),
    Full,
}

/// Places, and the reviews that wait for one, by namespace.
struct Line<W> {
    free: usize,
    /// The number of places for namespaces that hold none.
    reserve: usize,
    held: BTreeMap<String, usize>,
    waiting: BTreeMap<String, VecDeque<(u64, W)>>,
    /// The namespaces in `waiting`, the next one first.
    order: VecDeque<String>,
    number: u64,
}

impl<W> Line<W> {
    fn new(places: usize) -> Self {
        let (held, waiting, order) = Default::default();
        Self {
            free: places,
            reserve: places / 4,
            held,
            waiting,
            order,
            number: 0,
        }
    }

    /// Takes a place for a review, or adds `waiter` to the queue of the review's namespace.
    fn enter(&mut self, namespace: &str, waiter: W) -> Entry {
        let own = self.waiting.get(namespace).map_or(0, VecDeque::len);
        if own == 0 && self.may_take(namespace) {
            self.take(namespace);
            return Entry::Taken;
        }
        if own >= MOST_OF_NAMESPACE || (self.waiting() >= MOST && !self.shorten_for(own)) {
            return Entry::Full;
        }
        self.number += 1;
        if own == 0 {
            self.order.push_back(namespace.to_owned());
        }
        self.waiting
            .entry(namespace.to_owned())
            .or_default()
            .push_back((self.number, waiter));
        Entry::Waits(self.number)
    }

    /// Removes the last review of the longest queue in favour of a namespace with `own` reviews;
    /// false if no queue is longer by two.
    fn shorten_for(&mut self, own: usize) -> bool {
        let longest = self.waiting.values_mut().max_by_key(|queue| queue.len());
        longest
            .filter(|queue| queue.len() > own + 1)
            .is_some_and(|queue| queue.pop_back().is_some())
    }

    /// Removes a review that gives up; false if it does not wait any more.
    fn leave(&mut self, namespace: &str, number: u64) -> bool {
        let Some(queue) = self.waiting.get_mut(namespace) else {
            return false;
        };
        let before = queue.len();
        queue.retain(|(one, _)| *one != number);
        let waited = queue.len() < before;
        if queue.is_empty() {
            self.waiting.remove(namespace);
            self.order.retain(|one| one != namespace);
        }
        waited
    }

    /// Frees a place that a review of this namespace held.
    fn give_back(&mut self, namespace: &str) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(namespace) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(namespace);
            }
        }
    }

    /// Takes a place for the review that is next; `None` if no review may take one.
    fn next(&mut self) -> Option<W> {
        let at = self
            .order
            .iter()
            .position(|namespace| self.may_take(namespace))?;
        let namespace = self.order.remove(at)?;
        let queue = self.waiting.get_mut(&namespace)?;
        let (_, waiter) = queue.pop_front()?;
        let is_last = queue.is_empty();
        self.take(&namespace);
        if is_last {
            self.waiting.remove(&namespace);
        } else {
            self.order.push_back(namespace);
        }
        Some(waiter)
    }

    /// Whether a review of this namespace may take a place. Only a namespace that holds no place
    /// may take one of the last `reserve` places.
    fn may_take(&self, namespace: &str) -> bool {
        self.free > self.reserve || (self.free > 0 && !self.held.contains_key(namespace))
    }

    fn take(&mut self, namespace: &str) {
        self.free -= 1;
        *self.held.entry(namespace.to_owned()).or_default() += 1;
    }

    /// The number of reviews that wait, of all namespaces.
    fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests;
