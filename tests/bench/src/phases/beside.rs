//! Small CloneSets beside a large rollout: whether they get their turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;

use super::Options;
use super::audit::Requests;
use super::measure::{Phase, begin};
use super::program::Program;
use super::stage::{NAMESPACE, PATIENCE, Stage};

/// How often the controller's reaction to a CloneSet is checked. The measured time is that of the
/// watch's event.
const LOOK: Duration = Duration::from_millis(2);
/// The pause between two changes.
const PAUSE: Duration = Duration::from_millis(50);

/// When each revision was seen, by the name of the CloneSet that owns it; the latest counts.
type Seen = Arc<Mutex<BTreeMap<String, Timestamp>>>;

/// A change of a small CloneSet: the times of the request, of the apiserver's answer, and of its
/// revision.
struct Change {
    asked: Timestamp,
    answered: Timestamp,
    seen: Timestamp,
}

fn name(number: usize) -> String {
    format!("small-{number}")
}

/// The small CloneSets, with a watch on their revisions.
pub(crate) struct Small {
    sets: usize,
    seen: Seen,
    changes: usize,
}

impl Small {
    /// Creates so many, of one pod each.
    pub(crate) async fn create(stage: &Stage, sets: usize) -> Result<Self> {
        let seen = Seen::default();
        watch(stage, seen.clone()).await?;
        for number in 0..sets {
            let set = objects::clone_set(&name(number), 1, "small:0", &json!({}));
            objects::create(&stage.client, NAMESPACE, &set).await?;
        }
        for number in 0..sets {
            objects::until(
                &stage.client,
                NAMESPACE,
                kind::CLONE_SET,
                &name(number),
                PATIENCE,
                objects::is_done,
            )
            .await?;
        }
        Ok(Self {
            sets,
            seen,
            changes: 0,
        })
    }

    /// Changes each of them in turn while nothing else happens.
    pub(crate) async fn alone(
        &mut self,
        stage: &mut Stage,
        program: &Program,
        subject: (&str, usize),
    ) -> Result<Phase> {
        let phase = begin(stage, Some(program)).await?;
        let mut changes = Vec::new();
        for _ in 0..self.sets {
            changes.push(self.change(stage).await?);
        }
        let phase = phase
            .end(stage, Some(program), subject, ("small alone", 0))
            .await?;
        Ok(Phase {
            each: acted_on(&changes, &phase.requests)?,
            ..phase
        })
    }

    /// Changes one after the other until the large CloneSet has finished its change of image.
    pub(crate) async fn beside(
        &mut self,
        stage: &mut Stage,
        program: &Program,
        options: &Options,
        large: &str,
        subject: (&str, usize),
    ) -> Result<Phase> {
        let set = objects::clone_set(large, options.pods, "web:1", &json!({}));
        let in_place = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "25%"}});
        let mut patch = objects::image_patch(&set, "web:5");
        patch["spec"]["updateStrategy"] = in_place;
        let phase = begin(stage, Some(program)).await?;
        objects::patch(&stage.client, NAMESPACE, kind::CLONE_SET, large, &patch).await?;
        let mut changes = Vec::new();
        loop {
            changes.push(self.change(stage).await?);
            let large = objects::get(&stage.client, NAMESPACE, kind::CLONE_SET, large).await?;
            if objects::is_done(&large) {
                break;
            }
        }
        let phase = phase
            .end(
                stage,
                Some(program),
                subject,
                ("small beside", options.pods),
            )
            .await?;
        Ok(Phase {
            each: acted_on(&changes, &phase.requests)?,
            ..phase
        })
    }

    /// Changes the next one, and waits for its new revision.
    async fn change(&mut self, stage: &Stage) -> Result<Change> {
        self.changes += 1;
        let name = name(self.changes % self.sets);
        let set = objects::clone_set(&name, 1, "small:0", &json!({}));
        let patch = objects::image_patch(&set, &format!("small:{}", self.changes));
        let asked = Timestamp::now();
        objects::patch(&stage.client, NAMESPACE, kind::CLONE_SET, &name, &patch).await?;
        let (answered, deadline) = (Timestamp::now(), Instant::now() + PATIENCE);
        loop {
            let seen = self.seen.lock().get(&name).copied();
            if let Some(seen) = seen.filter(|seen| *seen > asked) {
                sleep(PAUSE).await;
                return Ok(Change {
                    asked,
                    answered,
                    seen,
                });
            }
            ensure!(
                Instant::now() < deadline,
                "CloneSet {name} is never acted on"
            );
            sleep(LOOK).await;
        }
    }
}

/// How many seconds after the apiserver had each change its first request came: the dry run of its
/// template.
fn acted_on(changes: &[Change], requests: &Requests) -> Result<Vec<f64>> {
    let of_change = |change: &Change| {
        let of_it = requests
            .judged
            .iter()
            .filter(|judged| (change.asked..=change.seen).contains(judged));
        let judged = of_it.max().context("a template was never judged")?;
        Ok(judged
            .duration_since(change.answered)
            .as_secs_f64()
            .max(0.0))
    };
    changes.iter().map(of_change).collect()
}

/// Records every revision that is created from now on.
async fn watch(stage: &Stage, seen: Seen) -> Result<()> {
    let revisions: Api<ControllerRevision> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let listed = revisions
        .list_metadata(&kube::api::ListParams::default().limit(1))
        .await?;
    let version = listed
        .metadata
        .resource_version
        .context("a list has a version")?;
    let parameters = WatchParams {
        timeout: Some(290),
        ..WatchParams::default()
    };
    let mut told = revisions
        .watch_metadata(&parameters, &version)
        .await?
        .boxed();
    tokio::spawn(async move {
        while let Some(Ok(event)) = told.next().await {
            let WatchEvent::Added(revision) = event else {
                continue;
            };
            if let Some(owner) = revision.owner_references().first() {
                seen.lock().insert(owner.name.clone(), Timestamp::now());
            }
        }
    });
    Ok(())
}
