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
mod laws;
mod scenario;
mod world;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow, ensure};
use berth_faults::{Fault, Side};
use futures::FutureExt;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

use crate::scenario::Scenario;
use crate::world::World;

/// What is tried with a scenario.
#[derive(Debug, Clone, Copy)]
enum Way {
    Undisturbed,
    Each(Side),
    One(Side),
}

const WAYS: [(&str, Way); 5] = [
    ("undisturbed", Way::Undisturbed),
    ("killed_before_each_write", Way::Each(Side::Before)),
    ("killed_after_each_write", Way::Each(Side::After)),
    ("killed_before_one_write", Way::One(Side::Before)),
    ("killed_after_one_write", Way::One(Side::After)),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let runtime = match Runtime::new() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let shared = Arc::new(Mutex::new(None));
    let mut trials = Vec::new();
    for scenario in Scenario::ALL {
        for (name, way) in WAYS {
            let (runtime, shared) = (Arc::clone(&runtime), Arc::clone(&shared));
            trials.push(Trial::test(format!("{}::{name}", scenario.name()), move || {
                runtime.block_on(run(scenario, way, &shared)).map_err(Failed::from)
            }));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The controller, the daemon and the cluster end here, before the process does.
    drop(shared.lock().unwrap_or_else(PoisonError::into_inner).take());
    conclusion.exit_code()
}

/// The cluster, once a test needs it; a failure to bring it up is every test's.
type Shared = Mutex<Option<Result<Arc<World>, String>>>;

async fn run(scenario: Scenario, way: Way, shared: &Shared) -> Result<(), String> {
    let world = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let world = match world {
        Some(world) => world,
        None => {
            let up = World::up().await.map(Arc::new).map_err(|error| format!("no cluster: {error:#}"));
            shared.lock().unwrap_or_else(PoisonError::into_inner).insert(up).clone()
        }
    }?;
    let tried = std::panic::AssertUnwindSafe(attempt(&world, scenario, way)).catch_unwind().await;
    tried.unwrap_or_else(|_| Err(anyhow!("it panicked"))).map_err(|error| format!("{error:#}"))
}

async fn attempt(world: &World, scenario: Scenario, way: Way) -> Result<()> {
    let undisturbed = world.undisturbed(scenario).await?;
    let stride = world.stride;
    let faults: Vec<Fault> = match way {
        Way::Undisturbed => return Ok(()),
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
