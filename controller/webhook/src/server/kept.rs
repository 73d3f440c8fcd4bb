//! Which connections stay open between reviews of pods: a few of each caller and path.
//!
//! A replica that stands still spoils each connection that a caller has kept, whenever that is used next: up to 90 seconds later, and
//! one pod for each. So few are kept, as many as reviews are answered at once in busy times, for a new one costs a handshake. A server that closed them by itself would spoil one as well, for the caller may be sending already.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use berth_http::{Caller, Connection};

use crate::pods::{DISRUPT_PATH, EVICT_PATH, GATE_PATH, INJECT_PATH, PIN_PATH};

/// The paths of reviews for which pods wait.
const PATHS: [&str; 5] = [DISRUPT_PATH, EVICT_PATH, GATE_PATH, INJECT_PATH, PIN_PATH];
/// The most callers and paths that are remembered: callers are few apiservers.
const MOST: usize = 256;
/// How many connections are kept of each.
const OF_EACH: usize = 4;

/// The connections that stay open.
#[derive(Default)]
pub(super) struct Kept(Mutex<HashMap<(IpAddr, &'static str), Vec<Connection>>>);

impl Kept {
    /// Whether the connection that a request came by stays open when it is answered.
    pub(super) fn keeps(&self, caller: &Caller, path: &str) -> bool {
        let Some(path) = PATHS.into_iter().find(|known| path.starts_with(known)) else { return true };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.retain(|_, connections| connections.iter().any(Connection::is_open));
        }
        let of_caller = kept.entry((caller.peer(), path)).or_default();
        if of_caller.iter().any(|connection| connection.is_of(caller)) {
            return true;
        }
        of_caller.retain(Connection::is_open);
        let has_room = of_caller.len() < OF_EACH;
        if has_room {
            of_caller.push(Connection::of(caller));
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_connections_of_each_caller_and_path_stay_open() {
        let peer = |last: u8| Caller::detached(IpAddr::from([127, 0, 0, last]));
        let mut few: Vec<_> = (0..OF_EACH).map(|_| peer(1)).collect();
        let (more, other) = (peer(1), peer(2));
        let kept = Kept::default();
        let secret = format!("{DISRUPT_PATH}/secret");
        for _ in 0..2 {
            assert!(few.iter().all(|one| kept.keeps(one, INJECT_PATH)) && !kept.keeps(&more, INJECT_PATH));
            assert!(kept.keeps(&other, INJECT_PATH), "another caller");
            assert!(kept.keeps(&more, &secret), "another path");
            assert!(kept.keeps(&more, "/convert"), "pods do not wait for it");
        }
        few.pop();
        assert!(kept.keeps(&more, INJECT_PATH), "one of them is closed");
    }
}
