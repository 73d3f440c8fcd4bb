//! The controllers: one for each kind that is worked on. A kind comes in with a line of [`Starter::start_all`].

use std::sync::Arc;

use berth_controller::flags::Run;
use berth_runtime::driver::{Driver, Next};
use berth_runtime::election::Leadership;
use berth_runtime::handover::Handover;
use berth_runtime::metrics::Metrics;
use berth_runtime::queue::{Backoff, Queue};
use berth_runtime::supervisor::Supervisor;
use berth_runtime::{Change, Key, Resource, TaskTracker};
use berth_workload::gates::Gates;

use crate::acting::Acting;
use crate::kinds::Kinds;
use crate::reads::{Reader, Stores};
use crate::{cloneset, imagelistpulljob, imagepulljob, nodeimage};

/// What works on one kind: the stores that it reads.
pub(crate) trait Controller: Send + Sync + Sized + 'static {
    /// The kind.
    const RESOURCE: Resource;
    /// Its name in logs and metrics.
    const NAME: &'static str;

    /// Is there anything to do for the kind?
    fn is_possible(_: Gates) -> bool {
        true
    }

    /// Says what it reads.
    fn new(reader: &mut Reader<'_>) -> Self;

    /// Registers the hooks that put keys into the queue.
    fn wake(&self, queue: &Arc<Queue<Key>>, acting: &Arc<Acting>);

    /// One round for one key.
    fn reconcile(&self, acting: &Acting, key: Key) -> impl Future<Output = Next> + Send;
}

/// Both sides of a change: an object that changes its owner concerns both.
pub(crate) fn each<T>(change: &Change<T>, mut concerns: impl FnMut(&T)) {
    match change {
        Change::Applied { old, new } => {
            old.iter().for_each(|old| concerns(old));
            concerns(new);
        }
        Change::Deleted { old } => concerns(old),
        Change::Synced => {}
    }
}

/// Starts controllers, each a task of its own.
pub(crate) struct Starter<'a> {
    pub(crate) flags: &'a Run,
    pub(crate) kinds: Kinds,
    pub(crate) acting: &'a Arc<Acting>,
    pub(crate) leadership: &'a Leadership,
    pub(crate) handover: &'a Handover,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) tasks: &'a Supervisor,
    /// What the controllers read.
    pub(crate) stores: Stores,
    /// End with the last reconcile after the process was asked to end.
    pub(crate) drivers: TaskTracker,
}

impl Starter<'_> {
    /// Starts the controllers of the kinds that are worked on.
    pub(crate) fn start_all(&mut self) {
        self.start::<cloneset::Reads>();
        self.start::<nodeimage::Reads>();
        self.start::<imagepulljob::Reads>();
        self.start::<imagelistpulljob::Reads>();
        self.kinds.tell_of_unknown();
        self.drivers.close();
    }

    fn start<C: Controller>(&mut self) {
        if !self.kinds.has(C::RESOURCE.kind) || !C::is_possible(self.acting.gates) {
            return;
        }
        let mut reader = self.stores.reader();
        let controller = Arc::new(C::new(&mut reader));
        let workers = usize::from(self.flags.concurrent_reconciles);
        let driver = Driver {
            controller: C::NAME,
            queue: Queue::<Key>::new(Backoff::default(), self.metrics.queue(C::NAME)),
            workers,
            leadership: self.leadership.clone(),
            handover: self.handover.clone(),
            stores: reader.sync_states(),
            metrics: self.metrics.driver(C::NAME, workers),
        };
        controller.wake(&driver.queue, self.acting);
        let acting = self.acting.clone();
        let work = driver.run(self.tasks.stop().clone(), move |key| {
            let (controller, acting) = (controller.clone(), acting.clone());
            async move { controller.reconcile(&acting, key).await }
        });
        self.tasks.spawn(format!("controller {}", C::NAME), self.drivers.track_future(work));
    }
}
