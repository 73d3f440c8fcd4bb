//! One run: a CloneSet, in a namespace of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::record::{Moment, PodView};
use berth_e2e::watch::PodWatch;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::clone_set::ending::{Ending, Good};
use crate::clone_set::{REPLICAS, Rollout, SET, budget};
use crate::laws;
use crate::scenario::Run;
use crate::world::{ONE, PATIENCE, World};

/// A CloneSet, the pods before the change, and the history of its pods.
pub(crate) struct CloneSetRun<'a> {
    pub(crate) world: &'a World,
    rollout: Rollout,
    pub(crate) namespace: String,
    pub(crate) watch: PodWatch,
    /// The pods after the set-up, by name.
    before: BTreeMap<String, PodView>,
    /// The end of the set-up, counted from the start of the watch.
    from: Duration,
}

/// The state to wait for after `templates` templates: all of `pods` pods serve with this image,
/// except `kept` pods that keep their earlier one.
struct Goal {
    image: &'static str,
    templates: usize,
    pods: usize,
    kept: usize,
}

impl<'a> Run<'a> for CloneSetRun<'a> {
    type Scenario = Rollout;

    async fn begin(world: &'a World, namespace: &str, rollout: Rollout) -> Result<Self> {
        let watch = PodWatch::start(
            &world.client,
            namespace,
            &format!("{APP}={SET}"),
            Instant::now(),
        )
        .await?;
        let (namespace, before, from) = (namespace.to_owned(), BTreeMap::new(), Duration::ZERO);
        Ok(CloneSetRun {
            world,
            rollout,
            namespace,
            watch,
            before,
            from,
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        if self.rollout.has_pods() {
            if let Some(spared) = self.rollout.spared() {
                budget::make(&self.world.client, &self.namespace, spared).await?;
            }
            self.create(&self.rollout.clone_set()).await?;
            let all_serve = || {
                self.look_for(Goal {
                    image: ONE,
                    templates: 1,
                    pods: REPLICAS,
                    kept: 0,
                })
            };
            crate::run::rest(&self.world.controller, all_serve).await?;
            if let Some(spared) = self.rollout.spared() {
                budget::until_asked(&self.world.client, &self.namespace, spared).await?;
            }
        }
        self.before = self.pods().await?;
        self.from = self.watch.began().elapsed();
        Ok(())
    }

    async fn act(&self) -> Result<()> {
        self.rollout.act(self).await
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        let wanted = self.rollout.expected();
        let goal = Goal {
            image: wanted.image,
            templates: wanted.templates,
            pods: wanted.replicas,
            kept: wanted.kept,
        };
        self.look_for(goal).await
    }

    async fn check(&self, ending: &Value) -> Result<()> {
        let wanted = self.rollout.expected().replicas;
        let all_serve = |now: &Moment<'_>| now.available(Duration::ZERO) == wanted;
        self.watch
            .until("all pods serve", PATIENCE, all_serve)
            .await?;

        self.rollout.check_writes(&self.world.controller.ledger())?;
        let record = self.watch.record()?.since(self.from);
        let newest = ending["status"]["updateRevision"]
            .as_str()
            .unwrap_or_default();
        self.rollout
            .check_record(&record, newest, self.rollout.told_to_go(&self.before))?;
        if self.rollout.keeps_pods() {
            laws::pods_are_the_same(&self.before, &self.pods().await?)?;
        }
        Ok(())
    }

    /// Deletes the CloneSet, and its pods with it. The namespace stays, because it costs nothing
    /// and its deletion takes long.
    async fn clean_up(&self) -> Result<()> {
        let how = DeleteParams::background();
        objects::delete(
            &self.world.client,
            &self.namespace,
            kind::CLONE_SET,
            SET,
            &how,
        )
        .await
    }
}

impl CloneSetRun<'_> {
    /// The state, and the reason why it is not the goal, if it is not.
    async fn look_for(&self, goal: Goal) -> Result<(Value, Option<String>)> {
        let Goal {
            image: newest,
            templates,
            pods,
            kept,
        } = goal;
        let ending = Ending::read(
            &self.world.client,
            self.world.node,
            &self.namespace,
            self.rollout,
        )
        .await?;
        let image = |image| {
            let digest = self
                .world
                .digests
                .get(image)
                .context("no such image was pushed")?;
            anyhow::Ok((image, digest.as_str()))
        };
        let claims = self.rollout.expected().claims;
        let flaw = ending.flaw(&Good {
            images: [image(newest)?, image(ONE)?],
            templates,
            pods,
            kept,
            claims,
        });
        Ok((serde_json::to_value(ending)?, flaw))
    }

    pub(crate) async fn create(&self, manifest: &Value) -> Result<()> {
        objects::create(&self.world.client, &self.namespace, manifest)
            .await
            .map(|_| ())
    }

    pub(crate) async fn set_image(&self, image: &str) -> Result<()> {
        self.patch_set(&json!({"spec": self.template(image)})).await
    }

    /// The part of its spec that names this image.
    pub(crate) fn template(&self, image: &str) -> Value {
        let mut containers =
            self.rollout.clone_set()["spec"]["template"]["spec"]["containers"].take();
        for container in containers.as_array_mut().into_iter().flatten() {
            container["image"] = image.into();
        }
        json!({"template": {"spec": {"containers": containers}}})
    }

    /// Evicts a pod, with as many tries as needed.
    pub(crate) async fn evict_one(&self) -> Result<()> {
        let pods = self.pods().await?;
        let pod = pods
            .values()
            .find(|pod| !pod.terminating)
            .context("no pods")?;
        budget::evict(&self.world.client, &self.namespace, &pod.name).await
    }

    pub(crate) async fn patch_set(&self, patch: &Value) -> Result<()> {
        objects::patch(
            &self.world.client,
            &self.namespace,
            kind::CLONE_SET,
            SET,
            patch,
        )
        .await
        .map(|_| ())
    }

    /// The pods by name.
    pub(crate) async fn pods(&self) -> Result<BTreeMap<String, PodView>> {
        let pods = objects::list(
            &self.world.client,
            &self.namespace,
            kind::POD,
            &format!("{APP}={SET}"),
        )
        .await?;
        let view = |pod: Value| Ok(PodView::of(&serde_json::from_value(pod)?));
        pods.into_iter()
            .map(|pod| view(pod).map(|view| (view.name.clone(), view)))
            .collect()
    }
}
