//! A queue of keys. Each key is in it at most once, and no two workers have the same key at a time.
//! Namespaces take turns, so that no tenant's objects wait behind all objects of another tenant.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::QueueMetrics;

/// The longest wait of a key. Waits come from users' objects, and an unlimited wait could overflow
/// the clock.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a key waits after a failure: `first · 2ⁿ`, at most `most`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(20),
            most: Duration::from_secs(120),
        }
    }
}

impl Backoff {
    /// The wait after this many failures in a row (at least one).
    pub fn after(&self, failures: u32) -> Duration {
        let factor = 1u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.most)
    }
}

/// The key type of a work queue.
pub trait QueueKey: Clone + Eq + Hash {
    /// The namespace of the key. Namespaces take turns.
    fn namespace(&self) -> &str;
}

/// A work queue. Namespaces take turns, and each namespace is first in, first out. A key that is
/// added while a worker has it is queued again afterwards.
pub struct Queue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
    backoff: Backoff,
    metrics: QueueMetrics,
}

struct State<K> {
    ready: Ready<K>,
    /// Keys that are in `ready`, or that are put there when their worker is done.
    dirty: HashSet<K>,
    running: HashSet<K>,
    later: BTreeMap<(Instant, u64), K>,
    later_of: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, Failures>,
    sequence: u64,
    closed: bool,
}

/// Keys that wait for a worker, and since when.
struct Ready<K> {
    of: BTreeMap<String, VecDeque<(K, Instant)>>,
    /// The namespaces in `of`, the next one first.
    order: VecDeque<String>,
    len: usize,
}

impl<K> Default for Ready<K> {
    fn default() -> Self {
        Self {
            of: BTreeMap::new(),
            order: VecDeque::new(),
            len: 0,
        }
    }
}

impl<K: QueueKey> Ready<K> {
    fn push(&mut self, key: K, since: Instant) {
        self.len += 1;
        match self.of.get_mut(key.namespace()) {
            Some(keys) => keys.push_back((key, since)),
            None => {
                let namespace = key.namespace().to_owned();
                self.order.push_back(namespace.clone());
                self.of.insert(namespace, VecDeque::from([(key, since)]));
            }
        }
    }

    fn pop(&mut self) -> Option<(K, Instant)> {
        let namespace = self.order.pop_front()?;
        let keys = self.of.get_mut(&namespace)?;
        let first = keys.pop_front();
        if keys.is_empty() {
            self.of.remove(&namespace);
        } else {
            self.order.push_back(namespace);
        }
        self.len -= usize::from(first.is_some());
        first
    }
}

/// A key's failures in a row.
struct Failures {
    count: u32,
    /// When its back-off is over. A failure before that time came from an event and does not make
    /// the back-off longer.
    due: Instant,
}

/// A key that a worker has taken. Dropping it gives the key back to the queue.
pub struct Work<K: QueueKey> {
    /// The key.
    pub key: K,
    /// How many times in a row it has failed before, counting one failure per back-off.
    pub failures: u32,
    queue: Arc<Queue<K>>,
    since: Instant,
}

impl<K: QueueKey> Queue<K> {
    /// An empty queue.
    pub fn new(backoff: Backoff, metrics: QueueMetrics) -> Arc<Self> {
        let state = State {
            ready: Ready::default(),
            dirty: HashSet::new(),
            running: HashSet::new(),
            later: BTreeMap::new(),
            later_of: HashMap::new(),
            failures: HashMap::new(),
            sequence: 0,
            closed: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            backoff,
            metrics,
        })
    }

    /// Adds a key, unless it waits already.
    pub fn add(&self, key: K) {
        let mut state = self.lock();
        if state.closed || !state.dirty.insert(key.clone()) {
            return;
        }
        self.metrics.adds.inc();
        if !state.running.contains(&key) {
            self.push(&mut state, key);
        }
    }

    /// Adds a key after a while, at most a day. Of several calls the earliest time counts; taking
    /// the key clears it.
    pub fn add_after(&self, key: K, wait: Duration) {
        if wait.is_zero() {
            return self.add(key);
        }
        let mut state = self.lock();
        if !state.closed {
            state.schedule(key, Instant::now() + wait.min(LONGEST));
            self.wake.notify_one();
        }
    }

    /// Adds a key after its back-off, which doubles with every failure in a row after the previous
    /// back-off. Returns the wait.
    pub fn retry(&self, key: K) -> Duration {
        let now = Instant::now();
        let wait = {
            let mut state = self.lock();
            let failures = state
                .failures
                .entry(key.clone())
                .or_insert(Failures { count: 0, due: now });
            if failures.due <= now {
                failures.count = failures.count.saturating_add(1);
                failures.due = now + self.backoff.after(failures.count);
            }
            failures.due - now
        };
        self.metrics.retries.inc();
        self.add_after(key, wait);
        wait
    }

    /// Resets the key's back-off after a success.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// How many keys are ready and wait for a worker.
    pub fn len(&self) -> usize {
        self.lock().ready.len
    }

    /// True when no key waits for a worker.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next key; waits until there is one. `None` once the queue is closed.
    pub async fn take(self: &Arc<Self>) -> Option<Work<K>> {
        loop {
            let next = {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                self.ripen(&mut state);
                if let Some((key, added)) = state.ready.pop() {
                    return Some(self.start(&mut state, key, added));
                }
                state.later.first_key_value().map(|((at, _), _)| *at)
            };
            match next {
                Some(at) => {
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Closes the queue: no key can be added or taken any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.metrics.depth.set(0);
        // `notify_one` leaves a permit for a worker that is about to wait, `notify_waiters` wakes
        // the waiting ones.
        self.wake.notify_one();
        self.wake.notify_waiters();
    }

    fn start(self: &Arc<Self>, state: &mut State<K>, key: K, added: Instant) -> Work<K> {
        state.dirty.remove(&key);
        state.running.insert(key.clone());
        if let Some(at) = state.later_of.remove(&key) {
            state.later.remove(&at);
        }
        let now = Instant::now();
        self.metrics.depth.set(state.ready.len as i64);
        self.metrics
            .queue_duration
            .observe((now - added).as_secs_f64());
        if state.ready.len > 0 {
            self.wake.notify_one();
        }
        let failures = state
            .failures
            .get(&key)
            .map_or(0, |failures| failures.count);
        Work {
            key,
            failures,
            queue: self.clone(),
            since: now,
        }
    }

    fn ripen(&self, state: &mut State<K>) {
        let now = Instant::now();
        while let Some(entry) = state.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            state.later_of.remove(&key);
            if state.dirty.insert(key.clone()) {
                self.metrics.adds.inc();
                if !state.running.contains(&key) {
                    self.push(state, key);
                }
            }
        }
    }

    fn push(&self, state: &mut State<K>, key: K) {
        state.ready.push(key, Instant::now());
        self.metrics.depth.set(state.ready.len as i64);
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock()
    }
}

impl<K: QueueKey> State<K> {
    fn schedule(&mut self, key: K, at: Instant) {
        if let Some(old) = self.later_of.get(&key) {
            if old.0 <= at {
                return;
            }
            self.later.remove(old);
        }
        self.sequence += 1;
        self.later.insert((at, self.sequence), key.clone());
        self.later_of.insert(key, (at, self.sequence));
    }
}

impl<K: QueueKey> Drop for Work<K> {
    fn drop(&mut self) {
        let queue = &self.queue;
        let mut state = queue.lock();
        state.running.remove(&self.key);
        queue
            .metrics
            .work_duration
            .observe(self.since.elapsed().as_secs_f64());
        if !state.closed && state.dirty.contains(&self.key) {
            queue.push(&mut state, self.key.clone());
        }
    }
}

#[cfg(test)]
mod tests;
