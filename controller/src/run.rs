//! A running controller: who acts, what is seen, what is served, and how it all ends.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use berth_controller::flags::Run;
use berth_controller::secrets::{self, PullSecretsService};
use berth_runtime::driver::{Driver, Next};
use berth_runtime::election::{self, Leadership};
use berth_runtime::events::Recorder;
use berth_runtime::executor::{self, Executor};
use berth_runtime::expectations::Expectations;
use berth_runtime::metrics::Metrics;
use berth_runtime::queue::{Backoff, Queue};
use berth_runtime::{CancellationToken, Key, client, http};
use berth_webhook::{PodIdentity, Readiness};
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::acting::Acting;
use crate::early::Early;
use crate::kinds::{Kind, Kinds};
use crate::stores::Stores;
use crate::{cloneset, imagelistpulljob, imagepulljob, nodeimage, resize, unreadable};

/// How long a write may stay unseen before the object is read again.
const DOUBT: Duration = Duration::from_secs(30);
/// How long a replica in a cluster serves webhooks on after it was asked to end: until no apiserver calls it any more.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs until a signal.
///
/// # Errors
/// A port is taken, or the client cannot be made. Everything else is tried again.
pub(crate) async fn run(flags: &Run, config: kube::Config, gates: Gates) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    tokio::spawn(end_on_signal(stop.clone())?);
    let expectations = Expectations::new(DOUBT);
    let metrics = Metrics::new(|registry| expectations.register(registry));
    let client = client::connect(config, metrics.clone())?;
    let kinds = Kinds::parse(&flags.custom_resource_enable, gates);
    let webhook =
        berth_webhook::run(webhook_config(flags, gates), client.clone(), stop.clone().cancelled_owned()).await?;
    serve_http(flags, webhook.readiness(), &metrics, &stop).await?;
    let pull_secrets = serve_pull_secrets(flags, &client, webhook.tls(), &stop).await?;

    let stop_election = CancellationToken::new();
    let (leadership, election) = elect(flags, &client, &metrics, &stop_election);
    let (recorder, events) =
        Recorder::new(client.clone(), "berth-controller", &identity(flags), metrics.clone(), stop.clone());
    let (election, events) = (tokio::spawn(election), tokio::spawn(events));

    let resize = resize::discover(&client, gates, &stop).await;
    let settings = executor::Settings { timeout: flags.write_timeout, ..executor::Settings::default() };
    let acting = acting(&client, &leadership, expectations, (recorder.clone(), settings), gates, resize);
    let drivers = drivers(flags, &kinds, &acting, &leadership, &metrics, &stop);
    let tell = unreadable::teller(client.clone(), acting.executor.clone());
    acting.stores.follow(&kinds, &client, &metrics, &recorder, &tell, &stop);
    tokio::spawn(migrate(client.clone(), leadership.clone(), stop.clone()));
    drivers.await;

    // The lease is given back only when the last write has ended.
    stop_election.cancel();
    election.await?;
    events.await?;
    pull_secrets.await?;
    webhook.join().await?;
    tracing::info!("ended");
    Ok(())
}

fn acting(
    client: &Client,
    leadership: &Leadership,
    expectations: Arc<Expectations>,
    (recorder, settings): (Recorder, executor::Settings),
    gates: Gates,
    resize: Ability,
) -> Arc<Acting> {
    let stores = Stores::new();
    expectations.follow(&stores.pods);
    expectations.follow(&stores.clonesets);
    expectations.follow(&stores.revisions);
    expectations.follow(&stores.claims);
    expectations.follow(&stores.nodeimages);
    expectations.follow(&stores.jobs);
    expectations.follow(&stores.lists);
    let executor = Executor::new(client.clone(), leadership.clone(), expectations.clone(), recorder, settings);
    let executor = Arc::new(executor);
    Arc::new(Acting { client: client.clone(), stores, expectations, executor, gates, resize, early: Early::new() })
}

/// Registers the hooks of every controller whose kind is worked on, and returns the future that runs them until `stop`.
fn drivers(
    flags: &Run,
    kinds: &Kinds,
    acting: &Arc<Acting>,
    leadership: &Leadership,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let workers = usize::from(flags.concurrent_reconciles);
    let stores = &acting.stores;
    let driver = |kind, controller| {
        kinds.has(kind).then(|| Driver {
            controller,
            queue: Queue::<Key>::new(Backoff::default(), metrics.queue(controller)),
            workers,
            leadership: leadership.clone(),
            stores: stores.sync_states(kind),
            metrics: metrics.driver(controller, workers),
        })
    };
    let clonesets = driver(Kind::CloneSet, "cloneset").inspect(|d| cloneset::wake(stores, &d.queue, acting));
    let nodeimages = driver(Kind::NodeImage, "nodeimage").inspect(|d| nodeimage::wake(stores, &d.queue, acting));
    let jobs = driver(Kind::ImagePullJob, "imagepulljob").inspect(|d| imagepulljob::wake(stores, &d.queue, acting));
    let lists = driver(Kind::ImageListPullJob, "imagelistpulljob")
        .inspect(|d| imagelistpulljob::wake(stores, &d.queue, acting));
    let (acting, stop) = (acting.clone(), stop.clone());
    async move {
        tokio::join!(
            work(clonesets, &stop, |key| cloneset::reconcile(&acting, key)),
            work(nodeimages, &stop, |key| nodeimage::reconcile(&acting, key)),
            work(jobs, &stop, |key| imagepulljob::reconcile(&acting, key)),
            work(lists, &stop, |key| imagelistpulljob::reconcile(&acting, key)),
        );
    }
}

/// Runs a controller until `stop`; one that shall not run just waits for that.
async fn work(driver: Option<Driver<Key>>, stop: &CancellationToken, reconcile: impl AsyncFn(Key) -> Next) {
    match driver {
        Some(driver) => driver.run(stop.clone(), reconcile).await,
        None => stop.cancelled().await,
    }
}

fn elect(
    flags: &Run,
    client: &Client,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> (Leadership, std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) {
    if !flags.leader_elect {
        return (Leadership::always(), Box::pin(std::future::ready(())));
    }
    let namespace = flags.leader_elect_namespace.as_ref().unwrap_or(&flags.namespace);
    let settings = election::Settings {
        lease: flags.lease_duration,
        renew: flags.renew_deadline,
        retry: flags.retry_period,
        ..election::Settings::new(namespace, &flags.leader_elect_name, &identity(flags))
    };
    let (leadership, standing) = election::run(client.clone(), settings, metrics.clone(), stop.clone());
    (leadership, Box::pin(standing))
}

/// Who this process is: the pod's name, or the machine's, and the process.
fn identity(flags: &Run) -> String {
    let name = flags.pod_name.clone().or_else(|| std::env::var("HOSTNAME").ok());
    format!("{}_{}", name.unwrap_or_else(|| "berth-controller".to_owned()), std::process::id())
}

fn webhook_config(flags: &Run, gates: Gates) -> berth_webhook::Config {
    let pod = match (&flags.pod_name, &flags.pod_uid, flags.pod_ip) {
        (Some(name), Some(uid), Some(ip)) => Some(PodIdentity { name: name.clone(), uid: uid.clone(), ip }),
        _ => None,
    };
    let jobs = berth_workload::imagepulljob::closed(gates);
    let closed = ["imagepulljobs", "imagelistpulljobs"].into_iter().filter_map(|plural| Some((plural, jobs.clone()?)));
    berth_webhook::Config {
        closed: closed.collect(),
        namespace: flags.namespace.clone(),
        service: flags.webhook_service.clone(),
        extra_services: vec![flags.grpc_service.clone()],
        secret: flags.webhook_secret.clone(),
        bind: ([0, 0, 0, 0], flags.webhook_port).into(),
        host: flags.webhook_host.as_ref().map(|at| at.host.clone()),
        host_port: flags.webhook_host.as_ref().and_then(|at| at.port),
        cert_validity: flags.cert_validity,
        ca_validity: flags.ca_validity,
        drain: if pod.is_some() { DRAIN } else { Duration::ZERO },
        pod,
    }
}

/// Probes and metrics, on one address or two.
async fn serve_http(
    flags: &Run,
    readiness: Readiness,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let (probes, scrapes) = (flags.health_probe_bind_address, flags.metrics_bind_address);
    let addresses = if probes == scrapes && probes.port() != 0 { vec![probes] } else { vec![probes, scrapes] };
    for address in addresses {
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "cannot listen on {address}; choose others with --metrics-bind-address and --health-probe-bind-address"
            )
        })?;
        let readiness = readiness.clone();
        let server = http::Server { ready: Box::new(move || readiness.check()), metrics: metrics.clone() };
        tokio::spawn(http::serve(listener, server, stop.clone()));
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
    let listener = TcpListener::bind(("0.0.0.0", port))
        .await
        .with_context(|| format!("cannot listen on port {port} for daemons; choose another with --grpc-port"))?;
    let service = PullSecretsService::new(client.clone(), &flags.namespace, &flags.daemon_service_account);
    Ok(tokio::spawn(secrets::serve(listener, tls, service, stop.clone().cancelled_owned())))
}

/// The leader rewrites what is still stored in an older version.
async fn migrate(client: Client, leadership: Leadership, stop: CancellationToken) {
    leadership.acquired().await;
    tokio::select! {
        () = stop.cancelled() => {}
        _ = berth_webhook::migrate(&client) => {}
    }
}

fn end_on_signal(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to end: lets the work under way end, then gives the lease back");
        stop.cancel();
    })
}
