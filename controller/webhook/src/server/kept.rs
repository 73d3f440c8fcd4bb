//! Which connections stay open between reviews of pods: none in quiet times, and a few of each
//! caller and path in busy ones.
//!
//! If a replica hangs, each connection that a caller has kept fails at its next use: up to 90
//! seconds later, and for one pod each. Callers reuse the connection first that they used last, so
//! where reviews rarely overlap the others stay unused for long. A new connection costs two
//! milliseconds, which matters only where many pods are created. If a server closed connections
//! between two requests, a request could fail as well, because the caller may be sending already.
//! So each connection is closed with an answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use berth_http::{Caller, Connection};
use parking_lot::Mutex;

use crate::pods::{DISRUPT_PATH, EVICT_PATH, GATE_PATH, INJECT_PATH, PIN_PATH};

/// The paths of reviews for which pods wait.
const PATHS: [&str; 5] = [DISRUPT_PATH, EVICT_PATH, GATE_PATH, INJECT_PATH, PIN_PATH];
/// The most callers and paths that are remembered: callers are few apiservers.
const MOST: usize = 256;
/// How many connections are kept of each.
const OF_EACH: usize = 4;
/// How many reviews within a second are many: then reviews overlap all the time, and no connection
/// stays unused.
const MANY: u32 = 30;
const SECOND: Duration = Duration::from_secs(1);

/// The connections that stay open.
#[derive(Default)]
pub(super) struct Kept(Mutex<HashMap<(IpAddr, &'static str), Calls>>);

/// The calls of one caller for one path.
struct Calls {
    kept: Vec<Connection>,
    /// The start of the current second, the number of reviews since then, and the number in the
    /// second before.
    since: Instant,
    reviews: u32,
    reviews_before: u32,
}

impl Calls {
    fn new(now: Instant) -> Self {
        Self {
            kept: Vec::new(),
            since: now,
            reviews: 0,
            reviews_before: 0,
        }
    }

    /// Counts one more review; returns whether they are many.
    fn are_many(&mut self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        if age >= SECOND {
            self.reviews_before = if age < 2 * SECOND { self.reviews } else { 0 };
            (self.since, self.reviews) = (now, 0);
        }
        self.reviews = self.reviews.saturating_add(1);
        self.reviews.max(self.reviews_before) >= MANY
    }
}

impl Kept {
    /// Whether the connection that a request came by stays open when it is answered.
    pub(super) fn keeps(&self, caller: &Caller, path: &str) -> bool {
        self.keeps_at(caller, path, Instant::now())
    }

    fn keeps_at(&self, caller: &Caller, path: &str, now: Instant) -> bool {
        let Some(path) = PATHS.into_iter().find(|known| path.starts_with(known)) else {
            return true;
        };
        let mut all = self.0.lock();
        if all.len() >= MOST {
            all.retain(|_, calls| calls.kept.iter().any(Connection::is_open));
        }
        let calls = all
            .entry((caller.peer(), path))
            .or_insert_with(|| Calls::new(now));
        let are_many = calls.are_many(now);
        let is_kept = calls.kept.iter().any(|connection| connection.is_of(caller));
        if is_kept && are_many {
            return true;
        }
        calls
            .kept
            .retain(|connection| connection.is_open() && !connection.is_of(caller));
        let has_room = are_many && calls.kept.len() < OF_EACH;
        if has_room {
            calls.kept.push(Connection::of(caller));
        }
        has_room
    }
}

#[cfg(test)]
mod tests;
