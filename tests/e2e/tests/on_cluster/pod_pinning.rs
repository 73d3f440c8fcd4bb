//! Pods of other controllers' workloads return to their places: Kubernetes' own StatefulSets, and
//! kinds of other controllers. The test cluster's apiserver has MutatingAdmissionPolicies, so the
//! chart installs one, unless a value selects the webhook.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use berth_e2e::record::PodView;
use serde_json::{Value, json};

use crate::no_controller::scale;
use crate::world::Case;

const SET: &str = "db";
const HOSTNAME: &str = "kubernetes.io/hostname";
const COLOR: &str = "example.org/color";
const INJECTED: &str = "kruise.io/injected-persistent-pod-state";
const CONFIGURATION: [&str; 2] = ["v1/ConfigMap", "kruise-configuration"];

fn native_set(image: &str, annotations: &Value) -> Value {
    let mut set = objects::clone_set(SET, 3, image, &json!({}));
    let spec = json!({
        "replicas": 3, "serviceName": SET, "podManagementPolicy": "Parallel", "selector": set["spec"]["selector"],
        "template": set["spec"]["template"].take(),
    });
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": SET, "annotations": annotations}, "spec": spec,
    })
}

fn asks(required: bool) -> Value {
    let topology = if required {
        "kruise.io/required-persistent-topology"
    } else {
        "kruise.io/preferred-persistent-topology"
    };
    json!({
        "kruise.io/auto-generate-persistent-pod-state": "true", topology: HOSTNAME,
        "kruise.io/persistent-pod-annotations": COLOR,
    })
}

async fn ready(case: &Case) -> Result<BTreeMap<String, PodView>> {
    let is_ready = |set: &Value| {
        let status = &set["status"];
        status["readyReplicas"] == 3
            && status["updatedReplicas"] == 3
            && status["observedGeneration"] == set["metadata"]["generation"]
    };
    case.until(kind::NATIVE_STATEFUL_SET, SET, is_ready).await?;
    case.pods(SET).await
}

/// Waits until each pod's record has its place.
async fn recorded(case: &Case, name: &str, pods: &BTreeMap<String, PodView>) -> Result<Value> {
    let is_of = |state: &Value| {
        let states = &state["status"]["podStates"];
        pods.values()
            .all(|pod| states[&pod.name]["nodeName"] == pod.node)
    };
    case.until(kind::PERSISTENT_POD_STATE, name, is_of).await
}

fn ensure_back(
    before: &BTreeMap<String, PodView>,
    after: &BTreeMap<String, PodView>,
) -> Result<()> {
    ensure!(before.len() == after.len(), "{before:?} {after:?}");
    for (name, pod) in before {
        let new = after
            .get(name)
            .with_context(|| format!("{name} is missing"))?;
        ensure!(
            new.uid != pod.uid && new.node == pod.node,
            "{name} was on {}: {new:?}",
            pod.node
        );
    }
    Ok(())
}

pub(crate) async fn pods_of_a_native_set_go_back(case: &Case) -> Result<()> {
    let (one, two) = (case.image("v1").await?, case.image("v2").await?);
    case.create(&native_set(&one, &asks(true))).await?;
    let before = ready(case).await?;
    recorded(case, SET, &before).await?;
    // A user's annotation is kept, and comes back.
    case.patch(
        kind::POD,
        "db-1",
        json!({"metadata": {"annotations": {COLOR: "blue"}}}),
    )
    .await?;
    case.until(kind::PERSISTENT_POD_STATE, SET, |state| {
        state["status"]["podStates"]["db-1"]["annotations"][COLOR] == "blue"
    })
    .await?;
    case.kubectl(&[
        "delete",
        "pod",
        "-n",
        &case.namespace,
        "-l",
        "app=db",
        "--grace-period=1",
    ])
    .await?;
    let deleted = ready(case).await?;
    ensure_back(&before, &deleted)?;
    let pod = case.get(kind::POD, "db-1").await?;
    let annotations = &pod["metadata"]["annotations"];
    ensure!(
        annotations[INJECTED] == SET && annotations[COLOR] == "blue",
        "{annotations}"
    );
    // A pod of an update returns, too.
    let set = case.get(kind::NATIVE_STATEFUL_SET, SET).await?;
    case.patch(
        kind::NATIVE_STATEFUL_SET,
        SET,
        objects::image_patch(&set, &two),
    )
    .await?;
    ensure_back(&deleted, &ready(case).await?)?;
    let says = [
        "is of StatefulSet db (apps/v1)",
        "pins a pod when it is created",
        "nodeSelector kubernetes.io/hostname=",
    ];
    case.explained_of("persistentpodstate", SET, "text", |text| {
        says.iter().all(|word| text.contains(word))
    })
    .await?;
    a_second_object_is_refused(case).await?;
    // Records are deleted with their pods, and the object with its annotations.
    case.kubectl(&[
        "scale",
        "statefulset.apps",
        "-n",
        &case.namespace,
        SET,
        "--replicas=1",
    ])
    .await?;
    case.until(kind::PERSISTENT_POD_STATE, SET, |state| {
        state["status"]["podStates"]
            .as_object()
            .is_some_and(|all| all.len() == 1)
    })
    .await?;
    let none = json!({"metadata": {"annotations": {"kruise.io/auto-generate-persistent-pod-state": null}}});
    case.patch(kind::NATIVE_STATEFUL_SET, SET, none).await?;
    case.gone(kind::PERSISTENT_POD_STATE, SET).await
}

async fn a_second_object_is_refused(case: &Case) -> Result<()> {
    let second = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState", "metadata": {"name": "second"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": SET},
            "requiredPersistentTopology": {"keys": [HOSTNAME]},
        },
    });
    let refused = case
        .create(&second)
        .await
        .err()
        .context("a second object of one workload was taken")?;
    let message = format!("{refused:#}");
    ensure!(
        message.contains(
            "spec.targetRef: PersistentPodState db keeps the records of StatefulSet db already"
        ),
        "{message}"
    );
    Ok(())
}

/// The same by the webhook; and which pods wait while no replica answers it.
pub(crate) async fn silent_webhook_holds_up_only_pods_to_pin(case: &Case) -> Result<()> {
    case.with_value(["podPinning.by", "webhook", "auto"], async || {
        pods_of_a_native_set_go_back(case).await?;
        case.kubectl(&["delete", "statefulset.apps", "-n", &case.namespace, SET, "--wait=true"]).await?;
        called_for(case, &[]).await?;
        case.create(&native_set(&case.image("v1").await?, &asks(true))).await?;
        let before = ready(case).await?;
        recorded(case, SET, &before).await?;
        called_for(case, &["Fail"]).await?;
        scale(case, 0).await?;
        let waited = while_no_webhook_answers(case).await;
        scale(case, 2).await?;
        waited?;
        ensure!(ready(case).await?["db-0"].node == before["db-0"].node, "db-0 was on {}", before["db-0"].node);
        // A pod with a preferred place does not wait.
        case.patch(
            kind::NATIVE_STATEFUL_SET,
            SET,
            json!({"metadata": {"annotations": {
                "kruise.io/required-persistent-topology": null, "kruise.io/preferred-persistent-topology": HOSTNAME,
            }}}),
        )
        .await?;
        called_for(case, &["Ignore"]).await?;
        scale(case, 0).await?;
        let made = async {
            let before = ready(case).await?;
            case.kubectl(&["delete", "pod", "-n", &case.namespace, "db-0", "--grace-period=1"]).await?;
            case.until(kind::POD, "db-0", |pod| pod["metadata"]["uid"] != before["db-0"].uid.as_str()).await
        };
        let made = made.await;
        scale(case, 2).await?;
        made.map(|_| ())
    })
    .await
}

async fn while_no_webhook_answers(case: &Case) -> Result<()> {
    case.kubectl(&[
        "delete",
        "pod",
        "-n",
        &case.namespace,
        "db-0",
        "--grace-period=1",
    ])
    .await?;
    case.told(SET, |event| {
        event.contains("FailedCreate") && event.contains("kruise")
    })
    .await?;
    // Pods of all others are created at once: in this namespace, and in others.
    let image = case.image("v2").await?;
    let spec = json!({"containers": [{"name": "main", "image": image}]});
    case.create(
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "free"}, "spec": spec}),
    )
    .await?;
    Ok(())
}

/// Waits until the entries of the pod webhook have these failure policies.
async fn called_for(case: &Case, policies: &[&str]) -> Result<()> {
    let kind = "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration";
    let is = |configuration: &Value| {
        let entries = configuration["webhooks"].as_array().into_iter().flatten();
        // Another entry is for ContainerRecreateRequests.
        let of_pods = |entry: &&Value| {
            entry["name"]
                .as_str()
                .is_some_and(|name| name.ends_with(".pods.kruise.io"))
        };
        entries
            .filter(of_pods)
            .map(|entry| entry["failurePolicy"].as_str().unwrap_or_default())
            .eq(policies.iter().copied())
    };
    let name = "kruise-mutating-webhook-configuration";
    objects::until(case.client(), "", kind, name, crate::world::PATIENCE, is)
        .await
        .map(|_| ())
}

/// A kind that a ConfigMap names, read by an aggregated right: followed from then on, and only as
/// long as it is named.
pub(crate) async fn kinds_of_others_are_followed_as_they_are_listed(case: &Case) -> Result<()> {
    let one = case.image("v1").await?;
    for manifest in [database_definition(), reader()] {
        objects::create(case.client(), "", &manifest).await?;
    }
    case.kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/databases.pinning.example",
        "--timeout=60s",
    ])
    .await?;
    let followed = followed(case, &one).await;
    case.kubectl(&[
        "delete",
        "crd/databases.pinning.example",
        "clusterrole/databases-for-kruise",
    ])
    .await?;
    case.kubectl(&[
        "delete",
        "configmap",
        "-n",
        "kruise-system",
        CONFIGURATION[1],
        "--ignore-not-found",
    ])
    .await?;
    followed
}

async fn followed(case: &Case, image: &str) -> Result<()> {
    let database = json!({
        "apiVersion": "pinning.example/v1", "kind": "Database", "metadata": {"name": SET, "annotations": asks(true)},
        "spec": {"replicas": 1},
    });
    let database = case.create(&database).await?;
    let list =
        json!({"workloads": [{"group": "pinning.example", "version": "v1", "kind": "Database"}]})
            .to_string();
    let configuration = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIGURATION[1]},
        "data": {"PPS_Watch_Custom_Workload_WhiteList": list},
    });
    objects::create(case.client(), "kruise-system", &configuration).await?;
    let make = async || {
        let mut pod = objects::clone_set(SET, 1, image, &json!({}))["spec"]["template"].clone();
        (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) =
            (json!("v1"), json!("Pod"), json!("db-0"));
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "pinning.example/v1", "kind": "Database", "name": SET, "uid": database["metadata"]["uid"], "controller": true,
        }]);
        case.create(&pod).await?;
        case.until(kind::POD, "db-0", |pod| pod["status"]["phase"] == "Running")
            .await
    };
    make().await?;
    let before = case.pods(SET).await?;
    recorded(case, SET, &before).await?;
    case.kubectl(&[
        "delete",
        "pod",
        "-n",
        &case.namespace,
        "db-0",
        "--grace-period=1",
        "--wait=true",
    ])
    .await?;
    let pod = make().await?;
    ensure!(
        pod["spec"]["nodeName"] == before["db-0"].node.as_str(),
        "{before:?} {}",
        pod["spec"]["nodeName"]
    );
    ensure!(
        pod["metadata"]["annotations"][INJECTED] == SET,
        "{}",
        pod["metadata"]
    );
    // A kind that is not listed any more is reported as such, and its records stay.
    objects::patch(
        case.client(),
        "kruise-system",
        CONFIGURATION[0],
        CONFIGURATION[1],
        &json!({"data": null}),
    )
    .await?;
    let says = "a kind of which no records are kept";
    case.explained_of("persistentpodstate", SET, "text", |text| {
        text.contains(says) && text.contains("db-0")
    })
    .await?;
    Ok(())
}

fn database_definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "databases.pinning.example"},
        "spec": {
            "group": "pinning.example", "scope": "Namespaced",
            "names": {"kind": "Database", "listKind": "DatabaseList", "plural": "databases", "singular": "database"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn reader() -> Value {
    let rule = json!({"apiGroups": ["pinning.example"], "resources": ["databases"], "verbs": ["get", "list", "watch"]});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "databases-for-kruise", "labels": {"rbac.kruise.io/aggregate-to-manager": "true"}},
        "rules": [rule],
    })
}
