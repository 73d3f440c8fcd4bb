//! BroadcastJobs: one pod on each node, once, while pods end and nodes come and go.

mod expected;
pub(crate) mod laws;
mod run;

use anyhow::{Result, ensure};
use berth_e2e::objects::{self, kind};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use self::run::JobRun;
use crate::group::WorldKind;
use crate::run::{Attempt, Outcome};
use crate::scenario::Scenario;
use crate::world::{ONE, PATIENCE};

const JOB: &str = "once";
/// Nodes of the world.
const FIRST: &str = "sim-0";
const SECOND: &str = "sim-1";
const THIRD: &str = "sim-2";
/// The node that joins.
const GUEST: &str = "sim-7";

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// The job runs on all nodes at once.
    Ran,
    /// The job runs on one node after the other.
    Narrow,
    /// A pod fails, which pauses the job, and a user resumes it.
    Paused,
    /// A pod's container restarts too often.
    Restarted,
    /// A pod fails, which ends the job.
    FailedFast,
    /// The job's deadline passes.
    OutOfTime,
    /// The job is deleted after it has ended.
    Expired,
    /// The job never ends, and a node joins.
    Joined,
    /// A pod is deleted before its end.
    Lost,
    /// A pod is deleted after its end.
    Kept,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Job::Ran,
    &Job::Narrow,
    &Job::Paused,
    &Job::Restarted,
    &Job::FailedFast,
    &Job::OutOfTime,
    &Job::Expired,
    &Job::Joined,
    &Job::Lost,
    &Job::Kept,
];

impl Scenario for Job {
    fn name(&self) -> &'static str {
        match self {
            Job::Ran => "job_ran",
            Job::Narrow => "job_narrow",
            Job::Paused => "job_paused",
            Job::Restarted => "job_restarted",
            Job::FailedFast => "job_failed_fast",
            Job::OutOfTime => "job_out_of_time",
            Job::Expired => "job_expired",
            Job::Joined => "job_joined",
            Job::Lost => "job_lost",
            Job::Kept => "job_kept",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &[WorldKind::Simulated]
    }

    fn watched(&self) -> Vec<&'static str> {
        let mut watched = vec!["broadcastjobs", "pods"];
        watched.extend((*self == Job::Joined).then_some("nodes"));
        watched
    }

    fn merged(&self) -> &'static [&'static str] {
        &["broadcastjobs/status", "nodeimages"]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        crate::run::run::<JobRun<'_>>(*self, attempt).boxed_local()
    }
}

impl Job {
    /// The job's manifest.
    fn manifest(self) -> Value {
        let is_named =
            json!({"key": "kubernetes.io/hostname", "operator": "In", "values": self.nodes()});
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [is_named]}]});
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        let template = json!({"spec": {
            "automountServiceAccountToken": false,
            "restartPolicy": if self == Job::Restarted { "OnFailure" } else { "Never" },
            "affinity": affinity,
            "containers": [{"name": "main", "image": ONE}],
        }});
        let mut spec = json!({"template": template});
        match self {
            Job::Narrow | Job::Kept => spec["parallelism"] = json!(1),
            Job::Paused => {
                (spec["parallelism"], spec["failurePolicy"]) = (json!(1), json!({"type": "Pause"}));
            }
            Job::Restarted => {
                spec["failurePolicy"] = json!({"type": "Continue", "restartLimit": 1})
            }
            Job::Expired => spec["completionPolicy"] = json!({"ttlSecondsAfterFinished": 1}),
            Job::Joined => spec["completionPolicy"] = json!({"type": "Never"}),
            Job::Ran | Job::FailedFast | Job::OutOfTime | Job::Lost => {}
        }
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob", "metadata": {"name": JOB}, "spec": spec})
    }

    /// Creates the objects that exist before the run.
    async fn set_up(self, run: &JobRun<'_>) -> Result<()> {
        match self {
            Job::OutOfTime | Job::Lost => {
                run.create().await?;
                run.rests(|status| status["active"] == 3).await
            }
            Job::Joined => {
                run.create().await?;
                run.end(FIRST, "Succeeded").await?;
                run.end(SECOND, "Succeeded").await?;
                run.rests(|status| status["succeeded"] == 2).await
            }
            Job::Kept => {
                run.create().await?;
                run.end(FIRST, "Succeeded").await?;
                run.rests(|status| status["succeeded"] == 1 && status["active"] == 1)
                    .await
            }
            _ => Ok(()),
        }
    }

    /// Carries out the action.
    async fn act(self, run: &JobRun<'_>) -> Result<()> {
        match self {
            Job::Ran | Job::Narrow | Job::Expired => {
                run.create().await?;
                run.end_all(&[FIRST, SECOND, THIRD]).await
            }
            Job::Paused => pause_and_go_on(run).await,
            Job::Restarted => {
                run.create().await?;
                run.restart(SECOND).await?;
                run.end_all(&[FIRST, THIRD]).await
            }
            Job::FailedFast => {
                run.create().await?;
                for node in [FIRST, SECOND, THIRD] {
                    run.running(node).await?;
                }
                run.end(FIRST, "Succeeded").await?;
                run.until(|status| status["succeeded"] == 1).await?;
                run.end(SECOND, "Failed").await
            }
            Job::OutOfTime => {
                run.patch(&json!({"spec": {"completionPolicy": {"activeDeadlineSeconds": 1}}}))
                    .await
            }
            Job::Joined => {
                run.join().await?;
                run.end(GUEST, "Succeeded").await
            }
            Job::Lost => {
                run.delete_pod(SECOND).await?;
                run.end_all(&[FIRST, SECOND, THIRD]).await
            }
            Job::Kept => {
                run.delete_pod(FIRST).await?;
                run.end_all(&[SECOND, THIRD]).await
            }
        }
    }
}

/// The second node's pod fails. As long as the job stays paused, the third gets none.
async fn pause_and_go_on(run: &JobRun<'_>) -> Result<()> {
    run.create().await?;
    run.end(FIRST, "Succeeded").await?;
    run.end(SECOND, "Failed").await?;
    let is_paused =
        |job: &Value| job["spec"]["paused"] == true && job["status"]["phase"] == "paused";
    objects::until(
        &run.world.client,
        &run.namespace,
        kind::BROADCAST_JOB,
        JOB,
        PATIENCE,
        is_paused,
    )
    .await?;
    let pods = objects::list(&run.world.client, &run.namespace, kind::POD, "").await?;
    ensure!(
        pods.len() == 2,
        "a pod was created though the job is paused: {pods:?}"
    );
    run.patch(&json!({"spec": {"paused": false}})).await?;
    run.end(THIRD, "Succeeded").await
}
