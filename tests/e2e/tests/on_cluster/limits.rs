//! maxUnavailable, maxSurge and partition, at every instant of a rollout.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_e2e::limits::Limits;
use berth_e2e::objects::kind;
use serde_json::{Value, json};

use crate::world::{Case, PATIENCE};

const REPLICAS: usize = 5;
/// The record has its own clock: the record may show a ready pod later than the deletion of the
/// next one, by at most this time.
const ON_THE_WAY: Duration = Duration::from_secs(4);

/// A rollout and its limits.
struct Rollout {
    rolling_update: Value,
    min_ready_seconds: u8,
    max_unavailable: usize,
    max_surge: usize,
    partition: usize,
}

impl Rollout {
    fn new(rolling_update: Value) -> Self {
        Rollout {
            rolling_update,
            min_ready_seconds: 0,
            max_unavailable: 0,
            max_surge: 0,
            partition: 0,
        }
    }

    /// Rolls out, records, and checks the record.
    async fn holds(&self, case: &Case) -> Result<()> {
        let (one, two) = (case.image("v1").await?, case.image("v2").await?);
        case.clone_set("web", REPLICAS, &one, self.rolling_update.clone())
            .await?;
        let min_ready = Duration::from_secs(self.min_ready_seconds.into());
        case.patch(
            kind::CLONE_SET,
            "web",
            json!({"spec": {"minReadySeconds": self.min_ready_seconds}}),
        )
        .await?;
        let all_available = |set: &Value| set["status"]["availableReplicas"] == REPLICAS;
        case.until(kind::CLONE_SET, "web", all_available).await?;
        let watch = case.watch("web").await?;
        // The record must have seen the pods ready for as long before the rollout may take one out
        // of service.
        tokio::time::sleep(min_ready).await;

        let from = watch.began().elapsed();
        case.set_image("web", &two).await?;
        let updated = REPLICAS - self.partition;
        let reached = |set: &Value| {
            let status = &set["status"];
            status["observedGeneration"] == set["metadata"]["generation"]
                && status["updatedReplicas"] == updated
                && status["updatedReadyReplicas"] == updated
                && status["replicas"] == REPLICAS
                && status["availableReplicas"] == REPLICAS
        };
        let done = case.until(kind::CLONE_SET, "web", reached).await?;
        let revision = done["status"]["updateRevision"]
            .as_str()
            .unwrap_or_default();
        watch
            .until("all pods serve", PATIENCE, |now| {
                now.available(Duration::ZERO) == REPLICAS
            })
            .await?;

        let record = watch.record()?.since(from);
        let last = record.last();
        let label = last
            .label_of(revision)
            .with_context(|| format!("no pod is of {revision}: {}", last.describe()))?;
        let limits = Limits {
            available: REPLICAS - self.max_unavailable,
            min_ready: min_ready.saturating_sub(ON_THE_WAY),
            active: REPLICAS + self.max_surge,
            kept: Some((label.to_owned(), self.partition)),
        };
        limits.ensure_kept(&record)?;
        ensure!(
            record.entries().len() > updated,
            "the record shows no rollout"
        );
        Ok(())
    }
}

pub(crate) async fn in_place_with_max_unavailable(case: &Case) -> Result<()> {
    let rollout =
        Rollout::new(json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}));
    Rollout {
        max_unavailable: 1,
        ..rollout
    }
    .holds(case)
    .await
}

pub(crate) async fn in_place_with_partition(case: &Case) -> Result<()> {
    let rollout = Rollout::new(
        json!({"podUpdatePolicy": "InPlaceOnly", "maxUnavailable": "40%", "partition": "60%"}),
    );
    Rollout {
        max_unavailable: 2,
        partition: 3,
        ..rollout
    }
    .holds(case)
    .await?;
    // A lower partition lets the other pods be updated.
    case.set_strategy("web", json!({"partition": 0})).await?;
    case.done("web").await.map(|_| ())
}

pub(crate) async fn in_place_with_surge(case: &Case) -> Result<()> {
    let strategy =
        json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 0, "maxSurge": 1});
    Rollout {
        max_surge: 1,
        ..Rollout::new(strategy)
    }
    .holds(case)
    .await
}

pub(crate) async fn in_place_with_min_ready_seconds(case: &Case) -> Result<()> {
    let rollout =
        Rollout::new(json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2}));
    Rollout {
        max_unavailable: 2,
        min_ready_seconds: 6,
        ..rollout
    }
    .holds(case)
    .await
}

pub(crate) async fn recreate_with_max_unavailable(case: &Case) -> Result<()> {
    let rollout = Rollout::new(json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": 2}));
    Rollout {
        max_unavailable: 2,
        ..rollout
    }
    .holds(case)
    .await
}

pub(crate) async fn recreate_with_surge_alone(case: &Case) -> Result<()> {
    let strategy = json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": 0, "maxSurge": 2});
    Rollout {
        max_surge: 2,
        ..Rollout::new(strategy)
    }
    .holds(case)
    .await
}

pub(crate) async fn recreate_with_surge_and_partition(case: &Case) -> Result<()> {
    let strategy =
        json!({"podUpdatePolicy": "ReCreate", "maxUnavailable": 1, "maxSurge": 1, "partition": 2});
    Rollout {
        max_unavailable: 1,
        max_surge: 1,
        partition: 2,
        ..Rollout::new(strategy)
    }
    .holds(case)
    .await
}
