//! Injects faults into the real controller while users change objects. The end must be the same as
//! without the faults.
//!
//! - scenario: the changes that users make to objects of one kind. Run: a scenario carried out
//!   once, in a namespace of its own.
//! - world: a cluster, with the controller behind a proxy that sees its writes and events. One run
//!   at a time has it.
//! - writes and events of a run: the ones in its namespace, and those of objects without a
//!   namespace.
//! - fault: the failure that is injected into a run, at one write or event, or at each write. Plan:
//!   a scenario with a fault.
//! - triggered: the run came to the fault's write or event. A run with fewer writes ends without.
//! - hidden: an event that the controller gets late, not at all, or again. Lag: a fault that hides
//!   events.
//! - effective: a lag that was triggered and hid an event of the run.
//! - settle time: how long a controller without requests may still have work because of the fault.
//! - ending: all that users could find to be different after a run. The undisturbed run, without a
//!   fault, shows how it must be.
//! - law: what must hold at every moment of a run, or of all its writes.
//!
//! Worlds with a real kubelet, containerd and daemon have the controller killed at each write. In
//! worlds with simulated nodes, where a run takes a second or two, writes are refused as well, and
//! the controller sees changes late or never. In worlds with two replicas, the leader is also
//! killed, paused or ended by a signal. Needs root, as clusters do.
//!
//! Of the faults with one write or event each, every `BERTH_FAULTS_STRIDE`-th is tried; 1 tries
//! all, and 1,4 all kills and every fourth of the others. By default one of a scenario is tried in
//! each kind of world, and a scenario is killed at each write in one way. `BERTH_FAULTS_WORLDS` is
//! the number of worlds with simulated nodes, by default the number of processors. `BERTH_CLUSTER`
//! names a cluster with one node to use, instead of a new one.

mod broadcast_job;
mod broken;
mod clone_set;
mod daemon;
mod daemon_set;
mod explained;
mod group;
mod history;
mod images;
mod laws;
mod native;
mod nodes;
mod owner;
mod plans;
mod pod_ending;
mod recreate_request;
mod run;
mod scenario;
mod sidecar_laws;
mod sidecar_set;
mod stateful_set;
mod united_deployment;
mod volumes;
mod world;

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use berth_e2e::suite::{self, Company, Tries};
use berth_faults::{Fault, Lag};
use futures::FutureExt;

use crate::group::{Group, Undisturbed, WorldKind, Worlds, has_stride};
use crate::plans::Family;
use crate::scenario::Scenario;

/// The way in which a scenario is tried.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Without a fault.
    Undisturbed,
    /// The controller is killed at each write in turn, in one run.
    Each,
    /// Every fault with one write or event, each in a run of its own.
    Plans,
    /// While the controller is dead, `explain` prints its next plan.
    Explained,
}

impl Way {
    /// The name of a test's requirement: its condition and its result.
    fn name(self) -> &'static str {
        match self {
            Way::Undisturbed => "undisturbed_ends_well",
            Way::Each => "killed_at_each_write_ends_the_same",
            Way::Plans => "any_fault_ends_the_same",
            Way::Explained => "explain_says_what_is_done",
        }
    }

    fn all(kind: WorldKind, scenario: &dyn Scenario) -> Vec<Way> {
        let mut ways = vec![Way::Undisturbed, Way::Plans];
        ways.extend(
            (kind != WorldKind::Pair && scenario.progresses_by_single_writes())
                .then_some(Way::Each),
        );
        ways.extend(
            (kind == WorldKind::Real && scenario.explained().is_some()).then_some(Way::Explained),
        );
        ways
    }
}

/// How many tests run at once, in any free worlds.
const AT_ONCE: usize = 4;

/// All tests, with the kinds of worlds spread evenly, so that no world waits while the others have
/// all the work.
fn in_turns() -> Vec<(WorldKind, &'static dyn Scenario, Way)> {
    let mut all = Vec::new();
    for kind in WorldKind::ALL {
        let of_scenario = |scenario| {
            Way::all(kind, scenario)
                .into_iter()
                .map(move |way| (kind, scenario, way))
        };
        let of_kind: Vec<_> = kind.scenarios().flat_map(of_scenario).collect();
        let place = |number: usize| (2 * number + 1) * 1_000_000 / (2 * of_kind.len());
        all.extend(
            of_kind
                .iter()
                .enumerate()
                .map(|(number, tried)| (place(number), *tried)),
        );
    }
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, tried)| tried).collect()
}

fn main() -> ExitCode {
    let mut tests: Vec<(String, Company, suite::Test<Worlds>)> = Vec::new();
    for (name, test) in broken::all() {
        let run = Box::new(move |_, _| {
            async move { suite::caught(async { test() }).await }.boxed_local()
        });
        tests.push((format!("laws::{name}"), Company::Others, run));
    }
    for (kind, scenario, way) in in_turns() {
        let run = async move |worlds: &Worlds| attempt(worlds.of(kind).await?, scenario, way).await;
        let run: suite::Test<Worlds> = Box::new(move |worlds, _| {
            async move { suite::caught(run(&worlds)).await }.boxed_local()
        });
        tests.push((
            format!("{}::{}::{}", kind.name(), scenario.name(), way.name()),
            Company::Others,
            run,
        ));
    }
    // The controllers, the daemon and the clusters end with the worlds.
    suite::run(
        || async { Ok(Worlds::default()) }.boxed(),
        AT_ONCE,
        Tries::One,
        tests,
    )
}

/// Every how many-th plan is tried: for kills, and for other faults. By default a scenario has one.
fn strides() -> Result<Option<(usize, usize)>> {
    let Ok(text) = env::var("BERTH_FAULTS_STRIDE") else {
        return Ok(None);
    };
    let (kills, others) = text.split_once(',').unwrap_or((&text, &text));
    let stride = |text: &str| text.parse().ok().filter(|stride| *stride > 0);
    let wrong = || format!("BERTH_FAULTS_STRIDE is {text:?}, not one or two numbers above 0");
    Ok(Some((
        stride(kills).with_context(wrong)?,
        stride(others).with_context(wrong)?,
    )))
}

async fn attempt(group: &Group, scenario: &dyn Scenario, way: Way) -> Result<()> {
    if let (Way::Explained, Some(compare)) = (way, scenario.explained()) {
        return compare(&*group.take().await?).await;
    }
    let undisturbed = group.undisturbed(scenario).await?;
    let faults: Vec<Fault> = match way {
        Way::Undisturbed | Way::Explained => return Ok(()),
        Way::Each => {
            let sides = group.kind.sides();
            let (first, step) = if has_stride() {
                (0, 1)
            } else {
                (scenario::number(scenario), sides.len())
            };
            sides
                .iter()
                .copied()
                .map(Fault::Each)
                .skip(first % step)
                .step_by(step)
                .collect()
        }
        Way::Plans => {
            let families = group.kind.families();
            match strides()? {
                Some((kills, others)) => {
                    let stride = |family: &Family| match family {
                        Family::Killed(_) => kills,
                        _ => others,
                    };
                    families
                        .iter()
                        .flat_map(|family| family.slice(scenario, &undisturbed, stride(family)))
                        .collect()
                }
                None => plans::one(families, scenario, &undisturbed)
                    .into_iter()
                    .collect(),
            }
        }
    };
    group.try_all(scenario, &faults, &undisturbed).await?;
    // More runs have shown by now how few writes a run may have.
    let undisturbed = group.undisturbed(scenario).await?;
    if matches!(way, Way::Plans) {
        tally(group, scenario, &faults, &undisturbed)
    } else {
        Ok(())
    }
}

/// Prints how many of a scenario's writes were interrupted in all ways, and how many lags were
/// effective. When all plans are tried, all writes must be interrupted, and each lag of each
/// resource must be effective at least once.
fn tally(
    group: &Group,
    scenario: &dyn Scenario,
    faults: &[Fault],
    undisturbed: &Undisturbed,
) -> Result<()> {
    let &Undisturbed {
        fewest: writes,
        most,
        ..
    } = undisturbed;
    let events: usize = scenario
        .watched()
        .into_iter()
        .map(|resource| undisturbed.events(resource))
        .sum();
    let triggered = group.triggered(scenario);
    let in_all_ways = |number: &usize| {
        group
            .kind
            .sides()
            .iter()
            .all(|side| triggered.contains_key(&Fault::One(*number, *side)))
    };
    let interrupted = (1..=writes).filter(in_all_ways).count();
    let is_effective = |fault: &Fault| triggered.get(fault).is_some_and(|hidden| *hidden > 0);
    let lags = || faults.iter().filter(|fault| fault.hides());
    let (injected, triggered_of_all) = group.totals();
    eprintln!(
        "{kind} {}: {} faults injected, {} triggered; {interrupted} of {writes} writes interrupted in all {} ways; \
         {} of {} lags effective; a run has {writes} to {most} writes and up to {events} events; so far {triggered_of_all} of \
         {injected} {kind} faults triggered",
        scenario.name(),
        faults.len(),
        faults
            .iter()
            .filter(|fault| triggered.contains_key(fault))
            .count(),
        group.kind.sides().len(),
        lags().filter(|fault| is_effective(fault)).count(),
        lags().count(),
        kind = group.kind.name(),
    );
    let Some((kills, others)) = strides()? else {
        return Ok(());
    };
    ensure!(
        kills > 1 || interrupted == writes,
        "only {interrupted} of {writes} writes were interrupted"
    );
    // A lag from an event on hides that event, or repeats earlier ones: it does not stand in for a
    // lag from a write on.
    let mut by_lag: BTreeMap<(Lag, &str), bool> = BTreeMap::new();
    for fault in faults {
        if let Fault::Lagging(_, lag, resource) = fault
            && !scenario.unheeded().contains(resource)
        {
            *by_lag.entry((*lag, resource)).or_default() |= is_effective(fault);
        }
    }
    let idle: Vec<_> = by_lag
        .into_iter()
        .filter(|(_, is_effective)| !is_effective)
        .map(|(lag, _)| lag)
        .collect();
    ensure!(others > 1 || idle.is_empty(), "never effective: {idle:?}");
    Ok(())
}
