//! What this process has entered into ledgers a moment ago, which tells whether a request is one that the apiserver validates again. The time of
//! an entry is by the clock of whichever replica wrote it, and so only a process that has just begun goes by that.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_workload::budget::judge::Decision;
use berth_workload::budget::ledger::Request;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::budgets::BudgetKey;

/// For so long after an entry was written a request for the same stands on it. Later it is another request, which could be carried out
/// when the leader has dropped the entry.
const SAME_REQUEST: Duration = Duration::from_secs(10);
/// So many are remembered. What is not is entered once more.
const MOST: usize = 2_048;

/// What this process has entered.
pub(in crate::budgets) struct RecentReservations {
    /// Since when it notes that.
    since: Instant,
    /// When the writes of entries began.
    writes: Mutex<BTreeMap<Entry, Instant>>,
}

/// Of which budget, and of which change of which pod.
type Entry = (BudgetKey, String, ProtectedOperation, Option<i64>);

impl Default for RecentReservations {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            writes: Mutex::default(),
        }
    }
}

impl RecentReservations {
    /// Whether a request is for what was entered a moment ago. A process that has just begun does not know what the one before it entered, and
    /// would enter all of that anew: it goes by the times of entries (`is_dated_now`).
    pub(in crate::budgets) fn has(
        &self,
        key: &BudgetKey,
        request: &Request,
        is_dated_now: impl FnOnce() -> bool,
    ) -> bool {
        let is_young = |since: &Instant| since.elapsed() < SAME_REQUEST;
        let is_known = || self.lock().get(&entry(key, request)).is_some_and(is_young);
        request.grant.is_none() && (is_known() || is_young(&self.since) && is_dated_now())
    }

    /// Notes which of these requests, with whether each is a dry run, were entered by a write that began then.
    pub(in crate::budgets) fn note<'a>(
        &self,
        key: &BudgetKey,
        ruled: impl Iterator<Item = (&'a (Request, bool), &'a Decision)>,
        began: Instant,
    ) {
        // What stands on an entry is as old as that, and what has a name of its own is asked for once.
        let is_new = |request: &Request| !request.is_again && request.grant.is_none();
        let is_entered =
            |decision: &Decision| matches!(decision, Decision::Drawn | Decision::Passed(_));
        let drawn = ruled.filter(|((request, is_dry_run), decision)| {
            is_entered(decision) && !is_dry_run && is_new(request)
        });
        let mut entered = self.lock();
        for ((request, _), _) in drawn {
            if entered.len() >= MOST {
                entered.retain(|_, since| since.elapsed() < SAME_REQUEST);
            }
            if entered.len() < MOST {
                entered.insert(entry(key, request), began);
            }
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, BTreeMap<Entry, Instant>> {
        self.writes.lock()
    }
}

fn entry(key: &BudgetKey, request: &Request) -> Entry {
    (
        key.clone(),
        request.uid.clone(),
        request.operation,
        request.generation,
    )
}

#[cfg(test)]
mod tests;
