//! The controller's token and the webhooks: the entries that it writes call only its own Service,
//! for pods that are created and for objects of its own kinds. In a pod of another owner it writes
//! only the containers that a SidecarSet gave the pod.

use anyhow::{Context, Result};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::admission::{refused, trial};
use crate::stage::{Stage, until};

const MUTATING: &str = "kruise-mutating-webhook-configuration";
const BUDGETS: &str = "kruise-budget-webhook-configuration";
const VALIDATING: &str = "kruise-validating-webhook-configuration";

/// A selector of namespaces by their names.
fn namespaces(operator: &str, values: Value) -> Value {
    json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": operator, "values": values}]})
}

/// An entry as the controller writes it, with these fields changed.
fn entry(fields: &Value) -> Result<Patch<Value>> {
    let mut entry = json!({
        "name": "sidecars-ignore-0.pods.kruise.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "failurePolicy": "Ignore", "timeoutSeconds": 2,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "clientConfig": {"service": {"namespace": "kruise-system", "name": "kruise-webhook-service", "path": "/inject-sidecars/secret"}},
        "matchConditions": [{"name": "is-selected", "expression": "true"}],
        "namespaceSelector": namespaces("NotIn", json!(["kube-system", "kruise-system"])),
    });
    for (path, value) in fields.as_object().into_iter().flatten() {
        *entry
            .pointer_mut(path)
            .with_context(|| format!("no field {path}"))? = value.clone();
    }
    Ok(Patch::Merge(json!({"webhooks": [entry]})))
}

pub(crate) fn own_rules(stage: &Stage) -> Result<()> {
    stage.account("default")?;
    stage.run(async |admin| {
        let manager = stage.manager().await?;
        let write = PatchParams::default();
        let pods: Api<MutatingWebhookConfiguration> = Api::all(manager.clone());
        until("the policy is in force", async || {
            let secrets = entry(&json!({"/rules/0/resources": ["secrets"]}))?;
            refused("about Secrets", pods.patch(MUTATING, &trial(), &secrets).await, "asked about pods that are created")
        })
        .await?;
        for (what, fields, says) in [
            ("about all", json!({"/rules/0/apiGroups": ["*"]}), "asked about pods that are created"),
            ("about changes", json!({"/rules/0/operations": ["UPDATE"]}), "asked about pods that are created"),
            ("with a long wait", json!({"/timeoutSeconds": 30}), "asked about pods that are created"),
            ("about every pod", json!({"/matchConditions": []}), "asked about pods that are created"),
            ("in every namespace", json!({"/namespaceSelector": {}}), "asked about pods that are created"),
            ("in kube-system", json!({"/namespaceSelector": namespaces("In", json!(["default", "kube-system"]))}), "that are not protected"),
            ("in its own namespace", json!({"/namespaceSelector": namespaces("NotIn", json!(["kube-system"]))}), "that are not protected"),
            ("by a label that all may set", json!({"/namespaceSelector": {"matchLabels": {"a": "b"}}}), "that are not protected"),
            ("by a path that all know", json!({"/clientConfig/service/path": "/inject-sidecars"}), "asked about pods that are created"),
            ("by another Service", json!({"/clientConfig/service/name": "other"}), "no other Service"),
            ("by another namespace's", json!({"/clientConfig/service/namespace": "default"}), "no other Service"),
            ("by an address", json!({"/clientConfig": {"url": "https://127.0.0.1/"}}), "no other Service"),
        ] {
            refused(what, pods.patch(MUTATING, &write, &entry(&fields)?).await, says)?;
        }
        pods.patch(MUTATING, &write, &entry(&json!({}))?).await.context("its own entry")?;
        let named = json!({"/namespaceSelector": namespaces("In", json!(["default"]))});
        pods.patch(MUTATING, &write, &entry(&named)?).await.context("in a namespace that it names")?;
        let requests = json!({
            "/name": "containerrecreaterequests.apps.kruise.io", "/clientConfig/service/path": "/fill-recreate-request/secret",
            "/rules/0/apiGroups": ["apps.kruise.io"], "/rules/0/resources": ["containerrecreaterequests"],
            "/matchConditions": [], "/namespaceSelector": {},
        });
        pods.patch(MUTATING, &write, &entry(&requests)?).await.context("the entry of requests")?;
        let mut known = requests.clone();
        known["/clientConfig/service/path"] = json!("/fill-recreate-request");
        refused("requests by a path that all know", pods.patch(MUTATING, &write, &entry(&known)?).await, "asked about pods that are created")?;
        let mut closed = requests;
        closed["/failurePolicy"] = json!("Fail");
        refused("requests that wait for it", pods.patch(MUTATING, &write, &entry(&closed)?).await, "asked about pods that are created")?;
        pods.patch(MUTATING, &write, &Patch::Merge(json!({"webhooks": []}))).await.context("none")?;

        let kinds: Api<ValidatingWebhookConfiguration> = Api::all(manager.clone());
        let rules = |group: &str| json!([{"apiGroups": [group], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]);
        let patch = |group: &str, policy: &str| {
            let entry = json!({"name": "validate.apps.kruise.io", "rules": rules(group), "failurePolicy": policy});
            Patch::Strategic(json!({"webhooks": [entry]}))
        };
        for (what, group, policy) in [("of another group", "apps", "Ignore"), ("that stops others", "apps.kruise.io", "Fail")] {
            let patched = kinds.patch(VALIDATING, &write, &patch(group, policy)).await;
            refused(what, patched, "about objects of its own kinds")?;
        }
        kinds.patch(VALIDATING, &write, &patch("apps.kruise.io", "Ignore")).await.context("its own rules")?;
        writes_deletion_rules_for_named_namespaces_only(&kinds).await?;
        writes_only_injected_containers(&admin, &manager).await?;
        opens_gates_without_a_condition(&admin, &manager).await
    })
}

async fn writes_deletion_rules_for_named_namespaces_only(
    of_manager: &Api<ValidatingWebhookConfiguration>,
) -> Result<()> {
    let own = json!({
        "/name": "delete.pods.kruise.io", "/sideEffects": "NoneOnDryRun", "/failurePolicy": "Fail", "/timeoutSeconds": 5,
        "/rules/0/operations": ["DELETE"], "/clientConfig/service/path": "/disrupt-pod/secret",
        "/namespaceSelector": namespaces("In", json!(["default"])),
    });
    let with = |path: &str, value: Value| {
        let mut changed = own.clone();
        changed[path] = value;
        entry(&changed)
    };
    let write = PatchParams::default();
    for (what, path, value) in [
        (
            "about pods that are created",
            "/rules/0/operations",
            json!(["CREATE"]),
        ),
        ("about Secrets", "/rules/0/resources", json!(["secrets"])),
        (
            "about what kubelets say",
            "/rules/0/resources",
            json!(["pods/status"]),
        ),
        (
            "by another path",
            "/clientConfig/service/path",
            json!("/validate"),
        ),
        ("with a long wait", "/timeoutSeconds", json!(30)),
        (
            "in kube-system",
            "/namespaceSelector",
            namespaces("In", json!(["default", "kube-system"])),
        ),
        (
            "in all namespaces but some",
            "/namespaceSelector",
            namespaces("NotIn", json!(["default"])),
        ),
        ("in all namespaces", "/namespaceSelector", json!({})),
        ("about each pod", "/matchConditions", json!([])),
    ] {
        let patched = of_manager.patch(BUDGETS, &write, &with(path, value)?).await;
        refused(
            what,
            patched,
            "in namespaces that it names and that are not protected",
        )?;
    }
    of_manager
        .patch(BUDGETS, &write, &entry(&own)?)
        .await
        .context("about pods that are deleted")?;
    let eviction = json!(["pods/eviction"]);
    let mut evicted = own.clone();
    (
        evicted["/rules/0/operations"],
        evicted["/rules/0/resources"],
    ) = (json!(["CREATE"]), eviction);
    of_manager
        .patch(BUDGETS, &write, &entry(&evicted)?)
        .await
        .context("about pods that are evicted")?;
    of_manager
        .patch(BUDGETS, &write, &Patch::Merge(json!({"webhooks": []})))
        .await
        .context("about none")?;
    Ok(())
}

async fn opens_gates_without_a_condition(admin: &Client, manager: &Client) -> Result<()> {
    let (by_hand, pods) = (
        Api::<Pod>::namespaced(admin.clone(), "default"),
        Api::<Pod>::namespaced(manager.clone(), "default"),
    );
    let (create, write) = (PostParams::default(), PatchParams::default());
    for (name, gates) in [
        ("gated", json!([{"conditionType": "KruisePodReady"}])),
        ("ungated", json!([])),
    ] {
        let containers = json!([{"name": "main", "image": "a:1"}]);
        let spec = json!({"containers": containers, "automountServiceAccountToken": false, "readinessGates": gates});
        by_hand
            .create(
                &create,
                &serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?,
            )
            .await?;
    }
    let condition = |type_: &str, status: &str| {
        Patch::Strategic(json!({"status": {"conditions": [{"type": type_, "status": status}]}}))
    };
    let says = "kruise-manager may write";
    for (what, name, patch) in [
        (
            "a gate that is not there",
            "ungated",
            condition("KruisePodReady", "True"),
        ),
        (
            "a gate that is to be closed",
            "gated",
            condition("KruisePodReady", "False"),
        ),
        ("another condition", "gated", condition("Ready", "True")),
        (
            "the phase",
            "gated",
            Patch::Strategic(json!({"status": {"phase": "Failed"}})),
        ),
        (
            "a label",
            "gated",
            Patch::Strategic(json!({"metadata": {"labels": {"a": "b"}}})),
        ),
    ] {
        refused(what, pods.patch_status(name, &write, &patch).await, says)?;
    }
    pods.patch_status("gated", &write, &condition("KruisePodReady", "True"))
        .await
        .context("a gate that is opened")?;
    by_hand
        .patch_status("gated", &write, &condition("KruisePodReady", "False"))
        .await?;
    let again = pods
        .patch_status("gated", &write, &condition("KruisePodReady", "True"))
        .await;
    refused("a gate that somebody closed", again, says)?;
    // For a ContainerRecreateRequest it closes the readiness gate by an entry, and removes the
    // entry again.
    let gate = |status: &str, message: &str| json!({"type": "KruisePodReady", "status": status, "message": message});
    let entry = r#"[{"userAgent":"ContainerRecreateRequest","key":"default/demo"}]"#;
    for (what, conditions) in [
        (
            "closed",
            json!([gate("False", entry), {"type": "Ready", "status": "False"}]),
        ),
        ("open", json!([gate("True", "[]")])),
    ] {
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        pods.patch_status("gated", &write, &patch)
            .await
            .with_context(|| format!("a gate that is {what} for a request"))?;
    }
    let ready = Patch::Strategic(
        json!({"status": {"conditions": [gate("False", entry), {"type": "Ready", "status": "True"}]}}),
    );
    refused(
        "a pod that is said to be ready",
        pods.patch_status("gated", &write, &ready).await,
        says,
    )
}

async fn writes_only_injected_containers(admin: &Client, manager: &Client) -> Result<()> {
    let (by_hand, pods) = (
        Api::<Pod>::namespaced(admin.clone(), "default"),
        Api::<Pod>::namespaced(manager.clone(), "default"),
    );
    let create = PostParams::default();
    let record = json!({"log": {"hash": "h", "sidecarList": ["agent", "mesh"]}}).to_string();
    for (name, annotations) in [
        ("given", json!({"kruise.io/sidecarset-hash": record})),
        ("bare", json!({})),
    ] {
        let container = |name: &str| {
            let env = if name == "main" || name == "bare" {
                json!([])
            } else {
                json!([{"name": "IS_INJECTED", "value": "true"}])
            };
            json!({"name": name, "image": "a:1", "env": env})
        };
        let native = |name: &str| {
            let mut container = container(name);
            container["restartPolicy"] = json!("Always");
            container
        };
        let containers: Vec<_> = ["main", "agent", "mesh-1", "mesh-2"].map(container).into();
        let init = [container("once"), native("proxy"), native("bare")];
        let spec = json!({"containers": containers, "initContainers": init, "automountServiceAccountToken": false});
        let pod = json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec});
        by_hand
            .create(&create, &serde_json::from_value(pod)?)
            .await?;
    }
    let image = |list: &str, container: &str| {
        Patch::Strategic(json!({"spec": {list: [{"name": container, "image": "a:2"}]}}))
    };
    let write = PatchParams::default();
    for (list, container) in [
        ("containers", "agent"),
        ("containers", "mesh-2"),
        ("initContainers", "proxy"),
    ] {
        let image = image(list, container);
        pods.patch("given", &write, &image)
            .await
            .with_context(|| format!("the image of {container}"))?;
        let answer = pods.patch("bare", &write, &image).await;
        refused(
            "of a pod without sidecars",
            answer,
            "kruise-manager may write",
        )?;
    }
    for (what, list, container) in [
        ("the pod's own image", "containers", "main"),
        ("that of its own native sidecar", "initContainers", "bare"),
        (
            "that of an init container that ends",
            "initContainers",
            "once",
        ),
    ] {
        let answer = pods.patch("given", &write, &image(list, container)).await;
        refused(what, answer, "kruise-manager may write")?;
    }
    let labels = Patch::Merge(json!({"metadata": {"labels": {"app": "other"}}}));
    refused(
        "its labels",
        pods.patch("given", &write, &labels).await,
        "kruise-manager may write",
    )?;
    refused(
        "its end",
        pods.delete("given", &DeleteParams::default()).await,
        "kruise-manager may write",
    )?;

    // Revisions of SidecarSets are in the controller's namespace.
    let revision = json!({"metadata": {"name": "log-1", "ownerReferences": [
        {"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "name": "log", "uid": "u", "controller": true},
    ]}, "revision": 1, "data": {}});
    let revision: ControllerRevision = serde_json::from_value(revision)?;
    let here: Api<ControllerRevision> = Api::namespaced(manager.clone(), "kruise-system");
    here.create(&create, &revision)
        .await
        .context("a revision")?;
    let elsewhere: Api<ControllerRevision> = Api::namespaced(manager.clone(), "default");
    refused(
        "a revision elsewhere",
        elsewhere.create(&create, &revision).await,
        "kruise-manager may write",
    )
}
