//! DaemonSets: pods that are created, changed and deleted with their nodes, in place, by new pods
//! or by surge, and their history.

mod ending;
mod expected;
mod manifest;
mod run;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::api::{DeleteParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};

use self::run::DaemonRun;
use crate::group::WorldKind;
use crate::owner;
use crate::run::{Attempt, Outcome};
use crate::scenario::Scenario;
use crate::world::{ONE, PATIENCE, TWO};

const SET: &str = "log";
const THREE: &str = "faults:three";
/// Nodes of the world.
const FIRST: &str = "sim-0";
const SECOND: &str = "sim-1";
const THIRD: &str = "sim-2";
/// The node that joins and leaves.
const GUEST: &str = "sim-7";

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// A set is created.
    Created,
    /// A node joins.
    Joined,
    /// It gets another image in place, except on one node.
    InPlace,
    /// It gets another image by new pods, node by node.
    Replaced,
    /// It gets another image by new pods, each beside the old one first.
    Surged,
    /// A node does not fit any more, and the hook's owner lets its pod be deleted.
    Guarded,
    /// A node is deleted while the set gets another image, and returns under its name.
    NodeReturned,
    /// It is deleted in the middle of an update without its pods and revisions, and created again.
    Adopted,
    /// Kubernetes' own is deleted without them, and this one created in its place.
    AdoptedNative,
    /// It gets another image with a short history, and then its earlier one.
    RolledBack,
    /// A pod fails.
    Failed,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Daemon::Created,
    &Daemon::Joined,
    &Daemon::InPlace,
    &Daemon::Replaced,
    &Daemon::Surged,
    &Daemon::Guarded,
    &Daemon::NodeReturned,
    &Daemon::Adopted,
    &Daemon::AdoptedNative,
    &Daemon::RolledBack,
    &Daemon::Failed,
];

impl Scenario for Daemon {
    /// If pods fail, the set itself does not change; and nodes do not change while a hook holds the
    /// update.
    fn unheeded(&self) -> &'static [&'static str] {
        match self {
            Daemon::Failed => &["daemonsets"],
            Daemon::Guarded => &["nodes"],
            _ => &[],
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Daemon::Created => "daemon_created",
            Daemon::Joined => "daemon_joined",
            Daemon::InPlace => "daemon_in_place",
            Daemon::Replaced => "daemon_replaced",
            Daemon::Surged => "daemon_surged",
            Daemon::Guarded => "daemon_guarded",
            Daemon::NodeReturned => "daemon_node_returned",
            Daemon::Adopted => "daemon_adopted",
            Daemon::AdoptedNative => "daemon_adopted_native",
            Daemon::RolledBack => "daemon_rolled_back",
            Daemon::Failed => "daemon_failed",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &[WorldKind::Simulated]
    }

    fn watched(&self) -> Vec<&'static str> {
        let mut watched = vec!["daemonsets", "pods"];
        watched.extend(self.has_news_of_nodes().then_some("nodes"));
        let has_revisions = matches!(
            self,
            Daemon::Adopted | Daemon::AdoptedNative | Daemon::RolledBack
        );
        watched.extend(has_revisions.then_some("controllerrevisions"));
        watched
    }

    fn merged(&self) -> &'static [&'static str] {
        &["daemonsets/status", "nodeimages"]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        crate::run::run::<DaemonRun<'_>>(*self, attempt).boxed_local()
    }
}

impl Daemon {
    fn has_news_of_nodes(self) -> bool {
        matches!(
            self,
            Daemon::Joined | Daemon::Guarded | Daemon::NodeReturned
        )
    }

    /// The earlier images of the set, one after the other.
    fn images(self) -> &'static [&'static str] {
        match self {
            Daemon::Created => &[],
            Daemon::Adopted => &[ONE, TWO],
            Daemon::RolledBack => &[THREE, ONE],
            _ => &[ONE],
        }
    }

    /// Carries out the action.
    async fn act(self, run: &DaemonRun<'_>) -> Result<()> {
        let client = &run.world.client;
        match self {
            Daemon::Created => run.create(&self.set(ONE)).await,
            Daemon::Joined => run.join().await,
            Daemon::InPlace | Daemon::Replaced | Daemon::Surged => run.set_image(TWO).await,
            Daemon::Guarded => {
                run.turn_away(SECOND, true).await?;
                owner::let_go(client, &run.namespace, 1).await
            }
            Daemon::NodeReturned => return_in_the_middle(run).await,
            Daemon::Adopted => {
                run.delete(kind::DAEMON_SET, PropagationPolicy::Orphan)
                    .await?;
                run.create(&self.set(TWO)).await
            }
            Daemon::AdoptedNative => {
                let native =
                    objects::get(client, &run.namespace, kind::NATIVE_DAEMON_SET, SET).await?;
                run.delete(kind::NATIVE_DAEMON_SET, PropagationPolicy::Orphan)
                    .await?;
                let mut set = objects::again(&native);
                set["apiVersion"] = "apps.kruise.io/v1beta1".into();
                run.create(&set).await
            }
            Daemon::RolledBack => {
                run.set_image(TWO).await?;
                run.until_done(2, 2).await?;
                run.set_image(ONE).await
            }
            Daemon::Failed => {
                let name = pod_on(run, SECOND).await?["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let api = objects::api_of(
                    client,
                    &run.namespace,
                    &json!({"apiVersion": "v1", "kind": "Pod"}),
                )?;
                let failed =
                    Patch::Merge(json!({"status": {"phase": "Failed", "reason": "Evicted"}}));
                api.patch_status(&name, &PatchParams::default(), &failed)
                    .await?;
                // Until then the state looks like the end.
                objects::until_gone(client, &run.namespace, kind::POD, &name, PATIENCE).await
            }
        }
    }
}

/// The pod of a node.
async fn pod_on(run: &DaemonRun<'_>, node: &str) -> Result<Value> {
    let mut pods = objects::list(&run.world.client, &run.namespace, kind::POD, "").await?;
    pods.retain(|pod| pod["spec"]["nodeName"] == node);
    ensure!(
        pods.len() < 2,
        "node {node} has more than one pod: {pods:?}"
    );
    pods.pop()
        .with_context(|| format!("node {node} has no pod"))
}

/// The node is deleted as soon as it has the new image, and its pod with it, as the garbage
/// collector of pods does.
async fn return_in_the_middle(run: &DaemonRun<'_>) -> Result<()> {
    let (client, namespace) = (&run.world.client, &*run.namespace);
    run.set_image(TWO).await?;
    run.until_serves(GUEST, TWO).await?;
    let pod = pod_on(run, GUEST).await?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    objects::delete(client, "", kind::NODE, GUEST, &DeleteParams::background()).await?;
    objects::delete(
        client,
        namespace,
        kind::POD,
        name,
        &DeleteParams::background().grace_period(0),
    )
    .await?;
    let is_without = |set: &Value| set["status"]["desiredNumberScheduled"] == 2;
    objects::until(
        client,
        namespace,
        kind::DAEMON_SET,
        SET,
        PATIENCE,
        is_without,
    )
    .await?;
    run.join().await
}
