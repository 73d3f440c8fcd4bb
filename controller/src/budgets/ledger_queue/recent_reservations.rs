//! The entries that this process has recently written into ledgers. They show whether a request is
//! one that the apiserver validates again. The time of an entry is by the clock of the replica that
//! wrote it, so only a process that has just started uses it.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use berth_workload::budget::judge::Decision;
use berth_workload::budget::ledger::Request;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::budgets::BudgetKey;

/// How long after the write of an entry a repeated request uses the same entry. A later request is
/// another one: it could be carried out after the leader has dropped the entry.
const SAME_REQUEST: Duration = Duration::from_secs(10);
/// The most entries that are remembered. A request that is not remembered gets another entry.
const MOST: usize = 2_048;

/// The entries that this process wrote.
pub(in crate::budgets) struct RecentReservations {
    /// When this process started to note them.
    since: Instant,
    /// When the writes of entries began.
    writes: Mutex<BTreeMap<Entry, Instant>>,
}

/// The budget, the uid of the pod, the operation, and the generation of the pod.
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
    /// Whether a request repeats one whose entry was written a moment ago. A process that has just
    /// started does not know the entries of the one before it, and would write all of them again.
    /// So it uses the times of entries (`is_dated_now`).
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

    /// Notes which of these requests, each with whether it is a dry run, were entered by a write
    /// that began then.
    pub(in crate::budgets) fn note<'a>(
        &self,
        key: &BudgetKey,
        ruled: impl Iterator<Item = (&'a (Request, bool), &'a Decision)>,
        began: Instant,
    ) {
        // A repeated request keeps the age of its entry. A request with a grant of its own is sent
        // only once.
        let is_new = |request: &Request| !request.is_again && request.grant.is_none();
        let is_entered =
            |decision: &Decision| matches!(decision, Decision::Reserved | Decision::Passed(_));
        let new_entries = ruled.filter(|((request, is_dry_run), decision)| {
            is_entered(decision) && !is_dry_run && is_new(request)
        });
        let mut entered = self.lock();
        for ((request, _), _) in new_entries {
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
