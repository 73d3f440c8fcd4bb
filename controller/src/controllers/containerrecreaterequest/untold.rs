//! Stops that are told with what follows them: a container that runs again soon after its stop is worth one write, not two.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// So long a stop waits to be told with the start of the next container. The daemon's answer stays where it is until then.
const WITH_START: Duration = Duration::from_secs(2);

/// Since when stops wait to be told, by uid of the request.
#[derive(Debug, Default)]
pub(super) struct Untold(Mutex<HashMap<String, Instant>>);

impl Untold {
    /// How long the status of the request waits yet, where all that it tells is that containers have stopped; `None` is not at all.
    pub(super) fn waits(&self, uid: &str, tells_stops_alone: bool) -> Option<Duration> {
        let mut since = self.0.lock();
        if !tells_stops_alone {
            since.remove(uid);
            return None;
        }
        let waited = since
            .entry(uid.to_owned())
            .or_insert_with(Instant::now)
            .elapsed();
        Some(WITH_START.saturating_sub(waited)).filter(|left| !left.is_zero())
    }

    /// The request is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests;
