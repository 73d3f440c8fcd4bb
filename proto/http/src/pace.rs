//! How much of a thread one peer's connections get while somebody else is connected.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::ready;
use std::time::Duration;

use tokio::time::Instant;

/// What a peer may take at once after it took nothing for a while.
const BURST: Duration = Duration::from_millis(5);
/// The longest pause. A connection that asks for much is no reason to forget the others of its peer: all of the apiserver's
/// requests come from one address.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The time that each peer's connections have taken. A peer that shares the server with others gets about half of the time of
/// one thread; what is more than that waits, so that a hundred connections of one peer that all have something to do do not
/// stand before the next one of another. Against many peers that are busy at once it does nothing: with two threads, against
/// more than four. What runs in tasks of its own, as the handlers of HTTP/2 do, is not counted.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    peers: Mutex<HashMap<IpAddr, Taken>>,
}

#[derive(Debug)]
struct Taken {
    connections: usize,
    /// When the pause is over that pays for what was taken.
    paid: Instant,
}

/// A connection of a peer, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Member {
    pace: Arc<Pace>,
    peer: IpAddr,
}

impl Pace {
    /// Another connection of a peer.
    pub(crate) fn join(self: &Arc<Self>, peer: IpAddr) -> Member {
        let mut peers = self.lock();
        let taken = peers.entry(peer).or_insert_with(|| Taken { connections: 0, paid: Instant::now() });
        taken.connections += 1;
        drop(peers);
        Member { pace: self.clone(), peer }
    }

    /// How many connections of a peer have not ended.
    #[cfg(test)]
    pub(crate) fn connections(&self, peer: IpAddr) -> usize {
        self.lock().get(&peer).map_or(0, |taken| taken.connections)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Taken>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Runs a connection at its peer's pace.
    pub(crate) async fn run<F: Future>(self, connection: F) -> F::Output {
        let mut connection = pin!(connection);
        let mut pause = pin!(tokio::time::sleep_until(Instant::now()));
        poll_fn(|cx| {
            let now = Instant::now();
            if let Some(until) = self.paused(now) {
                pause.as_mut().reset(until);
                ready!(pause.as_mut().poll(cx));
            }
            let polled = connection.as_mut().poll(cx);
            self.charge(now, now.elapsed());
            polled
        })
        .await
    }

    /// Until when the peer has to wait, if it has to.
    fn paused(&self, now: Instant) -> Option<Instant> {
        let peers = self.pace.lock();
        let paid = peers.get(&self.peer)?.paid;
        (peers.len() > 1 && paid > now).then_some(paid)
    }

    /// The peer's connections ran for so long from `began` on; they pause for as long.
    pub(crate) fn charge(&self, began: Instant, ran: Duration) {
        if let Some(taken) = self.pace.lock().get_mut(&self.peer) {
            let earliest = began.checked_sub(BURST).unwrap_or(began);
            let latest = began + ran + LONGEST_PAUSE;
            taken.paid = (taken.paid.max(earliest) + 2 * ran).min(latest);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut peers = self.pace.lock();
        if let Some(taken) = peers.get_mut(&self.peer) {
            taken.connections -= 1;
            if taken.connections == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const MODEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_beside_others_pauses_as_long_as_it_ran() {
        let pace = Arc::new(Pace::default());
        let (greedy, _modest) = (pace.join(GREEDY), pace.join(MODEST));
        tokio::time::advance(ms(1000)).await;
        let now = Instant::now();
        greedy.charge(now, ms(10));
        // Ten from the first on, ten to pay for them, less what may be taken at once.
        assert_eq!(greedy.paused(now + ms(10)), Some(now + ms(15)));
        assert_eq!(greedy.paused(now + ms(15)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_alone_does_not_pause() {
        let pace = Arc::new(Pace::default());
        let (one, other) = (pace.join(GREEDY), pace.join(GREEDY));
        let now = Instant::now();
        one.charge(now, ms(100));
        assert_eq!(other.paused(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_run_is_followed_by_no_more_than_the_longest_pause() {
        let pace = Arc::new(Pace::default());
        let (greedy, modest) = (pace.join(GREEDY), pace.join(MODEST));
        let now = Instant::now();
        greedy.charge(now, ms(1000));
        assert_eq!(greedy.paused(now + ms(1000)), Some(now + ms(1000) + LONGEST_PAUSE));
        assert_eq!(modest.paused(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_forgotten_with_its_last_connection() {
        let pace = Arc::new(Pace::default());
        let (one, other) = (pace.join(GREEDY), pace.join(GREEDY));
        drop(one);
        assert_eq!(pace.lock().len(), 1);
        drop(other);
        assert_eq!(pace.lock().len(), 0);
    }

    /// Each connection of the greedy peer always has something to do, and there are fifty.
    #[tokio::test]
    async fn one_connection_beside_fifty_busy_ones_has_its_turn_before_they_are_done() {
        let pace = Arc::new(Pace::default());
        let busy = async || {
            for _ in 0..10 {
                let began = std::time::Instant::now();
                while began.elapsed() < ms(1) {}
                tokio::task::yield_now().await;
            }
        };
        let mut tasks = tokio::task::JoinSet::new();
        let modest = pace.join(MODEST);
        for _ in 0..50 {
            let member = pace.join(GREEDY);
            tasks.spawn(async move { member.run(busy()).await });
        }
        let modest = tokio::spawn(modest.run(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }));
        modest.await.unwrap();
        let mut done = 0;
        while let Some(Ok(())) = tasks.try_join_next() {
            done += 1;
        }
        assert!(done < 25, "{done} of 50 busy connections were done before the other one");
        while tasks.join_next().await.is_some() {}
    }
}
