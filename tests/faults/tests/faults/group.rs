//! The worlds of a kind, and the results that they share.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, thread};

use anyhow::{Context, Result, ensure};
use berth_faults::{Fault, Side};
use futures::future::{join_all, try_join_all};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, OnceCell, Semaphore, SemaphorePermit};

use crate::plans::Family;
use crate::run::{Attempt, Outcome};
use crate::scenario::{self, Scenario};
use crate::world::World;

/// How often a fault that is not triggered is tried, because a run may have fewer writes than
/// another.
const ATTEMPTS: usize = 3;

/// How many runs without a fault show how many writes a scenario has. A plan that is not triggered
/// is another such run.
fn undisturbed_runs() -> usize {
    if has_stride() { 3 } else { 1 }
}

/// Whether the environment says how many plans are tried.
pub(crate) fn has_stride() -> bool {
    env::var("BERTH_FAULTS_STRIDE").is_ok()
}

/// A kind of world: the program that runs the pods, and the number of controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorldKind {
    /// A node with its kubelet, containerd and daemon; one controller.
    Real,
    /// A node and all its pods, simulated by `simnode`; one controller.
    Simulated,
    /// A simulated node, and two controllers, one of which leads.
    Pair,
    /// A simulated node, and a controller that pulls images ahead.
    Ahead,
}

impl WorldKind {
    pub(crate) const ALL: [WorldKind; 4] = [
        WorldKind::Real,
        WorldKind::Simulated,
        WorldKind::Pair,
        WorldKind::Ahead,
    ];
    /// The kinds with simulated nodes, for any scenario.
    pub(crate) const SIMULATED: [WorldKind; 2] = [WorldKind::Simulated, WorldKind::Pair];

    pub(crate) fn name(self) -> &'static str {
        match self {
            WorldKind::Real => "real",
            WorldKind::Simulated => "simulated",
            WorldKind::Pair => "pair",
            WorldKind::Ahead => "ahead",
        }
    }

    pub(crate) fn scenarios(self) -> impl Iterator<Item = &'static dyn Scenario> {
        scenario::all().filter(move |scenario| scenario.worlds().contains(&self))
    }

    /// The points of a write at which the controller dies.
    pub(crate) fn sides(self) -> &'static [Side] {
        match self {
            WorldKind::Real => &[Side::Before, Side::After],
            WorldKind::Simulated | WorldKind::Pair | WorldKind::Ahead => {
                &[Side::Before, Side::After, Side::Answered]
            }
        }
    }

    pub(crate) fn families(self) -> &'static [Family] {
        match self {
            WorldKind::Real => &[Family::Killed(Side::Before), Family::Killed(Side::After)],
            WorldKind::Simulated | WorldKind::Ahead => &Family::ONE_CONTROLLER,
            WorldKind::Pair => &Family::TWO_CONTROLLERS,
        }
    }

    /// The number of clusters.
    fn worlds(self) -> Result<usize> {
        // Only one scenario needs the last kind.
        if matches!(self, WorldKind::Real | WorldKind::Ahead) {
            return Ok(1);
        }
        let Ok(worlds) = env::var("BERTH_FAULTS_WORLDS") else {
            return Ok(thread::available_parallelism().map_or(1, NonZero::get));
        };
        worlds
            .parse()
            .ok()
            .filter(|worlds| *worlds > 0)
            .context("BERTH_FAULTS_WORLDS is no number above 0")
    }
}

/// The clusters of each kind, made when they are needed.
#[derive(Default)]
pub(crate) struct Worlds {
    real: OnceCell<Group>,
    simulated: OnceCell<Group>,
    pair: OnceCell<Group>,
    ahead: OnceCell<Group>,
}

impl Worlds {
    pub(crate) async fn of(&self, kind: WorldKind) -> Result<&Group> {
        let cell = match kind {
            WorldKind::Real => &self.real,
            WorldKind::Simulated => &self.simulated,
            WorldKind::Pair => &self.pair,
            WorldKind::Ahead => &self.ahead,
        };
        cell.get_or_try_init(|| Group::new(kind)).await
    }
}

/// The course of a scenario without a fault.
#[derive(Debug, Clone)]
pub(crate) struct Undisturbed {
    /// The minimum number of writes in all runs without a fault so far. It depends on the machine's
    /// load how much one status write combines.
    pub(crate) fewest: usize,
    /// How many of these writes every run has.
    certain: usize,
    /// The maximum number of writes.
    pub(crate) most: usize,
    /// The maximum number of events for a controller, by resource.
    events: BTreeMap<String, usize>,
    pub(crate) ending: Value,
}

impl Undisturbed {
    /// The maximum number of events of a resource in runs without a fault.
    pub(crate) fn events(&self, resource: &str) -> usize {
        self.events.get(resource).copied().unwrap_or_default()
    }
}

/// The clusters of a kind.
pub(crate) struct Group {
    pub(crate) kind: WorldKind,
    worlds: Vec<World>,
    /// The numbers of free worlds, and as many permits.
    free: (Mutex<Vec<usize>>, Semaphore),
    /// By the name of the scenario. Locked during its run without a fault, so that it runs only
    /// once.
    undisturbed: BTreeMap<&'static str, AsyncMutex<Option<Undisturbed>>>,
    /// The triggered faults, with the names of the scenarios, and how many events each hid from the
    /// controller.
    triggered: Mutex<BTreeMap<(&'static str, Fault), usize>>,
    /// How many faults were injected.
    injected: AtomicUsize,
}

/// A world that a run has for itself. It is free again when this value is dropped.
pub(crate) struct Taken<'a> {
    group: &'a Group,
    number: usize,
    _permit: SemaphorePermit<'a>,
}

impl Deref for Taken<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.group.worlds[self.number]
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        lock(&self.group.free.0).push(self.number);
    }
}

impl Group {
    async fn new(kind: WorldKind) -> Result<Group> {
        let worlds = try_join_all((0..kind.worlds()?).map(|_| World::new(kind))).await?;
        let free = (
            Mutex::new((0..worlds.len()).collect()),
            Semaphore::new(worlds.len()),
        );
        let undisturbed: BTreeMap<_, _> = kind
            .scenarios()
            .map(|it| (it.name(), AsyncMutex::default()))
            .collect();
        ensure!(
            undisturbed.len() == kind.scenarios().count(),
            "two scenarios have one name"
        );
        Ok(Group {
            kind,
            worlds,
            free,
            undisturbed,
            triggered: Mutex::default(),
            injected: AtomicUsize::new(0),
        })
    }

    /// Waits for a free world. The order of requests is kept.
    pub(crate) async fn take(&self) -> Result<Taken<'_>> {
        let permit = self.free.1.acquire().await?;
        let number = lock(&self.free.0)
            .pop()
            .context("there is a permit for each world that is free")?;
        Ok(Taken {
            group: self,
            number,
            _permit: permit,
        })
    }

    async fn run(
        &self,
        scenario: &dyn Scenario,
        fault: Fault,
        expected: Option<&Value>,
    ) -> Result<Outcome> {
        let world = self.take().await?;
        scenario
            .run(Attempt {
                world: &world,
                fault,
                expected,
            })
            .await
    }

    fn known(&self, scenario: &dyn Scenario) -> Result<&AsyncMutex<Option<Undisturbed>>> {
        self.undisturbed
            .get(scenario.name())
            .context("it is no scenario of this kind of world")
    }

    /// The course of the scenario without a fault; a few runs, done once.
    pub(crate) async fn undisturbed(&self, scenario: &dyn Scenario) -> Result<Undisturbed> {
        let mut known = self.known(scenario)?.lock().await;
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let Outcome {
            ending,
            writes,
            mut certain,
            mut events,
            ..
        } = self.run(scenario, Fault::None, None).await?;
        let (mut fewest, mut most) = (writes, writes);
        let again = (1..undisturbed_runs()).map(|_| self.run(scenario, Fault::None, Some(&ending)));
        for run in try_join_all(again).await? {
            (fewest, most) = (fewest.min(run.writes), most.max(run.writes));
            certain = certain.min(run.certain);
            for (resource, count) in run.events {
                let most = events.entry(resource).or_default();
                *most = count.max(*most);
            }
        }
        Ok(known
            .insert(Undisturbed {
                fewest,
                certain,
                most,
                events,
                ending,
            })
            .clone())
    }

    /// The faults that were triggered in a scenario so far, and how many events each hid.
    pub(crate) fn triggered(&self, scenario: &dyn Scenario) -> BTreeMap<Fault, usize> {
        let triggered = lock(&self.triggered);
        let name = scenario.name();
        triggered
            .iter()
            .filter(|((of, _), _)| *of == name)
            .map(|((_, fault), hidden)| (*fault, *hidden))
            .collect()
    }

    /// How many faults were injected in all scenarios so far, and how many were triggered.
    pub(crate) fn totals(&self) -> (usize, usize) {
        (
            self.injected.load(Ordering::Relaxed),
            lock(&self.triggered).len(),
        )
    }

    /// Tries all of these faults, each in the next free world.
    pub(crate) async fn try_all(
        &self,
        scenario: &dyn Scenario,
        faults: &[Fault],
        expected: &Undisturbed,
    ) -> Result<()> {
        self.injected.fetch_add(faults.len(), Ordering::Relaxed);
        let tried = faults.iter().map(async |fault| {
            let tried = self.attempt(scenario, *fault, expected).await;
            tried
                .err()
                .map(|error| format!("{}, {fault}: {error:#}", scenario.name()))
        });
        // All failing writes say more than the first of them alone.
        let failures: Vec<_> = join_all(tried).await.into_iter().flatten().collect();
        ensure!(
            failures.is_empty(),
            "{} of {} runs fail:\n{}",
            failures.len(),
            faults.len(),
            failures.join("\n\n")
        );
        Ok(())
    }

    /// Also fails if the fault is not triggered although its write is in every run, or its event is
    /// the first.
    async fn attempt(
        &self,
        scenario: &dyn Scenario,
        fault: Fault,
        expected: &Undisturbed,
    ) -> Result<()> {
        let mut certain = expected.certain;
        for _ in 0..ATTEMPTS {
            let run = self.run(scenario, fault, Some(&expected.ending)).await?;
            if run.triggered {
                lock(&self.triggered).insert((scenario.name(), fault), run.hidden);
                return Ok(());
            }
            // This was a run without a fault, with fewer writes.
            certain = certain.min(run.certain);
            if let Some(known) = &mut *self.known(scenario)?.lock().await {
                known.fewest = known.fewest.min(run.writes);
                known.certain = known.certain.min(run.certain);
            }
        }
        let is_certain = match fault.event() {
            Some(number) => number == 1,
            None => fault.write().is_none_or(|number| number <= certain),
        };
        ensure!(
            !is_certain,
            "it was not triggered, and every run has an event and {certain} writes or more"
        );
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
