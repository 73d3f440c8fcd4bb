//! Bodies for the webhooks, from a neighbour without a credential.

use anyhow::{Context, Result, ensure};
use berth_e2e::objects;
use serde_json::json;

use super::neighbour::Neighbour;
use super::replicas::Replicas;
use super::{attack, other_user_is_answered_during};
use crate::world::Case;

/// A conversion review of very small objects, of about so many bytes. A parsed tree of it takes a
/// hundred times as much.
pub(super) fn review_of(bytes: usize) -> String {
    let objects = vec![r#"{"":0}"#; bytes / 7].join(",");
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[{objects}]}}}}"#
    )
}

/// A conversion review of one NodeImage with so many bytes of pull secrets, each of which has
/// another form in another version.
fn review_of_secrets(bytes: usize) -> String {
    let secrets = vec!["{}"; bytes / 3].join(",");
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[{{"apiVersion":"apps.kruise.io/v1alpha1","kind":"NodeImage","metadata":{{"name":"x"}},"spec":{{"images":{{"x":{{"pullSecrets":[{secrets}],"tags":[]}}}}}}}}]}}}}"#
    )
}

/// An admission review for a CloneSet in a namespace of the caller's choice.
fn admission_of(namespace: &str) -> String {
    let clone_set = objects::clone_set("x", 1, "web:v1", &json!({}));
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "resource": {"resource": "clonesets"}, "namespace": namespace, "object": clone_set},
    })
    .to_string()
}

/// Bodies of 64, 21 and 7 MiB. Sizes that no apiserver sends are refused.
pub(crate) async fn giant_bodies_stop_no_replica(case: &Case) -> Result<()> {
    attack(case, async || {
        let ips = Replicas::now(case).await?.ips();
        for (mebibytes, is_refused) in [(64, true), (21, true), (7, false)] {
            let ips = ips.clone();
            let post = Neighbour::does(case, move |neighbour| async move {
                let (objects, secrets) = (
                    review_of(mebibytes << 20),
                    review_of_secrets(mebibytes << 20),
                );
                let posts = [
                    ("/convert", &objects),
                    ("/convert", &secrets),
                    ("/validate", &objects),
                ];
                for (ip, (path, body)) in ips
                    .iter()
                    .flat_map(|ip| posts.iter().map(move |post| (ip, *post)))
                {
                    let answer = neighbour.post(ip, path, body.as_bytes()).await;
                    let answer =
                        answer.with_context(|| format!("{mebibytes} MiB for {path} of {ip}"))?;
                    println!("{mebibytes} MiB for {path}: {:?}", answer.status);
                    let as_wanted = if is_refused {
                        answer.refuses()
                    } else {
                        answer.status.is_some()
                    };
                    ensure!(
                        as_wanted,
                        "the answer to {mebibytes} MiB for {path} of {ip} is {:?}",
                        answer.status
                    );
                }
                Ok(())
            });
            other_user_is_answered_during(case, post).await?;
        }
        Ok(())
    })
    .await
}

/// Fifty for each replica, of a size that an apiserver may send.
pub(crate) async fn a_hundred_bodies_at_once_fit(case: &Case) -> Result<()> {
    const EACH: usize = 50;
    attack(case, async || {
        let ips = Replicas::now(case).await?.ips();
        let post = Neighbour::does(case, move |neighbour| async move {
            let body = review_of(2 << 20);
            let posts = ips
                .iter()
                .flat_map(|ip| vec![ip; EACH])
                .map(|ip| neighbour.post(ip, "/convert", body.as_bytes()));
            let answers = futures::future::join_all(posts).await;
            let answered = answers
                .iter()
                .filter(|answer| answer.as_ref().is_ok_and(|answer| answer.status.is_some()));
            let first = answers
                .first()
                .map(|first| first.as_ref().map(|answer| answer.status));
            println!(
                "{} of {} bodies were answered; the first: {first:?}",
                answered.count(),
                answers.len()
            );
            Ok(())
        });
        other_user_is_answered_during(case, post).await
    })
    .await
}

/// The part after the `#` is cut off from the URL: `?dryRun=All`. A caller that does not know the
/// secret path gets its answer from the review alone, and no answer creates an object.
pub(crate) async fn a_namespace_with_a_fragment_makes_nothing(case: &Case) -> Result<()> {
    attack(case, async || {
        let ips = Replicas::now(case).await?.ips();
        let namespaces = [
            "podtemplates#",
            "podtemplates?",
            "podtemplates%23",
            "../x",
            "",
        ];
        let namespaces = namespaces.map(|end| format!("{}/{end}", case.namespace));
        let post = Neighbour::does(case, move |neighbour| async move {
            for (ip, namespace) in ips
                .iter()
                .flat_map(|ip| namespaces.iter().map(move |namespace| (ip, namespace)))
            {
                let answer = neighbour
                    .post(ip, "/validate", admission_of(namespace).as_bytes())
                    .await?;
                ensure!(
                    answer.status.is_some(),
                    "no answer for namespace {namespace}: {}",
                    answer.text
                );
            }
            Ok(())
        });
        post.await?;
        let made = objects::list(case.client(), &case.namespace, "v1/PodTemplate", "").await?;
        let names: Vec<_> = made.iter().map(|made| &made["metadata"]["name"]).collect();
        ensure!(
            made.is_empty(),
            "a neighbour made PodTemplates {names:?} with the controller's rights"
        );
        Ok(())
    })
    .await
}

/// A caller's values are in no label of a metric.
pub(crate) async fn long_namespaces_make_no_metrics(case: &Case) -> Result<()> {
    const REQUESTS: usize = 50;
    const MORE_METRICS: usize = 64 << 10;
    attack(case, async || {
        let ips = Replicas::now(case).await?.ips();
        let post = Neighbour::does(case, move |neighbour| async move {
            for ip in &ips {
                let before = neighbour.metrics(ip).await?.len();
                for number in 0..REQUESTS {
                    let namespace = format!("a/{}{number}", "x".repeat(30_000));
                    neighbour
                        .post(ip, "/validate", admission_of(&namespace).as_bytes())
                        .await?;
                }
                let after = neighbour.metrics(ip).await?.len();
                println!("metrics: {before} bytes before, {after} bytes after");
                ensure!(
                    after < before + MORE_METRICS,
                    "the metrics of {ip} grew from {before} to {after} bytes"
                );
            }
            Ok(())
        });
        post.await
    })
    .await
}
