//! Fields of pods that OpenKruise's types (Kubernetes 1.32) do not know, from templates and
//! SidecarSets to running pods.

use anyhow::{Result, ensure};
use berth_cluster::versions::Kubernetes;
use berth_e2e::objects::{self, APP, kind};
use serde_json::{Value, json};

use crate::sidecar_set::{self, asked, sidecar_set};
use crate::world::Case;

/// The first minor version of Kubernetes 1 that has rules for restarts, and a pod's
/// `hostnameOverride`, without a feature gate.
const RULES: Kubernetes = Kubernetes::V1_35;
/// The first that has a projected certificate's `userAnnotations`, which k8s-openapi's types of
/// Kubernetes 1.34 do not know.
const USER_ANNOTATIONS: Kubernetes = Kubernetes::V1_37;
const OVERRIDE: &str = "later.example.com";

/// A container that restarts after this exit code, and after no other.
fn container(name: &str, image: &str, code: i32) -> Value {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [code]}}]);
    json!({"name": name, "image": image, "restartPolicy": "Never", "restartPolicyRules": rules})
}

/// The exit code of the rule.
fn code(pod: &Value, container: &str) -> Option<i64> {
    let mut containers = pod["spec"]["containers"].as_array()?.iter();
    let found = containers.find(|found| found["name"] == container)?;
    found
        .pointer("/restartPolicyRules/0/exitCodes/values/0")?
        .as_i64()
}

fn template(name: &str, image: &str) -> Value {
    let mut template = objects::clone_set(name, 1, image, &json!({}))["spec"]["template"].take();
    template["spec"]["hostnameOverride"] = json!(OVERRIDE);
    template["spec"]["containers"] = json!([container("main", image, 41)]);
    template
}

/// A workload of this kind, for the pods with its name.
fn workload(kind: &str, image: &str, fields: &Value) -> Value {
    let name = kind.to_lowercase();
    let mut spec =
        json!({"selector": {"matchLabels": {APP: name}}, "template": template(&name, image)});
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The pods with these labels that are not being deleted.
async fn pods(case: &Case, labels: &str) -> Result<Vec<Value>> {
    let mut pods = objects::list(case.client(), &case.namespace, kind::POD, labels).await?;
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(pods)
}

fn ensure_fields(pods: &[Value], count: usize) -> Result<()> {
    ensure!(pods.len() == count, "{} pods", pods.len());
    for pod in pods {
        let has = pod["spec"]["hostnameOverride"] == OVERRIDE && code(pod, "main") == Some(41);
        ensure!(has, "{}", pod["spec"]);
    }
    Ok(())
}

pub(crate) async fn newer_fields_reach_running_pods(case: &Case) -> Result<()> {
    let version = case.cluster()?.versions().kubernetes;
    if version < RULES {
        return fields_that_the_server_drops_replace_no_pod(case).await;
    }
    let tested = reach_running_pods(case).await;
    // The SidecarSet has no namespace, so it is not deleted with that of the test.
    let deleted = case
        .kubectl(&[
            "delete",
            "sidecarset",
            &case.namespace,
            "--ignore-not-found",
        ])
        .await;
    tested?;
    deleted?;
    if version >= USER_ANNOTATIONS {
        user_annotations_reach_a_pod(case).await
    } else {
        Ok(())
    }
}

async fn reach_running_pods(case: &Case) -> Result<()> {
    let (image, agent) = (
        case.image("v1").await?,
        sidecar_set::image(case, "1").await?,
    );
    let selected = json!({"matchLabels": {APP: "cloneset"}});
    let brings = json!({"selector": selected, "containers": [container("agent", &agent, 41)]});
    case.create(&sidecar_set(case, &agent, &brings)).await?;
    asked(case).await?;
    let in_place = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}});
    case.create(&workload(
        "CloneSet",
        &image,
        &json!({"replicas": 1, "updateStrategy": in_place}),
    ))
    .await?;
    case.create(&workload(
        "StatefulSet",
        &image,
        &json!({"replicas": 1, "updateStrategy": in_place}),
    ))
    .await?;
    case.create(&workload("DaemonSet", &image, &json!({})))
        .await?;
    let mut job = workload("BroadcastJob", &image, &json!({"selector": null}));
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    job["spec"]["template"]["spec"]["containers"][0]["command"] = json!(["/hello", "once"]);
    case.create(&job).await?;

    case.done("cloneset").await?;
    let of_clone_set = pods(case, &format!("{APP}=cloneset")).await?;
    ensure_fields(&of_clone_set, 1)?;
    ensure!(
        code(&of_clone_set[0], "agent") == Some(41),
        "{}",
        of_clone_set[0]["spec"]
    );
    case.until(kind::STATEFUL_SET, "statefulset", |set| {
        objects::is_stateful_set_done(set, 1)
    })
    .await?;
    ensure_fields(&pods(case, &format!("{APP}=statefulset")).await?, 1)?;
    case.until(kind::DAEMON_SET, "daemonset", |set| {
        set["status"]["numberAvailable"] == 3
    })
    .await?;
    ensure_fields(&pods(case, &format!("{APP}=daemonset")).await?, 3)?;
    case.until(kind::BROADCAST_JOB, "broadcastjob", |job| {
        job["status"]["succeeded"] == 3
    })
    .await?;
    ensure_fields(&pods(case, "broadcastjob-name=broadcastjob").await?, 3)?;

    // A change of the field alone makes another container, and so needs another pod.
    let changed = json!({"spec": {"containers": [container("agent", &agent, 42)]}});
    case.patch(kind::SIDECAR_SET, &case.namespace, changed)
        .await?;
    let outdated = |set: &Value| {
        let status = &set["status"];
        status["observedGeneration"] == set["metadata"]["generation"] && status["updatedPods"] == 0
    };
    case.until(kind::SIDECAR_SET, &case.namespace, outdated)
        .await?;
    let containers = json!([container("main", &image, 42)]);
    case.patch(
        kind::CLONE_SET,
        "cloneset",
        json!({"spec": {"template": {"spec": {"containers": containers}}}}),
    )
    .await?;
    case.done("cloneset").await?;
    let after = pods(case, &format!("{APP}=cloneset")).await?;
    ensure!(
        after.len() == 1 && after[0]["metadata"]["uid"] != of_clone_set[0]["metadata"]["uid"],
        "{after:?}"
    );
    for container in ["main", "agent"] {
        ensure!(
            code(&after[0], container) == Some(42),
            "{container}: {}",
            after[0]["spec"]
        );
    }
    Ok(())
}

/// An older apiserver drops the fields from pods. The template keeps them, and its pods still
/// change in place.
async fn fields_that_the_server_drops_replace_no_pod(case: &Case) -> Result<()> {
    let in_place = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}});
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.create(&workload(
        "CloneSet",
        &one,
        &json!({"replicas": 1, "updateStrategy": in_place}),
    ))
    .await?;
    let set = case.done("cloneset").await?;
    ensure!(
        set["spec"]["template"]["spec"]["hostnameOverride"] == OVERRIDE,
        "{}",
        set["spec"]
    );
    let before = pods(case, &format!("{APP}=cloneset")).await?;
    ensure!(
        before.len() == 1 && before[0]["spec"]["hostnameOverride"].is_null(),
        "{before:?}"
    );
    let containers = json!([container("main", &two, 41)]);
    case.patch(
        kind::CLONE_SET,
        "cloneset",
        json!({"spec": {"template": {"spec": {"containers": containers}}}}),
    )
    .await?;
    case.done("cloneset").await?;
    let after = pods(case, &format!("{APP}=cloneset")).await?;
    ensure!(
        after.len() == 1 && after[0]["metadata"]["uid"] == before[0]["metadata"]["uid"],
        "{after:?}"
    );
    Ok(())
}

async fn user_annotations_reach_a_pod(case: &Case) -> Result<()> {
    let mut set = workload(
        "CloneSet",
        &case.image("v1").await?,
        &json!({"replicas": 1}),
    );
    set["metadata"]["name"] = json!("certified");
    set["spec"]["selector"]["matchLabels"][APP] = json!("certified");
    let template = &mut set["spec"]["template"];
    template["metadata"]["labels"][APP] = json!("certified");
    let annotations = json!({"example.com/later": "yes"});
    let certificate = json!({
        "signerName": "example.com/later", "keyType": "ED25519", "credentialBundlePath": "bundle.pem", "userAnnotations": annotations,
    });
    let volume =
        json!({"name": "certificate", "projected": {"sources": [{"podCertificate": certificate}]}});
    template["spec"]["volumes"] = json!([volume]);
    case.create(&set).await?;
    case.until(kind::CLONE_SET, "certified", |set| {
        set["status"]["replicas"] == 1
    })
    .await?;
    let pods = pods(case, &format!("{APP}=certified")).await?;
    let volumes = pods[0]["spec"]["volumes"].as_array().into_iter().flatten();
    let mut found = volumes
        .filter_map(|volume| volume.pointer("/projected/sources/0/podCertificate/userAnnotations"));
    ensure!(
        found.any(|found| *found == annotations),
        "{}",
        pods[0]["spec"]["volumes"]
    );
    Ok(())
}
