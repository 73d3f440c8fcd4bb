//! Reviews of pods that no apiserver sent, by an attacker that learned a secret path.

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use super::attack;
use super::neighbour::Neighbour;
use super::replicas::Replicas;
use crate::pod_budgets::{budget, enforced};
use crate::world::Case;

const ANYBODY: &str = "system:serviceaccount:kube-system:replicaset-controller";
const BUDGETS: &str = "kruise-budget-webhook-configuration";

/// The review of a pod's deletion by a user, as an apiserver would send it.
fn deletion_of(pod: &Value, user: &str) -> String {
    let metadata = &pod["metadata"];
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1", "namespace": metadata["namespace"], "name": metadata["name"], "operation": "DELETE",
            "userInfo": {"username": user}, "oldObject": pod,
        },
    })
    .to_string()
}

/// Posts the deletions to a replica; returns the messages of the refusals.
async fn posted(
    case: &Case,
    path: &str,
    pods: Vec<Value>,
    user: &'static str,
) -> Result<Vec<Option<String>>> {
    let ip = Replicas::now(case)
        .await?
        .ips()
        .into_iter()
        .next()
        .context("there is no replica")?;
    let path = path.to_owned();
    Neighbour::does(case, move |neighbour| async move {
        let mut answers = Vec::new();
        for pod in pods {
            let answer = neighbour
                .post(&ip, &path, deletion_of(&pod, user).as_bytes())
                .await?;
            ensure!(answer.status == Some(200), "{}", answer.text);
            let body = answer.text.split("\r\n\r\n").nth(1).context("no body")?;
            let response = serde_json::from_str::<Value>(body)?["response"].take();
            answers.push(response["status"]["message"].as_str().map(str::to_owned));
        }
        Ok(answers)
    })
    .await
}

/// A review with the uid of no pod reserves nothing and reads nothing. With the uid of a pod it
/// reserves for that pod, and no more.
pub(crate) async fn forged_reviews_take_one_pod_at_most(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 3, &image, json!({})).await?;
    case.create(&budget(
        json!({"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}),
    ))
    .await?;
    enforced(case, 1).await?;
    let pods = objects::list(case.client(), &case.namespace, kind::POD, "app=web").await?;
    attack(case, async || {
        let configuration = case
            .kubectl(&[
                "get",
                "validatingwebhookconfiguration",
                BUDGETS,
                "-o",
                "json",
            ])
            .await?;
        let configuration: Value = serde_json::from_str(&configuration)?;
        let path = configuration["webhooks"][0]["clientConfig"]["service"]["path"]
            .as_str()
            .context("no path")?;
        let ghosts = || {
            let of = |field: &str, pod: &Value| {
                let mut ghost = pod.clone();
                ghost["metadata"][field] = "ghost".into();
                ghost
            };
            pods.iter()
                .flat_map(|pod| [of("uid", pod), of("name", pod)])
                .collect::<Vec<_>>()
        };
        let answers = posted(case, path, ghosts(), ANYBODY).await?;
        ensure!(answers.iter().all(Option::is_none), "{answers:?}");
        enforced(case, 1)
            .await
            .context("a ghost has taken something")?;
        // No budget stops this user, which marks pods before.
        let answers = posted(case, path, pods.clone(), "system:kube-scheduler").await?;
        ensure!(answers.iter().all(Option::is_none), "{answers:?}");
        enforced(case, 1)
            .await
            .context("a forged preemption has taken something")?;
        // The same pod twice, then another.
        let mut forged: Vec<_> = pods
            .iter()
            .take(2)
            .flat_map(|pod| [pod.clone(), pod.clone()])
            .collect();
        forged
            .iter_mut()
            .for_each(|pod| pod["metadata"]["resourceVersion"] = "1".into());
        let answers = posted(case, path, forged, ANYBODY).await?;
        ensure!(
            answers
                .iter()
                .map(Option::is_some)
                .eq([false, false, true, true]),
            "{answers:?}"
        );
        let status = enforced(case, 0).await?["status"].take();
        let entries = status["ledger"]["entries"].as_array().context("no entry")?;
        ensure!(
            entries.len() == 1 && entries[0]["uid"] == pods[0]["metadata"]["uid"],
            "{status}"
        );
        let answers = posted(case, path, ghosts(), ANYBODY).await?;
        ensure!(
            answers.iter().all(Option::is_none),
            "a ghost learns what stands in the ledger: {answers:?}"
        );
        Ok(())
    })
    .await
}
