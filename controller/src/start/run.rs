//! A running controller: its election, its feeds, its servers, and its end.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use berth_runtime::election::{self, Leadership};
use berth_runtime::events::Recorder;
use berth_runtime::executor::{self, Executor};
use berth_runtime::expectations::Expectations;
use berth_runtime::handover;
use berth_runtime::supervisor::Supervisor;
use berth_runtime::{CancellationToken, TaskTracker, client};
use berth_workload::feature_gates::Gates;
use tokio::signal::unix::{SignalKind, signal};

use crate::context::Context;
use crate::controllers::Starter;
use crate::kinds::Kinds;
use crate::settings::flags::Run;
use crate::settings::published::{self, Published};
use crate::start::pod_rules::{self, PodRules};
use crate::start::process::{Counters, Process};
use crate::start::switched_off::{Promise, take_back};
use crate::start::{resize, serve};
use crate::stores::reads::{Follow, Stores};

/// How long a write may stay unseen before the object is read again.
const DOUBT: Duration = Duration::from_secs(30);

/// Runs until a signal.
///
/// # Errors
/// A port is taken, the client cannot be made, or a task ended that never should: its name is in
/// the error. Every other failure is retried.
pub(crate) async fn run(flags: &Run, config: kube::Config, gates: Gates) -> anyhow::Result<()> {
    // Kinds may have been disabled without the chart, so that its configuration still has their
    // entries.
    let may_have_pod_entries = serve::has_pod_entries(flags, gates);
    let gates = pod_rules::gates_of_kinds(gates, &flags.custom_resource_enable);
    let stop = CancellationToken::new();
    let tasks = Supervisor::new(stop.clone());
    tokio::spawn(end_on_signal(stop.clone())?);
    let mut kinds = Kinds::parse(&flags.custom_resource_enable);
    let mut stores = Stores::default();
    let expectations = Expectations::new(DOUBT);
    let counters = Counters::default();
    let metrics = counters.register(&expectations, (&kinds, &mut stores.reader()));
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
    let process = Process {
        flags,
        gates,
        client,
        metrics,
        expectations,
        recorder,
        tasks,
        stop,
    };
    let rules = PodRules::new(&process, &counters, (&mut kinds, &mut stores.reader()));
    let left_out = Promise::of_kinds_left_out(&mut kinds);
    serve::serve(&process, counters, &rules).await?;
    let leadership = elect(&process, &identity, &stop_election);
    let drivers = act(&process, &rules, &leadership, (kinds, stores)).await;
    let here = flags.leader_elect.then(|| process.client.clone());
    rules.spawn(&process, (here, may_have_pod_entries), &leadership);
    let stop = process.stop.clone();
    tokio::spawn(begin_leading(&process, left_out, leadership));

    stop.cancelled().await;
    drivers.wait().await;
    stop_election.cancel();
    process.tasks.join().await?;
    tracing::info!("ended");
    Ok(())
}

/// The parts that all controllers share.
async fn context(process: &Process<'_>, rules: &PodRules, leadership: &Leadership) -> Arc<Context> {
    let Process {
        flags,
        client,
        expectations,
        stop,
        ..
    } = process;
    let settings = executor::Settings {
        timeout: flags.write_timeout,
        stop: stop.clone(),
        ..executor::Settings::default()
    };
    let executor = Executor::new(
        client.clone(),
        leadership.clone(),
        expectations.clone(),
        process.recorder.clone(),
        settings,
    );
    Arc::new(Context {
        client: client.clone(),
        expectations: expectations.clone(),
        executor: Arc::new(executor),
        gates: process.gates,
        resize: resize::discover(client, process.gates, stop).await,
        assigns_by_scheduler: flags.assign_pods_by_scheduler,
        pod_pinning: rules.pinning.clone(),
        pod_budgets: rules.budgets.clone(),
        injection: rules.injection.clone(),
    })
}

/// Starts the controllers, then the feeds that they read. The drivers end with the last reconcile.
async fn act(
    process: &Process<'_>,
    rules: &PodRules,
    leadership: &Leadership,
    (kinds, stores): (Kinds, Stores),
) -> TaskTracker {
    let Process {
        flags,
        client,
        metrics,
        expectations,
        tasks,
        stop,
        ..
    } = process;
    let context = context(process, rules, leadership).await;
    let (handover, catching_up) = handover::run(
        client.clone(),
        leadership,
        expectations.clone(),
        stop.clone(),
    );
    let mut starter = Starter {
        flags,
        kinds,
        context: &context,
        leadership,
        handover: &handover,
        metrics,
        tasks,
        stores,
        drivers: TaskTracker::new(),
    };
    starter.start_all();
    let follow = Follow {
        client,
        namespace: &flags.namespace,
        metrics,
        recorder: &process.recorder,
        expectations,
        object_max_bytes: flags.object_max_bytes,
        tasks,
    };
    starter.stores.follow(&follow);
    tasks.spawn("handover", catching_up);
    starter.drivers
}

fn elect(process: &Process<'_>, identity: &str, stop: &CancellationToken) -> Leadership {
    let Process {
        flags,
        client,
        metrics,
        expectations,
        tasks,
        ..
    } = process;
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

/// The identity of this process: the pod's name, or the machine's, and a random part from the
/// operating system. The process id would not do, because it is 1 in every container.
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

/// The leader publishes its settings, rewrites objects that are still stored in an older version,
/// and removes conditions from objects of disabled kinds.
fn begin_leading(
    process: &Process<'_>,
    left_out: Vec<Promise>,
    leadership: Leadership,
) -> impl Future<Output = ()> + Send + 'static {
    let (client, stop) = (process.client.clone(), process.stop.clone());
    let settings = Published::of(process.flags);
    async move {
        let publish = published::publish(client.clone(), settings, leadership.clone());
        let migrate = async {
            leadership.acquired().await;
            tokio::join!(
                berth_webhook::migrate(&client),
                take_back(&client, &left_out)
            )
        };
        tokio::select! {
            () = stop.cancelled() => {}
            _ = async { tokio::join!(publish, migrate) } => {}
        }
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
mod tests;
