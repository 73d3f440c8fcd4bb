//! A replica whose clock is ahead takes part for a while: its certificates are also valid by the
//! other replicas' clocks.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_cluster::programs::workspace_binaries;
use berth_e2e::install;
use berth_e2e::objects;
use serde_json::Value;

use crate::attacks::{certificates_are_good, v1alpha1_request};
use crate::pulls;
use crate::world::{Case, PATIENCE};

/// By how many seconds its clock is ahead: within the last third of a certificate's ten minutes, so
/// that it makes a new one.
const AHEAD: &str = "430";
/// How long it takes part.
const DURATION: Duration = Duration::from_secs(90);

pub(crate) async fn conversion_goes_on_beside_a_replica_that_is_ahead(case: &Case) -> Result<()> {
    case.with_value(
        ["controller.certificates.certValidity", "10m", "8760h"],
        async || {
            // The present certificate is valid for longer, and is kept.
            new_certificate(case).await?;
            let off = std::env::temp_dir().join(format!(
                "berth-{}-{}",
                case.namespace,
                std::process::id()
            ));
            std::fs::write(&off, AHEAD)?;
            let (kubeconfig, file) = (case.cluster()?.kubeconfig(), off.clone());
            let start = case.blocking(move |_| {
                let binaries = workspace_binaries(&["clock", "berth-controller"], false)?;
                let [clock, controller] = binaries.as_slice() else {
                    anyhow::bail!("no program was built")
                };
                let mut command = Command::new(clock);
                command
                    .arg(file)
                    .arg(controller)
                    .env("KUBECONFIG", kubeconfig)
                    .env("POD_NAMESPACE", install::NAMESPACE);
                command.args([
                    "--webhook-port=19876",
                    "--grpc-port=19877",
                    "--cert-validity=10m",
                ]);
                command.args([
                    "--metrics-bind-address=127.0.0.1:0",
                    "--health-probe-bind-address=127.0.0.1:0",
                ]);
                command.spawn().context("cannot start a replica")
            });
            let mut replica = start.await?;
            let tested = requests(case, &mut replica).await;
            let end = async {
                let _ = replica.kill();
                replica.wait()?;
                std::fs::remove_file(&off)?;
                new_certificate(case).await
            };
            pulls::restored(async { tested }, end).await
        },
    )
    .await
}

/// Makes the controller renew its certificates, and waits until they are in use.
async fn new_certificate(case: &Case) -> Result<()> {
    case.kubectl(&[
        "delete",
        "secret",
        "kruise-webhook-certs",
        "-n",
        install::NAMESPACE,
    ])
    .await?;
    let secret = "v1/Secret";
    let made = |secret: &Value| !secret["data"]["tls.crt"].is_null();
    objects::until(
        case.client(),
        install::NAMESPACE,
        secret,
        "kruise-webhook-certs",
        PATIENCE,
        made,
    )
    .await?;
    let began = Instant::now();
    let mut works = 0;
    // Both replicas answer, one after the other.
    while works < 20 {
        works = if v1alpha1_request(case).await.is_ok() {
            works + 1
        } else {
            0
        };
        ensure!(
            began.elapsed() < PATIENCE,
            "conversion does not work with new certificates"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Requests for v1alpha1, which need the certificates.
async fn requests(case: &Case, replica: &mut Child) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < DURATION {
        certificates_are_good(case)
            .await
            .with_context(|| format!("after {:?}", began.elapsed()))?;
        v1alpha1_request(case)
            .await
            .with_context(|| format!("after {:?}", began.elapsed()))?;
        ensure!(
            replica.try_wait()?.is_none(),
            "the replica that is ahead has ended"
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
