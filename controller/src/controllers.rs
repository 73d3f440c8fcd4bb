//! The controllers: one for each enabled kind. A new kind needs its module and a line of [`ALL`].

mod broadcastjob;
pub(crate) mod cloneset;
mod containerrecreaterequest;
mod daemonset;
mod distributedpoddisruptionbudget;
mod foreignpod;
mod imagelistpulljob;
mod imagepulljob;
mod joiningnode;
pub(crate) mod nodeimage;
mod persistentpodstate;
pub(crate) mod pod_owner;
mod podunavailablebudget;
pub(crate) mod sidecarset;
mod statefulset;
mod uniteddeployment;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::settings::flags::Run;
use berth_runtime::driver::Driver;
use berth_runtime::election::Leadership;
use berth_runtime::handover::Handover;
use berth_runtime::metrics::Metrics;
use berth_runtime::queue::{Backoff, Queue};
use berth_runtime::supervisor::Supervisor;
use berth_runtime::{Key, Resource, TaskTracker};
use berth_workload::feature_gates::Gates;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::CustomResourceExt;
use prometheus_client::registry::Registry;

use crate::context::Context;
use crate::explain::look::{Explains, Look};
use crate::explain::printed::Explained;
use crate::kinds::Kinds;
use crate::reconcile::controller::Controller;
use crate::stores::reads::{Reader, Stores};

/// All controllers.
const ALL: &[Entry] = &[
    Entry::explained::<cloneset::CloneSetController>(),
    Entry::of::<nodeimage::NodeImageController>(),
    Entry::of::<imagepulljob::ImagePullJobController>(),
    Entry::of::<imagelistpulljob::ImageListPullJobController>(),
    Entry::explained::<persistentpodstate::PersistentPodStateController>(),
    Entry::explained::<podunavailablebudget::PodUnavailableBudgetController>(),
    Entry::explained::<distributedpoddisruptionbudget::DistributedPodDisruptionBudgetController>(),
    Entry::explained::<statefulset::StatefulSetController>(),
    Entry::explained::<daemonset::DaemonSetController>(),
    Entry::explained::<sidecarset::SidecarSetController>(),
    Entry::explained::<broadcastjob::BroadcastJobController>(),
    Entry::explained::<containerrecreaterequest::ContainerRecreateRequestController>(),
    Entry::of::<foreignpod::ForeignPodController>(),
    Entry::of::<joiningnode::JoiningNodeController>(),
    Entry::explained::<uniteddeployment::UnitedDeploymentController>(),
];

/// A controller in the list of all.
struct Entry {
    resource: Resource,
    closed: fn(Gates) -> Option<String>,
    register: fn(&mut Registry, &mut Reader<'_>),
    start: fn(&mut Starter<'_>),
    explained: Option<ExplainedKind>,
}

/// A kind that `explain` knows.
#[derive(Clone, Copy)]
pub(crate) struct ExplainedKind {
    pub(crate) resource: Resource,
    short_names: fn() -> &'static [&'static str],
    pub(crate) explain: for<'a> fn(&'a Look<'a>) -> Explanation<'a>,
}

type Explanation<'a> = LocalBoxFuture<'a, anyhow::Result<Explained>>;

impl ExplainedKind {
    /// Its names in commands: singular, plural and short ones.
    pub(crate) fn names(&self) -> Vec<String> {
        let Resource { kind, plural, .. } = self.resource;
        let short = (self.short_names)().iter().map(|name| (*name).to_owned());
        [kind.to_lowercase(), plural.to_owned()]
            .into_iter()
            .chain(short)
            .collect()
    }
}

impl Entry {
    const fn of<C: Controller>() -> Self {
        Self {
            resource: C::RESOURCE,
            closed: C::closed,
            register: C::register,
            start: |starter| starter.start::<C>(),
            explained: None,
        }
    }

    const fn explained<C: Explains>() -> Self {
        let explained = ExplainedKind {
            resource: C::RESOURCE,
            short_names: C::Object::shortnames,
            explain: |look| look.explain::<C>().boxed_local(),
        };
        Self {
            explained: Some(explained),
            ..Self::of::<C>()
        }
    }
}

/// The kinds that `explain` knows.
pub(crate) fn all_explained() -> impl Iterator<Item = &'static ExplainedKind> {
    ALL.iter().filter_map(|entry| entry.explained.as_ref())
}

/// The kind with this name, plural or short name, in any case.
pub(crate) fn explained(name: &str) -> Option<&'static ExplainedKind> {
    let name = name.to_lowercase();
    all_explained().find(|kind| kind.names().contains(&name))
}

/// The resources, by plural, whose objects are refused, each with the reason.
pub(crate) fn closed(gates: Gates) -> BTreeMap<&'static str, String> {
    ALL.iter()
        .filter_map(|entry| Some((entry.resource.plural, (entry.closed)(gates)?)))
        .collect()
}

/// Registers the metrics of the enabled kinds.
pub(crate) fn register(registry: &mut Registry, kinds: &Kinds, reader: &mut Reader<'_>) {
    for entry in ALL
        .iter()
        .filter(|entry| kinds.is_enabled(entry.resource.kind))
    {
        (entry.register)(registry, reader);
    }
}

/// Starts controllers, each a task of its own.
pub(crate) struct Starter<'a> {
    pub(crate) flags: &'a Run,
    pub(crate) kinds: Kinds,
    pub(crate) context: &'a Arc<Context>,
    pub(crate) leadership: &'a Leadership,
    pub(crate) handover: &'a Handover,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) tasks: &'a Supervisor,
    /// The stores that the controllers read.
    pub(crate) stores: Stores,
    /// They end with the last reconcile after the process was told to stop.
    pub(crate) drivers: TaskTracker,
}

impl Starter<'_> {
    /// Starts the controllers of the enabled kinds.
    pub(crate) fn start_all(&mut self) {
        ALL.iter().for_each(|entry| (entry.start)(self));
        self.kinds.tell_of_unknown();
        self.drivers.close();
    }

    fn start<C: Controller>(&mut self) {
        let is_named = C::WHATEVER_KINDS || self.kinds.has(C::RESOURCE.kind);
        if !is_named || !C::is_possible(self.context.gates) {
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
        controller.wake(&driver.queue, self.context);
        let of_kind = controller.clone();
        self.context.pod_budgets.wake_by(
            C::RESOURCE,
            &driver.queue,
            Box::new(move |key| of_kind.pace(key)),
        );
        let context = self.context.clone();
        let work = driver.run(self.tasks.stop().clone(), move |key| {
            let (controller, context) = (controller.clone(), context.clone());
            async move { controller.reconcile(&context, key).await }
        });
        self.tasks.spawn(
            format!("controller {}", C::NAME),
            self.drivers.track_future(work),
        );
    }
}

#[cfg(test)]
mod tests;
