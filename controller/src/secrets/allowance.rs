//! How often each peer may request work that costs other peers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The most peers that are remembered. Beyond them, a new peer gets nothing.
const PEERS: usize = 4096;

/// A burst for each peer, and one more request after each pause.
#[derive(Debug)]
pub(super) struct Allowance {
    burst: u32,
    pause: Duration,
    /// When a peer would have its whole burst again.
    whole: Mutex<HashMap<IpAddr, Instant>>,
}

impl Allowance {
    /// `burst` at once, and one more after each `pause`.
    pub(super) fn new(burst: u32, pause: Duration) -> Self {
        Self {
            burst,
            pause,
            whole: Mutex::default(),
        }
    }

    /// Takes one from a peer's allowance; false if it is used up.
    pub(super) fn spend(&self, peer: IpAddr) -> bool {
        let now = Instant::now();
        let mut whole = self.whole.lock();
        if whole.len() >= PEERS {
            whole.retain(|_, at| *at > now);
        }
        let at = whole
            .get(&peer)
            .copied()
            .filter(|at| *at > now)
            .unwrap_or(now);
        let crowded = whole.len() >= PEERS && !whole.contains_key(&peer);
        if crowded || at - now > self.pause * self.burst.saturating_sub(1) {
            return false;
        }
        whole.insert(peer, at + self.pause);
        true
    }
}

#[cfg(test)]
mod tests;
