//! The results of dry runs of pods' creations.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_kinds::sidecarset::InjectionCalls;
use parking_lot::{Mutex, MutexGuard};

/// How long an answer counts. With many SidecarSets, each adds a second, so that there is one dry
/// run a second at most.
const FRESH: Duration = Duration::from_secs(60);
/// The longest pause after a dry run that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How many dry runs in a row fail before the condition says so: a single slow one proves nothing.
const FAILURES: u32 = 3;
/// The results by name of a SidecarSet.
#[derive(Debug, Default)]
pub(super) struct Probes(Mutex<BTreeMap<String, Known>>);

#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) calls: Option<Calls>,
    /// The result for one pod: its uid, when it was tried, and why its successor would lack the
    /// containers.
    pub(super) pod: Option<(String, Instant, Option<String>)>,
}

/// Whether calls for pods that a SidecarSet selects are answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Calls {
    /// Which selectors were tried.
    pub(super) selectors: String,
    /// When the last dry run ended.
    pub(super) at: Instant,
    /// How many failed since one succeeded.
    pub(super) failures: u32,
    /// Why the last one failed.
    pub(super) why: Option<String>,
}

impl Calls {
    /// How long until the next dry run, with this number of SidecarSets.
    pub(super) fn due_after(&self, sets: usize, now: Instant) -> Duration {
        let pause = match self.failures.checked_sub(1) {
            None => FRESH.max(Duration::from_secs(sets.try_into().unwrap_or(u64::MAX))),
            Some(doublings) => Duration::from_secs(1 << doublings.min(6)).min(LONGEST_PAUSE),
        };
        pause.saturating_sub(now.saturating_duration_since(self.at))
    }

    pub(super) fn injection_calls(&self) -> InjectionCalls {
        match &self.why {
            None => InjectionCalls::Yes,
            Some(why) if self.failures >= FAILURES => InjectionCalls::Unanswered(why.clone()),
            Some(_) => InjectionCalls::Unknown,
        }
    }
}

impl Probes {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.0.lock()
    }

    /// To be called when the SidecarSet is gone.
    pub(super) fn forget(&self, set: &str) {
        self.lock().remove(set);
    }

    pub(super) fn calls(&self, set: &str, selectors: &str) -> Option<Calls> {
        self.lock()
            .get(set)?
            .calls
            .clone()
            .filter(|calls| calls.selectors == selectors)
    }
}

#[cfg(test)]
mod tests;
