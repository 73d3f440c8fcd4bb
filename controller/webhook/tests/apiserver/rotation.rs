//! Rotation under way all the time, and no conversion and no handshake fails.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::stage::{NAMESPACE, Replica, SECRET, Stage, Validity, node_image, node_images, tag_of};

/// Short, and long enough that a busy apiserver learns of a bundle before certificates of it are served.
const SHORT: Validity = Validity { cert: Duration::from_secs(24), ca: Duration::from_secs(48) };
/// How many certificates and authorities must have come and gone.
const CERTIFICATES: usize = 4;
const AUTHORITIES: usize = 2;

/// Shakes hands as the apiserver does, trusting this bundle, and gives the certificate that was shown.
pub(crate) async fn handshake(address: SocketAddr, bundle: &str) -> Result<Vec<u8>> {
    let mut roots = rustls::RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(authority?)?;
    }
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("kruise-webhook-service.kruise-system.svc")?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(|cert| cert.to_vec());
    shown.context("no certificate was shown")
}

/// For so long at least an apiserver is trusted to go by an old bundle: less than what certificates of [`SHORT`] wait for before
/// they are used.
const MOMENT: Duration = Duration::from_millis(300);

async fn ca_bundle(client: &Client) -> Result<String> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = crds.get("nodeimages.apps.kruise.io").await?;
    let conversion =
        crd.spec.conversion.and_then(|conversion| conversion.webhook).and_then(|webhook| webhook.client_config);
    let bundle = conversion.and_then(|config| config.ca_bundle).context("the CRD has no caBundle")?;
    Ok(String::from_utf8(bundle.0)?)
}

#[test]
fn no_conversion_fails_while_certificates_and_authorities_rotate() -> Result<()> {
    let stage = Stage::with_chart()?;
    stage.run(async |admin| {
        let mut first = Replica::start(&stage, &admin, 9876, SHORT).await?;
        let mut second = Replica::start(&stage, &admin, 9976, SHORT).await?;
        first.ready().await?;
        second.ready().await?;
        let (old, new) = (node_images(&admin, "v1alpha1"), node_images(&admin, "v1beta1"));
        old.create(&PostParams::default(), &node_image("v1alpha1", "busy", "0")).await?;
        let (mut certificates, mut authorities, mut largest) = (BTreeSet::new(), BTreeSet::new(), 0);
        let mut before = (Instant::now(), ca_bundle(&admin).await?);
        let mut round = 0_u64;
        while certificates.len() < CERTIFICATES || authorities.len() < AUTHORITIES {
            round += 1;
            let failed = |what: &'static str| move || format!("{what} failed in round {round}");
            let mut object = old.get("busy").await.with_context(failed("reading v1alpha1"))?;
            object.data["spec"]["images"]["nginx"]["tags"][0]["tag"] = round.to_string().into();
            old.replace("busy", &PostParams::default(), &object).await.with_context(failed("writing v1alpha1"))?;
            let read = new.get("busy").await.with_context(failed("reading v1beta1"))?;
            ensure!(tag_of(&read) == Some(round.to_string().as_str()), "round {round} read {:?}", tag_of(&read));

            // An apiserver that learnt of the bundle a moment ago trusts both replicas, whatever they serve by now.
            for replica in [&first, &second] {
                let mut served = handshake(replica.handle.address(), &before.1).await;
                // On a slow machine the moment may be over: then the apiserver has learnt of the next bundle.
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
        ensure!(largest == 2, "an overlap holds two authorities, not {largest}");
        let secrets: Api<Secret> = Api::namespaced(admin.clone(), NAMESPACE);
        ensure!(secrets.get(SECRET).await.is_ok(), "the Secret is gone");
        first.end().await?;
        second.end().await
    })
}
