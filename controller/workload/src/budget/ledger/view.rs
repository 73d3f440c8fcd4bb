//! The view by which a ledger was counted. A view is the last resource version that a count has
//! seen.

use berth_api::v1beta1::podunavailablebudget::{Ledger, PodUnavailableBudgetStatus};

/// Whether the numbers of a status speak of the budget as it is.
pub fn is_counted(status: &PodUnavailableBudgetStatus, generation: i64) -> bool {
    status.observed_generation == generation
        && status
            .ledger
            .as_ref()
            .is_some_and(|ledger| !ledger.counted.is_empty())
}

/// Notes the view that settled the entries. Until pods are counted by this view, too
/// ([`note_counted`]), no reservation is possible. The leader ignores older views from now on.
pub fn note_settled(ledger: &mut Ledger, view: &str) {
    ledger.counted.clear();
    view.clone_into(&mut ledger.settled);
}

/// Notes that pods are counted by the view that settled the entries.
pub fn note_counted(ledger: &mut Ledger) {
    ledger.counted = std::mem::take(&mut ledger.settled);
}

/// The view that settled the entries last, whether or not pods could be counted by it. An older
/// view would count pods that have left since and whose entries are dropped.
pub fn settled_by(ledger: &Ledger) -> Option<&str> {
    [&ledger.counted, &ledger.settled]
        .into_iter()
        .map(String::as_str)
        .find(|view| !view.is_empty())
}

/// Returns the old status if only the view differs, because a new view alone is not worth a write.
pub fn unless_only_its_view<S: Clone + PartialEq>(
    next: S,
    old: Option<&S>,
    ledger: impl Fn(&mut S) -> &mut Option<Ledger>,
) -> S {
    let Some(old) = old else { return next };
    let (mut same, mut before) = (next.clone(), old.clone());
    let (Some(now), Some(then)) = (ledger(&mut same), ledger(&mut before)) else {
        return next;
    };
    let kinds_of_view = |ledger: &Ledger| (ledger.counted.is_empty(), ledger.settled.is_empty());
    if kinds_of_view(now) != kinds_of_view(then) {
        return next;
    }
    now.counted.clone_from(&then.counted);
    now.settled.clone_from(&then.settled);
    if same == *old { same } else { next }
}
