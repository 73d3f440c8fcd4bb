//! Stops that are reported together with the following start: a container that runs again soon
//! after its stop is worth one write, not two.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a stop waits to be reported with the start of the next container. The daemon's answer
/// stays where it is until then.
const WITH_START: Duration = Duration::from_secs(2);

/// When stops began to wait, by uid of the request.
#[derive(Debug, Default)]
pub(super) struct Unreported(Mutex<HashMap<String, Instant>>);

impl Unreported {
    /// How long the status of the request still waits, if it reports only that containers have
    /// stopped; `None` if it need not wait.
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

    /// To be called when the request is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests;
