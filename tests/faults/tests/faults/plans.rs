//! What is tried with a scenario: each a fault at one of its writes.

use berth_faults::{Fault, Lag, Refusal, Side};

use crate::scenario::Scenario;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// It dies at a write.
    Killed(Side),
    /// A write is refused, or not answered.
    Refused,
    /// What it sees falls behind.
    Lagging(Lag),
    /// It dies, and what it sees then is old.
    Stale,
}

impl Family {
    /// All of them.
    pub(crate) const ALL: [Family; 8] = [
        Family::Killed(Side::Before),
        Family::Killed(Side::After),
        Family::Killed(Side::Answered),
        Family::Refused,
        Family::Lagging(Lag::Late),
        Family::Lagging(Lag::Missed),
        Family::Lagging(Lag::Repeated),
        Family::Stale,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Killed(Side::Before) => "killed_before_one_write",
            Family::Killed(Side::After) => "killed_after_one_write",
            Family::Killed(Side::Answered) => "killed_after_one_answer",
            Family::Refused => "refused",
            Family::Lagging(Lag::Late) => "late",
            Family::Lagging(Lag::Missed) => "missed",
            Family::Lagging(Lag::Repeated) => "repeated",
            Family::Stale => "stale",
        }
    }

    /// Its faults in a scenario with so many writes.
    fn faults(self, scenario: Scenario, writes: usize) -> Vec<Fault> {
        let watched = scenario.watched();
        let at = |number: usize| -> Vec<Fault> {
            match self {
                Family::Killed(side) => vec![Fault::One(number, side)],
                Family::Refused => Refusal::ALL.map(|refusal| Fault::Refused(number, refusal)).to_vec(),
                Family::Lagging(lag) => watched.iter().map(|what| Fault::Lagging(number, lag, what)).collect(),
                Family::Stale => watched.iter().map(|what| Fault::Stale(number, what)).collect(),
            }
        };
        (1..=writes).flat_map(at).collect()
    }

    /// A slice of them: every `stride`-th. Where not all are tried, scenarios and families try different ones.
    pub(crate) fn slice(self, scenario: Scenario, writes: usize, stride: usize) -> Vec<Fault> {
        let families = Self::ALL.iter().position(|family| *family == self).unwrap_or_default();
        let first = (families * 5 + scenario as usize * 3) % stride;
        self.faults(scenario, writes).into_iter().skip(first).step_by(stride).collect()
    }
}
