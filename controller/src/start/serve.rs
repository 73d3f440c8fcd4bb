//! The servers of every replica: webhooks, probes and metrics, pull secrets for daemons.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use berth_runtime::http;
use berth_webhook::deletions::RefusedDeletions;
use berth_webhook::{PodIdentity, Readiness};
use berth_workload::feature_gates::{Gate, Gates};

use crate::controllers;
use crate::secrets::{self, PullSecretsService};
use crate::settings::flags::{PinnedBy, Run};
use crate::start::pod_rules::PodRules;
use crate::start::process::{Counters, Process};

/// How long a replica in a cluster serves webhooks on after the stop signal: until no apiserver
/// calls it any more.
const DRAIN: Duration = Duration::from_secs(5);

/// Starts all servers.
///
/// # Errors
/// A port is taken.
pub(crate) async fn serve(
    process: &Process<'_>,
    counters: Counters,
    rules: &PodRules,
) -> anyhow::Result<()> {
    let config = berth_webhook::Config {
        validity: counters.validity,
        reviews: counters.reviews,
        refused_deletions: counters.refused_deletions,
        records: Some(rules.pinning.clone()),
        injector: Some(rules.injection.clone()),
        budgets: Some(rules.budgets.clone()),
        ..webhook_config(process.flags, process.gates)
    };
    let stop = process.stop.clone().cancelled_owned();
    let webhook = berth_webhook::run(config, process.client.clone(), stop).await?;
    rules.asks.connect(webhook.pods());
    serve_http(process, webhook.readiness()).await?;
    let pull_secrets = serve_pull_secrets(process, webhook.tls()).await?;
    process.tasks.watch("server of pull secrets", pull_secrets);
    process.tasks.spawn_fallible("webhooks", webhook.join());
    Ok(())
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

/// Does the chart install the configuration of the pod webhook, and the right to write it?
pub(crate) fn has_pod_entries(flags: &Run, gates: Gates) -> bool {
    flags.pod_pinning == PinnedBy::Webhook || gates.has(Gate::PodWebhook)
}

/// Probes and metrics, on one address or two.
async fn serve_http(process: &Process<'_>, readiness: Readiness) -> anyhow::Result<()> {
    let Process {
        flags,
        metrics,
        tasks,
        ..
    } = process;
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
        let readiness = readiness.clone();
        let server = http::Server {
            ready: Box::new(move || readiness.check()),
            metrics: metrics.clone(),
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
    process: &Process<'_>,
    tls: Arc<tokio_rustls::rustls::ServerConfig>,
) -> anyhow::Result<tokio::task::JoinHandle<()>> {
    let flags = process.flags;
    let port = flags.grpc_port;
    let listener = berth_http::bind(berth_http::any(port))
        .await
        .with_context(|| {
            format!("cannot listen on port {port} for daemons; choose another with --grpc-port")
        })?;
    let service = PullSecretsService::new(
        process.client.clone(),
        &flags.namespace,
        &flags.daemon_service_account,
    );
    Ok(tokio::spawn(secrets::serve(
        listener,
        tls,
        service,
        process.stop.clone().cancelled_owned(),
    )))
}
