//! Namespaces and CustomResourceDefinitions that cannot be deleted while they contain objects that
//! count.

use anyhow::{Context, Result, ensure};
use berth_webhook::Config;
use berth_webhook::deletions::{GUARD, GUARD_PATH, RefusedDeletions};
use berth_webhook::places::VALIDATING;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::admission::{refused, trial};
use crate::stage::{LONG, NAMESPACE, REGISTRY, Replica, Stage, config, until};

const LABEL: &str = "policy.kruise.io/delete-protection";
const GATES: &str = "controller.featureGates=ResourcesDeletionProtection=true\\,DeletionProtectionForCRDCascadingGate=true";

/// Objects of a test, by kubectl.
struct Objects<'a>(&'a Stage);

impl Objects<'_> {
    fn create(&self, object: &Value) -> Result<()> {
        self.0
            .kubectl(&["create", "--filename=-"], Some(&object.to_string()))
            .map(drop)
    }

    fn namespace(&self, name: &str, protection: Option<&str>) -> Result<()> {
        let labels = protection.map(|value| json!({LABEL: value}));
        self.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))?;
        self.0.account(name)
    }

    /// Sets the phase of a pod, as a kubelet would.
    fn pod(&self, namespace: &str, name: &str, phase: &str) -> Result<()> {
        let spec = json!({"containers": [{"name": "main", "image": "none"}], "automountServiceAccountToken": false});
        // The finalizer keeps the pod after it is deleted.
        let metadata =
            json!({"namespace": namespace, "name": name, "finalizers": ["example.com/stays"]});
        self.create(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
        )?;
        let status = json!({"status": {"phase": phase}}).to_string();
        let patch = [
            "patch",
            "pod",
            name,
            "-n",
            namespace,
            "--subresource=status",
            "--patch",
            &status,
        ];
        self.0.kubectl(&patch, None).map(drop)
    }

    fn end(&self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        self.0
            .kubectl(
                &["delete", kind, name, "-n", namespace, "--wait=false"],
                None,
            )
            .map(drop)
    }

    /// A claim with the volume that it asks for: the control plane binds it.
    fn bound_claim(&self, namespace: &str, name: &str) -> Result<()> {
        let size = json!({"storage": "1Gi"});
        self.create(&json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/none"},
                "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": namespace, "name": name},
            },
        }))?;
        self.create(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name},
            "spec": {
                "resources": {"requests": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "volumeName": name,
            },
        }))?;
        let wait = [
            "wait",
            "--for=jsonpath={.status.phase}=Bound",
            "pvc",
            name,
            "-n",
            namespace,
            "--timeout=120s",
        ];
        self.0.kubectl(&wait, None).map(drop)
    }

    fn definition(&self, group: &str) -> Result<()> {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let name = format!("widgets.{group}");
        let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget"});
        self.create(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "labels": {LABEL: "Cascading"}},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
        }))?;
        let crd = format!("crd/{name}");
        self.0
            .kubectl(
                &[
                    "wait",
                    "--for=condition=Established",
                    &crd,
                    "--timeout=120s",
                ],
                None,
            )
            .map(drop)
    }
}

async fn delete_namespace(client: &Client, name: &str, is_dry_run: bool) -> kube::Result<()> {
    let params = DeleteParams {
        dry_run: is_dry_run,
        ..DeleteParams::default()
    };
    Api::<Namespace>::all(client.clone())
        .delete(name, &params)
        .await
        .map(drop)
}

async fn delete_definition(client: &Client, group: &str) -> kube::Result<()> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions
        .delete(&format!("widgets.{group}"), &DeleteParams::default())
        .await
        .map(drop)
}

/// Waits until the apiserver uses the entry. An earlier deletion is refused, too, but for another
/// reason.
async fn guarded(client: &Client, name: &str) -> Result<()> {
    until("the apiserver asks", async || {
        let answer = delete_namespace(client, name, true).await;
        refused(name, answer, "forbidden by ResourcesProtectionDeletion")
    })
    .await
}

#[test]
fn a_namespace_and_a_kind_stay_while_something_lives_in_them() -> Result<()> {
    let stage = Stage::with_values(&format!(
        "{REGISTRY},{GATES},deletionProtection.crdGroups={{example.com}}"
    ))?;
    stage.run(async |admin| {
        let refused_deletions = RefusedDeletions::default();
        let settings = Config {
            refused_deletions: refused_deletions.clone(),
            ..config(9876, LONG, None)
        };
        let mut replica = Replica::start_with(&stage, &admin, settings).await?;
        replica.ready().await?;
        of_namespaces(&stage, &admin).await?;
        of_kinds(&stage, &admin).await?;
        of_replica_sets(&stage, &admin).await?;
        is_reported_by_namespaces(&stage, &admin).await?;
        let (mut registry, mut text) = (Registry::default(), String::new());
        refused_deletions.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        for series in [
            r#"namespace_deletion_protection{name="claims",username="admin"} 1"#,
            r#"crd_deletion_protection{name="widgets.other.org",username="admin"} 1"#,
        ] {
            ensure!(
                text.lines().any(|line| line == series),
                "{series} is not in {text}"
            );
        }
        is_put_right(&admin).await?;
        writes_nothing_else(&stage).await?;
        replica.end().await?;
        without_an_answer(&stage, &admin).await
    })
}

async fn of_namespaces(stage: &Stage, admin: &Client) -> Result<()> {
    let objects = Objects(stage);
    objects.namespace("pods", Some("Cascading"))?;
    objects.pod("pods", "web", "Running")?;
    objects.pod("pods", "done", "Succeeded")?;
    guarded(admin, "pods").await?;
    let says = "Namespace pods has the label policy.kruise.io/delete-protection=Cascading and 1 active pod (web)";
    for is_dry_run in [true, false] {
        refused(
            "a namespace with a pod",
            delete_namespace(admin, "pods", is_dry_run).await,
            says,
        )?;
    }
    objects.end("pod", "pods", "web")?;
    delete_namespace(admin, "pods", false)
        .await
        .context("a namespace whose pod is terminating")?;
    delete_namespace(admin, "pods", false)
        .await
        .context("a namespace that is terminating")?;

    objects.namespace("claims", Some("Cascading"))?;
    objects.bound_claim("claims", "data")?;
    refused(
        "a namespace with a claim",
        delete_namespace(admin, "claims", false).await,
        "and 1 bound claim (data)",
    )?;

    objects.namespace("empty", Some("Cascading"))?;
    delete_namespace(admin, "empty", true)
        .await
        .context("a dry run for an empty namespace")?;
    delete_namespace(admin, "empty", false)
        .await
        .context("an empty namespace")?;
    objects.namespace("always", Some("Always"))?;
    refused(
        "one that never goes",
        delete_namespace(admin, "always", false).await,
        "delete-protection=Always",
    )
}

/// A Deployment can delete its ReplicaSets, even if its template gives them the label.
async fn of_replica_sets(stage: &Stage, admin: &Client) -> Result<()> {
    let labels = json!({"app": "web", LABEL: "Always"});
    let spec = json!({"containers": [{"name": "main", "image": "none"}]});
    let spec = json!({
        "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    });
    for (kind, name) in [("Deployment", "web"), ("ReplicaSet", "alone")] {
        let mut spec = spec.clone();
        if kind == "ReplicaSet" {
            // Otherwise the Deployment adopts it.
            spec["selector"]["matchLabels"]["app"] = json!("alone");
            spec["template"]["metadata"]["labels"]["app"] = json!("alone");
        }
        let metadata = json!({"namespace": "default", "name": name, "labels": {LABEL: "Always"}});
        let object =
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec});
        Objects(stage).create(&object)?;
    }
    let sets = Api::<ReplicaSet>::namespaced(admin.clone(), "default");
    let of_deployment = until("the Deployment has a ReplicaSet", async || {
        let all = sets.list(&ListParams::default().labels("app=web")).await?;
        let name = all.items.into_iter().find_map(|set| set.metadata.name);
        name.context("there is none")
    })
    .await?;
    sets.delete(&of_deployment, &DeleteParams::default().dry_run())
        .await
        .context("that of a Deployment")?;
    refused(
        "one by itself",
        sets.delete("alone", &DeleteParams::default()).await,
        "delete-protection=Always",
    )
}

/// The status of a Namespace says why it stays.
async fn is_reported_by_namespaces(stage: &Stage, admin: &Client) -> Result<()> {
    let objects = Objects(stage);
    objects.namespace("kept", None)?;
    objects.create(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "kept", "name": "web", "labels": {LABEL: "Always"}},
        "spec": {"ports": [{"port": 80}]},
    }))?;
    delete_namespace(admin, "kept", false)
        .await
        .context("a Namespace without the label")?;
    let says = format!(
        "Service kept/web has the label {LABEL}=Always; it keeps namespace kept terminating; to delete it, take the label \
         off first: `kubectl label services web -n kept {LABEL}-`"
    );
    until("the Namespace says what keeps it", async || {
        let kept = Api::<Namespace>::all(admin.clone()).get("kept").await?;
        let conditions = kept
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let is_told = conditions.iter().any(|one| {
            one.message
                .as_deref()
                .is_some_and(|text| text.contains(&says))
        });
        ensure!(is_told, "{conditions:?}");
        Ok(())
    })
    .await
}

async fn of_kinds(stage: &Stage, admin: &Client) -> Result<()> {
    let objects = Objects(stage);
    objects.definition("example.com")?;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    objects.create(&widget)?;
    let says = "widgets.example.com has the label policy.kruise.io/delete-protection=Cascading and 1 object (default/w)";
    until("the rights are there", async || {
        refused(
            "a kind with an object",
            delete_definition(admin, "example.com").await,
            says,
        )
    })
    .await?;
    objects.end("widgets.example.com", "default", "w")?;
    delete_definition(admin, "example.com")
        .await
        .context("a kind without objects")?;

    objects.definition("other.org")?;
    let says = "add other.org to the chart's value deletionProtection.crdGroups";
    refused(
        "a kind that may not be listed",
        delete_definition(admin, "other.org").await,
        says,
    )
}

/// Another writer's changes of the entry are reverted, all of them.
async fn is_put_right(admin: &Client) -> Result<()> {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(admin.clone());
    let entry = async || -> Result<_> {
        let webhooks = configurations
            .get(VALIDATING)
            .await?
            .webhooks
            .unwrap_or_default();
        ensure!(webhooks.len() == 2, "{webhooks:?}");
        webhooks
            .into_iter()
            .find(|webhook| webhook.name == GUARD)
            .context("no entry")
    };
    let before = entry().await?;
    let path = before
        .client_config
        .service
        .as_ref()
        .and_then(|service| service.path.clone())
        .unwrap_or_default();
    ensure!(
        path.strip_prefix(GUARD_PATH)
            .is_some_and(|rest| rest.len() == 65),
        "{path} is known to others"
    );
    let everything = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]);
    for change in [
        json!({"failurePolicy": "Ignore", "timeoutSeconds": 30, "rules": everything}),
        json!({"objectSelector": {"matchLabels": {LABEL: null, "a": "b"}}, "namespaceSelector": {"matchLabels": {"a": "b"}}}),
        json!({"matchConditions": [{"name": "never", "expression": "false"}]}),
        json!({"clientConfig": {"caBundle": null, "service": {"path": null}}}),
    ] {
        let mut webhook = change.clone();
        webhook["name"] = json!(GUARD);
        let patch = Patch::Strategic(json!({"webhooks": [webhook]}));
        configurations
            .patch(VALIDATING, &PatchParams::default(), &patch)
            .await?;
        until("the entry is as it was", async || {
            let after = entry().await?;
            ensure!(after == before, "{change}: {after:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The controller's token cannot make any other change to the entry.
async fn writes_nothing_else(stage: &Stage) -> Result<()> {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(stage.manager().await?);
    let found = configurations
        .get(VALIDATING)
        .await?
        .webhooks
        .unwrap_or_default();
    let with = |path: &str, value: Value| -> Result<_> {
        let mut webhooks = serde_json::to_value(&found)?;
        let entries = webhooks.as_array_mut().context("no entries")?;
        let guard = entries
            .iter_mut()
            .find(|entry| entry["name"] == GUARD)
            .context("no entry")?;
        *guard
            .pointer_mut(path)
            .with_context(|| format!("no field {path}"))? = value;
        Ok(Patch::Merge(json!({"webhooks": webhooks})))
    };
    let service =
        json!({"namespace": NAMESPACE, "name": "kruise-webhook-service", "path": "/validate"});
    for (what, path, value, says) in [
        (
            "about Secrets",
            "/rules/0/resources",
            json!(["secrets"]),
            "and no other way",
        ),
        (
            "about creations",
            "/rules/0/operations",
            json!(["CREATE"]),
            "and no other way",
        ),
        ("about nothing", "/rules", json!([]), "and no other way"),
        (
            "about all namespaces",
            "/objectSelector",
            json!({}),
            "and no other way",
        ),
        (
            "about some",
            "/namespaceSelector",
            json!({"matchLabels": {"a": "b"}}),
            "and no other way",
        ),
        (
            "about none",
            "/matchConditions/0/expression",
            json!("false"),
            "and no other way",
        ),
        (
            "so that all goes",
            "/failurePolicy",
            json!("Ignore"),
            "and no other way",
        ),
        (
            "with a long wait",
            "/timeoutSeconds",
            json!(30),
            "and no other way",
        ),
        (
            "by another path",
            "/clientConfig/service",
            service,
            "and no other way",
        ),
        (
            "by another Service",
            "/clientConfig/service/name",
            json!("other"),
            "no other Service",
        ),
        (
            "by another name",
            "/name",
            json!("other.policy.kruise.io"),
            "about objects of its own kinds",
        ),
    ] {
        refused(
            what,
            configurations
                .patch(VALIDATING, &trial(), &with(path, value)?)
                .await,
            says,
        )?;
    }
    let gone: Vec<_> = found.iter().filter(|entry| entry.name != GUARD).collect();
    let gone = Patch::Merge(json!({"webhooks": gone}));
    refused(
        "an entry that is gone",
        configurations.patch(VALIDATING, &trial(), &gone).await,
        "take guard-deletion",
    )?;
    configurations
        .patch(VALIDATING, &trial(), &with("/timeoutSeconds", json!(5))?)
        .await
        .context("as it is")?;
    Ok(())
}

/// Without a replica that counts, only objects with the label stay. If the other feature gate is
/// off, no kind stays.
async fn without_an_answer(stage: &Stage, admin: &Client) -> Result<()> {
    let objects = Objects(stage);
    objects.namespace("plain", None)?;
    delete_namespace(admin, "plain", false)
        .await
        .context("a namespace without the label")?;
    refused(
        "one that never goes",
        delete_namespace(admin, "always", false).await,
        "delete-protection=Always",
    )?;
    objects.namespace("uncounted", Some("Cascading"))?;
    let answer = delete_namespace(admin, "uncounted", false).await;
    ensure!(
        answer
            .as_ref()
            .is_err_and(|error| error.to_string().contains(GUARD)),
        "{answer:?}"
    );

    let gate = "controller.featureGates=ResourcesDeletionProtection=true";
    stage.upgrade(&[gate])?;
    until("the policy is the new one", async || {
        let says = "the feature gate DeletionProtectionForCRDCascadingGate is off";
        refused("a kind", delete_definition(admin, "other.org").await, says)
    })
    .await?;
    let install = "validatingWebhook.install=false";
    stage.upgrade(&[gate, install])?;
    until("the policy is the new one again", async || {
        refused(
            "a namespace",
            delete_namespace(admin, "uncounted", true).await,
            "validatingWebhook.install of the chart",
        )
    })
    .await
}
