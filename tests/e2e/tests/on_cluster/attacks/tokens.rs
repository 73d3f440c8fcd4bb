//! The uses of a stolen token of the controller or of a daemon.

use anyhow::{Context, Result, ensure};
use berth_e2e::install;
use berth_e2e::objects::{self, kind};
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::attack;
use crate::pulls;
use crate::trust::{client_with, daemons};
use crate::world::{Case, PATIENCE};

const WEBHOOKS: &str = "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration";
const WEBHOOKS_NAME: &str = "kruise-validating-webhook-configuration";
const CRD: &str = "apiextensions.k8s.io/v1/CustomResourceDefinition";

/// Each request must be refused in words that name its user.
struct Tries {
    client: Client,
    allowed: Vec<String>,
}

impl Tries {
    /// With a token of the controller.
    async fn of_controller(case: &Case) -> Result<Tries> {
        let token = case
            .kubectl(&[
                "create",
                "token",
                "kruise-manager",
                "-n",
                install::NAMESPACE,
                "--duration=10m",
            ])
            .await?;
        Ok(Tries {
            client: client_with(case, &token).await?,
            allowed: Vec::new(),
        })
    }

    /// Tries a creation in a dry run, which stores nothing.
    async fn create(&mut self, what: &str, namespace: &str, manifest: Value) -> Result<()> {
        self.create_with(what, namespace, manifest, true).await
    }

    async fn create_with(
        &mut self,
        what: &str,
        namespace: &str,
        manifest: Value,
        dry_run: bool,
    ) -> Result<()> {
        let api = objects::api_of(&self.client, namespace, &manifest)?;
        let object: DynamicObject = serde_json::from_value(manifest)?;
        let answer = api
            .create(
                &PostParams {
                    dry_run,
                    ..PostParams::default()
                },
                &object,
            )
            .await;
        self.note(what, answer)
    }

    /// Tries a change in a dry run, which stores nothing.
    async fn patch(
        &mut self,
        what: &str,
        namespace: &str,
        kind: &str,
        name: &str,
        patch: Value,
    ) -> Result<()> {
        let (version, kind) = kind.rsplit_once('/').context("a kind has a version")?;
        let api = objects::api_of(
            &self.client,
            namespace,
            &json!({"apiVersion": version, "kind": kind}),
        )?;
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let answer = api.patch(name, &params, &Patch::Merge(&patch)).await;
        self.note(what, answer)
    }

    fn note(&mut self, what: &str, answer: Result<DynamicObject, kube::Error>) -> Result<()> {
        match answer {
            Ok(_) => self.allowed.push(what.to_owned()),
            Err(kube::Error::Api(status)) => {
                let says = status.message.contains("kruise-manager");
                ensure!(
                    status.code == 403 && says,
                    "the refusal of {what} does not name kruise-manager: {status:?}"
                );
            }
            Err(error) => return Err(error).with_context(|| what.to_owned()),
        }
        Ok(())
    }

    fn all_refused(self) -> Result<()> {
        ensure!(
            self.allowed.is_empty(),
            "allowed with a stolen token: {}",
            self.allowed.join("; ")
        );
        Ok(())
    }
}

fn pod(owners: &Value, more: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stolen", "ownerReferences": owners},
        "spec": {"containers": [{"name": "main", "image": "web:v1"}]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn owner(version: &str, kind: &str) -> Value {
    json!([{"apiVersion": version, "kind": kind, "name": "web", "uid": "u", "controller": true}])
}

/// A pod in the control plane's namespace may use any of its accounts, and any host.
pub(crate) async fn a_stolen_token_makes_no_pods_of_its_own(case: &Case) -> Result<()> {
    attack(case, async || {
        let mut tries = Tries::of_controller(case).await?;
        let ours = owner("apps.kruise.io/v1beta1", "CloneSet");
        let root = json!({
            "hostPID": true,
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
        });
        let admin = json!({"serviceAccountName": "clusterrole-aggregation-controller"});
        tries
            .create("a pod on a host", "kube-system", pod(&json!([]), &root))
            .await?;
        tries
            .create(
                "a pod on a host, as if owned",
                "kube-system",
                pod(&ours, &root),
            )
            .await?;
        tries
            .create(
                "a pod of an administrator's account",
                "kube-system",
                pod(&ours, &admin),
            )
            .await?;
        let own = json!({"serviceAccountName": "kruise-manager"});
        tries
            .create(
                "a pod beside the controller",
                install::NAMESPACE,
                pod(&ours, &own),
            )
            .await?;
        tries
            .create(
                "a pod without an owner",
                &case.namespace,
                pod(&json!([]), &json!({})),
            )
            .await?;
        let foreign = owner("apps/v1", "ReplicaSet");
        tries
            .create(
                "a pod of another's kind",
                &case.namespace,
                pod(&foreign, &json!({})),
            )
            .await?;
        tries.all_refused()
    })
    .await
}

/// A token that never ends, and endpoints of other Services.
pub(crate) async fn a_stolen_token_makes_no_tokens(case: &Case) -> Result<()> {
    attack(case, async || {
        let mut tries = Tries::of_controller(case).await?;
        let account = json!({"kubernetes.io/service-account.name": "kruise-manager"});
        for name in ["stay", "kruise-webhook-certs-2"] {
            let token = json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "annotations": account},
                "type": "kubernetes.io/service-account-token",
            });
            tries.create("a token that never ends", install::NAMESPACE, token).await?;
        }
        let plain = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plain"}});
        tries.create("a secret of another name", install::NAMESPACE, plain).await?;
        let endpoints = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "stolen", "labels": {"kubernetes.io/service-name": "kruise-manager-grpc"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.88.1.99"]}],
            "ports": [{"port": 9877}],
        });
        tries.create("endpoints of another name", install::NAMESPACE, endpoints).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "stolen"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "kruise-manager", "namespace": install::NAMESPACE}],
        });
        tries.create("a binding to itself", install::NAMESPACE, binding).await?;
        tries.all_refused()
    })
    .await
}

/// Of Berth's kinds, the token writes only the fields that the controller writes.
pub(crate) async fn a_stolen_token_writes_what_the_controller_writes(case: &Case) -> Result<()> {
    let image = case.image("v1").await?;
    case.clone_set("web", 1, &image, json!({})).await?;
    attack(case, async || {
        let mut tries = Tries::of_controller(case).await?;
        let evil = json!({"spec": {"replicas": 0}});
        for kind in [kind::CLONE_SET, kind::CLONE_SET_V1ALPHA1] {
            tries.patch("another scale of a CloneSet", &case.namespace, kind, "web", evil.clone()).await?;
        }
        let set = case.get(kind::CLONE_SET, "web").await?;
        let evil = objects::image_patch(&set, "evil:1");
        tries.patch("another image of a CloneSet", &case.namespace, kind::CLONE_SET, "web", evil).await?;
        let template = json!({
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "stored"},
            "template": {"spec": {"containers": [{"name": "main", "image": "web:v1"}]}},
        });
        tries.create_with("a PodTemplate that stays", &case.namespace, template, false).await?;
        let revision = json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {"name": "stolen", "ownerReferences": owner("apps/v1", "StatefulSet")},
            "data": {},
            "revision": 1,
        });
        tries.create("a revision of another's kind", &case.namespace, revision).await?;
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "stolen"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        tries.create("a claim without an owner", &case.namespace, claim).await?;
        tries.all_refused()
    })
    .await
}

/// The definitions of Berth's kinds: only their caBundle may change.
pub(crate) async fn a_stolen_token_changes_no_definition(case: &Case) -> Result<()> {
    attack(case, async || {
        let mut tries = Tries::of_controller(case).await?;
        let name = "clonesets.apps.kruise.io";
        let service = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"service": {"name": "evil"}}}}}});
        tries.patch("another webhook of a definition", "", CRD, name, service).await?;
        let names = json!({"spec": {"names": {"categories": ["all"]}}});
        tries.patch("another name of a definition", "", CRD, name, names).await?;
        tries.all_refused()
    })
    .await
}

/// In a webhook configuration, the fields that decide when the webhook is called, and whether
/// writes wait for it, are refused to a stolen token, or are restored.
pub(crate) async fn a_stolen_token_holds_up_no_writes(case: &Case) -> Result<()> {
    let before = objects::get(case.client(), "", WEBHOOKS, WEBHOOKS_NAME).await?;
    let said = |configuration: &Value| {
        let webhook = &configuration["webhooks"][0];
        (webhook["failurePolicy"].clone(), webhook["rules"].clone())
    };
    let attacked = attack(case, async || {
        let tries = Tries::of_controller(case).await?;
        let mut webhooks = before["webhooks"].clone();
        webhooks[0]["failurePolicy"] = "Fail".into();
        // A replacement of all rules that does no harm if it is not reverted.
        let rule = json!({"apiGroups": ["none.example"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
        webhooks[0]["rules"] = json!([rule]);
        let patch = json!({"webhooks": webhooks});
        if objects::patch(&tries.client, "", WEBHOOKS, WEBHOOKS_NAME, &patch)
            .await
            .is_err()
        {
            return Ok(());
        }
        let as_before = |now: &Value| said(now) == said(&before);
        let repaired = objects::until(
            case.client(),
            "",
            WEBHOOKS,
            WEBHOOKS_NAME,
            PATIENCE / 6,
            as_before,
        )
        .await;
        repaired
            .map(drop)
            .context("what a stolen token wrote stays")
    });
    let attacked = attacked.await;
    let restore = json!({"webhooks": before["webhooks"]});
    let restored = objects::patch(case.client(), "", WEBHOOKS, WEBHOOKS_NAME, &restore).await;
    attacked.and(restored.map(drop))
}

/// A daemon's status of its own node stays within its size limit.
pub(crate) async fn a_stolen_daemon_token_writes_small_statuses(case: &Case) -> Result<()> {
    attack(case, async || {
        let daemons = daemons(case).await?;
        let own = daemons.first().context("there is no daemon")?;
        let client = client_with(case, &own.token).await?;
        let api = kube::Api::<berth_api::v1beta1::NodeImage>::all(client);
        let long = "x".repeat(900_000);
        let condition = json!({
            "type": "Stolen", "status": "True", "reason": "Stolen", "message": long, "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let mut accepted = Vec::new();
        for (what, status) in [
            ("a long condition", json!({"conditions": [condition]})),
            ("a long message", json!({"message": long})),
            ("a long image", json!({"imageStatuses": {long.clone(): {"tags": []}}})),
        ] {
            let patch = json!({"status": status});
            let params = PatchParams { dry_run: true, ..PatchParams::default() };
            match api.patch_status(&own.node, &params, &Patch::Merge(&patch)).await {
                // Unknown fields are dropped.
                Ok(node) if serde_json::to_string(&node)?.len() < (256 << 10) => {}
                Ok(_) => accepted.push(what),
                Err(kube::Error::Api(status)) => println!("{what}: {}", status.message.chars().take(200).collect::<String>()),
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(accepted.is_empty(), "a daemon's token may write {accepted:?} of 900 KB");
        pulls::until_node(case, 1, |_| true).await.map(drop)
    })
    .await
}
