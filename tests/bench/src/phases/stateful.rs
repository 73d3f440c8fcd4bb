//! The phases of a StatefulSet's life, whose pods each have a claim and a record of their place.

use anyhow::Result;
use berth_e2e::objects::{self, kind};
use serde_json::{Value, json};

use super::life::until_pods;
use super::measure::{Phase, begin};
use super::program::Program;
use super::stage::{NAMESPACE, PATIENCE, Stage};

const NAME: &str = "db";

fn manifest(pods: usize) -> Value {
    let set = objects::clone_set(NAME, pods, "db:1", &json!({}));
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    });
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "25%"});
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
        "metadata": {"name": NAME, "annotations": {
            "kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
        }},
        "spec": {
            "replicas": pods, "serviceName": NAME, "podManagementPolicy": "Parallel", "selector": set["spec"]["selector"],
            "template": set["spec"]["template"], "volumeClaimTemplates": [claim],
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
    })
}

/// Creates the set, updates it in place and by new pods, and deletes its pods.
pub(super) async fn run(
    stage: &mut Stage,
    program: &Program,
    (pods, others): (usize, usize),
    subject: (&str, usize),
) -> Result<Vec<Phase>> {
    let mut phases = Vec::new();
    let phase = begin(stage, Some(program)).await?;
    objects::create(&stage.client, NAMESPACE, &manifest(pods)).await?;
    done(stage).await?;
    let all_recorded = |state: &Value| {
        state["status"]["podStates"]
            .as_object()
            .is_some_and(|all| all.len() == pods)
    };
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::PERSISTENT_POD_STATE,
        NAME,
        PATIENCE,
        all_recorded,
    )
    .await?;
    phases.push(
        phase
            .end(stage, Some(program), subject, ("sts create", pods))
            .await?,
    );
    for (name, image, policy) in [
        ("sts in place", "db:2", "InPlaceIfPossible"),
        ("sts recreate", "db:3", "ReCreate"),
    ] {
        let mut patch = objects::image_patch(&manifest(pods), image);
        patch["spec"]["updateStrategy"] = json!({"rollingUpdate": {"podUpdatePolicy": policy}});
        let phase = begin(stage, Some(program)).await?;
        objects::patch(&stage.client, NAMESPACE, kind::STATEFUL_SET, NAME, &patch).await?;
        done(stage).await?;
        phases.push(
            phase
                .end(stage, Some(program), subject, (name, pods))
                .await?,
        );
    }
    let phase = begin(stage, Some(program)).await?;
    let none = json!({"spec": {"replicas": 0}});
    objects::patch(&stage.client, NAMESPACE, kind::STATEFUL_SET, NAME, &none).await?;
    until_pods(stage, others).await?;
    done(stage).await?;
    phases.push(
        phase
            .end(stage, Some(program), subject, ("sts down", pods))
            .await?,
    );
    Ok(phases)
}

async fn done(stage: &Stage) -> Result<()> {
    let is_done = |set: &Value| {
        let replicas = set["spec"]["replicas"]
            .as_u64()
            .and_then(|replicas| usize::try_from(replicas).ok());
        objects::is_stateful_set_done(set, replicas.unwrap_or(1))
    };
    objects::until(
        &stage.client,
        NAMESPACE,
        kind::STATEFUL_SET,
        NAME,
        PATIENCE,
        is_done,
    )
    .await
    .map(|_| ())
}
