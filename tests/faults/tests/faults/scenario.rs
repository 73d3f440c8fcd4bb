//! Scenarios: the changes that users make to objects of a kind while a fault is injected, and the
//! end that they must lead to.
//!
//! A kind has a module with its scenarios and its [`Run`], and a line in [`KINDS`]. No other file
//! knows kinds.

use anyhow::Result;
use futures::future::LocalBoxFuture;
use serde_json::Value;

use crate::group::WorldKind;
use crate::run::{Attempt, Outcome};
use crate::world::World;
use crate::{
    broadcast_job, clone_set, daemon_set, images, native, recreate_request, sidecar_set,
    stateful_set, united_deployment,
};

/// The scenarios of each kind. A new kind is a line at the end.
const KINDS: &[&[&dyn Scenario]] = &[
    clone_set::SCENARIOS,
    images::SCENARIOS,
    stateful_set::SCENARIOS,
    native::SCENARIOS,
    sidecar_set::SCENARIOS,
    daemon_set::SCENARIOS,
    broadcast_job::SCENARIOS,
    recreate_request::SCENARIOS,
    united_deployment::SCENARIOS,
];

/// How many numbers each kind has for its scenarios, so that a new scenario of one kind changes no
/// number of another.
const NUMBERS_OF_A_KIND: usize = 20;

/// An action of users. Each scenario has a name of its own.
pub(crate) trait Scenario: Sync {
    /// Part of the names of its tests and namespaces.
    fn name(&self) -> &'static str;

    /// The worlds in which it is tried.
    fn worlds(&self) -> &'static [WorldKind];

    /// The resources whose events the controller needs for it: the events of each are late, missed
    /// and repeated.
    fn watched(&self) -> Vec<&'static str>;

    /// The resources for which one write may combine two writes of another run, as one status
    /// update may. A fault at such a write need not be triggered, because a run may have fewer of
    /// them.
    fn merged(&self) -> &'static [&'static str];

    /// Whether a controller that is killed at each write in turn reaches the end.
    fn progresses_by_single_writes(&self) -> bool {
        true
    }

    /// Resources that decide nothing after they were read first, so that it makes no difference if
    /// their events come late, or never.
    fn unheeded(&self) -> &'static [&'static str] {
        &[]
    }

    /// Compares `explain` with the controller's writes by [`crate::explained::compare`], if that
    /// makes sense.
    fn explained(&self) -> Option<Comparison> {
        None
    }

    /// Carries it out once: [`crate::run::run`] with the [`Run`] of its kind.
    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>>;
}

/// A comparison in a world.
pub(crate) type Comparison = fn(&World) -> LocalBoxFuture<'_, Result<()>>;

/// One run of a scenario, in a namespace of its own. Its steps are called in this order.
pub(crate) trait Run<'a>: Sized {
    /// All scenarios of the kind.
    type Scenario: Scenario + Copy;

    /// Begins the records that its laws check.
    async fn begin(world: &'a World, namespace: &str, scenario: Self::Scenario) -> Result<Self>;

    /// Creates the objects that exist before, and waits until the controller is at rest. No fault
    /// is injected yet.
    async fn set_up(&mut self) -> Result<()>;

    /// Makes the users' changes.
    async fn act(&self) -> Result<()>;

    /// All differences that users could find in the end, without the parts that differ from run to
    /// run (generated names, uids, addresses, times). If the scenario must not end so, also the
    /// reason.
    async fn look(&self) -> Result<(Value, Option<String>)>;

    /// Checks the laws of the scenario, those of [`crate::laws`] and its own, after this ending.
    async fn check(&self, ending: &Value) -> Result<()>;

    /// Deletes the objects that would disturb the next run in this world.
    async fn clean_up(&self) -> Result<()>;
}

/// Every scenario.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Scenario> {
    KINDS.iter().copied().flatten().copied()
}

/// Its place in the list. If not all plans are tried, it selects the ones that are.
pub(crate) fn number(scenario: &dyn Scenario) -> usize {
    let within = |(kind, scenarios): (usize, &&[&dyn Scenario])| {
        let place = scenarios
            .iter()
            .position(|other| other.name() == scenario.name())?;
        Some(kind * NUMBERS_OF_A_KIND + place)
    };
    KINDS
        .iter()
        .enumerate()
        .find_map(within)
        .unwrap_or_default()
}
