//! The SidecarSets of a run, and pods that get their containers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_api::names::annotation::INPLACE_UPDATE_WAIT_FOR_IMAGE;
use berth_e2e::objects::{self, APP, kind};
use futures::future::try_join_all;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::ending::condition;
use super::{Kept, SET, Sidecar};
use crate::run;
use crate::sidecar_laws::LIST;
use crate::stateful_set::pod_template;
use crate::world::{MUTATING, NAMESPACE, PATIENCE, World};

const CONFIGURATION: &str = "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration";
/// The label of a revision with the name of its SidecarSet.
const OF_SET: &str = "kruise.io/sidecarset-name";

pub(super) struct Group<'a> {
    pub(super) world: &'a World,
    pub(super) what: Sidecar,
    pub(super) namespace: String,
}

impl Group<'_> {
    pub(super) fn sets(&self) -> &'static [Kept] {
        self.what.sets()
    }

    pub(super) fn name(&self, set: Kept) -> String {
        set.name(&self.namespace)
    }

    /// Creates all SidecarSets, with this image and this in their specs.
    pub(super) async fn make(&self, image: &str, spec: &Value) -> Result<()> {
        for set in self.sets() {
            let mut manifest = set.manifest(&self.namespace, image, spec);
            if self.what == Sidecar::Ahead {
                // Longer than anything takes.
                manifest["metadata"]["annotations"][INPLACE_UPDATE_WAIT_FOR_IMAGE] = json!("1h");
            }
            objects::create(&self.world.client, "", &manifest).await?;
        }
        Ok(())
    }

    /// Waits until the webhook configuration has the entries for the containers of all SidecarSets.
    pub(super) async fn asked(&self) -> Result<()> {
        let is_asked = |set: &Value| condition(set, "InjectionReady")["status"] == "True";
        for set in self.sets() {
            objects::until(
                &self.world.client,
                "",
                kind::SIDECAR_SET,
                &self.name(*set),
                PATIENCE,
                is_asked,
            )
            .await?;
        }
        Ok(())
    }

    pub(super) async fn patch(&self, set: Kept, patch: &Value) -> Result<()> {
        objects::patch(
            &self.world.client,
            "",
            kind::SIDECAR_SET,
            &self.name(set),
            patch,
        )
        .await
        .map(drop)
    }

    /// Changes the image of all, and this in their specs.
    pub(super) async fn set_image(&self, image: &str, spec: &Value) -> Result<()> {
        let change = async |set: &Kept| {
            let mut spec = spec.clone();
            spec["containers"] = set.containers(image);
            self.patch(*set, &json!({"spec": spec})).await
        };
        try_join_all(self.sets().iter().map(change)).await.map(drop)
    }

    /// Creates a pod without an owner, with the containers of all SidecarSets. An apiserver may
    /// call the webhook only a moment after its configuration has changed.
    pub(super) async fn create_pod(&self, name: &str) -> Result<()> {
        self.create_pod_of(SET, name).await
    }

    async fn create_pod_of(&self, app: &str, name: &str) -> Result<()> {
        let mut pod = pod_template();
        (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
        (pod["metadata"]["name"], pod["metadata"]["labels"][APP]) = (json!(name), json!(app));
        let mut sets: Vec<_> = self.sets().iter().map(|set| self.name(*set)).collect();
        sets.sort();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let created = objects::create(&self.world.client, &self.namespace, &pod).await;
            match created {
                Ok(created) if created["metadata"]["annotations"][LIST] == sets.join(",") => {
                    return Ok(());
                }
                Ok(_) => self.delete(&self.namespace, kind::POD, name).await?,
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {}
            }
            ensure!(
                Instant::now() < deadline,
                "pod {name} does not get its containers in {PATIENCE:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the apiserver calls the webhook for the containers of all.
    pub(super) async fn injects(&self) -> Result<()> {
        const PROBE: &str = "probe";
        self.asked().await?;
        self.create_pod_of(PROBE, PROBE).await?;
        self.delete(&self.namespace, kind::POD, PROBE).await
    }

    /// Deletes the object at once, without a grace period.
    pub(super) async fn delete(&self, namespace: &str, of_kind: &str, name: &str) -> Result<()> {
        objects::delete(
            &self.world.client,
            namespace,
            of_kind,
            name,
            &DeleteParams::background().grace_period(0),
        )
        .await
    }

    pub(super) async fn pods(&self) -> Result<Vec<Value>> {
        objects::list(&self.world.client, &self.namespace, kind::POD, "").await
    }

    /// The history of a SidecarSet, the oldest first.
    pub(super) async fn revisions(&self, set: &str) -> Result<Vec<Value>> {
        let mut all = objects::list(
            &self.world.client,
            NAMESPACE,
            kind::REVISION,
            &format!("{OF_SET}={set}"),
        )
        .await?;
        all.sort_by_key(|revision| revision["revision"].as_i64());
        Ok(all)
    }

    /// Deletes all SidecarSets, and waits until the objects that all runs share have nothing left
    /// of them.
    pub(super) async fn clean_up(&self) -> Result<()> {
        for set in self.sets() {
            self.delete("", kind::SIDECAR_SET, &self.name(*set)).await?;
        }
        let nothing = async || {
            let configuration =
                objects::get(&self.world.client, "", CONFIGURATION, MUTATING).await?;
            let mut revisions = 0;
            for set in self.sets() {
                revisions += self.revisions(&self.name(*set)).await?.len();
            }
            let is_clean = revisions == 0 && !configuration.to_string().contains(&self.namespace);
            Ok((
                (),
                (!is_clean).then(|| format!("{revisions} revisions are left, and {configuration}")),
            ))
        };
        run::rest(&self.world.controller, nothing).await
    }
}
