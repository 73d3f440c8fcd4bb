//! Pods that cost more than their size: in the store, in every review about them, and in metrics.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use futures::StreamExt;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use super::neighbour::Neighbour;
use super::replicas::Replicas;
use super::tenant::Tenant;
use super::{attack_by_tenant, clone_set_of_another_user_grows};
use crate::pod_budgets::unretried;
use crate::world::{Case, PATIENCE};

const BUDGET: &str = "policy.kruise.io/v1beta1/PodUnavailableBudget";
/// The largest growth of the metrics, in bytes.
const MORE_METRICS: usize = 64 << 10;

/// A pod that is never scheduled, with these fields.
fn gated(name: &str, metadata: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "fat"}},
        "spec": {"schedulingGates": [{"name": "t.example/never"}], "containers": [{"name": "c", "image": "web:v1"}]},
    });
    for (part, more) in [("metadata", metadata), ("spec", spec)] {
        for (field, value) in more.as_object().into_iter().flatten() {
            pod[part][field] = value.clone();
        }
    }
    pod
}

/// A pod of 1.3 MB whose parsed tree would take a hundred times as much.
fn bomb(name: &str) -> Value {
    gated(
        name,
        &json!({}),
        &json!({"tolerations": vec![json!({"key": "a"}); 105_000]}),
    )
}

/// A pod with an image of 1.3 MB.
fn fat(name: &str) -> Value {
    gated(
        name,
        &json!({}),
        &json!({"containers": [{"name": "c", "image": "x".repeat(1_300_000)}]}),
    )
}

/// Sends a request in JSON; returns the server's answer, or the words of its refusal.
pub(super) async fn send(
    client: &Client,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<String, String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = request.body(body).map_err(|error| error.to_string())?;
    client
        .request_text(request)
        .await
        .map_err(|error| error.to_string())
}

/// A budget and a SidecarSet for pods with this label, both enforced.
async fn guard(case: &Case, namespace: &str, label: &str, image: &str) -> Result<()> {
    let selector = json!({"matchLabels": {"app": label}});
    let spec =
        json!({"selector": selector, "maxUnavailable": 1, "unhealthyPodPolicy": "IfHealthyBudget"});
    let budget = json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": label}, "spec": spec});
    objects::create(case.client(), namespace, &budget).await?;
    let spec = json!({
        "selector": selector, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "containers": [{"name": "agent", "image": image}],
    });
    let set = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace}, "spec": spec});
    case.create(&set).await?;
    let is_enforced = |budget: &Value| {
        let conditions = budget["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one["type"] == "Enforced" && one["status"] == "True")
        })
    };
    objects::until(
        case.client(),
        namespace,
        BUDGET,
        label,
        PATIENCE,
        is_enforced,
    )
    .await?;
    let (path, pod) = (
        dry_run(namespace, "pods"),
        gated("probe", &json!({"labels": {"app": label}}), &json!({})),
    );
    let began = Instant::now();
    while !send(case.client(), "POST", &path, &pod)
        .await
        .is_ok_and(|pod| pod.contains("agent"))
    {
        ensure!(
            began.elapsed() < PATIENCE,
            "new pods of {namespace} get no sidecar"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn without_sidecars(case: &Case, namespaces: &[&str]) -> Result<()> {
    case.kubectl(&[&["delete", "sidecarset", "--ignore-not-found"], namespaces].concat())
        .await
        .map(drop)
}

fn dry_run(namespace: &str, what: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{what}?dryRun=All")
}

async fn metrics(case: &Case) -> Result<Vec<usize>> {
    let ips = Replicas::now(case).await?.ips();
    Neighbour::does(case, move |neighbour| async move {
        let mut sizes = Vec::new();
        for ip in &ips {
            sizes.push(neighbour.metrics(ip).await?.len());
        }
        Ok(sizes)
    })
    .await
}

/// Each pod is reported as unreadable and refused with the field and the limit, for any operation.
pub(crate) async fn huge_pods_block_no_other_user(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 1, &image, json!({})).await?;
    attack_by_tenant(case, async |tenant| {
        guard(case, &tenant.namespace, "fat", &image).await?;
        let attacked = fat_pods_are_refused(case, tenant).await;
        super::all([attacked, without_sidecars(case, &[&tenant.namespace]).await])?;
        clone_set_of_another_user_grows(case, "web").await
    })
    .await
}

async fn fat_pods_are_refused(case: &Case, tenant: &Tenant) -> Result<()> {
    let namespace = &tenant.namespace;
    let (before, admin) = (metrics(case).await?, unretried(case).await?);
    let created = send(
        &tenant.client,
        "POST",
        &dry_run(namespace, "pods"),
        &bomb("new"),
    )
    .await;
    let says = created
        .err()
        .context("a bomb is created where a SidecarSet selects it")?;
    ensure!(
        says.contains("sidecars: spec: has") && says.contains("JSON values"),
        "{says}"
    );
    let long = json!({"ownerReferences": [
        {"apiVersion": "no.such/v1", "kind": "K".repeat(400_000), "name": "n", "uid": "u", "controller": true},
    ]});
    // The SidecarSet does not select them, so they are stored.
    let other = |mut pod: Value| {
        pod["metadata"]["labels"]["app"] = "other".into();
        pod
    };
    for (name, pod, says) in [
        (
            "image",
            fat("image"),
            "spec.containers[c].image: has 1300000 bytes, and 1024 are the limit",
        ),
        ("bomb", bomb("bomb"), "JSON values, and 16384 are the limit"),
        (
            "owner",
            gated("owner", &long, &json!({})),
            "metadata.ownerReferences[0].kind: has 400000 bytes, and 63",
        ),
    ] {
        tenant
            .create(&other(pod))
            .await
            .with_context(|| format!("pod {name} is stored"))?;
        let path = dry_run(namespace, &format!("pods/{name}"));
        let deleted = send(&tenant.client, "DELETE", &path, &Value::Null)
            .await
            .err()
            .unwrap_or_default();
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}});
        let path = dry_run(namespace, &format!("pods/{name}/eviction"));
        let evicted = send(&admin, "POST", &path, &eviction)
            .await
            .err()
            .unwrap_or_default();
        for refused in [deleted, evicted] {
            let is_told =
                refused.contains(&format!("pod {name} cannot be read")) && refused.contains(says);
            ensure!(
                is_told && refused.len() < 4 << 10,
                "{name}: {}",
                &refused[..refused.len().min(4 << 10)]
            );
        }
        told_unreadable(case, namespace, name, says).await?;
    }
    for (before, after) in before.into_iter().zip(metrics(case).await?) {
        ensure!(
            after < before + MORE_METRICS,
            "the metrics grew from {before} to {after} bytes"
        );
    }
    Ok(())
}

async fn told_unreadable(case: &Case, namespace: &str, pod: &str, says: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        let events = objects::list(case.client(), namespace, "v1/Event", "").await?;
        let is_it = |event: &Value| {
            event["reason"] == "Unreadable" && event["involvedObject"]["name"] == pod
        };
        let message = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
        if events
            .iter()
            .any(|event| is_it(event) && message(event).contains(says))
        {
            return Ok(());
        }
        ensure!(
            began.elapsed() < PATIENCE,
            "no event tells that pod {pod} cannot be read"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// How many pods of 1.3 MB are stored.
const STORED: usize = 400;
/// How many requests about bombs are under way at once, a fourth of each sort.
const AT_ONCE: usize = 100;
/// The annotation that a review adds to a request for a restart.
const POD_UID: &str = "crr.apps.kruise.io/pod-uid";
/// How many requests of each sort a neighbour sends meanwhile.
const NEIGHBOURS: usize = 5;

/// A hundred at once, by creation, deletion, eviction and request for a restart, beside 400 that
/// are stored.
pub(crate) async fn simultaneous_bombs_block_no_other_user(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    let set = case.clone_set("web", 3, &image, json!({})).await?;
    guard(case, &case.namespace, "web", &image).await?;
    let app = set["metadata"]["name"]
        .as_str()
        .context("no name")?
        .to_owned();
    let attacked = attack_by_tenant(case, async |tenant| {
        guard(case, &tenant.namespace, "fat", &image).await?;
        let stored = futures::stream::iter(0..STORED).map(async |number| {
            let mut pod = fat(&format!("fat-{number}"));
            pod["metadata"]["labels"]["app"] = "other".into();
            tenant.create(&pod).await
        });
        let refused = stored
            .buffer_unordered(8)
            .filter(|made| std::future::ready(made.is_err()))
            .count()
            .await;
        ensure!(
            refused == 0,
            "{refused} of {STORED} pods could not be stored"
        );
        let mut stored = bomb("bomb");
        stored["metadata"]["labels"]["app"] = "other".into();
        tenant.create(&stored).await?;
        let attacked = floods(case, tenant, &app).await;
        super::all([attacked, without_sidecars(case, &[&tenant.namespace]).await])
    });
    let attacked = attacked.await;
    super::all([attacked, without_sidecars(case, &[&case.namespace]).await])
}

fn requests(namespace: &str, pod: &str, new: Value) -> [(&'static str, String, Value); 4] {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}});
    let recreate = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"generateName": "r-"},
        "spec": {"podName": pod, "containers": [{"name": "main"}]},
    });
    let recreations = format!(
        "/apis/apps.kruise.io/v1beta1/namespaces/{namespace}/containerrecreaterequests?dryRun=All"
    );
    [
        (
            "DELETE",
            dry_run(namespace, &format!("pods/{pod}")),
            Value::Null,
        ),
        (
            "POST",
            dry_run(namespace, &format!("pods/{pod}/eviction")),
            eviction,
        ),
        ("POST", dry_run(namespace, "pods"), new),
        ("POST", recreations, recreate),
    ]
}

async fn floods(case: &Case, tenant: &Tenant, app: &str) -> Result<()> {
    let pods = objects::list(
        case.client(),
        &case.namespace,
        kind::POD,
        &format!("app={app}"),
    )
    .await?;
    let pod = pods
        .first()
        .and_then(|pod| pod["metadata"]["name"].as_str())
        .context("the neighbour has no pod")?;
    let (bombs, admin) = (
        requests(&tenant.namespace, "bomb", bomb("new")),
        unretried(case).await?,
    );
    let (ended, end) = tokio::sync::watch::channel(false);
    let flood = (0..AT_ONCE).map(|number| {
        let ((method, path, body), end, admin) =
            (&bombs[number % bombs.len()], end.clone(), &admin);
        async move {
            let mut sent = 0;
            while !*end.borrow() {
                let _answer = send(admin, method, path, body).await;
                sent += 1;
            }
            sent
        }
    });
    let neighbour = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (mut harmed, mut unfilled) = (Vec::new(), 0);
        let new = gated("new", &json!({"labels": {"app": "web"}}), &json!({}));
        for (number, (method, path, body)) in requests(&case.namespace, pod, new).iter().enumerate()
        {
            // The addition of one of Berth's reviews to the object: a sidecar, or the fields that
            // the request copies.
            let added = ["", "", "agent", POD_UID][number];
            for _ in 0..NEIGHBOURS {
                match send(&admin, method, path, body).await {
                    Ok(answer) if answer.contains(added) => {}
                    // If the apiserver is too busy for the webhook to fill in the pod, the leader
                    // fills it in later.
                    Ok(_) if added == POD_UID => unfilled += 1,
                    Ok(_) => harmed.push(format!("{method} {path}: without {added}")),
                    Err(error) => harmed.push(format!("{method} {path}: {error}")),
                }
            }
        }
        ended.send_replace(true);
        println!("{unfilled} of {NEIGHBOURS} requests for a restart were left to the leader");
        harmed
    };
    let (sent, harmed) = tokio::join!(futures::future::join_all(flood), neighbour);
    println!(
        "{} requests about bombs were answered",
        sent.iter().sum::<usize>()
    );
    ensure!(harmed.is_empty(), "{}", harmed.join("\n"));
    Ok(())
}
