//! One run: a DaemonSet in a namespace of its own, on some of the nodes.

use std::time::{Duration, Instant};

use anyhow::Result;
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use berth_e2e::record::{Moment, Record};
use berth_e2e::watch::PodWatch;
use berth_simnode::{nodes, now};
use http::Method;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use super::ending::Ending;
use super::expected::Expected;
use super::manifest::AWAY;
use super::{Daemon, GUEST, SECOND, SET};
use crate::laws::{self, OnNodes};
use crate::owner::HOOK;
use crate::run;
use crate::scenario::Run;
use crate::world::{PATIENCE, World};

/// A DaemonSet, with the history of its pods.
pub(crate) struct DaemonRun<'a> {
    pub(super) world: &'a World,
    what: Daemon,
    pub(super) namespace: String,
    watch: PodWatch,
    /// The end of the set-up, counted from the start of the watch.
    from: Duration,
}

impl<'a> Run<'a> for DaemonRun<'a> {
    type Scenario = Daemon;

    async fn begin(world: &'a World, namespace: &str, what: Daemon) -> Result<Self> {
        let watch = PodWatch::start(
            &world.client,
            namespace,
            &format!("{APP}={SET}"),
            Instant::now(),
        )
        .await?;
        Ok(DaemonRun {
            world,
            what,
            namespace: namespace.to_owned(),
            watch,
            from: Duration::ZERO,
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        let nodes = self.what.nodes();
        if nodes.contains(&GUEST) {
            self.join().await?;
        }
        if let [first, later @ ..] = self.what.images() {
            self.create(&self.what.set(first)).await?;
            self.rests(nodes.len()).await?;
            for image in later {
                self.set_image(image).await?;
                self.rests(nodes.len() - self.what.partition()).await?;
            }
            self.all_serve(nodes.len()).await?;
        }
        self.from = self.watch.began().elapsed();
        Ok(())
    }

    async fn act(&self) -> Result<()> {
        self.what.act(self).await
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        let wanted = self.what.expected();
        let updated = wanted.pods.len() - self.what.partition();
        Ok(Ending::read(&self.world.client, &self.namespace)
            .await?
            .judged(self.world, &wanted, updated))
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let wanted = self.what.expected();
        self.all_serve(wanted.pods.len()).await?;
        self.check_writes(&wanted)?;
        self.check_record(&self.watch.record()?.since(self.from), &wanted)
    }

    /// Deletes the set, and its pods with it, and restores the nodes.
    async fn clean_up(&self) -> Result<()> {
        let (client, how) = (&self.world.client, DeleteParams::background());
        objects::delete(client, &self.namespace, kind::DAEMON_SET, SET, &how).await?;
        if self.what == Daemon::Guarded {
            self.turn_away(SECOND, false).await?;
        }
        if self.what.all_nodes().contains(&GUEST) {
            objects::delete(client, "", kind::NODE, GUEST, &how).await?;
            objects::until_gone(client, "", kind::NODE_IMAGE, GUEST, PATIENCE).await?;
        }
        // Otherwise the controller's reaction to nodes would count for the next run.
        if self.what.has_news_of_nodes() {
            run::rest(&self.world.controller, async || Ok(((), None))).await?;
        }
        Ok(())
    }
}

impl DaemonRun<'_> {
    /// The ledger lacks the writes of the set-up.
    fn check_writes(&self, wanted: &Expected) -> Result<()> {
        let [made, renumbered, dropped] = self.what.revisions();
        let (pods, revisions) = wanted.adopts;
        let counts = [
            (Method::POST, "pods", wanted.makes),
            (Method::DELETE, "pods", wanted.deletes),
            (Method::POST, "controllerrevisions", made),
            (Method::PATCH, "controllerrevisions", renumbered + revisions),
            (Method::DELETE, "controllerrevisions", dropped),
        ];
        let ledger = self.world.controller.ledger();
        laws::writes_are(&ledger, counts)?;
        if pods > 0 {
            laws::writes_are(&ledger, [(Method::PATCH, "pods", pods)])?;
        }
        Ok(())
    }

    fn check_record(&self, record: &Record, wanted: &Expected) -> Result<()> {
        let before = if self.what == Daemon::Created {
            0
        } else {
            self.what.nodes().len()
        };
        laws::begins_with(record, before)?;
        laws::pods_are_created(record, wanted.makes)?;
        let allowed = self.what.all_nodes();
        let nodes = OnNodes {
            allowed: &allowed,
            most: wanted.most,
            served: wanted.served,
            away: wanted.away,
        };
        laws::nodes_have_their_pods(record, &nodes)?;
        laws::no_image_changes_in_service(record, Some(CONTAINER))?;
        laws::restarts_are_for_image_changes(record, wanted.changes)?;
        if self.what == Daemon::Guarded {
            laws::deletions_wait_for(record, HOOK)
        } else {
            Ok(())
        }
    }

    /// Waits until the record has all pods and all of them serve.
    async fn all_serve(&self, pods: usize) -> Result<()> {
        let all_serve =
            |now: &Moment<'_>| now.pods.len() == pods && now.available(Duration::ZERO) == pods;
        self.watch
            .until("all pods serve", PATIENCE, all_serve)
            .await
            .map(drop)
    }

    /// Waits until all nodes have an available pod, so many of them an updated one, and the
    /// controller rests.
    async fn rests(&self, updated: usize) -> Result<()> {
        let (client, desired) = (&self.world.client, self.what.nodes().len());
        let of_kind = if self.what == Daemon::AdoptedNative {
            kind::NATIVE_DAEMON_SET
        } else {
            kind::DAEMON_SET
        };
        let look = async || {
            let set = objects::get(client, &self.namespace, of_kind, SET).await?;
            Ok((
                (),
                (!is_done(&set, desired, updated)).then(|| set.to_string()),
            ))
        };
        run::rest(&self.world.controller, look).await
    }

    /// Waits until `desired` nodes have an available pod, and `updated` of them an updated one. The
    /// controller may have more to do then.
    pub(super) async fn until_done(&self, desired: usize, updated: usize) -> Result<()> {
        let is_so = |set: &Value| is_done(set, desired, updated);
        objects::until(
            &self.world.client,
            &self.namespace,
            kind::DAEMON_SET,
            SET,
            PATIENCE,
            is_so,
        )
        .await
        .map(drop)
    }

    /// Waits until the node has a pod that serves with this image, and no other.
    pub(super) async fn until_serves(&self, node: &str, image: &str) -> Result<()> {
        let is_so = |now: &Moment<'_>| {
            let mut here = now
                .pods
                .values()
                .map(|standing| standing.pod)
                .filter(|pod| pod.node == node);
            let one = here.next().is_some_and(|pod| {
                pod.serves() && pod.containers.values().any(|it| it.wanted == image)
            });
            one && here.next().is_none()
        };
        self.watch
            .until("the node has its new pod", PATIENCE, is_so)
            .await
            .map(drop)
    }

    pub(super) async fn create(&self, set: &Value) -> Result<()> {
        objects::create(&self.world.client, &self.namespace, set)
            .await
            .map(drop)
    }

    pub(super) async fn set_image(&self, image: &str) -> Result<()> {
        let patch = objects::image_patch(&self.what.set(image), image);
        objects::patch(
            &self.world.client,
            &self.namespace,
            kind::DAEMON_SET,
            SET,
            &patch,
        )
        .await
        .map(drop)
    }

    /// Deletes the set, and waits for its end.
    pub(super) async fn delete(&self, of_kind: &str, propagation: PropagationPolicy) -> Result<()> {
        let how = DeleteParams {
            propagation_policy: Some(propagation),
            ..DeleteParams::default()
        };
        objects::delete(&self.world.client, &self.namespace, of_kind, SET, &how).await?;
        objects::until_gone(&self.world.client, &self.namespace, of_kind, SET, PATIENCE).await
    }

    /// Creates the node that joins and leaves.
    pub(super) async fn join(&self) -> Result<()> {
        objects::create(&self.world.client, "", &nodes::node(GUEST, &now()))
            .await
            .map(drop)
    }

    /// Makes a node unfit for a pod, or fit again.
    pub(super) async fn turn_away(&self, node: &str, is_away: bool) -> Result<()> {
        let label = json!({"metadata": {"labels": {AWAY: is_away.then_some("yes")}}});
        objects::patch(&self.world.client, "", kind::NODE, node, &label)
            .await
            .map(drop)
    }
}

/// Is the status of the present spec, with so many nodes that have an available pod, and so many of
/// them an updated one?
fn is_done(set: &Value, desired: usize, updated: usize) -> bool {
    let status = &set["status"];
    let counts = |field: &str, count: usize| status[field].as_u64().unwrap_or(0) == count as u64;
    status["observedGeneration"] == set["metadata"]["generation"]
        && counts("desiredNumberScheduled", desired)
        && counts("numberAvailable", desired)
        && counts("updatedNumberScheduled", updated)
}
