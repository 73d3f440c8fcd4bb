//! One run of a scenario with a fault.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::objects;
use berth_faults::{Controller, Entry, Fault};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::scenario::{Run, Scenario};
use crate::world::{PATIENCE, World};

/// A controller is at rest after this time without a request, plus the settle time of its fault.
const QUIET: Duration = Duration::from_millis(500);

/// The world and the fault of a run.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) world: &'a World,
    pub(crate) fault: Fault,
    /// The ending without a fault, if it is known.
    pub(crate) expected: Option<&'a Value>,
}

/// The result of a run.
pub(crate) struct Outcome {
    pub(crate) ending: Value,
    /// The number of writes that the controller sent.
    pub(crate) writes: usize,
    /// The writes that every run has.
    pub(crate) certain: usize,
    /// How many events came for the controller, by resource.
    pub(crate) events: BTreeMap<String, usize>,
    /// The fault was triggered.
    pub(crate) triggered: bool,
    /// Events that were sent late, not at all, or again.
    pub(crate) hidden: usize,
}

/// Runs a scenario with a fault, and checks everything.
pub(crate) async fn run<'a, R: Run<'a>>(
    scenario: R::Scenario,
    attempt: Attempt<'a>,
) -> Result<Outcome> {
    let began = Instant::now();
    let (namespace, mut run) = begin::<R>(attempt.world, scenario).await?;
    let ending = ending(&mut run, &namespace, attempt).await;
    let outcome = judged((&scenario, &namespace), attempt, ending, began).await?;
    run.clean_up().await.map(|()| outcome)
}

/// Makes a namespace for a run, and begins the run there.
pub(crate) async fn begin<'a, R: Run<'a>>(
    world: &'a World,
    scenario: R::Scenario,
) -> Result<(String, R)> {
    let namespace = world.namespace(scenario.name());
    objects::make_namespace(&world.client, &namespace).await?;
    let run = R::begin(world, &namespace, scenario).await?;
    Ok((namespace, run))
}

/// Sets up, acts with the fault, and checks. Returns the ending, which is the expected one.
async fn ending<'a>(
    run: &mut impl Run<'a>,
    namespace: &str,
    attempt: Attempt<'a>,
) -> Result<Value> {
    let Attempt {
        world,
        fault,
        expected,
    } = attempt;
    world.controller.begin(namespace, Fault::None);
    run.set_up().await?;
    let run = &*run;
    let look = async || {
        let (now, flaw) = run.look().await?;
        let flaw = match expected {
            Some(expected) => (now != *expected)
                .then(|| format!("it should have ended so:\n{expected}\nand is so:\n{now}")),
            None => flaw,
        };
        Ok((now, flaw))
    };
    let ending = ended(world, (namespace, fault), run.act(), look).await?;
    run.check(&ending).await?;
    Ok(ending)
}

/// Ends the run, and checks its result: later events are no part of it, and need a living
/// controller. Returns the outcome.
async fn judged(
    (scenario, namespace): (&dyn Scenario, &str),
    Attempt { world, fault, .. }: Attempt<'_>,
    ending: Result<Value>,
    began: Instant,
) -> Result<Outcome> {
    world.controller.resume().await;
    world.controller.release();
    let hidden = world.controller.hidden();
    let (written, certain, events, kills, triggered, old_read) = {
        let ledger = world.controller.ledger();
        let is_certain = |entry: &&Entry| {
            entry.is_done()
                && !entry.is_renewal
                && !scenario.merged().contains(&entry.write.resource.as_str())
        };
        let certain = ledger.entries().iter().filter(is_certain).count();
        let written: Vec<_> = ledger.entries().iter().map(ToString::to_string).collect();
        (
            written,
            certain,
            ledger.events().clone(),
            ledger.kills(),
            ledger.triggered(),
            ledger.old_reads().first().cloned(),
        )
    };
    world.controller.begin("", Fault::None);
    let story = || {
        format!(
            "namespace {namespace}\n{}\n{}",
            written.join("\n"),
            world.logs()
        )
    };
    let ending = ending.with_context(story)?;
    ensure!(
        old_read.is_none(),
        "it asked for {old_read:?}, which may be answered with an older state than there is"
    );
    let at = fault.write().map(|number| {
        written
            .get(number - 1)
            .map_or("which was not reached", String::as_str)
    });
    eprintln!(
        "{}: {fault} {}: {} writes, {kills} kills, {hidden} events hidden, {:.1} s",
        scenario.name(),
        at.unwrap_or_default(),
        written.len(),
        began.elapsed().as_secs_f64()
    );
    Ok(Outcome {
        ending,
        writes: written.len(),
        certain,
        events,
        triggered,
        hidden,
    })
}

/// The controller has nothing more to do with its view, and its view is complete.
pub(crate) fn is_quiet(controller: &Controller) -> bool {
    let is_at_rest = {
        let ledger = controller.ledger();
        ledger.rests_for(QUIET + ledger.settle_time())
    };
    is_at_rest && !controller.is_behind()
}

/// Acts with a fault, and waits for the end, which `look` recognises. If the fault changes the
/// leader, another replica must lead first: until then a killed or ended replica stays dead, and a
/// paused one stays paused.
pub(crate) async fn ended<T>(
    world: &World,
    (namespace, fault): (&str, Fault),
    act: impl Future<Output = Result<()>>,
    look: impl AsyncFn() -> Result<(T, Option<String>)>,
) -> Result<T> {
    let controller = &world.controller;
    let led = if world.is_pair && fault.changes_the_leader() {
        Some(world.leader().await?)
    } else {
        None
    };
    if led.is_some() {
        controller.all_live().await;
        controller.hold();
    }
    controller.begin(namespace, fault);
    act.await?;
    let has_changed = Cell::new(false);
    let look_at_both = async || {
        let (seen, flaw) = look().await?;
        let awaited = led
            .as_ref()
            .filter(|_| !has_changed.get() && controller.ledger().triggered());
        let Some(led) = awaited else {
            return Ok((seen, flaw));
        };
        let leader = world.leader().await?;
        if !leader.is_empty() && leader != *led {
            has_changed.set(true);
            controller.rests_from_now();
        }
        Ok((
            seen,
            Some(format!(
                "{led} led, and no replica has led for long since: {leader:?}"
            )),
        ))
    };
    let mut ending = rest(controller, look_at_both).await?;
    if controller.resume().await {
        ending = rest(controller, &look).await?;
    }
    Ok(ending)
}

/// Waits until `look` finds no flaw, and the controller has nothing more to do.
pub(crate) async fn rest<T>(
    controller: &Controller,
    look: impl AsyncFn() -> Result<(T, Option<String>)>,
) -> Result<T> {
    // Counted from the last write, because a plan that kills at each write has many lives.
    let (mut deadline, mut happened) = (Instant::now() + PATIENCE, 0);
    loop {
        controller.check()?;
        let entries = controller.ledger().entries().len();
        if std::mem::replace(&mut happened, entries) != entries {
            deadline = Instant::now() + PATIENCE;
        }
        // Read this before `look`, so that `look` sees all that the controller did until then.
        let quiet = is_quiet(controller);
        let (seen, flaw) = look().await?;
        match flaw {
            None if quiet => return Ok(seen),
            Some(flaw) if Instant::now() > deadline => {
                bail!("it does not end well in {PATIENCE:?}: {flaw}")
            }
            None if Instant::now() > deadline => {
                bail!("the controller does not rest in {PATIENCE:?}")
            }
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
}
