//! Budgets of pods: which pods may be taken out of service, and how other requests are refused.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::ask::PORT;
use berth_e2e::objects::{self, kind};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::no_controller::scale;
use crate::world::{Case, PATIENCE};

const BUDGET: &str = "policy.kruise.io/v1beta1/PodUnavailableBudget";
const OLD_BUDGET: &str = "policy.kruise.io/v1alpha1/PodUnavailableBudget";
const DEPLOYMENT: &str = "apps/v1/Deployment";

/// Creates a Deployment with so many replicas, all ready; returns their image.
pub(crate) async fn deployed(case: &Case, replicas: usize) -> Result<String> {
    let image = case.image("v1").await?;
    let labels = json!({"app": "web"});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]});
    // The Deployment says whether a pod must be replaced first.
    let metadata =
        json!({"labels": labels, "annotations": {"apps.kruise.io/surge-on-eviction": "true"}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": metadata, "spec": spec}},
    });
    case.create(&deployment).await?;
    case.until(DEPLOYMENT, "web", |deployment| {
        deployment["status"]["readyReplicas"] == replicas
    })
    .await?;
    Ok(image)
}

pub(crate) fn budget(spec: Value) -> Value {
    json!({"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": "web"}, "spec": spec})
}

/// The budget, once it has counted and is enforced, with so many pods that may be taken out of
/// service.
pub(crate) async fn enforced(case: &Case, allowed: i64) -> Result<Value> {
    let is_enforced = |budget: &Value| {
        let conditions = budget["status"]["conditions"].as_array();
        let asked =
            |condition: &Value| condition["type"] == "Enforced" && condition["status"] == "True";
        conditions.is_some_and(|all| all.iter().any(asked))
            && budget["status"]["unavailableAllowed"] == allowed
    };
    case.until(BUDGET, "web", is_enforced).await
}

pub(crate) async fn names(case: &Case) -> Result<Vec<String>> {
    let pods = objects::list(case.client(), &case.namespace, kind::POD, "app=web").await?;
    let there = pods
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(there
        .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
        .collect())
}

async fn pods(case: &Case) -> Result<Api<Pod>> {
    Ok(Api::namespaced(unretried(case).await?, &case.namespace))
}

/// A client that accepts a refusal: others try again by themselves.
pub(crate) async fn unretried(case: &Case) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(case.cluster()?.kubeconfig())?;
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Evicts a pod, or deletes it; returns the refusal.
pub(crate) async fn take(case: &Case, name: &str, evicts: bool) -> Result<Option<Box<Status>>> {
    let pods = pods(case).await?;
    let taken = if evicts {
        pods.evict(name, &EvictParams::default()).await.map(drop)
    } else {
        pods.delete(name, &DeleteParams::default()).await.map(drop)
    };
    match taken {
        Ok(()) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status)),
        Err(error) => Err(error).context("there is no answer"),
    }
}

fn ensure_refusal(refusal: &Status) -> Result<()> {
    ensure!(
        refusal.code == 429 && refusal.reason == "TooManyRequests",
        "{refusal:?}"
    );
    let details = refusal.details.as_ref().context("no details")?;
    ensure!(
        details
            .causes
            .iter()
            .any(|cause| cause.reason == "DisruptionBudget"),
        "{refusal:?}"
    );
    ensure!(
        details.retry_after_seconds == 0,
        "clients would sleep in silence: {refusal:?}"
    );
    for said in [
        "PodUnavailableBudget",
        "/web allows no more pods to go",
        "(maxUnavailable 1)",
        "used up by web-",
        "try again",
    ] {
        ensure!(
            refusal.message.contains(said),
            "{said:?} is not in {:?}",
            refusal.message
        );
    }
    Ok(())
}

/// Of all pods at once, one may be evicted or deleted. The refusals of the others name the pods
/// that use up the budget, and they are taken out of service one after the other.
pub(crate) async fn one_pod_at_a_time_goes(case: &Case) -> Result<()> {
    deployed(case, 4).await?;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    case.create(&budget(json!({"targetRef": target, "maxUnavailable": 1})))
        .await?;
    let status = enforced(case, 1).await?["status"].clone();
    ensure!(
        (
            &status["currentAvailable"],
            &status["desiredAvailable"],
            &status["totalReplicas"]
        ) == (&json!(4), &json!(3), &json!(4)),
        "{status}"
    );
    let before = names(case).await?;
    let all = before
        .iter()
        .enumerate()
        .map(|(at, name)| take(case, name, at % 2 == 0));
    let answers = join_all(all)
        .await
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let refusals: Vec<_> = answers.iter().flatten().collect();
    ensure!(
        refusals.len() == before.len() - 1,
        "of {} requests were refused {}",
        before.len(),
        refusals.len()
    );
    refusals
        .into_iter()
        .try_for_each(|refusal| ensure_refusal(refusal))?;
    let refused = before
        .iter()
        .zip(&answers)
        .find(|(_, answer)| answer.is_some());
    let (pod, _) = refused.context("no request was refused")?;
    case.told(pod, |told| {
        told.starts_with("PubPreventPodDeletion: PodUnavailableBudget")
    })
    .await?;
    // As kubectl drain does it: again and again until the budget allows it.
    for name in &before {
        for _ in 0..120 {
            if !names(case).await?.contains(name) || take(case, name, true).await?.is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        ensure!(!names(case).await?.contains(name), "{name} never goes");
    }
    enforced(case, 1).await?;
    Ok(())
}

/// A budget does not refuse scaling down or deleting a workload, and a dry run changes nothing.
pub(crate) async fn a_workload_that_shrinks_is_not_held(case: &Case) -> Result<()> {
    deployed(case, 3).await?;
    case.create(&budget(
        json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}),
    ))
    .await?;
    enforced(case, 0).await?;
    let pod = names(case).await?.pop().context("there is no pod")?;
    let pods = pods(case).await?;
    for parameters in [DeleteParams::default(), DeleteParams::default().dry_run()] {
        match pods.delete(&pod, &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 429 => {}
            other => bail!("{other:?}"),
        }
    }
    case.patch(DEPLOYMENT, "web", json!({"spec": {"replicas": 1}}))
        .await?;
    case.until(DEPLOYMENT, "web", |deployment| {
        deployment["status"]["replicas"] == 1
    })
    .await?;
    case.patch(BUDGET, "web", json!({"spec": {"maxUnavailable": 1}}))
        .await?;
    enforced(case, 1).await?;
    let last = names(case).await?.pop().context("there is no pod")?;
    pods.delete(&last, &DeleteParams::default().dry_run())
        .await?;
    let status = case.get(BUDGET, "web").await?["status"].clone();
    ensure!(
        status["unavailableAllowed"] == 1 && status["ledger"]["entries"].is_null(),
        "{status}"
    );
    case.patch(
        BUDGET,
        "web",
        json!({"spec": {"maxUnavailable": null, "minAvailable": 1}}),
    )
    .await?;
    enforced(case, 0).await?;
    case.kubectl(&[
        "delete",
        "deployment",
        "web",
        "-n",
        &case.namespace,
        "--timeout=120s",
    ])
    .await?;
    for _ in 0..240 {
        if names(case).await?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    bail!("pods of a Deployment that is gone are held")
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == type_)
}

/// A number of pods that must stay needs no workload with a wanted number.
pub(crate) async fn a_number_needs_no_scale(case: &Case) -> Result<()> {
    case.create(&budget(
        json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}),
    ))
    .await?;
    pods_of_a_native_daemon_set_go_until_one_is_left(case).await?;
    bare_pods_are_deleted_until_one_is_left(case).await
}

/// A DaemonSet has its wanted number of pods in its status, so the budget may also be a percentage
/// of all pods.
async fn pods_of_a_native_daemon_set_go_until_one_is_left(case: &Case) -> Result<()> {
    let (image, labels) = (case.image("v1").await?, json!({"app": "web"}));
    // A successor serves only after all requests are answered.
    let probe = json!({"tcpSocket": {"port": PORT}, "initialDelaySeconds": 10, "periodSeconds": 1});
    let container = json!({"name": objects::CONTAINER, "image": image, "readinessProbe": probe});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container]});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    });
    case.create(&set).await?;
    let is_ready = |set: &Value| {
        let status = &set["status"];
        status["numberReady"] == status["desiredNumberScheduled"]
            && status["numberReady"].as_i64() > Some(1)
    };
    let all = case.until(kind::NATIVE_DAEMON_SET, "web", is_ready).await?["status"]["numberReady"]
        .as_i64();
    let all = all.context("the status has no numberReady")?;
    let budget = enforced(case, all - 1).await?;
    ensure!(
        budget["status"]["totalReplicas"] == all && condition(&budget, "TotalKnown").is_none(),
        "{budget}"
    );
    let names = names(case).await?;
    let answers = join_all(names.iter().map(|name| take(case, name, true))).await;
    let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
    let refusals: Vec<_> = answers.iter().flatten().collect();
    ensure!(
        refusals.len() == 1 && refusals[0].message.contains("(minAvailable 1)"),
        "{refusals:?}"
    );
    case.patch(
        BUDGET,
        "web",
        json!({"spec": {"minAvailable": null, "maxUnavailable": 1}}),
    )
    .await?;
    let budget = enforced(case, 1).await?;
    ensure!(budget["status"]["desiredAvailable"] == all - 1, "{budget}");
    case.patch(
        BUDGET,
        "web",
        json!({"spec": {"minAvailable": 1, "maxUnavailable": null}}),
    )
    .await?;
    case.kubectl(&[
        "delete",
        "daemonset.apps",
        "web",
        "-n",
        &case.namespace,
        "--timeout=120s",
    ])
    .await?;
    case.kubectl(&[
        "wait",
        "pod",
        "-l",
        "app=web",
        "-n",
        &case.namespace,
        "--for=delete",
        "--timeout=120s",
    ])
    .await?;
    Ok(())
}

async fn bare_pods_are_deleted_until_one_is_left(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    for name in ["web-1", "web-2", "web-3"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": objects::CONTAINER, "image": image}]},
        });
        case.create(&pod).await?;
    }
    let budget = enforced(case, 2).await?;
    let told =
        condition(&budget, "TotalKnown").context("the budget does not say that it counts pods")?;
    ensure!(
        told["status"] == "False" && told["message"].to_string().contains("has no controller"),
        "{told}"
    );
    for (name, is_refused) in [("web-1", false), ("web-2", false), ("web-3", true)] {
        let refusal = take(case, name, name == "web-1").await?;
        ensure!(refusal.is_some() == is_refused, "{name}: {refusal:?}");
    }
    let left = names(case).await?;
    ensure!(left == ["web-3"], "{left:?} are left");
    Ok(())
}

/// Pods that no node can run are replaced after a fix of the template, although their budget wants
/// more serving pods first.
pub(crate) async fn pods_that_never_served_are_replaced(case: &Case) -> Result<()> {
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec =
        json!({"selector": selector, "minAvailable": 2, "unhealthyPodPolicy": "IfHealthyBudget"});
    case.create(&budget(spec)).await?;
    let image = case.image("v1").await?;
    let mut set = objects::clone_set("web", 3, &image, &json!({"maxUnavailable": 1}));
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"nowhere": "x"});
    is_mended(case, &set, kind::CLONE_SET).await?;
    case.done("web").await?;
    enforced(case, 1).await?;
    case.kubectl(&[
        "delete",
        "cloneset",
        "web",
        "-n",
        &case.namespace,
        "--timeout=120s",
    ])
    .await?;
    case.kubectl(&[
        "wait",
        "pod",
        "-l",
        "app=web",
        "-n",
        &case.namespace,
        "--for=delete",
        "--timeout=120s",
    ])
    .await?;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": selector, "template": set["spec"]["template"]},
    });
    is_mended(case, &deployment, DEPLOYMENT).await?;
    let is_done = |deployment: &Value| {
        let status = &deployment["status"];
        status["updatedReplicas"] == 3 && status["readyReplicas"] == 3 && status["replicas"] == 3
    };
    case.until(DEPLOYMENT, "web", is_done).await?;
    enforced(case, 1).await.map(drop)
}

/// Three pods wait for a node, none of them may be evicted, and then the template has no node
/// selector any more.
async fn is_mended(case: &Case, workload: &Value, kind: &str) -> Result<()> {
    case.create(workload).await?;
    case.until(kind, "web", |workload| workload["status"]["replicas"] == 3)
        .await?;
    enforced(case, 0).await?;
    let pod = names(case).await?.pop().context("there is no pod")?;
    let refusal = take(case, &pod, true)
        .await?
        .context("a pod is evicted while too few others serve")?;
    ensure!(
        refusal.code == 429 && refusal.message.contains("(minAvailable 2)"),
        "{refusal:?}"
    );
    case.patch(
        kind,
        "web",
        json!({"spec": {"template": {"spec": {"nodeSelector": null}}}}),
    )
    .await
    .map(drop)
}

/// A rollout that may take all pods takes one at a time because of a budget, and reports what it
/// waits for.
async fn rolls_out_one_by_one(case: &Case, policy: &str) -> Result<()> {
    const REPLICAS: usize = 4;
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.clone_set(
        "web",
        REPLICAS,
        &one,
        json!({"podUpdatePolicy": policy, "maxUnavailable": "100%"}),
    )
    .await?;
    let target = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"});
    case.create(&budget(json!({"targetRef": target, "maxUnavailable": 1})))
        .await?;
    enforced(case, 1).await?;
    let watch = case.watch("web").await?;
    let from = watch.began().elapsed();
    case.set_image("web", &two).await?;
    let is_told = |set: &Value| {
        let conditions = set["status"]["conditions"].as_array();
        let named = |condition: &Value| {
            let says = condition["message"].to_string();
            condition["type"] == "Blocked"
                && condition["reason"] == "NoBudget"
                && says.contains("used up by")
        };
        conditions.is_some_and(|all| all.iter().any(named))
    };
    case.until(kind::CLONE_SET, "web", is_told).await?;
    let set = case.done("web").await?;
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
    ensure!(
        fewest == Some(REPLICAS - 1),
        "at one moment {fewest:?} pods were available"
    );
    let told = set["status"]["conditions"].to_string();
    ensure!(
        !told.contains("FailedUpdate") && !told.contains("FailedScale"),
        "{told}"
    );
    enforced(case, 1).await?;
    Ok(())
}

pub(crate) async fn a_rollout_by_new_pods_keeps_to_a_budget(case: &Case) -> Result<()> {
    rolls_out_one_by_one(case, "ReCreate").await
}

pub(crate) async fn a_rollout_in_place_keeps_to_a_budget(case: &Case) -> Result<()> {
    rolls_out_one_by_one(case, "InPlaceOnly").await?;
    images_by_hand_reserve(case).await?;
    restarts_by_request_reserve(case).await
}

/// Changes of pods' images by hand reserve from the budget, until the container with the new image
/// runs.
async fn images_by_hand_reserve(case: &Case) -> Result<()> {
    let image = case.image("v3").await?;
    let pods = pods(case).await?;
    let names: Vec<_> = case.pods("web").await?.into_keys().collect();
    let patch = Patch::Strategic(
        json!({"spec": {"containers": [{"name": objects::CONTAINER, "image": image}]}}),
    );
    let (first, second) = (&names[0], &names[1]);
    pods.patch(first, &PatchParams::default(), &patch).await?;
    match pods.patch(second, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 429 => {
            ensure!(
                status.message.contains(&format!("{first} (UPDATE by")),
                "{}",
                status.message
            );
        }
        other => bail!("{other:?}"),
    }
    // Its metadata may change all the while.
    let label = Patch::Merge(json!({"metadata": {"labels": {"mine": "x"}}}));
    pods.patch(second, &PatchParams::default(), &label).await?;
    enforced(case, 1).await?;
    pods.patch(second, &PatchParams::default(), &patch).await?;
    enforced(case, 1).await?;
    Ok(())
}

/// Containers of two pods must be restarted at once: the second request waits, and names the first.
async fn restarts_by_request_reserve(case: &Case) -> Result<()> {
    const REQUEST: &str = "apps.kruise.io/v1beta1/ContainerRecreateRequest";
    let names: Vec<_> = case.pods("web").await?.into_keys().collect();
    for pod in &names[..2] {
        let request = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": pod},
            "spec": {"podName": pod, "containers": [{"name": objects::CONTAINER}]},
        });
        case.create(&request).await?;
    }
    let is_done = |request: &Value| request["status"]["phase"] == "Completed";
    let (mut waited, deadline) = (false, std::time::Instant::now() + PATIENCE);
    loop {
        let mut done = 0;
        for pod in &names[..2] {
            let request = case.get(REQUEST, pod).await?;
            let conditions = request["status"]["conditions"].to_string();
            waited |= conditions.contains("NoBudget")
                && conditions.contains("UPDATE by ContainerRecreateRequest");
            done += usize::from(is_done(&request));
        }
        if done == 2 {
            break;
        }
        ensure!(
            std::time::Instant::now() < deadline,
            "requests are not over"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    ensure!(waited, "both containers were restarted at once");
    enforced(case, 1).await.map(drop)
}

/// v1alpha1's annotations are fields in v1beta1, and faults are refused with field, value and
/// remedy.
pub(crate) async fn both_versions_are_checked_and_alike(case: &Case) -> Result<()> {
    let old = json!({
        "apiVersion": "policy.kruise.io/v1alpha1", "kind": "PodUnavailableBudget",
        "metadata": {"name": "web", "annotations": {
            "kruise.io/pub-protect-operations": "DELETE, EVICT", "pub.kruise.io/protect-total-replicas": "5",
        }},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": "25%"},
    });
    case.create(&old).await?;
    let stored = case.get(BUDGET, "web").await?;
    ensure!(
        (
            &stored["spec"]["protectOperations"],
            &stored["spec"]["protectTotalReplicas"]
        ) == (&json!(["DELETE", "EVICT"]), &json!(5)),
        "{stored}"
    );
    let annotations = case.get(OLD_BUDGET, "web").await?["metadata"]["annotations"].clone();
    ensure!(
        annotations["pub.kruise.io/protect-total-replicas"] == "5",
        "{annotations}"
    );
    case.until(BUDGET, "web", |budget| {
        budget["status"]["totalReplicas"] == 5
    })
    .await?;
    let selector = json!({"matchLabels": {"app": "web"}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    for (spec, field, said) in [
        (
            json!({"selector": selector}),
            "spec.maxUnavailable",
            "neither maxUnavailable nor minAvailable",
        ),
        (
            json!({"selector": selector, "maxUnavailable": 1, "minAvailable": 1}),
            "spec.maxUnavailable",
            "remove one of them",
        ),
        (
            json!({"maxUnavailable": 1}),
            "spec.selector",
            "neither selector nor targetRef",
        ),
        (
            json!({"selector": selector, "targetRef": target, "maxUnavailable": 1}),
            "spec.selector",
            "remove one of them",
        ),
        (
            json!({"selector": {}, "maxUnavailable": 1}),
            "spec.selector",
            "would select every pod",
        ),
        (
            json!({"selector": selector, "maxUnavailable": "101%"}),
            "spec.maxUnavailable",
            "101%",
        ),
        (
            json!({"selector": selector, "minAvailable": -1}),
            "spec.minAvailable",
            "-1",
        ),
        (
            json!({"selector": selector, "minAvailable": "abc"}),
            "spec.minAvailable",
            "abc",
        ),
        (
            json!({"selector": selector, "maxUnavailable": 1, "protectTotalReplicas": 0}),
            "spec.protectTotalReplicas",
            "0",
        ),
        (
            json!({"selector": selector, "maxUnavailable": 1, "protectOperations": ["DROP"]}),
            "spec.protectOperations[0]",
            "DROP",
        ),
        (
            json!({"selector": selector, "maxUnavailable": 1, "ignoredPodSelector": {}}),
            "spec.ignoredPodSelector",
            "remove it",
        ),
    ] {
        let mut wrong = budget(spec.clone());
        wrong["metadata"]["name"] = json!("wrong");
        let refusal = case
            .create(&wrong)
            .await
            .err()
            .with_context(|| format!("{spec} is taken in"))?;
        let refusal = format!("{refusal:#}");
        ensure!(
            refusal.contains(field) && refusal.contains(said),
            "{field:?} or {said:?} is not in {refusal}"
        );
    }
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
    let mut bad = old;
    bad["metadata"] =
        json!({"name": "bad", "annotations": {"kruise.io/pub-protect-operations": "DELETE,DROP"}});
    let refusal = case
        .create(&bad)
        .await
        .err()
        .context("an operation that is none is taken in")?;
    ensure!(
        format!("{refusal:#}").contains("kruise.io/pub-protect-operations"),
        "{refusal:#}"
    );
    Ok(())
}

/// Without a controller, pods with a budget stay. Terminating pods and pods without a budget are
/// deleted.
pub(crate) async fn only_what_is_protected_waits_for_a_controller(case: &Case) -> Result<()> {
    deployed(case, 2).await?;
    case.create(&budget(
        json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}),
    ))
    .await?;
    enforced(case, 1).await?;
    let image = case.image("v1").await?;
    let stays = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "goes", "labels": {"app": "other"}, "finalizers": ["test.kruise.io/held"]},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]},
    });
    case.create(&stays).await?;
    case.until(kind::POD, "goes", |pod| pod["status"]["phase"] == "Running")
        .await?;
    let pods = pods(case).await?;
    pods.delete("goes", &DeleteParams::default()).await?;
    scale(case, 0).await?;
    let lived = async {
        let pod = names(case).await?.pop().context("there is no pod")?;
        let refusal = take(case, &pod, false)
            .await?
            .context("a protected pod goes without a controller")?;
        ensure!(
            refusal.message.contains("delete.pods.kruise.io"),
            "{}",
            refusal.message
        );
        // The kubelet's last deletion needs no review, and neither do other namespaces.
        case.patch(kind::POD, "goes", json!({"metadata": {"finalizers": null}}))
            .await?;
        case.gone(kind::POD, "goes").await?;
        let other = objects::list(case.client(), "kube-system", kind::POD, "").await?;
        let coredns = other
            .iter()
            .find_map(|pod| pod["metadata"]["name"].as_str());
        if let Some(name) = coredns {
            let system: Api<Pod> = Api::namespaced(case.client().clone(), "kube-system");
            system
                .delete(name, &DeleteParams::default().dry_run())
                .await
                .context("another namespace waits, too")?;
        }
        Ok(())
    };
    let lived = lived.await;
    scale(case, 2).await?;
    lived
}

/// A node is drained of the only pod of a workload, and at every moment a pod serves.
pub(crate) async fn the_only_pod_is_replaced_before_it_goes(case: &Case) -> Result<()> {
    deployed(case, 1).await?;
    let asks = json!({"metadata": {"annotations": {"apps.kruise.io/surge-on-eviction": "true"}}});
    case.patch(DEPLOYMENT, "web", asks.clone()).await?;
    case.create(&budget(
        json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}),
    ))
    .await?;
    enforced(case, 0).await?;
    is_explained_before(case).await?;
    goes_when_another_has_come(case).await?;
    case.kubectl(&[
        "delete",
        "deployment",
        "web",
        "-n",
        &case.namespace,
        "--timeout=120s",
    ])
    .await?;
    let image = case.image("v1").await?;
    case.clone_set("web", 1, &image, json!({})).await?;
    case.patch(kind::CLONE_SET, "web", asks).await?;
    enforced(case, 0).await?;
    goes_when_another_has_come(case).await
}

/// `explain` prints the result of a drain of the only pod's node without an eviction.
async fn is_explained_before(case: &Case) -> Result<()> {
    let pod = names(case).await?.pop().context("there is no pod")?;
    let node = case.get(kind::POD, &pod).await?["spec"]["nodeName"]
        .as_str()
        .context("it is on no node")?
        .to_owned();
    let refused = format!(
        "{pod}: would be refused: replacement first: another pod of Deployment web is to come"
    );
    case.explained_by(&["pub", "web", "--node", &node], |text| {
        text.contains(&refused)
    })
    .await?;
    let waits = format!("a drain would have to wait for some of its pods: {node} (1 of 1)");
    case.explained_by(&["pub", "web"], |text| text.contains(&waits))
        .await?;
    let replacements = case.get(BUDGET, "web").await?["status"]["ledger"]["replacements"].clone();
    ensure!(
        replacements.is_null(),
        "explaining has asked for another pod: {replacements}"
    );
    Ok(())
}

/// Evicts the pod until it is deleted, as a drain does, and counts the serving pods all the while.
async fn goes_when_another_has_come(case: &Case) -> Result<()> {
    let old = names(case).await?.pop().context("there is no pod")?;
    let refusal = take(case, &old, true).await?.context("the only pod goes")?;
    ensure!(
        refusal.code == 429 && refusal.message.contains("replacement first"),
        "{refusal:?}"
    );
    let serving = async || {
        let pods = objects::list(case.client(), &case.namespace, kind::POD, "app=web").await?;
        let serves = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            let is_ready =
                |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
            pod["metadata"]["deletionTimestamp"].is_null()
                && conditions.is_some_and(|all| all.iter().any(is_ready))
        };
        Ok::<_, anyhow::Error>(pods.iter().filter(serves).count())
    };
    for _ in 0..240 {
        ensure!(serving().await? >= 1, "no pod serves");
        let there = names(case).await?;
        if !there.contains(&old) && there.len() == 1 {
            return Ok(());
        }
        if there.contains(&old) {
            // A workload of Berth may delete it before.
            let _ = take(case, &old, true).await?;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    bail!("{old} never goes")
}
