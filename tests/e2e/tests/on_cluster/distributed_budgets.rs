//! Budgets that count the pods of others: one way, mutually, in a ring, and the native budgets that
//! publish their numbers.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::objects::{self, kind};
use futures::future::join_all;
use kube::Api;
use kube::api::EvictParams;
use kube::core::Status;
use serde_json::{Value, json};

use crate::pod_budgets::unretried;
use crate::world::Case;

const BUDGET: &str = "policy.kruise.io/v1alpha1/DistributedPodDisruptionBudget";
const NATIVE: &str = "policy/v1/PodDisruptionBudget";

/// A Deployment of ready pods with the label `app`, in a namespace.
async fn deployed(case: &Case, namespace: &str, app: &str, replicas: usize) -> Result<()> {
    let labels = json!({"app": app});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": case.image("v1").await?}]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    });
    objects::create(case.client(), namespace, &deployment).await?;
    let is_ready = |deployment: &Value| deployment["status"]["readyReplicas"] == replicas;
    objects::until(
        case.client(),
        namespace,
        "apps/v1/Deployment",
        app,
        Duration::from_secs(120),
        is_ready,
    )
    .await?;
    Ok(())
}

pub(crate) fn budget(app: &str, spec: Value) -> Value {
    let mut all = json!({"selector": {"matchLabels": {"app": app}}});
    spec.as_object()
        .into_iter()
        .flatten()
        .for_each(|(key, value)| all[key] = value.clone());
    json!({
        "apiVersion": "policy.kruise.io/v1alpha1", "kind": "DistributedPodDisruptionBudget", "metadata": {"name": app}, "spec": all,
    })
}

fn condition<'a>(budget: &'a Value, type_: &str) -> Option<&'a Value> {
    budget["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == type_)
}

/// The budget, once it has counted and is enforced, with so many pods that may be evicted.
pub(crate) async fn enforced(case: &Case, name: &str, allowed: i64) -> Result<Value> {
    let is_enforced = |budget: &Value| {
        let enforced =
            condition(budget, "Enforced").is_some_and(|condition| condition["status"] == "True");
        enforced && budget["status"]["disruptionsAllowed"] == allowed
    };
    case.until(BUDGET, name, is_enforced).await
}

async fn names(case: &Case, namespace: &str, app: &str) -> Result<Vec<String>> {
    let pods = objects::list(case.client(), namespace, kind::POD, &format!("app={app}")).await?;
    let there = pods
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(there
        .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
        .collect())
}

/// Evicts a pod; returns the refusal.
async fn evict(case: &Case, namespace: &str, name: &str) -> Result<Option<Box<Status>>> {
    let pods =
        Api::<k8s_openapi::api::core::v1::Pod>::namespaced(unretried(case).await?, namespace);
    match pods.evict(name, &EvictParams::default()).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status)),
        Err(error) => Err(error).context("there is no answer"),
    }
}

/// A budget counts the pods of a native one in another namespace, which does not count this one's.
pub(crate) async fn one_counts_the_pods_of_another(case: &Case) -> Result<()> {
    let other = format!("{}-bar", case.namespace);
    objects::make_namespace(case.client(), &other).await?;
    let counted = counts_another(case, &other).await;
    objects::delete_namespace(case.client(), &other).await?;
    counted
}

async fn counts_another(case: &Case, other: &str) -> Result<()> {
    deployed(case, &case.namespace, "foo", 2).await?;
    deployed(case, other, "bar", 2).await?;
    let native = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "bar"},
        "spec": {"selector": {"matchLabels": {"app": "bar"}}, "minAvailable": 1},
    });
    objects::create(case.client(), other, &native).await?;
    let federation = json!([{"namespace": other, "name": "bar"}]);
    case.create(&budget(
        "foo",
        json!({"minAvailable": 3, "federation": federation}),
    ))
    .await?;
    let status = enforced(case, "foo", 1).await?["status"].clone();
    ensure!(
        (&status["currentHealthy"], &status["own"]["healthy"]) == (&json!(4), &json!(2)),
        "{status}"
    );
    ensure!(
        status["federatedStatuses"][0]["kind"] == "PodDisruptionBudget",
        "{status}"
    );
    // Autoscalers and the eviction API see how many pods must stay here, given the present ones.
    case.until(NATIVE, "foo", |child| {
        child["spec"]["minAvailable"] == 1 && child["status"]["disruptionsAllowed"] == 1
    })
    .await?;
    let pods = names(case, &case.namespace, "foo").await?;
    ensure!(
        evict(case, &case.namespace, &pods[0]).await?.is_none(),
        "one pod of foo may go"
    );
    let refusal = evict(case, &case.namespace, &pods[1])
        .await?
        .context("two pods of foo go at once")?;
    ensure!(refusal.code == 429, "{refusal:?}");
    // If the other has one pod less, none of foo may be evicted.
    enforced(case, "foo", 1).await?;
    let bar = names(case, other, "bar").await?;
    case.kubectl(&["scale", "deployment", "bar", "--replicas=1", "-n", other])
        .await?;
    let status = enforced(case, "foo", 0).await?["status"].clone();
    ensure!(status["currentHealthy"] == 3, "{bar:?}: {status}");
    let pods = names(case, &case.namespace, "foo").await?;
    let refusal = evict(case, &case.namespace, &pods[0])
        .await?
        .context("a pod of foo goes, and two are left")?;
    ensure!(
        refusal.message.contains("DisruptionBudget"),
        "{}",
        refusal.message
    );
    // An unknown budget contributes no pods.
    objects::delete(case.client(), other, NATIVE, "bar", &Default::default()).await?;
    let is_told = |budget: &Value| {
        let federated = condition(budget, "Federated");
        federated.is_some_and(|told| {
            told["status"] == "False" && told["message"].to_string().contains("create it")
        })
    };
    case.until(BUDGET, "foo", is_told).await?;
    case.explained_of("dpdb", "foo", "text", |text| {
        text.contains("brings none: it does not exist")
    })
    .await?;
    Ok(())
}

/// Of three budgets that name each other, no two lose a pod at once, for evictions at the same
/// moment.
pub(crate) async fn neighbours_never_go_together(case: &Case) -> Result<()> {
    const RING: [&str; 3] = ["red", "blue", "green"];
    for app in RING {
        deployed(case, &case.namespace, app, 1).await?;
    }
    for app in RING {
        let others: Vec<_> = RING.iter().filter(|other| **other != app).collect();
        let federation: Vec<_> = others
            .iter()
            .map(|other| json!({"namespace": case.namespace, "name": other}))
            .collect();
        case.create(&budget(
            app,
            json!({"minAvailable": 2, "federation": federation}),
        ))
        .await?;
    }
    for app in RING {
        enforced(case, app, 1).await?;
    }
    let mut granted = 0;
    for round in 0..4 {
        let mut pods = Vec::new();
        for app in RING {
            pods.extend(names(case, &case.namespace, app).await?);
        }
        let answers = join_all(pods.iter().map(|pod| evict(case, &case.namespace, pod))).await;
        let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
        let gone = answers.iter().filter(|answer| answer.is_none()).count();
        ensure!(gone <= 1, "round {round}: {gone} of {pods:?} went at once");
        granted += gone;
        for refusal in answers.iter().flatten() {
            // Refused by Berth's budget, or by the native one that was written meanwhile.
            let causes = refusal.details.iter().flat_map(|details| &details.causes);
            let is_of_budget = causes
                .into_iter()
                .any(|cause| cause.reason == "DisruptionBudget");
            ensure!(refusal.code == 429 && is_of_budget, "{refusal:?}");
        }
        for app in RING {
            enforced(case, app, 1).await?;
        }
    }
    ensure!(granted > 0, "no pod is ever evicted");
    // With retries, as a drain makes them, each is evicted in the end.
    for app in RING {
        let pod = names(case, &case.namespace, app)
            .await?
            .pop()
            .context("there is no pod")?;
        until_evicted(case, &pod).await?;
        enforced(case, app, 1).await?;
    }
    Ok(())
}

async fn until_evicted(case: &Case, pod: &str) -> Result<()> {
    for _ in 0..120 {
        if evict(case, &case.namespace, pod)
            .await?
            .is_none_or(|refusal| refusal.code == 404)
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    bail!("{pod} never goes")
}

/// A pod that is held stays; of budgets that may select the same pods, one keeps a native one; a
/// PodUnavailableBudget may, too.
pub(crate) async fn a_pod_has_one_native_budget_at_most(case: &Case) -> Result<()> {
    deployed(case, &case.namespace, "web", 2).await?;
    case.create(&budget("web", json!({"minAvailable": 1})))
        .await?;
    enforced(case, "web", 1).await?;
    let mut second = budget("web", json!({"maxUnavailable": 1}));
    second["metadata"]["name"] = json!("second");
    case.create(&second).await?;
    let mirrored = json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "third", "annotations": {"policy.kruise.io/mirror-pdb": "true"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
    });
    case.create(&mirrored).await?;
    let overlaps = |budget: &Value| {
        condition(budget, "ChildPDB")
            .is_some_and(|told| told["status"] == "False" && told["reason"] == "Overlaps")
    };
    let manifest = json!({
        "apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": "fourth", "namespace": case.namespace},
        "spec": {"selector": {"matchLabels": {"tier": "front"}}, "maxUnavailable": 1},
    });
    let told = warned(case, &manifest).await?;
    ensure!(told.contains("may hold the same pods"), "{told}");
    case.until(BUDGET, "second", overlaps).await?;
    case.until(
        "policy.kruise.io/v1beta1/PodUnavailableBudget",
        "third",
        overlaps,
    )
    .await?;
    let natives = objects::list(case.client(), &case.namespace, NATIVE, "").await?;
    ensure!(
        natives.len() == 1 && natives[0]["metadata"]["name"] == "web",
        "{natives:?}"
    );
    // All three budgets select the pod, and it is evicted when all allow it.
    let pod = names(case, &case.namespace, "web")
        .await?
        .pop()
        .context("there is no pod")?;
    let why = json!({"metadata": {"annotations": {"hold.policy.kruise.io/backup": "the backup runs until 12"}}});
    case.patch(kind::POD, &pod, why).await?;
    let refusal = evict(case, &case.namespace, &pod)
        .await?
        .context("a pod goes that is held")?;
    ensure!(
        refusal.message.contains("the backup runs until 12"),
        "{}",
        refusal.message
    );
    case.patch(
        kind::POD,
        &pod,
        json!({"metadata": {"annotations": {"hold.policy.kruise.io/backup": null}}}),
    )
    .await?;
    until_evicted(case, &pod).await?;
    enforced(case, "web", 1).await?;
    // When the oldest budget is deleted, the next keeps a native one.
    case.kubectl(&["delete", "dpdb", "web", "-n", &case.namespace])
        .await?;
    case.gone(NATIVE, "web").await?;
    case.until(NATIVE, "second", |child| {
        child["metadata"]["ownerReferences"][0]["name"] == "second"
    })
    .await?;
    Ok(())
}

/// The server's warning when this is created in a dry run.
async fn warned(case: &Case, manifest: &Value) -> Result<String> {
    let request = http::Request::builder()
        .method("POST")
        .uri(format!(
            "/apis/policy.kruise.io/v1beta1/namespaces/{}/podunavailablebudgets?dryRun=All",
            case.namespace
        ))
        .header("content-type", "application/json")
        .body(kube::client::Body::from(serde_json::to_vec(manifest)?))?;
    let answer = case.client().send(request).await?;
    ensure!(answer.status().is_success(), "{}", answer.status());
    let warnings = answer.headers().get_all("warning").iter();
    Ok(warnings
        .filter_map(|warning| warning.to_str().ok())
        .collect::<Vec<_>>()
        .join("; "))
}

/// Faults are refused with field, value and remedy.
pub(crate) async fn bad_budgets_are_refused(case: &Case) -> Result<()> {
    let itself = json!([{"namespace": case.namespace, "name": "web"}]);
    let twice = json!([{"namespace": "a", "name": "b"}, {"namespace": "a", "name": "b", "kind": "PodDisruptionBudget"}]);
    for (spec, field, said) in [
        (
            json!({}),
            "spec.minAvailable",
            "neither minAvailable nor maxUnavailable",
        ),
        (
            json!({"minAvailable": 1, "maxUnavailable": 1}),
            "spec.minAvailable",
            "remove one of them",
        ),
        (json!({"minAvailable": "101%"}), "spec.minAvailable", "101%"),
        (json!({"maxUnavailable": -1}), "spec.maxUnavailable", "-1"),
        (
            json!({"minAvailable": 1, "floor": 3_000_000_000_u32}),
            "spec.floor",
            "2147483647",
        ),
        (
            json!({"minAvailable": 1, "selector": {}}),
            "spec.selector",
            "would select every pod",
        ),
        (
            json!({"minAvailable": 1, "federation": itself}),
            "spec.federation[0].name",
            "is the budget itself",
        ),
        (
            json!({"minAvailable": 1, "federation": twice}),
            "spec.federation[1]",
            "Duplicate value",
        ),
        (
            json!({"minAvailable": 1, "federation": [{"namespace": "a", "name": "b", "kind": "Deployment"}]}),
            "spec.federation[0].kind",
            "Deployment",
        ),
        (
            json!({"minAvailable": 1, "protectOperations": ["DROP"]}),
            "spec.protectOperations[0]",
            "DROP",
        ),
    ] {
        let refusal = case
            .create(&budget("web", spec.clone()))
            .await
            .err()
            .with_context(|| format!("{spec} is taken in"))?;
        let refusal = format!("{refusal:#}");
        ensure!(
            refusal.contains(field) && refusal.contains(said),
            "{field:?} or {said:?} is not in {refusal}"
        );
    }
    case.create(&budget("web", json!({"minAvailable": 1})))
        .await?;
    let changed = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    let refusal = case
        .patch(BUDGET, "web", changed)
        .await
        .err()
        .context("another selector is taken in")?;
    ensure!(
        format!("{refusal:#}").contains("cannot be changed"),
        "{refusal:#}"
    );
    Ok(())
}
