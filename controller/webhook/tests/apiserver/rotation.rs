//! Rotation runs all the time, and no conversion, no handshake and no call by a secret path fails.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_webhook::pods::{Asks, MUTATING, Scope};
use futures::future::try_join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::pods::{Counted, create, is_pinned, pod, workload};
use crate::stage::{
    LONG, NAMESPACE, Replica, SECRET, Stage, Validity, config, node_image, node_images, tag_of,
    until,
};

/// Short, but long enough that a busy apiserver knows a bundle before certificates of it are
/// served.
const SHORT: Validity = Validity {
    cert: Duration::from_secs(24),
    ca: Duration::from_secs(48),
};
/// How many certificates and authorities must have come and gone.
const CERTIFICATES: usize = 4;
const AUTHORITIES: usize = 2;

/// Shakes hands as the apiserver does, trusting this bundle, and gives the certificate that was
/// shown.
pub(crate) async fn handshake(address: SocketAddr, bundle: &str) -> Result<Vec<u8>> {
    let mut roots = rustls::RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(authority?)?;
    }
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()?
    .with_root_certificates(roots)
    .with_no_client_auth();
    let name = ServerName::try_from("kruise-webhook-service.kruise-system.svc")?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, TcpStream::connect(address).await?)
        .await?;
    let shown = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| chain.first())
        .map(|cert| cert.to_vec());
    shown.context("no certificate was shown")
}

/// How long an apiserver may use an old bundle at least: less than certificates of [`SHORT`] wait
/// before they are used.
const MOMENT: Duration = Duration::from_millis(300);

async fn ca_bundle(client: &Client) -> Result<String> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = crds.get("nodeimages.apps.kruise.io").await?;
    let conversion = crd
        .spec
        .conversion
        .and_then(|conversion| conversion.webhook)
        .and_then(|webhook| webhook.client_config);
    let bundle = conversion
        .and_then(|config| config.ca_bundle)
        .context("the CRD has no caBundle")?;
    Ok(String::from_utf8(bundle.0)?)
}

#[test]
fn certificate_rotation_fails_no_conversion() -> Result<()> {
    let stage = Stage::with_chart()?;
    stage.run(async |admin| {
        let mut first = Replica::start(&stage, &admin, 9876, SHORT).await?;
        let mut second = Replica::start(&stage, &admin, 9976, SHORT).await?;
        first.ready().await?;
        second.ready().await?;
        let (old, new) = (
            node_images(&admin, "v1alpha1"),
            node_images(&admin, "v1beta1"),
        );
        old.create(&PostParams::default(), &node_image("v1alpha1", "busy", "0"))
            .await?;
        let (mut certificates, mut authorities, mut largest) =
            (BTreeSet::new(), BTreeSet::new(), 0);
        let mut before = (Instant::now(), ca_bundle(&admin).await?);
        let mut round = 0_u64;
        while certificates.len() < CERTIFICATES || authorities.len() < AUTHORITIES {
            round += 1;
            let failed = |what: &'static str| move || format!("{what} failed in round {round}");
            let mut object = old
                .get("busy")
                .await
                .with_context(failed("reading v1alpha1"))?;
            object.data["spec"]["images"]["nginx"]["tags"][0]["tag"] = round.to_string().into();
            old.replace("busy", &PostParams::default(), &object)
                .await
                .with_context(failed("writing v1alpha1"))?;
            let read = new
                .get("busy")
                .await
                .with_context(failed("reading v1beta1"))?;
            ensure!(
                tag_of(&read) == Some(round.to_string().as_str()),
                "round {round} read {:?}",
                tag_of(&read)
            );

            // An apiserver that got the bundle a moment ago trusts both replicas, whichever
            // certificates they serve by now.
            for replica in [&first, &second] {
                let mut served = handshake(replica.handle.address(), &before.1).await;
                // On a slow machine this moment may be over: then the apiserver has the next
                // bundle.
                if served.is_err() && before.0.elapsed() > MOMENT {
                    served = handshake(replica.handle.address(), &ca_bundle(&admin).await?).await;
                }
                certificates.insert(served.with_context(failed("a handshake"))?);
            }
            before = (Instant::now(), ca_bundle(&admin).await?);
            let entries = pem::parse_many(&before.1)?;
            largest = largest.max(entries.len());
            authorities.extend(entries.into_iter().map(|entry| entry.into_contents()));
        }
        ensure!(
            largest == 2,
            "an overlap holds two authorities, not {largest}"
        );
        let secrets: Api<Secret> = Api::namespaced(admin.clone(), NAMESPACE);
        ensure!(secrets.get(SECRET).await.is_ok(), "the Secret is gone");
        first.end().await?;
        second.end().await
    })
}

/// By how many paths pods must have been reviewed.
const PATHS: usize = 8;
/// How many pods are created at once.
const AT_ONCE: usize = 4;

async fn pin_path(client: &Client) -> Result<String> {
    let found = Api::<MutatingWebhookConfiguration>::all(client.clone())
        .get(MUTATING)
        .await?;
    let services = found
        .webhooks
        .unwrap_or_default()
        .into_iter()
        .filter_map(|webhook| webhook.client_config.service);
    services
        .filter_map(|service| service.path)
        .find(|path| path.starts_with("/pin/"))
        .context("no rule covers pods")
}

/// Rotates as a replica does, but more often than a replica would.
async fn rotate(client: &Client) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let number = secrets
        .get(SECRET)
        .await?
        .data
        .unwrap_or_default()
        .remove("paths")
        .unwrap_or_default();
    let number = String::from_utf8(number.0)?.parse::<u64>()? + 1;
    let data = json!({"data": {"paths": ByteString(number.to_string().into_bytes())}});
    secrets
        .patch(SECRET, &PatchParams::default(), &Patch::Merge(data))
        .await?;
    Ok(())
}

/// Needs the chart with `podPinning.by=webhook`.
pub(crate) fn no_call_fails_while_secret_paths_rotate(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let start = async |port| -> Result<Replica> {
            let records = Some(Arc::new(Counted::default()) as _);
            let settings = berth_webhook::Config {
                pods: true,
                records,
                ..config(port, LONG, None)
            };
            let mut replica = Replica::start_with(stage, &admin, settings).await?;
            replica.ready().await?;
            Ok(replica)
        };
        let (first, second) = (start(9876).await?, start(9976).await?);
        // The leader. A pod of db must be pinned, or it is refused.
        let pins = Scope::new([(workload("db"), true)]);
        first.handle.pods().wanted.send_replace(Some(Asks {
            pins,
            ..Asks::default()
        }));
        let db = pod("db-0", Some("db"))?;
        until("pods of db are pinned", async || {
            ensure!(is_pinned(&create(&admin, &db).await?), "db-0 is not pinned");
            Ok(())
        })
        .await?;
        let (mut paths, mut created) = (BTreeSet::new(), 0);
        while paths.len() < PATHS {
            let path = pin_path(&admin).await?;
            if paths.insert(path) {
                rotate(&admin).await?;
            }
            let pods = try_join_all((0..AT_ONCE).map(|_| create(&admin, &db))).await;
            let pods =
                pods.with_context(|| format!("by path {} and after {created} pods", paths.len()))?;
            ensure!(
                pods.iter().all(is_pinned),
                "a pod is not pinned by path {}",
                paths.len()
            );
            created += pods.len();
        }
        // A replica that starts again rotates by itself.
        let before = pin_path(&admin).await?;
        second.end().await?;
        let third = start(9996).await?;
        until("a replica has begun, so the path is another", async || {
            ensure!(is_pinned(
                &create(&admin, &db)
                    .await
                    .context("while a replica begins")?
            ));
            ensure!(pin_path(&admin).await? != before, "it is the same");
            Ok(())
        })
        .await?;
        println!("{created} pods by {} paths", paths.len());
        first.end().await?;
        third.end().await
    })
}
