//! The controllers: one for each kind that is worked on. A kind comes in with its module and a line of [`ALL`].

pub(crate) mod broadcastjob;
pub(crate) mod cloneset;
pub(crate) mod containerrecreaterequest;
pub(crate) mod daemonset;
pub(crate) mod distributedpoddisruptionbudget;
mod foreignpod;
mod imagelistpulljob;
mod imagepulljob;
mod joiningnode;
pub(crate) mod nodeimage;
pub(crate) mod persistentpodstate;
pub(crate) mod podunavailablebudget;
pub(crate) mod sidecarset;
pub(crate) mod statefulset;
pub(crate) mod uniteddeployment;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::flags::Run;
use berth_runtime::driver::Driver;
use berth_runtime::election::Leadership;
use berth_runtime::handover::Handover;
use berth_runtime::metrics::Metrics;
use berth_runtime::queue::{Backoff, Queue};
use berth_runtime::supervisor::Supervisor;
use berth_runtime::{Key, Resource, TaskTracker};
use berth_workload::gates::Gates;

use crate::acting::Acting;
use crate::controller::Controller;
use crate::kinds::Kinds;
use crate::reads::Stores;

/// All controllers.
const ALL: &[Entry] = &[
    Entry::of::<cloneset::Reads>(),
    Entry::of::<nodeimage::Reads>(),
    Entry::of::<imagepulljob::Reads>(),
    Entry::of::<imagelistpulljob::Reads>(),
    Entry::of::<persistentpodstate::Reads>(),
    Entry::of::<podunavailablebudget::Reads>(),
    Entry::of::<distributedpoddisruptionbudget::Reads>(),
    Entry::of::<statefulset::Reads>(),
    Entry::of::<daemonset::Reads>(),
    Entry::of::<sidecarset::Reads>(),
    Entry::of::<broadcastjob::Reads>(),
    Entry::of::<containerrecreaterequest::Reads>(),
    Entry::of::<foreignpod::Reads>(),
    Entry::of::<joiningnode::Reads>(),
    Entry::of::<uniteddeployment::Reads>(),
];

/// A controller in the list of all.
struct Entry {
    resource: Resource,
    closed: fn(Gates) -> Option<String>,
    start: fn(&mut Starter<'_>),
}

impl Entry {
    const fn of<C: Controller>() -> Self {
        Self {
            resource: C::RESOURCE,
            closed: C::closed,
            start: |starter| starter.start::<C>(),
        }
    }
}

/// The resources, by plural, of which no object is taken in, each with the reason.
pub(crate) fn closed(gates: Gates) -> BTreeMap<&'static str, String> {
    ALL.iter()
        .filter_map(|entry| Some((entry.resource.plural, (entry.closed)(gates)?)))
        .collect()
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
        ALL.iter().for_each(|entry| (entry.start)(self));
        self.kinds.tell_of_unknown();
        self.drivers.close();
    }

    fn start<C: Controller>(&mut self) {
        let is_named = C::WHATEVER_KINDS || self.kinds.has(C::RESOURCE.kind);
        if !is_named || !C::is_possible(self.acting.gates) {
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
        let of_kind = controller.clone();
        self.acting.pod_budgets.wake_by(
            C::RESOURCE,
            &driver.queue,
            Box::new(move |key| of_kind.pace(key)),
        );
        let acting = self.acting.clone();
        let work = driver.run(self.tasks.stop().clone(), move |key| {
            let (controller, acting) = (controller.clone(), acting.clone());
            async move { controller.reconcile(&acting, key).await }
        });
        self.tasks.spawn(
            format!("controller {}", C::NAME),
            self.drivers.track_future(work),
        );
    }
}

#[cfg(test)]
mod tests {
    use berth_api::kinds::KINDS;
    use berth_workload::gates::Gate;

    use super::*;

    #[test]
    fn each_kind_has_a_controller() {
        for kind in &KINDS {
            let has = ALL.iter().any(|entry| entry.resource == Resource::of(kind));
            assert!(
                has,
                "ALL in controller/src/controllers/mod.rs has no controller of {}",
                kind.kind
            );
        }
    }

    #[test]
    fn jobs_are_taken_in_only_where_images_are_pulled() {
        let open = Gates::default().with(Gate::ImagePullJob, true);
        assert!(closed(open).is_empty());
        let closed = closed(open.with(Gate::ImagePullJob, false));
        assert_eq!(
            closed.keys().copied().collect::<Vec<_>>(),
            ["imagelistpulljobs", "imagepulljobs"]
        );
    }
}
