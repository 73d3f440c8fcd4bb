//! `scatterStrategy`: pods with a label are spread over the whole update instead of following one
//! another.
//!
//! The pods with the label and the others take turns, and the larger group has proportionally more
//! pods in each turn. The last pod with the label is the very last of all. An update is decided
//! repeatedly, each time with fewer waiting pods. If the label is rarer among the waiting pods than
//! among all, the others go ahead first, so that the turns stay the same.

use std::cmp::Reverse;
use std::sync::Arc;

use berth_api::fields::update_order::UpdateScatterTerm;

use crate::objects::pod::Pod;

/// Scatters by one term after the other, the one with the most pods first.
pub(super) fn scatter(
    terms: &[UpdateScatterTerm],
    waiting: Vec<Arc<Pod>>,
    all: &[Arc<Pod>],
) -> Vec<Arc<Pod>> {
    let has =
        |pod: &Pod, term: &UpdateScatterTerm| pod.metadata.label(&term.key) == Some(&*term.value);
    let count = |term: &UpdateScatterTerm| waiting.iter().filter(|pod| has(pod, term)).count();
    let counted = terms.iter().map(|term| (count(term), term));
    let mut by_count: Vec<_> = counted
        .filter(|(count, _)| *count > 0 || terms.len() == 1)
        .collect();
    by_count.sort_by_key(|(count, _)| Reverse(*count));
    by_count
        .into_iter()
        .fold(waiting, |waiting, (_, term)| by_term(term, waiting, all))
}

fn by_term(term: &UpdateScatterTerm, waiting: Vec<Arc<Pod>>, all: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    // A pod without the label has its value where that is empty.
    let has = |pod: &Arc<Pod>| pod.metadata.label(&term.key).unwrap_or_default() == term.value;
    let (mut labelled, others): (Vec<_>, Vec<_>) = waiting.iter().cloned().partition(has);
    let of_all = all.iter().filter(|pod| has(pod)).count();
    let is_last_of_several = labelled.len() == 1 && of_all > 1;
    if is_last_of_several {
        return others.into_iter().chain(labelled).collect();
    }
    if labelled.len() < 2 || others.len() < 2 {
        return waiting;
    }
    let last = labelled.pop();
    let here = Counts {
        labelled: labelled.len(),
        others: others.len(),
    };
    let everywhere = Counts {
        labelled: of_all.saturating_sub(1).max(here.labelled),
        others: all.len().saturating_sub(of_all).max(here.others),
    };
    let turns = here.turns(&everywhere);
    let (mut labelled, mut others) = (labelled.into_iter(), others.into_iter());
    let mut order: Vec<_> = others.by_ref().take(turns.ahead).collect();
    for _ in 0..turns.number {
        order.extend(labelled.by_ref().take(turns.labelled));
        order.extend(others.by_ref().take(turns.others));
    }
    order.extend(labelled.chain(others).chain(last));
    order
}

/// Pods with the label, the very last one apart, and pods without it. Neither is 0.
struct Counts {
    labelled: usize,
    others: usize,
}

/// How the two kinds take turns.
struct Turns {
    /// Others that go before the first turn.
    ahead: usize,
    /// How many turns.
    number: usize,
    /// Pods with the label in a turn.
    labelled: usize,
    /// Pods without it in a turn.
    others: usize,
}

impl Counts {
    /// One turn for each pod of the smaller group.
    fn fair(&self) -> Turns {
        let number = self.labelled.min(self.others);
        let share = |pods: usize| (2 * pods + number) / (2 * number);
        Turns {
            ahead: 0,
            number,
            labelled: share(self.labelled),
            others: share(self.others),
        }
    }

    /// The turns for the waiting pods, which `self` counts, among all pods.
    fn turns(&self, all: &Self) -> Turns {
        if all.others * self.labelled >= self.others * all.labelled {
            return self.fair();
        }
        let fair = all.fair();
        let number = (self.labelled / fair.labelled).min(self.others / fair.others);
        Turns {
            ahead: self.others - number * fair.others,
            number,
            ..fair
        }
    }
}
