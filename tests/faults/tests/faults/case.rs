//! One run of a scenario.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use berth_e2e::objects::{self, APP, kind};
use berth_e2e::record::{Moment, PodView};
use berth_e2e::watch::PodWatch;
use berth_faults::Fault;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::ending::Ending;
use crate::laws;
use crate::scenario::{REPLICAS, Scenario};
use crate::world::{ONE, PATIENCE, World};

/// The name of every CloneSet, so that its revisions are named alike in every case.
pub(crate) const SET: &str = "web";
/// A controller that has asked for nothing for so long is at rest.
const QUIET: Duration = Duration::from_millis(500);

/// A run.
pub(crate) struct Case<'a> {
    pub(crate) world: &'a World,
    scenario: Scenario,
    pub(crate) namespace: String,
    pub(crate) watch: PodWatch,
}

/// The ending that is waited for.
#[derive(Clone, Copy)]
pub(crate) enum Goal<'a> {
    /// So many pods, all of them, serve with this image, after so many templates.
    Good { image: &'static str, templates: usize, pods: usize },
    /// It is the same as this one.
    Same(&'a Ending),
}

/// Runs a scenario with a fault, checks everything, and gives how it ended and how many writes the controller sent.
/// `expected` is how it ends without a fault.
pub(crate) async fn run(
    world: &World,
    scenario: Scenario,
    fault: Fault,
    expected: Option<&Ending>,
) -> Result<(Ending, usize)> {
    let began = Instant::now();
    let case = Case::new(world, scenario).await?;
    let tried = case.attempt(fault, expected).await;
    // Whatever comes now is no part of the case, and needs a controller that lives.
    let (written, kills, struck) = {
        let ledger = world.controller.ledger();
        let written: Vec<_> = ledger.entries().iter().map(ToString::to_string).collect();
        (written, ledger.kills(), ledger.struck())
    };
    if struck {
        world.struck.lock().unwrap_or_else(PoisonError::into_inner).insert((scenario, fault));
    }
    world.controller.begin("", Fault::None);
    let story = || format!("namespace {}\n{}\n{}", case.namespace, written.join("\n"), world.logs());
    let ending = tried.with_context(story)?;
    case.clean_up().await?;
    let at = fault.write().map(|number| written.get(number - 1).map_or("which was not reached", String::as_str));
    eprintln!(
        "{}: {fault} {}: {} writes, {kills} kills, {:.1} s",
        scenario.name(),
        at.unwrap_or_default(),
        written.len(),
        began.elapsed().as_secs_f64()
    );
    Ok((ending, written.len()))
}

impl<'a> Case<'a> {
    pub(crate) async fn new(world: &'a World, scenario: Scenario) -> Result<Case<'a>> {
        let namespace = world.namespace(scenario);
        objects::make_namespace(&world.client, &namespace).await?;
        let began = std::time::Instant::now();
        let watch = PodWatch::start(&world.client, &namespace, &format!("{APP}={SET}"), began).await?;
        Ok(Case { world, scenario, namespace, watch })
    }

    async fn attempt(&self, fault: Fault, expected: Option<&Ending>) -> Result<Ending> {
        let controller = &self.world.controller;
        if self.scenario.has_pods() {
            controller.begin(&self.namespace, Fault::None);
            self.create(&self.scenario.clone_set()).await?;
            self.at_rest(Goal::Good { image: ONE, templates: 1, pods: REPLICAS }).await?;
        }
        let before = self.pods().await?;
        let from = self.watch.began().elapsed();
        controller.begin(&self.namespace, fault);
        self.scenario.act(self).await?;
        let wanted = self.scenario.expected();
        let good = Goal::Good { image: wanted.image, templates: wanted.templates, pods: wanted.replicas };
        let ending = self.at_rest(expected.map_or(good, Goal::Same)).await?;
        let all_serve = |now: &Moment<'_>| now.available(Duration::ZERO) == wanted.replicas;
        self.watch.until("all pods serve", PATIENCE, all_serve).await?;

        laws::check_writes(self.scenario, &controller.ledger())?;
        laws::check_record(self.scenario, &self.watch.record()?.since(from))?;
        if self.scenario.keeps_pods() {
            laws::check_same(&before, &self.pods().await?)?;
        }
        Ok(ending)
    }

    /// Waits until the end has come and the controller has nothing more to do.
    pub(crate) async fn at_rest(&self, goal: Goal<'_>) -> Result<Ending> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.world.controller.check()?;
            let quiet = self.is_quiet();
            let ending = Ending::read(&self.world.client, self.world.node, &self.namespace, self.scenario).await?;
            let flaw = match goal {
                Goal::Good { image, templates, pods } => {
                    let digest = self.world.digests.get(image).context("no such image was pushed")?;
                    ending.flaw((image, digest), templates, pods, self.scenario.expected().claims)
                }
                Goal::Same(expected) => ending.difference(expected),
            };
            match flaw {
                None if quiet => return Ok(ending),
                Some(flaw) if Instant::now() > deadline => bail!("it does not end well in {PATIENCE:?}: {flaw}"),
                None if Instant::now() > deadline => bail!("the controller does not rest in {PATIENCE:?}"),
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Asked before the ending is read: what it then does is in the ending.
    pub(crate) fn is_quiet(&self) -> bool {
        self.world.controller.ledger().last_request().is_some_and(|last| last.elapsed() >= QUIET)
            && !self.world.controller.is_behind()
    }

    pub(crate) async fn create(&self, manifest: &Value) -> Result<()> {
        objects::create(&self.world.client, &self.namespace, manifest).await.map(|_| ())
    }

    pub(crate) async fn set_image(&self, image: &str) -> Result<()> {
        let mut containers = self.scenario.clone_set()["spec"]["template"]["spec"]["containers"].take();
        for container in containers.as_array_mut().into_iter().flatten() {
            container["image"] = image.into();
        }
        self.patch_set(&json!({"spec": {"template": {"spec": {"containers": containers}}}})).await
    }

    pub(crate) async fn patch_set(&self, patch: &Value) -> Result<()> {
        objects::patch(&self.world.client, &self.namespace, kind::CLONE_SET, SET, patch).await.map(|_| ())
    }

    /// The pods by name.
    async fn pods(&self) -> Result<BTreeMap<String, PodView>> {
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
