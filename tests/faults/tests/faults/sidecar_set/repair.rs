//! Pods that were created without injection are replaced, one after the other, by pods that have
//! the containers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use berth_api::names::annotation::SIDECARSET_REPAIR;
use berth_api::names::label::SPECIFIED_DELETE;
use berth_e2e::limits::Limits;
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::record::{Moment, PodView};
use berth_e2e::watch::PodWatch;
use http::Method;
use serde_json::{Value, json};

use super::ending::{self, condition};
use super::group::Group;
use super::{MAX_UNAVAILABLE, SET, Sidecar};
use crate::clone_set::Rollout;
use crate::laws;
use crate::run;
use crate::scenario::Run;
use crate::sidecar_laws::LIST;
use crate::stateful_set::pod_template;
use crate::world::{ONE, PATIENCE, World};

/// Pods: they are replaced one after the other.
const REPLICAS: usize = 2;
const REPLICA_SET: &str = "apps/v1/ReplicaSet";

/// A SidecarSet, and a workload whose pods lack its containers, in a namespace of its own.
pub(crate) struct RepairRun<'a> {
    group: Group<'a>,
    watch: PodWatch,
    /// The end of the set-up, counted from the start of the watch.
    from: Duration,
}

impl<'a> Run<'a> for RepairRun<'a> {
    type Scenario = Sidecar;

    async fn begin(world: &'a World, namespace: &str, what: Sidecar) -> Result<Self> {
        let watch = PodWatch::start(
            &world.client,
            namespace,
            &format!("{APP}={SET}"),
            Instant::now(),
        )
        .await?;
        Ok(RepairRun {
            group: Group {
                world,
                what,
                namespace: namespace.to_owned(),
            },
            watch,
            from: Duration::ZERO,
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        let strategy = json!({"type": "RollingUpdate", "maxUnavailable": MAX_UNAVAILABLE});
        let spec = json!({"updateStrategy": strategy, "injectionStrategy": {"paused": true}});
        self.group.make(ONE, &spec).await?;
        objects::create(
            &self.group.world.client,
            &self.group.namespace,
            &self.workload(),
        )
        .await?;
        run::rest(&self.group.world.controller, || self.look_for(false)).await?;
        self.caught_up(false).await?;
        self.from = self.watch.began().elapsed();
        Ok(())
    }

    async fn act(&self) -> Result<()> {
        for set in self.group.sets() {
            self.group
                .patch(
                    *set,
                    &json!({"spec": {"injectionStrategy": {"paused": false}}}),
                )
                .await?;
        }
        // Pods that are created before lack the containers, and repair stops because of them.
        self.group.injects().await?;
        for set in self.group.sets() {
            self.group
                .patch(
                    *set,
                    &json!({"metadata": {"annotations": {SIDECARSET_REPAIR: "Missed"}}}),
                )
                .await?;
        }
        Ok(())
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        self.look_for(true).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        self.caught_up(true).await?;
        self.check_writes()?;
        let record = self.watch.record()?.since(self.from);
        laws::begins_with(&record, REPLICAS)?;
        laws::pods_are_created(&record, REPLICAS)?;
        let available = REPLICAS - MAX_UNAVAILABLE;
        laws::limits_hold(
            &record,
            &Limits {
                available,
                active: REPLICAS,
                ..Limits::default()
            },
        )?;
        laws::only_such_go(&record, "lacks the containers", |pod| !has_them(pod))
    }

    async fn clean_up(&self) -> Result<()> {
        self.group
            .delete(&self.group.namespace, self.workload_kind(), SET)
            .await?;
        self.group.clean_up().await
    }
}

impl RepairRun<'_> {
    fn is_evicted(&self) -> bool {
        self.group.what == Sidecar::RepairEvicted
    }

    fn workload_kind(&self) -> &'static str {
        if self.is_evicted() {
            REPLICA_SET
        } else {
            kind::CLONE_SET
        }
    }

    fn workload(&self) -> Value {
        if !self.is_evicted() {
            let mut set = Rollout::Quick.clone_set();
            set["spec"]["replicas"] = json!(REPLICAS);
            return set;
        }
        let mut template = pod_template();
        template["metadata"]["labels"][APP] = json!(SET);
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": SET},
            "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {APP: SET}}, "template": template},
        })
    }

    /// Waits until the record has the current pods.
    async fn caught_up(&self, repaired: bool) -> Result<()> {
        let all_are_so = |now: &Moment<'_>| {
            now.available(Duration::ZERO) == REPLICAS
                && now.pods.len() == REPLICAS
                && now
                    .pods
                    .values()
                    .all(|standing| has_them(standing.pod) == repaired)
        };
        self.watch
            .until(
                "all pods serve and are as they are to be",
                PATIENCE,
                all_are_so,
            )
            .await
            .map(drop)
    }

    fn check_writes(&self) -> Result<()> {
        let ledger = self.group.world.controller.ledger();
        // The workload does the rest; for a CloneSet, that is the controller itself.
        let (evicted, replaced) = if self.is_evicted() {
            (REPLICAS, 0)
        } else {
            (0, REPLICAS)
        };
        let counts = [
            (Method::POST, "pods/eviction", evicted),
            (Method::POST, "pods", replaced),
            (Method::DELETE, "pods", replaced),
            (Method::POST, "controllerrevisions", 0),
            (Method::PATCH, "mutatingwebhookconfigurations", 1),
        ];
        laws::writes_are(&ledger, counts)?;
        let is_told = |body: &Value| !body["metadata"]["labels"][SPECIFIED_DELETE].is_null();
        let told = ledger
            .entries()
            .iter()
            .filter(|entry| entry.is_done() && is_told(&entry.body))
            .count();
        ensure!(
            told == replaced,
            "{told} pods were told to go, not {replaced}"
        );
        Ok(())
    }

    /// The state, and the reason why not all pods are repaired, or none.
    async fn look_for(&self, repaired: bool) -> Result<(Value, Option<String>)> {
        let (client, namespace) = (&self.group.world.client, &self.group.namespace);
        let pods = self.group.pods().await?;
        let (injected, missed) = if repaired {
            (REPLICAS, 0)
        } else {
            (0, REPLICAS)
        };
        let mut statuses = Vec::new();
        for set in self.group.sets() {
            statuses.push(ending::status(
                &objects::get(client, "", kind::SIDECAR_SET, &self.group.name(*set)).await?,
            ));
        }
        let is_told = |status: &Value| {
            let told = &status["injection"];
            let is_idle = condition(&json!({"status": status}), "Repairing")["reason"] == "Idle";
            status["observedGeneration"] == true
                && (told["injected"] == injected
                    && told["missed"] == missed
                    && told["selected"] == REPLICAS)
                && is_idle == repaired
        };
        let serves = |pod: &&Value| condition(pod, "Ready")["status"] == "True";
        let is_done = pods.len() == REPLICAS
            && pods.iter().filter(serves).count() == REPLICAS
            && statuses.iter().all(is_told);
        let mut now = json!({"sets": statuses, "pods": ending::pods(&pods, true)});
        let mut flaw = (!is_done).then(|| format!("repaired is to be {repaired}"));
        if !self.is_evicted() {
            let owner = objects::get(client, namespace, kind::CLONE_SET, SET).await?;
            flaw =
                flaw.or((!objects::is_done(&owner)).then(|| "the CloneSet is not done".to_owned()));
            now["owner"] = ending::status(&owner);
        }
        let now = ending::without_namespace(&now, namespace)?;
        let flaw = flaw.map(|flaw| format!("{flaw}: {now}"));
        Ok((now, flaw))
    }
}

fn has_them(pod: &PodView) -> bool {
    !pod.annotation(LIST).is_empty()
}
