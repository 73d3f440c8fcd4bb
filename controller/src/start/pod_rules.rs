//! The answers of every replica about pods: the containers and the node that new pods get, and
//! which pods may go.

use std::sync::Arc;

use berth_runtime::election::Leadership;
use berth_runtime::object::{PERSISTENT_POD_STATES, SIDECAR_SETS};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::resource::{
    CONTAINER_RECREATE_REQUESTS, DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
};
use kube::Client;

use crate::admission::injection::{Injection, InjectionStores};
use crate::admission::pod_pinning::PodPinning;
use crate::admission::webhook_rules::{AllGated, AllRequests, WebhookRules};
use crate::budgets::clusters::{self, Clusters};
use crate::budgets::{self, BudgetStores, PodBudgets};
use crate::kinds::Kinds;
use crate::settings::flags::Run;
use crate::settings::timings;
use crate::start::process::{Counters, Process};
use crate::stores::reads::Reader;

/// The rules about pods.
pub(crate) struct PodRules {
    pub(crate) asks: Arc<WebhookRules>,
    pub(crate) injection: Arc<Injection>,
    pub(crate) pinning: Arc<PodPinning>,
    pub(crate) budgets: Arc<PodBudgets>,
    clusters: Arc<Clusters>,
}

impl PodRules {
    pub(crate) fn new(
        process: &Process<'_>,
        counters: &Counters,
        (kinds, reader): (&mut Kinds, &mut Reader<'_>),
    ) -> Self {
        let (flags, gates) = (process.flags, process.gates);
        let asks = Arc::<WebhookRules>::default();
        let injects = kinds.has(SIDECAR_SETS.kind);
        let injection = Injection::new(
            asks.clone(),
            gates,
            &flags.namespace,
            &flags.protected_namespaces,
            injects.then(|| InjectionStores::new(reader)),
        );
        let pinning = PodPinning::new(
            flags.pod_pinning,
            flags.pod_pinning_fail_closed,
            injection.protected().clone(),
            asks.clone(),
            kinds.has(PERSISTENT_POD_STATES.kind).then(|| reader.read()),
        );
        if gates.has(Gate::KruisePodReadinessGate) {
            asks.ask(Arc::new(AllGated(injection.protected().clone())));
        }
        let parts = budgets::Parts {
            client: process.client.clone(),
            stores: has_budgets(kinds).then(|| BudgetStores::new(reader, |kind| kinds.has(kind))),
            recorder: Some(process.recorder.clone()),
            refusals: counters.refusals.clone(),
            copies: None,
        };
        let settings = budgets::Settings {
            gates,
            protected: injection.protected().clone(),
            fails_open: flags.budgets_fail_open,
            exempt: flags.budgets_exempt.iter().cloned().collect(),
            own_user: budgets::Settings::user_in(&flags.namespace),
            patience: timings::patience(flags),
        };
        let (metrics, answering) = (process.metrics.clone(), counters.answering.clone());
        let clusters = Clusters::new(other_clusters(flags), metrics, answering);
        let budgets = PodBudgets::new(parts, settings, (asks.clone(), clusters.clone()));
        if kinds.has(CONTAINER_RECREATE_REQUESTS.kind) && gates.has(Gate::PodWebhook) {
            asks.ask(Arc::new(AllRequests));
        }
        Self {
            asks,
            injection,
            pinning,
            budgets,
            clusters,
        }
    }

    /// Starts the reads of other clusters, and the writes of the pod webhook's entries. `here`
    /// reads the Lease of this cluster, if there is one.
    pub(crate) fn spawn(
        &self,
        process: &Process<'_>,
        (here, may_have_entries): (Option<Client>, bool),
        leadership: &Leadership,
    ) {
        let (named, clusters) = (self.budgets.clone(), self.clusters.clone());
        let stop = process.stop.clone();
        process.tasks.spawn("reads of other clusters", async move {
            clusters.follow(here, || named.named(), stop).await
        });
        let entries = self.asks.clone();
        process.tasks.spawn(
            "entries of the pod webhook",
            entries.keep(may_have_entries, leadership.clone(), process.stop.clone()),
        );
    }
}

fn has_budgets(kinds: &mut Kinds) -> bool {
    [POD_UNAVAILABLE_BUDGETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS]
        .map(|resource| kinds.has(resource.kind))
        .contains(&true)
}

/// Where the other clusters are found. Their controllers hold a Lease of the same name.
fn other_clusters(flags: &Run) -> clusters::Settings {
    let namespace = flags
        .leader_elect_namespace
        .as_ref()
        .unwrap_or(&flags.namespace);
    clusters::Settings {
        own: flags.cluster_name.clone(),
        kubeconfig: flags.clusters_kubeconfig.clone(),
        lease: format!(
            "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{}",
            flags.leader_elect_name
        ),
    }
}

/// Turns feature gates off that need a disabled kind. Without SidecarSets no webhook is called for
/// new pods, also not for the readiness gate. Without ContainerRecreateRequests, and without an
/// operation that budgets decide on, there is no webhook about pods.
pub(crate) fn gates_of_kinds(gates: Gates, custom_resource_enable: &str) -> Gates {
    let mut kinds = Kinds::parse(custom_resource_enable);
    let (injects, fills_in) = (
        kinds.has("SidecarSet"),
        kinds.has(CONTAINER_RECREATE_REQUESTS.kind),
    );
    let protects = has_budgets(&mut kinds)
        && (gates.has(Gate::PodUnavailableBudgetDelete)
            || gates.has(Gate::PodUnavailableBudgetUpdate));
    let gated = injects && gates.has(Gate::KruisePodReadinessGate);
    let served = (injects || fills_in || protects) && gates.has(Gate::PodWebhook);
    gates
        .with(Gate::PodWebhook, served)
        .with(Gate::KruisePodReadinessGate, gated)
}

#[cfg(test)]
mod tests;
