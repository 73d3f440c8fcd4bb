//! Attacks on a cluster with the default chart: by a tenant with a token of its own namespace, by a
//! neighbour in the network without any credential, and by a thief of tokens. After each, all other
//! users' objects are unchanged, and both replicas of the controller run on, with little more
//! memory than at rest.

mod bodies;
mod budgets;
mod clone_sets;
mod connections;
mod disclosures;
mod fat_pods;
mod held_memory;
mod members;
mod neighbour;
mod nodes;
mod ownership;
mod replicas;
mod reviews;
mod shares;
mod sidecars;
mod standing;
mod tenant;
mod tokens;
mod united_deployments;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use berth_e2e::objects::{self, kind};
use berth_e2e::suite;
use kube::api::{DynamicObject, PostParams};
use serde_json::json;

pub(crate) use bodies::*;
pub(crate) use budgets::*;
pub(crate) use clone_sets::*;
pub(crate) use connections::*;
pub(crate) use disclosures::*;
pub(crate) use fat_pods::*;
pub(crate) use held_memory::*;
pub(crate) use members::*;
pub(crate) use nodes::*;
pub(crate) use ownership::*;
pub(crate) use reviews::*;
pub(crate) use shares::*;
pub(crate) use sidecars::*;
pub(crate) use standing::*;
pub(crate) use tokens::*;
pub(crate) use united_deployments::*;

use crate::world::Case;
use replicas::Replicas;
use tenant::Tenant;

/// How long another user's request may take during an attack, on a busy machine.
const SOMEBODY_ELSE: Duration = Duration::from_secs(30);

/// Runs an attack against healthy replicas, and judges them when it is over.
async fn attack(case: &Case, attack: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    replicas::restart_if_ill(case).await?;
    let before = Replicas::now(case).await?;
    let attacked = suite::caught(attack()).await;
    let unharmed = before.unharmed(case).await;
    let restarted = replicas::restart_if_ill(case).await;
    all([attacked, unharmed, restarted])
}

/// The same by a tenant with a namespace of its own.
async fn attack_by_tenant(
    case: &Case,
    attack_as: impl AsyncFnOnce(&Tenant) -> Result<()>,
) -> Result<()> {
    let tenant = Tenant::make(case).await?;
    let attacked = attack(case, async || attack_as(&tenant).await).await;
    all([attacked, tenant.end(case).await])
}

fn all(results: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let failures: Vec<String> = results
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(anyhow!(failures.join("\n")))
    }
}

/// A request for v1alpha1, which the webhooks convert. Nothing is stored.
pub(crate) async fn v1alpha1_request(case: &Case) -> Result<()> {
    let mut manifest = objects::clone_set("somebody-elses", 1, "web:v1", &json!({}));
    manifest["apiVersion"] = "apps.kruise.io/v1alpha1".into();
    // That version has other fields for it.
    manifest["spec"]["updateStrategy"] = json!({"type": "InPlaceIfPossible"});
    let object: DynamicObject = serde_json::from_value(manifest.clone())?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api = objects::api_of(case.client(), &case.namespace, &manifest)?;
    let answer = tokio::time::timeout(SOMEBODY_ELSE, api.create(&dry_run, &object)).await;
    answer
        .with_context(|| format!("a v1alpha1 request had no answer within {SOMEBODY_ELSE:?}"))??;
    Ok(())
}

/// Each replica answers a new connection, so that its certificate is verified.
pub(crate) async fn certificates_are_good(case: &Case) -> Result<()> {
    connections::new_connections_are_answered(case, Replicas::now(case).await?.ips()).await
}

/// A request of another user in the middle of an attack: it must be answered.
async fn request_of_another_user(case: &Case) -> Result<()> {
    let took = timed_request(case).await?;
    println!("somebody else's v1alpha1 request: ok after {took:?}");
    Ok(())
}

async fn timed_request(case: &Case) -> Result<Duration> {
    let began = Instant::now();
    v1alpha1_request(case)
        .await
        .context("somebody else's v1alpha1 request")?;
    Ok(began.elapsed())
}

/// Requests of another user, one after another, for as long as `what` runs: each is answered.
/// Prints how long they took, and the same for some time before.
async fn other_user_is_answered_during<T>(
    case: &Case,
    what: impl Future<Output = Result<T>>,
) -> Result<T> {
    let before = timed_requests(case, async || {
        tokio::time::sleep(Duration::from_secs(3)).await
    })
    .await?
    .1;
    let (done, during) = timed_requests(case, async || what.await).await?;
    println!("v1alpha1 requests of somebody else: before, {before}; during, {during}");
    done
}

/// Runs `what`, and returns how long requests took meanwhile.
async fn timed_requests<T>(case: &Case, what: impl AsyncFnOnce() -> T) -> Result<(T, String)> {
    let (end, ended) = tokio::sync::watch::channel(false);
    let what = async {
        let done = what().await;
        end.send_replace(true);
        done
    };
    let began = Instant::now();
    let requests = async {
        let mut took = Vec::new();
        while !*ended.borrow() {
            took.push((timed_request(case).await?, began.elapsed()));
        }
        Ok::<_, anyhow::Error>(took)
    };
    let (done, took) = tokio::join!(what, requests);
    let mut took = took?;
    took.sort_unstable();
    let at = |part: usize| {
        took.get(took.len() * part / 100)
            .map_or(Duration::ZERO, |(took, _)| *took)
    };
    let (longest, when) = took.last().copied().unwrap_or_default();
    let said = format!(
        "{} of {} ms, 99 of 100 within {} ms, the longest {} ms, {:.1} s after the begin of {:.1} s",
        took.len(),
        at(50).as_millis(),
        at(99).as_millis(),
        longest.as_millis(),
        when.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    Ok((done, said))
}

/// The CloneSets of all namespaces can be listed in both versions. The lists are not parsed: they
/// may contain objects that no parser accepts.
async fn everybody_can_list(case: &Case) -> Result<()> {
    for version in ["v1alpha1", "v1beta1"] {
        let path = format!("/apis/apps.kruise.io/{version}/clonesets");
        let list = case
            .client()
            .request_text(http::Request::get(path).body(Vec::new())?)
            .await;
        list.with_context(|| {
            format!("the {version} CloneSets of all namespaces cannot be listed")
        })?;
    }
    Ok(())
}

/// The controller works on another user's CloneSet: it creates one pod more, and the existing pods
/// stay.
async fn clone_set_of_another_user_grows(case: &Case, name: &str) -> Result<()> {
    let before = case.pods(name).await?;
    case.patch(
        kind::CLONE_SET,
        name,
        json!({"spec": {"replicas": before.len() + 1}}),
    )
    .await?;
    case.done(name)
        .await
        .context("somebody else's CloneSet is not worked on")?;
    let after = case.pods(name).await?;
    for (pod, view) in &before {
        let now = after.get(pod).map(|now| (&now.uid, now.restarts()));
        anyhow::ensure!(
            now == Some((&view.uid, view.restarts())),
            "somebody else's pod {pod} was touched: {now:?}"
        );
    }
    Ok(())
}
