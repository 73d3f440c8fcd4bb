//! One run of a rollout: a CloneSet, in a namespace of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::record::{Moment, PodView};
use berth_e2e::watch::PodWatch;
use berth_faults::Fault;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::clone_set::ending::{Ending, Good};
use crate::clone_set::{Expected, REPLICAS, Rollout};
use crate::laws;
use crate::run;
use crate::world::{ONE, PATIENCE, World};

/// The name of every CloneSet, so that its revisions are named alike in every case.
pub(crate) const SET: &str = "web";

/// A run.
pub(crate) struct Case<'a> {
    pub(crate) world: &'a World,
    rollout: Rollout,
    pub(crate) namespace: String,
    pub(crate) watch: PodWatch,
}

/// The ending that is waited for.
#[derive(Clone, Copy)]
pub(crate) enum Goal<'a> {
    /// So many pods, all of them, serve with this image, but for those that are kept as they were, after so many templates.
    Good { image: &'static str, templates: usize, pods: usize, kept: usize },
    /// It is the same as this one.
    Same(&'a Ending),
}

impl Goal<'_> {
    /// All pods are there, of the first template.
    pub(crate) const BEFORE: Self = Goal::Good { image: ONE, templates: 1, pods: REPLICAS, kept: 0 };
}

impl<'a> Case<'a> {
    pub(crate) async fn new(world: &'a World, rollout: Rollout) -> Result<Case<'a>> {
        let namespace = world.namespace(rollout.name());
        objects::make_namespace(&world.client, &namespace).await?;
        let began = std::time::Instant::now();
        let watch = PodWatch::start(&world.client, &namespace, &format!("{APP}={SET}"), began).await?;
        Ok(Case { world, rollout, namespace, watch })
    }

    /// Carries the rollout out with a fault, and checks everything. `expected` is how it ends without one.
    pub(crate) async fn attempt(&self, fault: Fault, expected: Option<&Ending>) -> Result<Ending> {
        let controller = &self.world.controller;
        if self.rollout.has_pods() {
            controller.begin(&self.namespace, Fault::None);
            self.create(&self.rollout.clone_set()).await?;
            self.at_rest(Goal::BEFORE).await?;
        }
        let before = self.pods().await?;
        let from = self.watch.began().elapsed();
        let wanted = self.rollout.expected();
        let Expected { image, templates, replicas: pods, kept, .. } = wanted;
        let good = Goal::Good { image, templates, pods, kept };
        let goal = expected.map_or(good, Goal::Same);
        let look = || self.look(goal);
        let ending = run::ended(self.world, (&self.namespace, fault), self.rollout.act(self), look).await?;
        let all_serve = |now: &Moment<'_>| now.available(Duration::ZERO) == wanted.replicas;
        self.watch.until("all pods serve", PATIENCE, all_serve).await?;

        self.rollout.check_writes(&controller.ledger())?;
        let record = self.watch.record()?.since(from);
        self.rollout.check_record(&record, ending.update_revision(), self.rollout.told_to_go(&before))?;
        if self.rollout.keeps_pods() {
            laws::pods_are_the_same(&before, &self.pods().await?)?;
        }
        Ok(ending)
    }

    /// Waits until the end has come and the controller has nothing more to do.
    pub(crate) async fn at_rest(&self, goal: Goal<'_>) -> Result<Ending> {
        run::rest(&self.world.controller, || self.look(goal)).await
    }

    /// How it is, and why that is not the goal.
    async fn look(&self, goal: Goal<'_>) -> Result<(Ending, Option<String>)> {
        let ending = Ending::read(&self.world.client, self.world.node, &self.namespace, self.rollout).await?;
        let flaw = match goal {
            Goal::Good { image: newest, templates, pods, kept } => {
                let digests = &self.world.digests;
                let image = |image| {
                    let digest = digests.get(image).context("no such image was pushed")?;
                    anyhow::Ok((image, digest.as_str()))
                };
                let claims = self.rollout.expected().claims;
                ending.flaw(&Good { images: [image(newest)?, image(ONE)?], templates, pods, kept, claims })
            }
            Goal::Same(expected) => ending.difference(expected),
        };
        Ok((ending, flaw))
    }

    pub(crate) async fn create(&self, manifest: &Value) -> Result<()> {
        objects::create(&self.world.client, &self.namespace, manifest).await.map(|_| ())
    }

    pub(crate) async fn set_image(&self, image: &str) -> Result<()> {
        let mut containers = self.rollout.clone_set()["spec"]["template"]["spec"]["containers"].take();
        for container in containers.as_array_mut().into_iter().flatten() {
            container["image"] = image.into();
        }
        self.patch_set(&json!({"spec": {"template": {"spec": {"containers": containers}}}})).await
    }

    pub(crate) async fn patch_set(&self, patch: &Value) -> Result<()> {
        objects::patch(&self.world.client, &self.namespace, kind::CLONE_SET, SET, patch).await.map(|_| ())
    }

    /// The pods by name.
    pub(crate) async fn pods(&self) -> Result<BTreeMap<String, PodView>> {
        let pods = objects::list(&self.world.client, &self.namespace, kind::POD, &format!("{APP}={SET}")).await?;
        let view = |pod: Value| Ok(PodView::of(&serde_json::from_value(pod)?));
        pods.into_iter().map(|pod| view(pod).map(|view| (view.name.clone(), view))).collect()
    }

    /// Deletes the CloneSet, and its pods with it. The namespace stays: it costs nothing, and its end takes long.
    pub(crate) async fn clean_up(&self) -> Result<()> {
        let manifest = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet"});
        let api = objects::api_of(&self.world.client, &self.namespace, &manifest)?;
        let background = Some(PropagationPolicy::Background);
        api.delete(SET, &DeleteParams { propagation_policy: background, ..DeleteParams::default() }).await?;
        Ok(())
    }
}
