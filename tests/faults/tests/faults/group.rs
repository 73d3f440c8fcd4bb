//! The worlds of a kind, and what is known from all of them.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, thread};

use anyhow::{Context, Result, ensure};
use berth_faults::{Fault, Side};
use futures::future::{join_all, try_join_all};
use tokio::sync::OnceCell;

use crate::images::Images;
use crate::plans::Family;
use crate::rollout::Rollout;
use crate::run::{self, Ending};
use crate::scenario::Scenario;
use crate::world::World;

/// So often a scenario is tried without a fault, and at most with one that does not come about, because a run has fewer writes
/// than another.
const ATTEMPTS: usize = 3;

/// Who runs the pods, and how many controllers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A node with its kubelet, containerd and daemon; one controller.
    Real,
    /// A node that `simnode` plays, and all its pods at once; one controller.
    Simulated,
    /// Such a node, and two controllers, one of which leads.
    Pair,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Real => "real",
            Kind::Simulated => "simulated",
            Kind::Pair => "pair",
        }
    }

    pub(crate) fn scenarios(self) -> Vec<Scenario> {
        let images = Images::ALL.map(Scenario::Images);
        match self {
            Kind::Real => Rollout::REAL.map(Scenario::Rollout).to_vec(),
            Kind::Simulated | Kind::Pair => [&Rollout::SIMULATED.map(Scenario::Rollout)[..], &images].concat(),
        }
    }

    /// In which ways the controller dies.
    pub(crate) fn sides(self) -> &'static [Side] {
        match self {
            Kind::Real => &[Side::Before, Side::After],
            Kind::Simulated | Kind::Pair => &[Side::Before, Side::After, Side::Answered],
        }
    }

    pub(crate) fn families(self) -> &'static [Family] {
        match self {
            Kind::Real => &[Family::Killed(Side::Before), Family::Killed(Side::After)],
            Kind::Simulated => &Family::ONE_CONTROLLER,
            Kind::Pair => &Family::TWO_CONTROLLERS,
        }
    }

    /// Of so many plans one is tried unless told, so that `make test` has time for it. That the controller dies at each write
    /// in turn takes one run only, and is always tried.
    pub(crate) fn stride(self) -> usize {
        match self {
            Kind::Real => 32,
            Kind::Simulated | Kind::Pair => 48,
        }
    }

    /// How many clusters there are.
    fn worlds(self) -> Result<usize> {
        if self == Kind::Real {
            return Ok(1);
        }
        let Ok(worlds) = env::var("BERTH_FAULTS_WORLDS") else {
            return Ok(thread::available_parallelism().map_or(1, NonZero::get));
        };
        worlds.parse().ok().filter(|worlds| *worlds > 0).context("BERTH_FAULTS_WORLDS is no number above 0")
    }
}

/// The clusters of each kind, once they are needed.
#[derive(Default)]
pub(crate) struct Worlds {
    real: OnceCell<Group>,
    simulated: OnceCell<Group>,
    pair: OnceCell<Group>,
}

impl Worlds {
    pub(crate) async fn of(&self, kind: Kind) -> Result<&Group> {
        let cell = match kind {
            Kind::Real => &self.real,
            Kind::Simulated => &self.simulated,
            Kind::Pair => &self.pair,
        };
        cell.get_or_try_init(|| Group::new(kind)).await
    }
}

/// How a scenario goes without a fault.
#[derive(Debug, Clone)]
pub(crate) struct Undisturbed {
    /// A run has so many at least, by all runs without a fault so far: how much one status says is as the machine is busy.
    pub(crate) fewest: usize,
    /// So many of these are there in any case.
    certain: usize,
    /// And so many at most.
    pub(crate) most: usize,
    /// How many events a controller was told of at most, by resource.
    events: BTreeMap<String, usize>,
    pub(crate) ending: Ending,
}

impl Undisturbed {
    /// So many events of a resource a run has at most, by those without a fault.
    pub(crate) fn events(&self, resource: &str) -> usize {
        self.events.get(resource).copied().unwrap_or_default()
    }
}

/// The clusters of a kind.
pub(crate) struct Group {
    pub(crate) kind: Kind,
    worlds: Vec<World>,
    undisturbed: Mutex<BTreeMap<Scenario, Undisturbed>>,
    /// What has befallen controllers, and how many events it hid from them.
    struck: Mutex<BTreeMap<(Scenario, Fault), usize>>,
    /// So many plans were tried.
    planned: AtomicUsize,
}

impl Group {
    async fn new(kind: Kind) -> Result<Group> {
        let worlds = try_join_all((0..kind.worlds()?).map(|_| World::new(kind))).await?;
        let planned = AtomicUsize::new(0);
        Ok(Group { kind, worlds, undisturbed: Mutex::default(), struck: Mutex::default(), planned })
    }

    pub(crate) fn first(&self) -> Result<&World> {
        self.worlds.first().context("there is no world")
    }

    /// How the scenario goes without a fault; tried a few times, once.
    pub(crate) async fn undisturbed(&self, scenario: Scenario) -> Result<Undisturbed> {
        let known = lock(&self.undisturbed).get(&scenario).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let run::Run { ending, writes, mut certain, mut events, .. } =
            run::run(self.first()?, scenario, Fault::None, None).await?;
        let (mut fewest, mut most) = (writes, writes);
        for _ in 1..ATTEMPTS {
            let run = run::run(self.first()?, scenario, Fault::None, Some(&ending)).await?;
            (fewest, most) = (fewest.min(run.writes), most.max(run.writes));
            certain = certain.min(run.certain);
            for (resource, count) in run.events {
                let most = events.entry(resource).or_default();
                *most = count.max(*most);
            }
        }
        let undisturbed = Undisturbed { fewest, certain, most, events, ending };
        lock(&self.undisturbed).insert(scenario, undisturbed.clone());
        Ok(undisturbed)
    }

    /// What has befallen a scenario so far, and how many events it hid.
    pub(crate) fn struck(&self, scenario: Scenario) -> BTreeMap<Fault, usize> {
        let struck = lock(&self.struck);
        struck.iter().filter(|((of, _), _)| *of == scenario).map(|((_, fault), hidden)| (*fault, *hidden)).collect()
    }

    /// How many plans were tried with all scenarios so far, and how many came about.
    pub(crate) fn totals(&self) -> (usize, usize) {
        (self.planned.load(Ordering::Relaxed), lock(&self.struck).len())
    }

    /// Tries all of these, each in the next world that is free.
    pub(crate) async fn try_all(&self, scenario: Scenario, faults: &[Fault], expected: &Undisturbed) -> Result<()> {
        self.planned.fetch_add(faults.len(), Ordering::Relaxed);
        let (next, failures) = (Mutex::new(faults.iter().copied()), Mutex::new(Vec::new()));
        let work = |world| {
            let (next, failures) = (&next, &failures);
            async move {
                // Taken in a statement of its own, so that the others are not kept waiting for the whole case.
                loop {
                    let Some(fault) = lock(next).next() else { return };
                    if let Err(error) = self.attempt(world, scenario, fault, expected).await {
                        lock(failures).push(format!("{}, {fault}: {error:#}", scenario.name()));
                    }
                }
            }
        };
        join_all(self.worlds.iter().map(work)).await;
        // Which of the writes fail says more than the first of them alone.
        let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        ensure!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), faults.len(), failures.join("\n\n"));
        Ok(())
    }

    /// Fails, too, when it does not come about at a write that is there in any case, or at the first event.
    async fn attempt(&self, world: &World, scenario: Scenario, fault: Fault, expected: &Undisturbed) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let run = run::run(world, scenario, fault, Some(&expected.ending)).await?;
            if run.struck {
                lock(&self.struck).insert((scenario, fault), run.hidden);
                return Ok(());
            }
            // It was a run without a fault, of fewer writes.
            if let Some(known) = lock(&self.undisturbed).get_mut(&scenario) {
                known.fewest = known.fewest.min(run.writes);
            }
        }
        let is_certain = match fault.event() {
            Some(number) => number == 1,
            None => fault.write().is_none_or(|number| number <= expected.certain),
        };
        ensure!(!is_certain, "it did not come about, and any run has an event and {} writes or more", expected.certain);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
