//! The plans of a scenario: each has a fault at one of its writes, or at one of the events that the
//! controller receives.

use berth_faults::{Fault, Lag, Refusal, Side};

use crate::group::Undisturbed;
use crate::scenario::{self, Scenario};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// The controller dies at a write.
    Killed(Side),
    /// A write is refused, or not answered.
    Refused,
    /// The controller's view falls behind from a write on.
    Lagging(Lag),
    /// The controller's view falls behind from an event on.
    Unseen(Lag),
    /// The controller dies, and its view after that is old.
    Stale,
    /// The leader is paused, and resumes when another replica leads.
    Paused(Side),
    /// The leader gets the signal to end, and its successor's view is late.
    HandedOver,
}

impl Family {
    /// The families for a single controller.
    pub(crate) const ONE_CONTROLLER: [Family; 11] = [
        Family::Killed(Side::Before),
        Family::Killed(Side::After),
        Family::Killed(Side::Answered),
        Family::Refused,
        Family::Lagging(Lag::Late),
        Family::Lagging(Lag::Missed),
        Family::Lagging(Lag::Repeated),
        Family::Unseen(Lag::Late),
        Family::Unseen(Lag::Missed),
        Family::Unseen(Lag::Repeated),
        Family::Stale,
    ];

    /// The families for a leader with a second replica.
    pub(crate) const TWO_CONTROLLERS: [Family; 7] = [
        Family::Killed(Side::Before),
        Family::Killed(Side::After),
        Family::Killed(Side::Answered),
        Family::Paused(Side::Before),
        Family::Paused(Side::After),
        Family::Paused(Side::Answered),
        Family::HandedOver,
    ];

    /// The faults of this family in a scenario with this undisturbed course.
    fn faults(self, scenario: &dyn Scenario, undisturbed: &Undisturbed) -> Vec<Fault> {
        let (watched, writes) = (scenario.watched(), 1..=undisturbed.most);
        let of_each = |fault: &dyn Fn(usize, &'static str) -> Fault| -> Vec<Fault> {
            writes
                .clone()
                .flat_map(|number| watched.iter().map(move |what| fault(number, what)))
                .collect()
        };
        match self {
            Family::Killed(side) => writes.map(|number| Fault::One(number, side)).collect(),
            Family::Paused(side) => writes.map(|number| Fault::Paused(number, side)).collect(),
            Family::Refused => writes
                .flat_map(|number| Refusal::ALL.map(|refusal| Fault::Refused(number, refusal)))
                .collect(),
            Family::Lagging(lag) => of_each(&|number, what| Fault::Lagging(number, lag, what)),
            Family::HandedOver => of_each(&|number, what| Fault::HandedOver(number, what)),
            Family::Stale => of_each(&|number, what| Fault::Stale(number, what)),
            Family::Unseen(lag) => {
                let events = |what: &'static str| {
                    (1..=undisturbed.events(what)).map(move |number| (number, what))
                };
                let events = watched.into_iter().flat_map(events);
                events
                    .map(|(number, what)| Fault::Unseen(number, lag, what))
                    .collect()
            }
        }
    }

    /// A slice of these faults: every `stride`-th. If not all are tried, scenarios and families try
    /// different ones.
    pub(crate) fn slice(
        self,
        scenario: &dyn Scenario,
        undisturbed: &Undisturbed,
        stride: usize,
    ) -> Vec<Fault> {
        let family = match self {
            Family::Killed(side) => side as usize,
            Family::Paused(side) => 3 + side as usize,
            Family::Refused => 6,
            Family::Lagging(lag) => 7 + lag as usize,
            Family::Stale => 10,
            Family::Unseen(lag) => 11 + lag as usize,
            Family::HandedOver => 14,
        };
        let first = (family * 5 + scenario::number(scenario) * 3) % stride;
        self.faults(scenario, undisturbed)
            .into_iter()
            .skip(first)
            .step_by(stride)
            .collect()
    }
}

/// One fault of a scenario. Scenarios that follow each other have faults of families that follow
/// each other, so that every family is tried.
pub(crate) fn one(
    families: &[Family],
    scenario: &dyn Scenario,
    undisturbed: &Undisturbed,
) -> Option<Fault> {
    let number = scenario::number(scenario);
    let (before, from) = families.split_at(number % families.len().max(1));
    from.iter().chain(before).find_map(|family| {
        let faults = family.faults(scenario, undisturbed);
        faults.get(number * 7 % faults.len().max(1)).copied()
    })
}
