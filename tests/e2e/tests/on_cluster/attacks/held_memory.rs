//! Callers without a credential that occupy a replica's memory: bodies that never end, and answers
//! that they never read.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::AsyncWriteExt;

use super::attack;
use super::bodies::review_of;
use super::connections::requests_of_another_user;
use super::neighbour::{Neighbour, WEBHOOKS};
use super::replicas::Replicas;
use crate::world::Case;

/// How many bytes of its body each of these callers holds back.
const NOTHING: usize = 0;
const ITS_END: usize = 1;

/// Two addresses have the largest accepted bodies under way, and more of them than fit.
pub(crate) async fn bodies_that_never_end_give_way(case: &Case) -> Result<()> {
    held_posts_block_no_other_client(case, 2, 20, 7 << 20, ITS_END).await
}

/// From one address, then from so many that none exceeds its share.
pub(crate) async fn unread_answers_fit_in_memory(case: &Case) -> Result<()> {
    for (addresses, each) in [(1, 60), (20, 3)] {
        held_posts_block_no_other_client(case, addresses, each, 2 << 20, NOTHING).await?;
    }
    Ok(())
}

/// Each address posts so many bodies to each replica, without the part that it holds back, and
/// reads nothing.
async fn held_posts_block_no_other_client(
    case: &Case,
    addresses: u8,
    each: usize,
    bytes: usize,
    kept_back: usize,
) -> Result<()> {
    attack(case, async || {
        let ips = Replicas::now(case).await?.ips();
        let all = ips.clone();
        let open = async move |neighbour: Neighbour| {
            let body = review_of(bytes);
            let body = &body.as_bytes()[..body.len() - kept_back];
            let posts = ips
                .iter()
                .flat_map(|ip| (0..addresses).flat_map(move |address| vec![(ip, address); each]));
            let posts = posts.map(|(ip, address)| {
                let neighbour = neighbour.at_address(address);
                async move {
                    let mut stream = neighbour.connect_tls(ip, WEBHOOKS, &[]).await?;
                    let length = body.len() + kept_back;
                    let head = format!(
                        "POST /convert HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
                    );
                    stream.write_all(head.as_bytes()).await?;
                    stream.write_all(body).await?;
                    stream.flush().await?;
                    anyhow::Ok(stream)
                }
            });
            // A replica may refuse any of them, or let it wait, as long as it answers others.
            let posts = posts.map(|post| tokio::time::timeout(Duration::from_secs(20), post));
            let held: Vec<_> = futures::future::join_all(posts)
                .await
                .into_iter()
                .flatten()
                .flatten()
                .collect();
            println!(
                "{} posts of {bytes} bytes from {addresses} addresses were sent and are held",
                held.len()
            );
            ensure!(!held.is_empty(), "the webhooks cannot be reached at all");
            Ok(held)
        };
        Neighbour::holds(case, open, async || {
            requests_of_another_user(case, all).await
        })
        .await
    })
    .await
}
