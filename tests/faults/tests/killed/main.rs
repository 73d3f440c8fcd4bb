//! The controller dies at every write of a rollout, and the rollout ends as it would have.
//!
//! The real controller, on a real cluster of one node with the real daemon. Each case has a CloneSet of its own, and runs
//! once without a fault to know how it ends. All cases share one cluster and run one after the other. Needs root, as the
//! cluster does.
//!
//! Of the writes at which the controller dies once, every `BERTH_FAULTS_STRIDE`-th is tried; 1 tries all.
//! `BERTH_CLUSTER` names a cluster with one node to use, in place of one that is made.

mod case;
mod daemon;
mod ending;
mod explained;
mod laws;
mod scenario;
mod world;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use berth_e2e::suite;
use berth_faults::{Fault, Side};
use futures::FutureExt;

use crate::scenario::Scenario;
use crate::world::World;

/// What is tried with a scenario.
#[derive(Debug, Clone, Copy)]
enum Way {
    Undisturbed,
    Each(Side),
    One(Side),
    Explained,
}

const WAYS: [(&str, Way); 6] = [
    ("undisturbed", Way::Undisturbed),
    ("killed_before_each_write", Way::Each(Side::Before)),
    ("killed_after_each_write", Way::Each(Side::After)),
    ("killed_before_one_write", Way::One(Side::Before)),
    ("killed_after_one_write", Way::One(Side::After)),
    ("done_as_explained", Way::Explained),
];

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for scenario in Scenario::ALL {
        for (name, way) in WAYS {
            let applies = match way {
                Way::Explained => scenario.is_explained(),
                Way::Each(_) => scenario.gets_on_by_single_writes(),
                Way::Undisturbed | Way::One(_) => true,
            };
            if !applies {
                continue;
            }
            let run: suite::Test<World> =
                Box::new(move |world| async move { suite::caught(attempt(&world, scenario, way)).await }.boxed());
            tests.push((format!("{}::{name}", scenario.name()), run));
        }
    }
    // With the world end the controller, the daemon and the cluster.
    suite::run(|| World::up().boxed(), tests)
}

async fn attempt(world: &World, scenario: Scenario, way: Way) -> Result<()> {
    if matches!(way, Way::Explained) {
        return explained::try_all(world, scenario).await;
    }
    let undisturbed = world.undisturbed(scenario).await?;
    let stride = world.stride;
    let faults: Vec<Fault> = match way {
        Way::Undisturbed | Way::Explained => return Ok(()),
        Way::Each(side) => vec![Fault::Each(side)],
        // Where not all are tried, the two sides try different ones.
        Way::One(side) => {
            let first = if side == Side::Before { stride.div_ceil(4) } else { (3 * stride).div_ceil(4) };
            (first..=undisturbed.writes).step_by(stride).map(|number| Fault::One(number, side)).collect()
        }
    };
    // Which of the writes fail says more than the first of them alone.
    let mut failures = Vec::new();
    for fault in faults {
        if let Err(error) = case::run(world, scenario, fault, Some(&undisturbed.ending)).await {
            failures.push(format!("{}, {fault}: {error:#}", scenario.name()));
        }
    }
    ensure!(failures.is_empty(), "{} of the cases fail:\n{}", failures.len(), failures.join("\n\n"));
    Ok(())
}
