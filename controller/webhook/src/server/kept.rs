//! Which connections stay open between reviews of pods: one of each caller and path.
//!
//! A replica that stands still spoils each connection that a caller has kept, whenever that is used next: up to 90 seconds later, and
//! one pod for each. So no more than one is kept. A server that closed them by itself would spoil one as well, for the caller may be sending already.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use berth_http::{Caller, Connection};

use crate::pods::{DISRUPT_PATH, EVICT_PATH, GATE_PATH, INJECT_PATH, PIN_PATH};

/// The paths of reviews for which pods wait.
const PATHS: [&str; 5] = [DISRUPT_PATH, EVICT_PATH, GATE_PATH, INJECT_PATH, PIN_PATH];
/// The most that are remembered: callers are few apiservers.
const MOST: usize = 256;

/// The connections that stay open.
#[derive(Default)]
pub(super) struct Kept(Mutex<HashMap<(IpAddr, &'static str), Connection>>);

impl Kept {
    /// Whether the connection that a request came by stays open when it is answered.
    pub(super) fn keeps(&self, caller: &Caller, path: &str) -> bool {
        let Some(path) = PATHS.into_iter().find(|known| path.starts_with(known)) else { return true };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.retain(|_, connection| connection.is_open());
        }
        let of_caller = kept.entry((caller.peer(), path)).or_insert_with(|| Connection::of(caller));
        if !of_caller.is_open() {
            *of_caller = Connection::of(caller);
        }
        of_caller.is_of(caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_of_each_caller_and_path_stays_open() {
        let peer = |last: u8| Caller::detached(IpAddr::from([127, 0, 0, last]));
        let (one, two, other) = (peer(1), peer(1), peer(2));
        let kept = Kept::default();
        let secret = format!("{DISRUPT_PATH}/secret");
        for _ in 0..2 {
            assert!(kept.keeps(&one, INJECT_PATH) && !kept.keeps(&two, INJECT_PATH));
            assert!(kept.keeps(&other, INJECT_PATH), "another caller");
            assert!(kept.keeps(&two, &secret) && !kept.keeps(&one, &secret), "another path");
            assert!(kept.keeps(&one, "/convert") && kept.keeps(&two, "/convert"), "pods do not wait for it");
        }
        drop(one);
        assert!(kept.keeps(&two, INJECT_PATH), "the first one is closed");
    }
}
