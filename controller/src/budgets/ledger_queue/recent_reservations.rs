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
mod tests {
    use berth_runtime::Key;
    use berth_workload::resource::POD_UNAVAILABLE_BUDGETS;

    use super::*;

    fn key(name: &str) -> BudgetKey {
        BudgetKey {
            resource: POD_UNAVAILABLE_BUDGETS,
            key: Key::new("default", name),
        }
    }

    fn change(uid: &str, generation: i64) -> Request {
        Request {
            pod: uid.to_owned(),
            uid: uid.to_owned(),
            operation: ProtectedOperation::Update,
            holder: "somebody".to_owned(),
            is_available: true,
            generation: Some(generation),
            container_ids: Vec::new(),
            resizes: false,
            grant: None,
            is_again: false,
            is_repair: false,
            passes: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_the_same_for_some_seconds_after_this_process_entered_it() {
        let named = || Request {
            grant: Some("1".to_owned()),
            ..change("a", 1)
        };
        let again = || Request {
            is_again: true,
            ..change("a", 1)
        };
        for (noted, is_dry_run, decision, waited, asked, expected) in [
            (
                change("a", 1),
                false,
                Decision::Drawn,
                0,
                ("web", change("a", 1)),
                true,
            ),
            (
                change("a", 1),
                false,
                Decision::Drawn,
                9,
                ("web", change("a", 1)),
                true,
            ),
            (
                change("a", 1),
                false,
                Decision::Drawn,
                10,
                ("web", change("a", 1)),
                false,
            ),
            (
                change("a", 1),
                false,
                Decision::Drawn,
                0,
                ("all", change("a", 1)),
                false,
            ),
            (
                change("a", 1),
                false,
                Decision::Drawn,
                0,
                ("web", change("b", 1)),
                false,
            ),
            (
                change("a", 1),
                false,
                Decision::Drawn,
                0,
                ("web", change("a", 2)),
                false,
            ),
            (
                change("a", 1),
                false,
                Decision::Drawn,
                0,
                ("web", named()),
                false,
            ),
            (
                named(),
                false,
                Decision::Drawn,
                0,
                ("web", change("a", 1)),
                false,
            ),
            (
                again(),
                false,
                Decision::Drawn,
                0,
                ("web", change("a", 1)),
                false,
            ),
            (
                change("a", 1),
                true,
                Decision::Drawn,
                0,
                ("web", change("a", 1)),
                false,
            ),
            (
                change("a", 1),
                false,
                Decision::Free,
                0,
                ("web", change("a", 1)),
                false,
            ),
        ] {
            let (entered, began) = (RecentReservations::default(), Instant::now());
            // The write takes a while, and is as old as its beginning.
            tokio::time::advance(Duration::from_secs(waited)).await;
            entered.note(
                &key("web"),
                [(&(noted.clone(), is_dry_run), &decision)].into_iter(),
                began,
            );
            let what = format!("{noted:?} {is_dry_run} {decision:?} {waited} {asked:?}");
            assert_eq!(
                entered.has(&key(asked.0), &asked.1, || false),
                expected,
                "{what}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn by_the_times_of_entries_only_a_process_goes_that_has_just_begun() {
        for (seconds, is_dated, expected) in [
            (0, true, true),
            (0, false, false),
            (9, true, true),
            (10, true, false),
        ] {
            let entered = RecentReservations::default();
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(
                entered.has(&key("web"), &change("a", 1), || is_dated),
                expected,
                "{seconds} {is_dated}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_those_are_remembered_that_are_young() {
        let entered = RecentReservations::default();
        let note = |uid: &str| {
            entered.note(
                &key("web"),
                [(&(change(uid, 1), false), &Decision::Drawn)].into_iter(),
                Instant::now(),
            );
        };
        (0..MOST).for_each(|at| note(&at.to_string()));
        for (seconds, expected) in [(9, false), (1, true)] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            note("late");
            assert_eq!(
                entered.has(&key("web"), &change("late", 1), || false),
                expected,
                "{seconds}"
            );
        }
    }
}
