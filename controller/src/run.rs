//! A running controller: who acts, what is seen, what is served, and how it all ends.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use crate::flags::{PinnedBy, Run};
use crate::secrets::{self, PullSecretsService};
use crate::timings;
use anyhow::Context;
use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_api::v1beta1::uniteddeployment::UnitedDeployment;
use berth_runtime::election::{self, Leadership};
use berth_runtime::events::Recorder;
use berth_runtime::executor::{self, Executor};
use berth_runtime::expectations::Expectations;
use berth_runtime::handover;
use berth_runtime::metrics::Metrics;
use berth_runtime::object::{PERSISTENT_POD_STATES, SIDECAR_SETS};
use berth_runtime::supervisor::Supervisor;
use berth_runtime::{CancellationToken, TaskTracker, client, http};
use berth_webhook::deletions::RefusedDeletions;
use berth_webhook::{PodIdentity, Readiness};
use berth_workload::gates::{Gate, Gates};
use berth_workload::resource::{
    CONTAINER_RECREATE_REQUESTS, DISTRIBUTED_POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
    UNITED_DEPLOYMENTS,
};
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};

use crate::acting::Acting;
use crate::budgets::review::refusals::Refusals;
use crate::budgets::{self, BudgetStores, PodBudgets};
use crate::clusters::{self, Answering, Clusters};
use crate::controllers::{self, Starter};
use crate::injection::{Injection, InjectionStores};
use crate::kinds::Kinds;
use crate::pod_asks::{AllGated, AllRequests, PodAsks};
use crate::pod_pinning::PodPinning;
use crate::reads::{Follow, Stores};
use crate::resize;
use crate::status_metric;
use crate::switched_off::{Promise, take_back};

/// How long a write may stay unseen before the object is read again.
const DOUBT: Duration = Duration::from_secs(30);
/// How long a replica in a cluster serves webhooks on after it was asked to end: until no apiserver calls it any more.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs until a signal.
///
/// # Errors
/// A port is taken, the client cannot be made, or a task ended that never should: its name is in the error. Everything else is
/// tried again.
pub(crate) async fn run(flags: &Run, config: kube::Config, gates: Gates) -> anyhow::Result<()> {
    // Kinds may have been switched off past the chart, whose configuration has their entries by then.
    let may_have_pod_entries = has_pod_entries(flags, gates);
    let gates = of_kinds(gates, &flags.custom_resource_enable);
    let stop = CancellationToken::new();
    let tasks = Supervisor::new(stop.clone());
    tokio::spawn(end_on_signal(stop.clone())?);
    let expectations = Expectations::new(DOUBT);
    let (validity, reviews) = (
        berth_webhook::Validity::default(),
        berth_webhook::ReviewMetrics::default(),
    );
    let mut kinds = Kinds::parse(&flags.custom_resource_enable);
    let mut stores = Stores::default();
    let mut reader = stores.reader();
    let sidecar_sets = kinds.has(SIDECAR_SETS.kind).then(|| reader.read());
    let united_deployments = kinds.has(UNITED_DEPLOYMENTS.kind).then(|| reader.read());
    let refusals = Refusals::default();
    let (refused_deletions, answering) = (RefusedDeletions::default(), Answering::default());
    let metrics = Metrics::new(|registry| {
        expectations.register(registry);
        if let Some(store) = &sidecar_sets {
            status_metric::register::<SidecarSet>(registry, store);
        }
        if let Some(store) = &united_deployments {
            status_metric::register::<UnitedDeployment>(registry, store);
        }
        refusals.register(registry);
        validity.register(registry);
        reviews.register(registry);
        refused_deletions.register(registry);
        answering.register(registry);
    });
    let client = client::connect(config, metrics.clone())?;
    // The lease is given back only when the last write has ended.
    let stop_election = CancellationToken::new();
    let identity = identity(flags);
    let (recorder, events) = Recorder::new(
        client.clone(),
        "berth-controller",
        &identity,
        metrics.clone(),
        stop_election.clone(),
    );
    tasks.spawn_until(&stop_election, "recorder of events", events);
    let clusters = Clusters::new(other_clusters(flags), metrics.clone(), answering);
    let asks = Arc::<PodAsks>::default();
    let injection = Injection::new(
        asks.clone(),
        gates,
        &flags.namespace,
        &flags.protected_namespaces,
        sidecar_sets.map(|_| InjectionStores::new(&mut reader)),
    );
    let protected = injection.protected().clone();
    let pod_pinning = PodPinning::new(
        flags.pod_pinning,
        flags.pod_pinning_fail_closed,
        protected,
        asks.clone(),
        kinds.has(PERSISTENT_POD_STATES.kind).then(|| reader.read()),
    );
    if gates.has(Gate::KruisePodReadinessGate) {
        asks.ask(Arc::new(AllGated(injection.protected().clone())));
    }
    let has_budgets = [POD_UNAVAILABLE_BUDGETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS]
        .map(|resource| kinds.has(resource.kind))
        .contains(&true);
    let parts = budgets::Parts {
        client: client.clone(),
        stores: has_budgets.then(|| BudgetStores::new(&mut reader, |kind| kinds.has(kind))),
        recorder: Some(recorder.clone()),
        refusals: refusals.clone(),
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
    let pod_budgets = PodBudgets::new(parts, settings, (asks.clone(), clusters.clone()));
    if kinds.has(CONTAINER_RECREATE_REQUESTS.kind) && gates.has(Gate::PodWebhook) {
        asks.ask(Arc::new(AllRequests));
    }
    let left_out = Promise::of_kinds_left_out(&mut kinds);
    let webhook_config = berth_webhook::Config {
        validity,
        reviews,
        refused_deletions,
        records: Some(pod_pinning.clone()),
        injector: Some(injection.clone()),
        budgets: Some(pod_budgets.clone()),
        ..webhook_config(flags, gates)
    };
    let webhook = berth_webhook::run(
        webhook_config,
        client.clone(),
        stop.clone().cancelled_owned(),
    )
    .await?;
    asks.connect(webhook.pods());
    serve_http(flags, webhook.readiness(), (&metrics, &pod_budgets), &tasks).await?;
    tasks.watch(
        "server of pull secrets",
        serve_pull_secrets(flags, &client, webhook.tls(), &stop).await?,
    );
    tasks.spawn_fallible("webhooks", webhook.join());

    let leadership = elect(
        flags,
        &identity,
        &client,
        &metrics,
        &expectations,
        (&tasks, &stop_election),
    );

    let resize = resize::discover(&client, gates, &stop).await;
    let settings = executor::Settings {
        timeout: flags.write_timeout,
        stop: stop.clone(),
        ..executor::Settings::default()
    };
    let executor = Executor::new(
        client.clone(),
        leadership.clone(),
        expectations.clone(),
        recorder.clone(),
        settings,
    );
    let acting = Arc::new(Acting {
        client: client.clone(),
        expectations: expectations.clone(),
        executor: Arc::new(executor),
        gates,
        resize,
        assigns_by_scheduler: flags.assign_pods_by_scheduler,
        pod_pinning,
        pod_budgets,
        injection,
    });
    let (handover, catching_up) = handover::run(
        client.clone(),
        &leadership,
        expectations.clone(),
        stop.clone(),
    );
    let mut starter = Starter {
        flags,
        kinds,
        acting: &acting,
        leadership: &leadership,
        handover: &handover,
        metrics: &metrics,
        tasks: &tasks,
        stores,
        drivers: TaskTracker::new(),
    };
    starter.start_all();
    let (named, stop_reads) = (acting.pod_budgets.clone(), stop.clone());
    let here = flags.leader_elect.then(|| client.clone());
    tasks.spawn("reads of other clusters", async move {
        clusters.follow(here, || named.named(), stop_reads).await
    });
    tasks.spawn(
        "entries of the pod webhook",
        asks.keep(may_have_pod_entries, leadership.clone(), stop.clone()),
    );
    let follow = Follow {
        client: &client,
        namespace: &flags.namespace,
        metrics: &metrics,
        recorder: &recorder,
        expectations: &expectations,
        object_max_bytes: flags.object_max_bytes,
        tasks: &tasks,
    };
    starter.stores.follow(&follow);
    tasks.spawn("handover", catching_up);
    tokio::spawn(migrate(
        client.clone(),
        left_out,
        leadership.clone(),
        stop.clone(),
    ));

    stop.cancelled().await;
    starter.drivers.wait().await;
    stop_election.cancel();
    tasks.join().await?;
    tracing::info!("ended");
    Ok(())
}

fn elect(
    flags: &Run,
    identity: &str,
    client: &Client,
    metrics: &Arc<Metrics>,
    expectations: &Arc<Expectations>,
    (tasks, stop): (&Supervisor, &CancellationToken),
) -> Leadership {
    if !flags.leader_elect {
        return Leadership::always();
    }
    let namespace = flags
        .leader_elect_namespace
        .as_ref()
        .unwrap_or(&flags.namespace);
    let settings = election::Settings {
        lease: flags.lease_duration,
        renew: flags.renew_deadline,
        retry: flags.retry_period,
        write: flags.write_timeout,
        ..election::Settings::new(namespace, &flags.leader_elect_name, identity)
    };
    let expectations = expectations.clone();
    let seen = move || expectations.newest_versions();
    let (leadership, standing) = election::run(
        client.clone(),
        settings,
        metrics.clone(),
        seen,
        stop.clone(),
    );
    tasks.spawn_until(stop, "election", standing);
    leadership
}

/// Who this life of the process is: the pod's name, or the machine's, and something random from the operating system. The process
/// id would not do, which is 1 in every container.
fn identity(flags: &Run) -> String {
    let name = flags
        .pod_name
        .clone()
        .or_else(|| std::env::var("HOSTNAME").ok());
    let life = RandomState::new().build_hasher().finish();
    format!(
        "{}_{life:016x}",
        name.unwrap_or_else(|| "berth-controller".to_owned())
    )
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

fn webhook_config(flags: &Run, gates: Gates) -> berth_webhook::Config {
    let pod = match (&flags.pod_name, &flags.pod_uid, flags.pod_ip) {
        (Some(name), Some(uid), Some(ip)) => Some(PodIdentity {
            name: name.clone(),
            uid: uid.clone(),
            ip,
        }),
        _ => None,
    };
    berth_webhook::Config {
        closed: controllers::closed(gates),
        object_max_bytes: flags.object_max_bytes,
        namespace: flags.namespace.clone(),
        service: flags.webhook_service.clone(),
        extra_services: vec![flags.grpc_service.clone()],
        secret: flags.webhook_secret.clone(),
        token: flags.webhook_token.clone(),
        bind: berth_http::any(flags.webhook_port),
        host: flags.webhook_host.as_ref().map(|at| at.host.clone()),
        host_port: flags.webhook_host.as_ref().and_then(|at| at.port),
        cert_validity: flags.cert_validity,
        ca_validity: flags.ca_validity,
        validating: flags.validating_webhook,
        pods: has_pod_entries(flags, gates),
        records: None,
        injector: None,
        budgets: None,
        validity: berth_webhook::Validity::default(),
        reviews: berth_webhook::ReviewMetrics::default(),
        refused_deletions: RefusedDeletions::default(),
        drain: if pod.is_some() { DRAIN } else { Duration::ZERO },
        pod,
    }
}

/// Does the chart bring the configuration of the pod webhook, and the right to write it?
fn has_pod_entries(flags: &Run, gates: Gates) -> bool {
    flags.pod_pinning == PinnedBy::Webhook || gates.has(Gate::PodWebhook)
}

/// Where SidecarSets are not worked on, nobody asks for a pod on its way into the cluster, the readiness gate neither; and where
/// ContainerRecreateRequests are not, and no budget is asked about anything, there is no webhook about pods.
fn of_kinds(gates: Gates, custom_resource_enable: &str) -> Gates {
    let mut kinds = Kinds::parse(custom_resource_enable);
    let (injects, fills_in) = (
        kinds.has("SidecarSet"),
        kinds.has(CONTAINER_RECREATE_REQUESTS.kind),
    );
    let has_budgets = [POD_UNAVAILABLE_BUDGETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS]
        .iter()
        .any(|of| kinds.has(of.kind));
    let protects = has_budgets
        && (gates.has(Gate::PodUnavailableBudgetDelete)
            || gates.has(Gate::PodUnavailableBudgetUpdate));
    let gated = injects && gates.has(Gate::KruisePodReadinessGate);
    let served = (injects || fills_in || protects) && gates.has(Gate::PodWebhook);
    gates
        .with(Gate::PodWebhook, served)
        .with(Gate::KruisePodReadinessGate, gated)
}

/// Probes and metrics, on one address or two.
async fn serve_http(
    flags: &Run,
    readiness: Readiness,
    (metrics, pod_budgets): (&Arc<Metrics>, &Arc<PodBudgets>),
    tasks: &Supervisor,
) -> anyhow::Result<()> {
    let (probes, scrapes) = (flags.health_probe_bind_address, flags.metrics_bind_address);
    let addresses = if probes == scrapes && probes.port() != 0 {
        vec![probes]
    } else {
        vec![probes, scrapes]
    };
    for address in addresses {
        let listener = berth_http::bind(address).await.with_context(|| {
            format!(
                "cannot listen on {address}; choose others with --metrics-bind-address and --health-probe-bind-address"
            )
        })?;
        let (readiness, pod_budgets) = (readiness.clone(), pod_budgets.clone());
        let server = http::Server {
            ready: Box::new(move || readiness.check()),
            metrics: metrics.clone(),
            waits: Box::new(move |object| pod_budgets.wait_of(object)),
        };
        tasks.spawn(
            format!("server on {address}"),
            http::serve(listener, server, tasks.stop().clone()),
        );
    }
    Ok(())
}

/// The daemons' service, on every replica.
async fn serve_pull_secrets(
    flags: &Run,
    client: &Client,
    tls: Arc<tokio_rustls::rustls::ServerConfig>,
    stop: &CancellationToken,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let port = flags.grpc_port;
    let listener = berth_http::bind(berth_http::any(port))
        .await
        .with_context(|| {
            format!("cannot listen on port {port} for daemons; choose another with --grpc-port")
        })?;
    let service = PullSecretsService::new(
        client.clone(),
        &flags.namespace,
        &flags.daemon_service_account,
    );
    Ok(tokio::spawn(secrets::serve(
        listener,
        tls,
        service,
        stop.clone().cancelled_owned(),
    )))
}

/// The leader rewrites what is still stored in an older version, and what objects of kinds that are left out say of themselves.
async fn migrate(
    client: Client,
    left_out: Vec<Promise>,
    leadership: Leadership,
    stop: CancellationToken,
) {
    leadership.acquired().await;
    tokio::select! {
        () = stop.cancelled() => {}
        _ = async { tokio::join!(berth_webhook::migrate(&client), take_back(&client, &left_out)) } => {}
    }
}

fn end_on_signal(
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to end: lets the writes under way end, then gives the lease back");
        stop.cancel();
    })
}

#[cfg(test)]
mod tests {
    use crate::flags::Cli;
    use clap::Parser;

    use super::*;

    #[test]
    fn two_lives_of_one_pod_have_two_identities() {
        let flags = Cli::parse_from(["berth-controller", "--pod-name=manager-0"]).run;
        let (before, after) = (identity(&flags), identity(&flags));
        assert_ne!(before, after);
        assert!(before.starts_with("manager-0_"), "{before}");
    }

    #[test]
    fn a_webhook_about_pods_is_served_where_a_kind_or_one_of_the_budgets_gates_asks_for_it() {
        let (deletes, updates) = (
            Gate::PodUnavailableBudgetDelete,
            Gate::PodUnavailableBudgetUpdate,
        );
        let none = Gates::default().with(deletes, false).with(updates, false);
        for (kinds, gates, is_served) in [
            ("", none, true),
            ("CloneSet", Gates::default(), false),
            ("ContainerRecreateRequest", none, true),
            ("PodUnavailableBudget", none, false),
            ("PodUnavailableBudget", none.with(deletes, true), true),
            ("PodUnavailableBudget", none.with(updates, true), true),
            (
                "DistributedPodDisruptionBudget",
                none.with(updates, true),
                true,
            ),
            (
                "DistributedPodDisruptionBudget",
                none.with(updates, true).with(Gate::PodWebhook, false),
                false,
            ),
        ] {
            assert_eq!(
                of_kinds(gates, kinds).has(Gate::PodWebhook),
                is_served,
                "{kinds} {gates:?}"
            );
        }
    }
}
