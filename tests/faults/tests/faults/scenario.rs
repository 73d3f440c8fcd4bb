//! Scenarios: what users do with objects of a kind while a fault is injected, and how it must end.
//!
//! A kind brings a module with its scenarios and its [`Run`], and a line in [`KINDS`]. Nothing else knows kinds.

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

/// So many numbers each kind has for its scenarios, so that one more of a kind changes no number of another.
const NUMBERS_OF_A_KIND: usize = 20;

/// Something that users do. No two scenarios have one name.
pub(crate) trait Scenario: Sync {
    /// Part of the names of its tests and namespaces.
    fn name(&self) -> &'static str;

    /// In which worlds it is tried.
    fn worlds(&self) -> &'static [WorldKind];

    /// The resources whose events the controller needs for it: those of each are late, missed and repeated.
    fn watched(&self) -> Vec<&'static str>;

    /// The resources of which one write may do what two do in another run: one status may say what two say. No fault at such a
    /// write must be triggered, for a run may have fewer of them.
    fn merged(&self) -> &'static [&'static str];

    /// Whether a controller comes to the end that is killed at each write in turn.
    fn progresses_by_single_writes(&self) -> bool {
        true
    }

    /// So many times fewer plans than of others are tried unless told, for its runs have many writes, or take long.
    fn thinned(&self) -> usize {
        1
    }

    /// Resources that nothing is decided by after the first look, so that it makes no difference when they are seen late, or not at all.
    fn unheeded(&self) -> &'static [&'static str] {
        &[]
    }

    /// What compares `explain` with what the controller does: [`crate::explained::compare`], where that makes sense.
    fn explained(&self) -> Option<Comparison> {
        None
    }

    /// Carries it out once: [`crate::run::run`] with the [`Run`] of its kind.
    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>>;
}

/// A comparison, in a world.
pub(crate) type Comparison = fn(&World) -> LocalBoxFuture<'_, Result<()>>;

/// One run of a scenario, in a namespace of its own. Its steps are called in this order.
pub(crate) trait Run<'a>: Sized {
    /// All scenarios of the kind.
    type Scenario: Scenario + Copy;

    /// Begins to record what its laws judge.
    async fn begin(world: &'a World, namespace: &str, scenario: Self::Scenario) -> Result<Self>;

    /// Makes what is there before, and waits until the controller is at rest. No fault is injected yet.
    async fn set_up(&mut self) -> Result<()>;

    /// Does what users do.
    async fn act(&self) -> Result<()>;

    /// Everything that users could find to be different in the end, without what differs from run to run (names that are
    /// drawn, uids, addresses, times); and why this is not how the scenario must end, where it is not.
    async fn look(&self) -> Result<(Value, Option<String>)>;

    /// Checks the laws of the scenario, those of [`crate::laws`] and its own, after this ending.
    async fn check(&self, ending: &Value) -> Result<()>;

    /// Takes away what would disturb the next run in this world.
    async fn clean_up(&self) -> Result<()>;
}

/// Every scenario.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Scenario> {
    KINDS.iter().copied().flatten().copied()
}

/// By its place in the list. Where not all plans are tried, it chooses those that are.
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
