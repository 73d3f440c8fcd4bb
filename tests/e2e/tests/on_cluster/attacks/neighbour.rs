//! A neighbour in the network: it reaches the controller's ports and has no credential. It has
//! addresses of its own, so that limits for each address do not affect the apiserver, too.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use berth_cluster::address;
use berth_e2e::install;
use berth_e2e::objects;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::world::Case;

/// The webhooks' port.
pub(super) const WEBHOOKS: u16 = 9876;
/// The port for pull secrets.
pub(super) const GRPC: u16 = 9877;
/// The port for metrics.
pub(super) const METRICS: u16 = 8080;
/// Long enough for any answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The neighbour. It trusts the same authorities as the controller's callers.
#[derive(Clone)]
pub(super) struct Neighbour {
    address: Ipv4Addr,
    roots: rustls::RootCertStore,
}

/// The answer on a connection.
#[derive(Debug)]
pub(super) struct Answer {
    /// `None` if the connection was closed without an answer.
    pub(super) status: Option<u16>,
    pub(super) text: String,
}

impl Answer {
    /// Is it a refusal: a status of a refusal, or a closed connection?
    pub(super) fn refuses(&self) -> bool {
        self.status.is_none_or(|status| status >= 400)
    }
}

impl Neighbour {
    async fn of(case: &Case) -> Result<Neighbour> {
        let ca = objects::get(
            case.client(),
            install::NAMESPACE,
            "v1/ConfigMap",
            "kruise-ca",
        )
        .await?;
        let ca = ca["data"]["ca.crt"]
            .as_str()
            .context("kruise-ca has no ca.crt")?;
        let mut roots = rustls::RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            roots.add(authority?)?;
        }
        Ok(Neighbour {
            address: address::stranger(0),
            roots,
        })
    }

    /// The same neighbour at another of its addresses.
    pub(super) fn at_address(&self, number: u8) -> Neighbour {
        Neighbour {
            address: address::stranger(number),
            roots: self.roots.clone(),
        }
    }

    /// A client that calls from the apiserver's address, on connections of its own.
    pub(super) fn beside_the_apiserver(self) -> Neighbour {
        Neighbour {
            address: address::CONTROL_PLANE,
            ..self
        }
    }

    /// Runs `work` in the cluster's network.
    pub(super) async fn does<T: Send + 'static, F: Future<Output = Result<T>>>(
        case: &Case,
        work: impl FnOnce(Neighbour) -> F + Send + 'static,
    ) -> Result<T> {
        let (cluster, neighbour) = (case.cluster()?, Neighbour::of(case).await?);
        let done = tokio::task::spawn_blocking(move || {
            // Sockets belong to the network of the thread that makes them.
            cluster.in_network(|| {
                // A neighbour has processors of its own: here it gets those that the cluster leaves
                // idle. This thread ends with its work.
                rustix::process::nice(19)?;
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(work(neighbour))
            })
        });
        done.await??
    }

    /// Keeps the connections of `open` while `meanwhile` runs.
    pub(super) async fn holds<H: 'static, F: Future<Output = Result<H>>>(
        case: &Case,
        open: impl FnOnce(Neighbour) -> F + Send + 'static,
        meanwhile: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let (opened, held) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let holding = Neighbour::does(case, move |neighbour| async move {
            let held = open(neighbour).await?;
            let _ = opened.send(());
            let _ = ended.await;
            drop(held);
            Ok(())
        });
        let meanwhile = async {
            // If nothing could be opened, the other half has the reason.
            if held.await.is_err() {
                return Ok(());
            }
            let met = meanwhile().await;
            drop(end);
            met
        };
        let (held, met) = tokio::join!(holding, meanwhile);
        held.and(met)
    }

    /// A connection to a port of a pod.
    pub(super) async fn connect(&self, ip: &str, port: u16) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(IpAddr::V4(self.address), 0))?;
        let connected =
            tokio::time::timeout(PATIENCE, socket.connect(SocketAddr::new(ip.parse()?, port)))
                .await;
        Ok(connected.with_context(|| format!("{ip}:{port} does not answer"))??)
    }

    /// The same with TLS, offering these protocols.
    pub(super) async fn connect_tls(
        &self,
        ip: &str,
        port: u16,
        protocols: &[&str],
    ) -> Result<TlsStream<TcpStream>> {
        let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(self.roots.clone())
        .with_no_client_auth();
        config.alpn_protocols = protocols
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();
        let service = if port == GRPC {
            "kruise-manager-grpc"
        } else {
            "kruise-webhook-service"
        };
        let name = ServerName::try_from(format!("{service}.{}.svc", install::NAMESPACE))?;
        let stream = self.connect(ip, port).await?;
        let shaken = tokio::time::timeout(
            PATIENCE,
            TlsConnector::from(Arc::new(config)).connect(name, stream),
        )
        .await;
        Ok(shaken.with_context(|| format!("no TLS with {ip}:{port}"))??)
    }

    /// Posts a body to the webhooks of a replica, and returns the answer.
    pub(super) async fn post(&self, ip: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let stream = self.connect_tls(ip, WEBHOOKS, &[]).await?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: webhooks\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        exchange(stream, head.as_bytes(), body).await
    }

    /// Gets the metrics of a replica.
    pub(super) async fn metrics(&self, ip: &str) -> Result<String> {
        let stream = self.connect(ip, METRICS).await?;
        let head = "GET /metrics HTTP/1.1\r\nHost: metrics\r\nConnection: close\r\n\r\n";
        Ok(exchange(stream, head.as_bytes(), &[]).await?.text)
    }
}

/// Sends a request and reads the answer to the end.
async fn exchange(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite,
    head: &[u8],
    body: &[u8],
) -> Result<Answer> {
    let (mut read, mut write) = tokio::io::split(stream);
    let send = async {
        write.write_all(head).await?;
        write.write_all(body).await?;
        write.flush().await
    };
    let mut answer = Vec::new();
    let both = async {
        // A refusal may come before the whole body is sent, and then the rest is not read.
        let (_, _) = tokio::join!(send, read.read_to_end(&mut answer));
    };
    tokio::time::timeout(PATIENCE, both)
        .await
        .map_err(|_| anyhow!("no answer within {PATIENCE:?}"))?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok());
    Ok(Answer { status, text })
}
