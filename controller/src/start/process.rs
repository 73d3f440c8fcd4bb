//! The state that the parts of the running process share.

use std::sync::Arc;

use berth_runtime::CancellationToken;
use berth_runtime::events::Recorder;
use berth_runtime::expectations::Expectations;
use berth_runtime::metrics::Metrics;
use berth_runtime::supervisor::Supervisor;
use berth_webhook::deletions::RefusedDeletions;
use berth_workload::feature_gates::Gates;
use kube::Client;

use crate::budgets::clusters::Answering;
use crate::budgets::review::refusals::Refusals;
use crate::controllers;
use crate::kinds::Kinds;
use crate::settings::flags::Run;
use crate::stores::reads::Reader;

/// The running process.
pub(crate) struct Process<'a> {
    pub(crate) flags: &'a Run,
    pub(crate) gates: Gates,
    pub(crate) client: Client,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) expectations: Arc<Expectations>,
    pub(crate) recorder: Recorder,
    pub(crate) tasks: Supervisor,
    pub(crate) stop: CancellationToken,
}

/// Metrics of the parts that are made after the registry.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) refusals: Refusals,
    pub(crate) answering: Answering,
    pub(crate) validity: berth_webhook::Validity,
    pub(crate) reviews: berth_webhook::ReviewMetrics,
    pub(crate) refused_deletions: RefusedDeletions,
}

impl Counters {
    /// The registry, with the metrics of the statuses of enabled kinds.
    pub(crate) fn register(
        &self,
        expectations: &Arc<Expectations>,
        (kinds, reader): (&Kinds, &mut Reader<'_>),
    ) -> Arc<Metrics> {
        Metrics::new(|registry| {
            expectations.register(registry);
            controllers::register(registry, kinds, reader);
            self.refusals.register(registry);
            self.validity.register(registry);
            self.reviews.register(registry);
            self.refused_deletions.register(registry);
            self.answering.register(registry);
        })
    }
}
