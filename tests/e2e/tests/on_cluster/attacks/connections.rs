//! Connections of a neighbour without a credential, which send nothing, or do not end their
//! requests.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_grpc::v1::pull_secrets_server::SERVICE_NAME;
use futures::stream::{self, BoxStream, StreamExt};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::neighbour::{GRPC, Neighbour, WEBHOOKS};
use super::replicas::Replicas;
use super::{SOMEBODY_ELSE, attack, request_of_another_user};
use crate::world::Case;

/// Ten requests of another user, so that each replica has some. The apiserver has connections
/// already; a client that makes a new one is answered, too.
pub(super) async fn requests_of_another_user(case: &Case, ips: Vec<String>) -> Result<()> {
    for _ in 0..10 {
        request_of_another_user(case).await?;
    }
    new_connections_are_answered(case, ips).await
}

/// New connections, verified by the clients' authorities and the clock of this machine.
pub(super) async fn new_connections_are_answered(case: &Case, ips: Vec<String>) -> Result<()> {
    Neighbour::does(case, move |neighbour| async move {
        let other = neighbour.beside_the_apiserver();
        for ip in &ips {
            let answer =
                tokio::time::timeout(SOMEBODY_ELSE, other.post(ip, "/validate", b"{}")).await;
            let answer = answer.with_context(|| {
                format!("a new connection to {ip}: no answer in {SOMEBODY_ELSE:?}")
            })??;
            ensure!(
                answer.status.is_some(),
                "a new connection to {ip} was closed without an answer"
            );
        }
        Ok(())
    })
    .await
}

/// Posts whose bodies never arrive.
pub(crate) async fn idle_posts_block_no_other_client(case: &Case) -> Result<()> {
    const EACH: usize = 10;
    attack(case, async || {
        let ips = Replicas::now(case).await?.ips();
        let all = ips.clone();
        let open = async move |neighbour: Neighbour| {
            let mut held = Vec::new();
            for ip in ips.iter().flat_map(|ip| vec![ip; EACH]) {
                // A replica may refuse any of them, as long as it answers others.
                let Ok(mut stream) = neighbour.connect_tls(ip, WEBHOOKS, &[]).await else {
                    continue;
                };
                let head =
                    b"POST /convert HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
                if stream.write_all(head).await.is_ok() && stream.flush().await.is_ok() {
                    held.push(stream);
                }
            }
            println!("{} posts without a body", held.len());
            ensure!(!held.is_empty(), "the webhooks cannot be reached at all");
            // The server accepts them before anything else happens.
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(held)
        };
        Neighbour::holds(case, open, async || {
            requests_of_another_user(case, all).await
        })
        .await
    })
    .await
}

/// Half of them without TLS. From one address, then from so many that none exceeds its share.
pub(crate) async fn thousand_idle_connections_block_no_other_client(case: &Case) -> Result<()> {
    idle_connections_block_no_other_client(case, 1).await?;
    idle_connections_block_no_other_client(case, 25).await
}

async fn idle_connections_block_no_other_client(case: &Case, addresses: u8) -> Result<()> {
    const EACH: usize = 500;
    attack(case, async || {
        let ips = Replicas::now(case).await?.ips();
        let all = ips.clone();
        let open = async move |neighbour: Neighbour| {
            let neighbours: Vec<_> = (0..addresses)
                .map(|number| neighbour.at_address(number))
                .collect();
            let (mut plain, mut shaken) = (Vec::new(), Vec::new());
            for ip in &ips {
                let half = || neighbours.iter().cycle().take(EACH / 2);
                // A replica may refuse any of them, as long as it answers others.
                for neighbour in half() {
                    plain.extend(neighbour.connect(ip, WEBHOOKS).await);
                }
                let shakes = half().map(|neighbour| neighbour.connect_tls(ip, WEBHOOKS, &[]));
                let shakes = tokio::time::timeout(
                    Duration::from_secs(20),
                    futures::future::join_all(shakes),
                )
                .await;
                shaken.extend(shakes.into_iter().flatten().filter_map(Result::ok));
            }
            println!(
                "{} connections, and {} with TLS, from {addresses} addresses",
                plain.len(),
                shaken.len()
            );
            ensure!(!shaken.is_empty(), "the webhooks cannot be reached at all");
            Ok((plain, shaken))
        };
        Neighbour::holds(case, open, async || {
            requests_of_another_user(case, all).await
        })
        .await
    })
    .await
}

type Message = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// A message of nearly 4 MiB, whose end never arrives.
fn message_without_end() -> Message {
    const SAID: u32 = (4 << 20) - 1;
    let mut head = vec![0];
    head.extend(SAID.to_be_bytes());
    let parts = (0..255).map(|_| Bytes::from(vec![0; 16 << 10]));
    let frames = [Bytes::from(head)]
        .into_iter()
        .chain(parts)
        .map(|part| Ok(Frame::data(part)));
    StreamBody::new(stream::iter(frames).chain(stream::pending()).boxed())
}

/// Without a token: a hundred to each replica on two connections, then on 25 connections from as
/// many addresses.
pub(crate) async fn two_hundred_streams_of_grpc_fit(case: &Case) -> Result<()> {
    streams_of_grpc_fit(case, vec![0, 0]).await?;
    streams_of_grpc_fit(case, (0..25).collect()).await
}

/// A hundred streams to each replica, on a connection from each of these addresses.
async fn streams_of_grpc_fit(case: &Case, addresses: Vec<u8>) -> Result<()> {
    const EACH: usize = 100;
    attack(case, async || {
        let ips = Replicas::now(case).await?.ips();
        let all = ips.clone();
        let open = async move |neighbour: Neighbour| {
            let mut held = JoinSet::new();
            for (ip, address) in ips
                .iter()
                .flat_map(|ip| addresses.iter().map(move |address| (ip, *address)))
            {
                let Ok(stream) = neighbour
                    .at_address(address)
                    .connect_tls(ip, GRPC, &["h2"])
                    .await
                else {
                    continue;
                };
                let shaken =
                    http2::handshake::<_, _, Message>(TokioExecutor::new(), TokioIo::new(stream))
                        .await;
                let Ok((sender, connection)) = shaken else {
                    continue;
                };
                held.spawn(async move {
                    // The server may end the connection, and should.
                    let _ = connection.await;
                });
                for _ in 0..EACH / addresses.len() {
                    let mut sender = sender.clone();
                    let request =
                        http::Request::post(format!("https://controller/{SERVICE_NAME}/Get"))
                            .header("content-type", "application/grpc")
                            .header("te", "trailers")
                            .body(message_without_end())?;
                    held.spawn(async move {
                        let _ = sender.send_request(request).await;
                    });
                }
            }
            println!("{} calls", held.len());
            ensure!(
                !held.is_empty(),
                "the port for pull secrets cannot be reached at all"
            );
            // Their bytes arrive.
            tokio::time::sleep(Duration::from_secs(8)).await;
            Ok(held)
        };
        Neighbour::holds(case, open, async || {
            requests_of_another_user(case, all).await
        })
        .await
    })
    .await
}
