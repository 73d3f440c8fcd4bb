//! Bodies of requests, read into memory that is counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connections::{Caller, State};

/// What bodies may cost.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The largest body, in bytes.
    pub largest: usize,
    /// What a byte of a body is charged with: itself, and what its decoding and its answer need, in bytes.
    pub factor: usize,
    /// What all bodies together may be charged with, in bytes. One peer gets half of it at most, so `largest * factor` may not
    /// be more than that.
    pub total: usize,
    /// Until a body must be there.
    pub deadline: Duration,
    /// The longest wait for others to give back what there is not enough of.
    pub wait: Duration,
}

/// What one body takes before the others have their turn on the same thread, in bytes.
const TURN: usize = 128 << 10;

/// The memory for bodies. Nothing of it is held for bytes that have not come. Of the bodies of one peer the oldest comes
/// first, and what waits behind it gives back what it holds: so many at once never wait for each other. Where all of it is
/// held, whoever needs some gets it from a peer that holds more: its largest body that waits for its caller, who sends or
/// takes too slowly, loses its connection.
#[derive(Debug)]
pub struct Bodies {
    limits: BodyLimits,
    charged: Mutex<Charged>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Charged {
    all: usize,
    highest: usize,
    peers: HashMap<IpAddr, Peer>,
    /// What holds anything, by the order in which it began.
    holders: BTreeMap<u64, Holder>,
    /// Bodies so far.
    begun: u64,
}

#[derive(Debug)]
struct Holder {
    connection: Arc<State>,
    bytes: usize,
    /// It was told to give way, and will.
    goes: bool,
}

#[derive(Debug, Default)]
struct Peer {
    bytes: usize,
    /// The bodies of the peer that wait, by the order in which they began.
    waiting: BTreeSet<u64>,
}

/// What one request is charged with, given back when this is dropped. Keep it until the answer is taken ([`crate::Answer`]).
#[derive(Debug)]
pub struct Share {
    bodies: Arc<Bodies>,
    connection: Arc<State>,
    bytes: usize,
    /// Which of all bodies it is.
    number: u64,
}

/// A body that is there as a whole.
#[derive(Debug)]
pub struct Received {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What they are charged with.
    pub share: Share,
}

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is larger than the largest.
    #[error("the request's body is larger than {0} bytes")]
    TooLarge(usize),
    /// It did not come in time.
    #[error("the request's body did not come in time")]
    TooSlow,
    /// There is no memory for it.
    #[error("there is no memory for the request's body now: try again")]
    NoMemory,
    /// The connection broke, or what came is no body.
    #[error("the request's body cannot be read: {0}")]
    Broken(String),
}

impl BodyError {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoMemory => StatusCode::TOO_MANY_REQUESTS,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl Bodies {
    /// No body yet.
    pub fn new(limits: BodyLimits) -> Arc<Self> {
        Arc::new(Self { limits, charged: Mutex::default(), freed: Notify::new() })
    }

    /// What all bodies are charged with now, in bytes.
    pub fn charged(&self) -> usize {
        self.lock().all
    }

    /// The most that was ever charged at once, in bytes.
    pub fn highest(&self) -> usize {
        self.lock().highest
    }

    /// Reads a body to its end. While the server works for the caller ([`Caller::working`]), it gives way to nobody.
    ///
    /// # Errors
    /// It is too large, too slow, broken, or there is no memory for it.
    pub async fn read<B>(self: &Arc<Self>, caller: &Caller, mut body: B) -> Result<Received, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let largest = self.limits.largest;
        // Refused by what it announces, before anything of it is read.
        if body.size_hint().lower() > largest as u64 {
            return Err(BodyError::TooLarge(largest));
        }
        let deadline = Instant::now() + self.limits.deadline;
        let mut bytes = Vec::new();
        let mut share = self.begin(caller);
        let mut turn = TURN;
        loop {
            let frame = match tokio::time::timeout_at(deadline, body.frame()).await {
                Err(_) => return Err(BodyError::TooSlow),
                Ok(None) => return Ok(Received { bytes, share }),
                Ok(Some(frame)) => frame.map_err(|error| BodyError::Broken(error.to_string()))?,
            };
            // Trailers are of no interest.
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > largest {
                return Err(BodyError::TooLarge(largest));
            }
            share.grow(data.len().saturating_mul(self.limits.factor), deadline).await?;
            bytes.extend_from_slice(&data);
            if bytes.len() >= turn {
                turn = bytes.len() + TURN;
                tokio::task::yield_now().await;
            }
        }
    }

    fn begin(self: &Arc<Self>, caller: &Caller) -> Share {
        let mut charged = self.lock();
        charged.begun += 1;
        Share { bodies: self.clone(), connection: caller.state(), bytes: 0, number: charged.begun }
    }

    fn lock(&self) -> MutexGuard<'_, Charged> {
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// What this request is charged with, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges more, or waits for it; the wait is short. Whoever holds something waits only where no older body of its peer
    /// does.
    async fn grow(&mut self, bytes: usize, deadline: Instant) -> Result<(), BodyError> {
        let bodies = self.bodies.clone();
        let until = deadline.min(Instant::now() + bodies.limits.wait);
        loop {
            let freed = bodies.freed.notified();
            tokio::pin!(freed);
            // From here on what is given back is not missed.
            freed.as_mut().enable();
            if self.take(bytes)? {
                return Ok(());
            }
            if tokio::time::timeout_at(until, freed).await.is_err() {
                return Err(BodyError::NoMemory);
            }
        }
    }

    /// Charges more, or joins those that wait.
    fn take(&mut self, bytes: usize) -> Result<bool, BodyError> {
        let (total, own) = (self.bodies.limits.total, self.connection.peer());
        let mut charged = self.bodies.lock();
        let all = charged.all + bytes;
        let peer = charged.peers.entry(own).or_default();
        let is_oldest = peer.waiting.first().is_none_or(|first| *first >= self.number);
        let of_peer = peer.bytes + bytes;
        if all > total || of_peer > total / 2 || !is_oldest {
            peer.waiting.insert(self.number);
            if is_oldest && of_peer <= total / 2 {
                charged.make_room(own, of_peer);
            }
            return if is_oldest || self.bytes == 0 { Ok(false) } else { Err(BodyError::NoMemory) };
        }
        peer.bytes = of_peer;
        let waited = peer.waiting.remove(&self.number);
        charged.all = all;
        charged.highest = charged.highest.max(all);
        let connection = || Holder { connection: self.connection.clone(), bytes: 0, goes: false };
        charged.holders.entry(self.number).or_insert_with(connection).bytes += bytes;
        drop(charged);
        self.bytes += bytes;
        if waited {
            self.bodies.freed.notify_waiters();
        }
        Ok(true)
    }
}

impl Charged {
    /// Has a body of another peer give way, for one that would have `bytes` then: of the peer that holds the most, if that is
    /// more, the largest of those that wait for their callers.
    fn make_room(&mut self, own: IpAddr, bytes: usize) {
        let peers = &self.peers;
        let of_peer = |holder: &Holder| peers.get(&holder.connection.peer()).map_or(0, |peer| peer.bytes);
        let waits = |holder: &&mut Holder| {
            !holder.goes
                && !holder.connection.is_working()
                && holder.connection.peer() != own
                && of_peer(holder) > bytes
        };
        let victim = self.holders.values_mut().filter(waits).max_by_key(|holder| (of_peer(holder), holder.bytes));
        if let Some(victim) = victim {
            victim.goes = true;
            victim.connection.dropped.notify_one();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let own = self.connection.peer();
        let mut charged = self.bodies.lock();
        charged.all -= self.bytes;
        charged.holders.remove(&self.number);
        if let Some(peer) = charged.peers.get_mut(&own) {
            peer.bytes -= self.bytes;
            peer.waiting.remove(&self.number);
            if peer.bytes == 0 && peer.waiting.is_empty() {
                charged.peers.remove(&own);
            }
        }
        drop(charged);
        self.bodies.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
