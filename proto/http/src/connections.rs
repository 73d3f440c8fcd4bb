//! The connections of a server, and the choice of the connection that is closed for a new one.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The connections of a server.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    most_per_peer: usize,
    registry: Mutex<Registry>,
    refusals: Notify,
}

#[derive(Debug, Default)]
struct Registry {
    next: u64,
    open: BTreeMap<u64, Arc<State>>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct State {
    peer: IpAddr,
    working: AtomicUsize,
    requests: Mutex<Requests>,
    /// Notifies the connection's task that `requests` changed.
    pub(crate) changed: Notify,
    /// Notifies the connection's task that the connection must close for another one.
    pub(crate) dropped: Notify,
}

/// The requests of a connection whose answers are not completely sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests {
    pub(crate) open: usize,
    pub(crate) ever: bool,
    /// When a request last began or ended; before the first request, when the connection began.
    pub(crate) since: Instant,
}

/// A connection's place among the limited number; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Slot {
    id: u64,
    pub(crate) state: Arc<State>,
    connections: Arc<Connections>,
}

/// The sender of a request. The server puts it into the request's extensions.
#[derive(Debug, Clone)]
pub struct Caller {
    state: Arc<State>,
    /// Since when the request waits; for the first request of a connection, since the connection
    /// began.
    since: Instant,
}

/// A weak reference to a connection, which does not keep it open.
#[derive(Debug, Clone)]
pub struct Connection(Weak<State>);

/// While this exists, the server works on a request, and its connection is not closed for others.
#[derive(Debug)]
pub struct Working(Arc<State>);

/// An open request, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<State>);

impl Connections {
    pub(crate) fn new(most: usize, most_per_peer: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_per_peer,
            registry: Mutex::default(),
            refusals: Notify::new(),
        })
    }

    /// How many connections there are.
    pub fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// How many connections a peer has.
    pub fn of_peer(&self, peer: IpAddr) -> usize {
        self.lock()
            .open
            .values()
            .filter(|state| state.peer == peer)
            .count()
    }

    /// Waits until a connection is refused, or is closed for another one.
    pub async fn refusal(&self) {
        self.refusals.notified().await;
    }

    /// A place for a new connection. If all places are taken, the server closes a connection that
    /// waits for its caller. It chooses one of the new connection's own peer if that peer has
    /// reached its limit, otherwise one of the peer with the most connections. Of these it chooses
    /// the one that has been inactive for longest. `None` if there is no such connection.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let mut registry = self.lock();
        let mut per_peer: HashMap<IpAddr, usize> = HashMap::new();
        for state in registry.open.values() {
            *per_peer.entry(state.peer).or_default() += 1;
        }
        let own_share_is_full = per_peer
            .get(&peer)
            .is_some_and(|count| *count >= self.most_per_peer);
        if own_share_is_full || registry.open.len() >= self.most {
            self.refusals.notify_one();
            let waiting = registry
                .open
                .iter()
                .filter(|(_, state)| !state.is_working());
            let eligible = waiting.filter(|(_, state)| !own_share_is_full || state.peer == peer);
            let rank = |state: &State| {
                let count = per_peer.get(&state.peer).copied().unwrap_or_default();
                (usize::MAX - count, state.requests().since)
            };
            let id = *eligible.min_by_key(|(_, state)| rank(state))?.0;
            if let Some(state) = registry.open.remove(&id) {
                state.dropped.notify_one();
            }
        }
        let id = registry.next;
        registry.next += 1;
        let state = Arc::new(State::new(peer));
        registry.open.insert(id, state.clone());
        Some(Slot {
            id,
            state,
            connections: self.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.id);
    }
}

impl State {
    fn new(peer: IpAddr) -> Self {
        Self {
            peer,
            working: AtomicUsize::new(0),
            requests: Mutex::new(Requests {
                open: 0,
                ever: false,
                since: Instant::now(),
            }),
            changed: Notify::new(),
            dropped: Notify::new(),
        }
    }

    /// Whether the server works on a request of this connection.
    pub(crate) fn is_working(&self) -> bool {
        self.working.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn requests(&self) -> Requests {
        *self.requests.lock()
    }

    /// Changes the requests, and notifies the connection's task.
    fn change(&self, change: impl FnOnce(&mut Requests)) {
        let mut requests = self.requests.lock();
        change(&mut requests);
        requests.since = Instant::now();
        drop(requests);
        self.changed.notify_one();
    }

    /// Counts a new request as open until the result is dropped.
    pub(crate) fn open(self: &Arc<Self>) -> OpenRequest {
        self.change(|requests| {
            requests.open += 1;
            requests.ever = true;
        });
        OpenRequest(self.clone())
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.change(|requests| requests.open -= 1);
    }
}

impl Connection {
    /// The connection of a request.
    pub fn of(caller: &Caller) -> Self {
        Self(Arc::downgrade(&caller.state))
    }

    /// Whether the connection is still open.
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Whether the request came by this connection.
    pub fn is_of(&self, caller: &Caller) -> bool {
        self.0.as_ptr() == Arc::as_ptr(&caller.state)
    }
}

impl Caller {
    /// The sender of a new request. Call it before [`State::open`], otherwise the first request of
    /// a connection does not count the handshake as waiting.
    pub(crate) fn new(state: Arc<State>) -> Self {
        let requests = state.requests();
        let since = if requests.ever {
            Instant::now()
        } else {
            requests.since
        };
        Self { state, since }
    }

    /// A caller without a server, for tests of handlers.
    pub fn detached(peer: IpAddr) -> Self {
        Self::new(Arc::new(State::new(peer)))
    }

    /// The address of the request's sender.
    pub fn peer(&self) -> IpAddr {
        self.state.peer
    }

    /// Since when the caller waits for the answer, including the handshake of a new connection, but
    /// at most `most` ago, because a caller may have opened the connection long before.
    pub fn waits_since(&self, most: Duration) -> Instant {
        let now = Instant::now();
        self.since.max(now.checked_sub(most).unwrap_or(now))
    }

    /// A mark that keeps the connection from being closed for others until it is dropped. Call it
    /// once the request is read completely, because until then the connection waits for its caller.
    pub fn working(&self) -> Working {
        self.state.working.fetch_add(1, Ordering::Relaxed);
        Working(self.state.clone())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
