//! Many clients take pods out of service at once, while a rollout does so too and the leader dies,
//! then is paused: a budget holds at every moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use futures::future::{join_all, try_join};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, EvictParams};
use serde_json::json;

use crate::faults::signal;
use crate::pod_budgets::{budget, enforced, names, unretried};
use crate::world::{Case, PATIENCE};

const REPLICAS: usize = 18;
const MOST: usize = 3;
const REQUESTS: usize = 200;
const AT_ONCE: usize = 10;

#[derive(Default)]
struct Answers {
    asked: AtomicUsize,
    granted: AtomicUsize,
    refused: AtomicUsize,
    /// Requests that no replica answered.
    failed: AtomicUsize,
}

impl Answers {
    fn count(&self, of: &AtomicUsize) {
        of.fetch_add(1, Ordering::Relaxed);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// 200 evictions and deletions of the pods of one workload, ten at once.
async fn ask(case: &Case, answers: &Answers) -> Result<()> {
    let pods = Api::<Pod>::namespaced(unretried(case).await?, &case.namespace);
    let callers = (0..AT_ONCE).map(async |caller| {
        while answers.asked() < REQUESTS {
            let number = answers.asked.fetch_add(1, Ordering::Relaxed);
            let there = names(case).await?;
            let Some(name) = there.get((number * 7 + caller) % there.len().max(1)) else {
                continue;
            };
            let asked = if number.is_multiple_of(2) {
                pods.evict(name, &EvictParams::default()).await.map(drop)
            } else {
                pods.delete(name, &DeleteParams::default()).await.map(drop)
            };
            match asked {
                Ok(()) => answers.count(&answers.granted),
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    answers.count(&answers.refused)
                }
                // The pod has gone meanwhile, or is another one by then.
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                Err(_) => answers.count(&answers.failed),
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        Ok::<_, anyhow::Error>(())
    });
    join_all(callers).await.into_iter().collect()
}

/// A program that leads.
struct Leader {
    /// Its name in the lease, which is unique.
    holder: String,
    place: berth_cluster::Place,
    container: String,
}

/// Sends a signal to the program that leads. A program that has just died does not lead any more,
/// although the lease still names it.
async fn to_leader(case: &Case, what: &'static str, dead: Option<&Leader>) -> Result<Leader> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let sent = async {
            let leader = leader(case).await?;
            ensure!(
                dead.is_none_or(|dead| dead.holder != leader.holder),
                "{} is dead, and leads",
                leader.holder
            );
            signal(case, leader.place, &leader.container, what).await?;
            Ok(leader)
        };
        match sent.await {
            Err(error) if tokio::time::Instant::now() >= deadline => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            sent => return sent,
        }
    }
}

async fn leader(case: &Case) -> Result<Leader> {
    let lease = objects::get(
        case.client(),
        install::NAMESPACE,
        "coordination.k8s.io/v1/Lease",
        "kruise-manager",
    )
    .await?;
    let holder = lease["spec"]["holderIdentity"]
        .as_str()
        .context("the Lease has no holder")?
        .to_owned();
    let name = holder.split('_').next().unwrap_or_default();
    let pod = objects::get(case.client(), install::NAMESPACE, kind::POD, name).await?;
    let place = pod["spec"]["nodeName"]
        .as_str()
        .context("the leader has no node")?
        .parse()?;
    let container = pod["status"]["containerStatuses"][0]["containerID"]
        .as_str()
        .context("it does not run")?;
    Ok(Leader {
        holder,
        place,
        container: container.to_owned(),
    })
}

async fn disturb(case: &Case, answers: &Answers) -> Result<()> {
    let until = async |asked: usize| {
        while answers.asked() < asked {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    until(REQUESTS / 4).await;
    let killed = to_leader(case, "SIGKILL", None).await?;
    until(REQUESTS / 2).await;
    let stopped = to_leader(case, "SIGSTOP", Some(&killed)).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // Its kubelet may have killed it since.
    let _ = signal(case, stopped.place, &stopped.container, "SIGCONT").await;
    Ok(())
}

pub(crate) async fn a_budget_holds_at_every_moment(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.clone_set(
        "web",
        REPLICAS,
        &one,
        json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}),
    )
    .await?;
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    case.create(&budget(
        json!({"targetRef": target, "maxUnavailable": MOST}),
    ))
    .await?;
    enforced(case, i64::try_from(MOST)?).await?;
    let watch = case.watch("web").await?;
    let from = watch.began().elapsed();
    case.set_image("web", &two).await?;
    let answers = Answers::default();
    try_join(ask(case, &answers), disturb(case, &answers)).await?;
    case.done("web").await?;
    watch
        .until("all pods serve", PATIENCE, |now| {
            now.available(Duration::ZERO) == REPLICAS
        })
        .await?;
    let record = watch.record()?.since(from);
    let fewest = record
        .moments()
        .map(|moment| moment.available(Duration::ZERO))
        .min();
    let [granted, refused, failed] = [&answers.granted, &answers.refused, &answers.failed]
        .map(|count| count.load(Ordering::Relaxed));
    println!(
        "{granted} granted, {refused} refused, {failed} without an answer; {fewest:?} of {REPLICAS} available at least"
    );
    ensure!(
        fewest.is_some_and(|fewest| fewest >= REPLICAS - MOST),
        "at one moment {fewest:?} pods were available"
    );
    ensure!(
        granted > 0 && refused > 0,
        "{granted} granted, {refused} refused"
    );
    enforced(case, i64::try_from(MOST)?).await.map(drop)
}
