//! Something befalls the controller at every write of a rollout, and the rollout ends as it would have.
//!
//! The real controller, on a real apiserver. On a node with the real kubelet, containerd and daemon it dies at each write; on
//! a simulated node, where a case takes a second or two, it also has writes refused, and sees late or never what is there.
//! Each case has a CloneSet of its own, and its scenario runs once without a fault to know how it ends. Cases share a cluster
//! and run one after the other. Needs root, as the cluster does.
//!
//! Of the faults with one write each, every `BERTH_FAULTS_STRIDE`-th is tried; 1 tries all.
//! `BERTH_CLUSTER` names a cluster with one node to use, in place of one that is made.

mod case;
mod daemon;
mod ending;
mod explained;
mod laws;
mod owner;
mod plans;
mod scenario;
mod world;

use std::env;
use std::process::ExitCode;
use std::sync::PoisonError;

use anyhow::{Context, Result, ensure};
use berth_e2e::suite;
use berth_faults::{Fault, Side};
use futures::FutureExt;

use crate::plans::Family;
use crate::scenario::Scenario;
use crate::world::{World, Worlds};

/// Of so many plans one is tried, so that `make test` has time for it: on a real node, and on a simulated one, where there are
/// twenty times as many. That the controller dies at each write in turn takes one run only, and is always tried.
const STRIDES: (usize, usize) = (32, 48);

/// What is tried with a scenario.
#[derive(Debug, Clone, Copy)]
enum Way {
    Undisturbed,
    Each(Side),
    Plans(Family),
    Explained,
    /// What the plans so far came to.
    Tally,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Undisturbed => "undisturbed",
            Way::Each(Side::Before) => "killed_before_each_write",
            Way::Each(Side::After) => "killed_after_each_write",
            Way::Each(Side::Answered) => "killed_after_each_answer",
            Way::Plans(family) => family.name(),
            Way::Explained => "done_as_explained",
            Way::Tally => "tally",
        }
    }

    fn of_real(scenario: Scenario) -> Vec<Way> {
        let mut ways = vec![Way::Undisturbed];
        if scenario.gets_on_by_single_writes() {
            ways.extend([Side::Before, Side::After].map(Way::Each));
        }
        ways.extend([Side::Before, Side::After].map(|side| Way::Plans(Family::Killed(side))));
        ways.extend(scenario.is_explained().then_some(Way::Explained));
        ways
    }

    fn of_simulated() -> Vec<Way> {
        let each = [Side::Before, Side::After, Side::Answered].map(Way::Each);
        let plans = Family::ALL.map(Way::Plans);
        [vec![Way::Undisturbed], each.to_vec(), plans.to_vec(), vec![Way::Tally]].concat()
    }
}

fn main() -> ExitCode {
    let mut tests = Vec::new();
    let mut add = |kind: &str, scenario: Scenario, way: Way| {
        let real = kind == "real";
        let run = async move |worlds: &Worlds| {
            let world = if real { worlds.real().await? } else { worlds.simulated().await? };
            attempt(world, scenario, way).await
        };
        let run: suite::Test<Worlds> = Box::new(move |worlds| async move { suite::caught(run(&worlds)).await }.boxed());
        tests.push((format!("{kind}::{}::{}", scenario.name(), way.name()), run));
    };
    for scenario in Scenario::REAL {
        Way::of_real(scenario).into_iter().for_each(|way| add("real", scenario, way));
    }
    for scenario in Scenario::SIMULATED {
        Way::of_simulated().into_iter().for_each(|way| add("simulated", scenario, way));
    }
    // With the worlds end the controllers, the daemon and the clusters.
    suite::run(|| async { Ok(Worlds::default()) }.boxed(), tests)
}

fn stride(world: &World) -> Result<usize> {
    let default = if world.is_simulated() { STRIDES.1 } else { STRIDES.0 };
    let Ok(stride) = env::var("BERTH_FAULTS_STRIDE") else { return Ok(default) };
    stride.parse().ok().filter(|stride| *stride > 0).context("BERTH_FAULTS_STRIDE is no number above 0")
}

async fn attempt(world: &World, scenario: Scenario, way: Way) -> Result<()> {
    if matches!(way, Way::Explained) {
        return explained::try_all(world, scenario).await;
    }
    let undisturbed = world.undisturbed(scenario).await?;
    let faults: Vec<Fault> = match way {
        Way::Undisturbed | Way::Explained => return Ok(()),
        Way::Tally => return tally(world, scenario, undisturbed.writes),
        Way::Each(side) => vec![Fault::Each(side)],
        Way::Plans(family) => family.slice(scenario, undisturbed.writes, stride(world)?),
    };
    // Which of the writes fail says more than the first of them alone.
    let (tried, mut failures) = (faults.len(), Vec::new());
    for fault in faults {
        if let Err(error) = case::run(world, scenario, fault, Some(&undisturbed.ending)).await {
            failures.push(format!("{}, {fault}: {error:#}", scenario.name()));
        }
    }
    ensure!(failures.is_empty(), "{} of {tried} cases fail:\n{}", failures.len(), failures.join("\n\n"));
    Ok(())
}

/// Prints how many of a scenario's writes were interrupted in all three ways. All are to be when all plans are tried.
fn tally(world: &World, scenario: Scenario, writes: usize) -> Result<()> {
    let struck = world.struck.lock().unwrap_or_else(PoisonError::into_inner);
    let of_scenario = struck.iter().filter(|(of, _)| *of == scenario).count();
    let sides = [Side::Before, Side::After, Side::Answered];
    let thrice = |number: &usize| sides.iter().all(|side| struck.contains(&(scenario, Fault::One(*number, *side))));
    let interrupted = (1..=writes).filter(thrice).count();
    eprintln!(
        "{}: {of_scenario} faults, {interrupted} of {writes} writes interrupted in all three ways",
        scenario.name()
    );
    ensure!(stride(world)? > 1 || interrupted == writes, "only {interrupted} of {writes} writes were interrupted");
    Ok(())
}
