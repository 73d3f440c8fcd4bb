//! The pod webhook: called for the pods of workloads that ask for it, and for no others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use berth_webhook::pods::{Asks, MUTATING, NotYet, PinnedWorkload, Records, Scope};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::rotation;
use crate::stage::{LONG, REGISTRY, Replica, Stage, config, until};

/// Pins every pod to one node, and counts the calls. While `knows_nothing` is set, it gives no
/// answer.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    calls: AtomicUsize,
    knows_nothing: std::sync::atomic::AtomicBool,
}

impl Records for Counted {
    fn persistent_pod_state(&self, _: &str, _: (&str, &str, &str)) -> Option<String> {
        None
    }

    fn pin(&self, _: &str, pod: &mut Value) -> Result<bool, NotYet> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.knows_nothing.load(Ordering::Relaxed) {
            return Err(NotYet("PersistentPodStates"));
        }
        pod["spec"]["nodeSelector"]["host"] = json!("n1");
        Ok(true)
    }
}

pub(crate) fn workload(name: &str) -> PinnedWorkload {
    let text = str::to_owned;
    PinnedWorkload {
        namespace: text("default"),
        group: text("apps"),
        kind: text("StatefulSet"),
        name: text(name),
    }
}

pub(crate) fn pod(name: &str, owner: Option<&str>) -> Result<Pod> {
    let owners: Vec<_> = owner
        .into_iter()
        .map(|owner| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": "u", "controller": true}))
        .collect();
    let spec = json!({"containers": [{"name": "main", "image": "none"}], "automountServiceAccountToken": false});
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": spec}),
    )?)
}

pub(crate) async fn create(client: &Client, pod: &Pod) -> kube::Result<Pod> {
    Api::<Pod>::namespaced(client.clone(), "default")
        .create(
            &PostParams {
                dry_run: true,
                ..PostParams::default()
            },
            pod,
        )
        .await
}

pub(crate) fn is_pinned(pod: &Pod) -> bool {
    let selector = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.node_selector.as_ref());
    selector.is_some_and(|selector| selector.get("host").is_some_and(|host| host == "n1"))
}

#[test]
fn pod_webhook_is_called_only_for_requested_pods() -> Result<()> {
    let stage = Stage::with_values(&format!("{REGISTRY},podPinning.by=webhook"))?;
    stage.account("default")?;
    is_called_only_for_requested_pods(&stage)?;
    stage.remove_replicas()?;
    rotation::no_call_fails_while_secret_paths_rotate(&stage)
}

fn is_called_only_for_requested_pods(stage: &Stage) -> Result<()> {
    stage.run(async |admin| {
        let records = Arc::new(Counted::default());
        let settings = berth_webhook::Config {
            pods: true,
            records: Some(records.clone()),
            ..config(9876, LONG, None)
        };
        let mut replica = Replica::start_with(stage, &admin, settings).await?;
        replica.ready().await?;
        let mut ends = replica.handle.pods();
        let pins = Scope::new([(workload("db"), true), (workload("web"), false)]);
        ends.wanted.send_replace(Some(Asks {
            pins,
            ..Asks::default()
        }));
        ends.written.wait_for(Option::is_some).await?;
        until("pods of db are pinned", async || {
            ensure!(
                is_pinned(&create(&admin, &pod("db-0", Some("db"))?).await?),
                "db-0 is not pinned"
            );
            Ok(())
        })
        .await?;
        let calls = records.calls.load(Ordering::Relaxed);
        for (name, owner) in [("alone", None), ("other-0", Some("other")), ("db", None)] {
            ensure!(
                !is_pinned(&create(&admin, &pod(name, owner)?).await?),
                "{name} is pinned"
            );
        }
        ensure!(
            records.calls.load(Ordering::Relaxed) == calls,
            "somebody else's pod was asked about"
        );
        only_required_pods_wait(&admin, &records).await?;
        is_put_right(&admin).await?;
        // The wanted rules are empty now.
        ends.wanted.send_replace(Some(Asks::default()));
        let configurations: Api<MutatingWebhookConfiguration> = Api::all(admin.clone());
        until("no entry is left", async || {
            let webhooks = configurations
                .get(MUTATING)
                .await?
                .webhooks
                .unwrap_or_default();
            ensure!(webhooks.is_empty(), "{webhooks:?}");
            Ok(())
        })
        .await?;
        replica.end().await
    })
}

/// While nothing is known, only pods that must be pinned wait.
async fn only_required_pods_wait(admin: &Client, records: &Counted) -> Result<()> {
    records.knows_nothing.store(true, Ordering::Relaxed);
    let refused = create(admin, &pod("db-0", Some("db"))?)
        .await
        .err()
        .context("db-0 was taken without an answer")?;
    ensure!(
        refused
            .to_string()
            .contains("pin-required-0.pods.kruise.io"),
        "{refused}"
    );
    for (name, owner) in [("web-0", Some("web")), ("alone", None)] {
        create(admin, &pod(name, owner)?).await.context(name)?;
    }
    records.knows_nothing.store(false, Ordering::Relaxed);
    Ok(())
}

/// A writer with the right to write the entries could have every write of the cluster changed, so
/// the entries are reverted.
async fn is_put_right(admin: &Client) -> Result<()> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(admin.clone());
    let Some(mut entry) = configurations
        .get(MUTATING)
        .await?
        .webhooks
        .and_then(|entries| entries.into_iter().next())
    else {
        bail!("there is no entry")
    };
    entry.match_conditions = None;
    entry.namespace_selector = None;
    let webhooks = json!({"webhooks": [entry]});
    configurations
        .patch(MUTATING, &PatchParams::default(), &Patch::Merge(webhooks))
        .await?;
    until("the entries are as they were", async || {
        let entries = configurations
            .get(MUTATING)
            .await?
            .webhooks
            .unwrap_or_default();
        ensure!(
            entries.len() == 2 && entries.iter().all(|entry| entry.match_conditions.is_some()),
            "{entries:?}"
        );
        Ok(())
    })
    .await
}
