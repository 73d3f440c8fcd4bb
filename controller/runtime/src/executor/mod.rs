//! Carries out plans: the only place that writes.
//!
//! Stages in order, the steps of a stage at the same time, the actions of a step in order. Every write carries the preconditions
//! that its decision rests on, is entered in the expectations, and ends before the leader's time does, on both sides.

mod answer;
mod window;
mod write;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_workload::plan::{Action, Failure, Outcome, Plan, Stage, Step, Target};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::client::{self, Failed};
use crate::election::Leadership;
use crate::events::Recorder;
use crate::expectations::{Expectations, Ticket};
use crate::object::Resource;
use window::Window;
use write::{Kind, Write};

/// Bounds of an executor.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Steps at once, of all plans together.
    pub parallel: usize,
    /// Steps at once of one plan.
    pub parallel_per_plan: usize,
    /// At most for one write; less when the leader's time ends sooner.
    pub timeout: Duration,
    /// Owner of the fields in `metadata.managedFields`.
    pub field_manager: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parallel: 64,
            parallel_per_plan: 32,
            timeout: Duration::from_secs(10),
            field_manager: "berth-controller".to_owned(),
        }
    }
}

/// The workload that a plan is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Where it is served.
    pub resource: Resource,
    /// Namespace, empty if cluster-scoped.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid: under it writes are expected.
    pub uid: String,
}

impl Owner {
    /// The object itself as an owner.
    pub fn of<T: crate::Object>(object: &T) -> Self {
        Self {
            resource: T::RESOURCE,
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        }
    }
}

/// Carries out plans.
pub struct Executor {
    client: Client,
    leadership: Leadership,
    expectations: Arc<Expectations>,
    recorder: Recorder,
    settings: Settings,
    permits: Semaphore,
    /// The server asked to be left alone until then.
    quiet_until: Mutex<Instant>,
}

/// How often a write is tried that the server puts off with 429.
const TRIES: u32 = 4;
/// When the server puts off without saying for how long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// With less time left than this a write is not started.
const LEAST_TIME: Duration = Duration::from_millis(100);

impl Executor {
    /// An executor that acts while `leadership` lasts.
    pub fn new(
        client: Client,
        leadership: Leadership,
        expectations: Arc<Expectations>,
        recorder: Recorder,
        settings: Settings,
    ) -> Self {
        let permits = Semaphore::new(settings.parallel.max(1));
        let quiet_until = Mutex::new(Instant::now());
        Self { client, leadership, expectations, recorder, settings, permits, quiet_until }
    }

    /// Carries out a plan for an owner and records its events. Stops at the first required stage with a failure.
    pub async fn act(&self, plan: &Plan, owner: &Owner) -> Outcome {
        for event in &plan.events {
            self.recorder.record(owner, event);
        }
        let mut outcome = Outcome::default();
        for stage in &plan.stages {
            let failures = self.stage(stage, owner).await;
            let stop = stage.required && !failures.is_empty();
            outcome.failures.extend(failures);
            if stop || !self.leadership.is_leader() {
                break;
            }
        }
        outcome
    }

    /// Writes what differs between two statuses of an object. True if something was written.
    ///
    /// # Errors
    /// The server refused, or there was no answer; the status in the store is still the old one then.
    pub async fn write_status(
        &self,
        resource: &Resource,
        target: &Target,
        old: &Value,
        new: &Value,
    ) -> Result<bool, Failure> {
        let Some(patch) = crate::status::merge_patch(old, new) else { return Ok(false) };
        self.write(&Write::status(resource, target, patch), &target.uid).await.map(|()| true)
    }

    async fn stage(&self, stage: &Stage, owner: &Owner) -> Vec<Failure> {
        let creates = |step: &Step| step.actions.iter().any(|action| matches!(action, Action::CreatePod { .. }));
        let mut window = Window::new(stage.steps.iter().any(creates), self.settings.parallel_per_plan);
        let mut waiting = stage.steps.iter();
        let (mut running, mut failures) = (FuturesUnordered::new(), Vec::new());
        loop {
            while window.admits(running.len()) {
                let Some(step) = waiting.next() else { break };
                running.push(self.step(stage.name, step, owner));
            }
            match running.next().await {
                None => return failures,
                Some(Ok(())) => window.succeeded(),
                Some(Err(failure)) => {
                    window.failed();
                    if !self.leadership.is_leader() {
                        window.close();
                    }
                    failures.push(failure);
                }
            }
        }
    }

    async fn step(&self, stage: &'static str, step: &Step, owner: &Owner) -> Result<(), Failure> {
        // Never closed, so there is no error.
        let _permit = self.permits.acquire().await;
        for action in &step.actions {
            let write = Write::of(action);
            let (object, namespace, action) = (&write.name, &write.namespace, write.action);
            if let Err(failure) = self.write(&write, &owner.uid).await {
                let Failure { code, message, outdated, .. } = &failure;
                let (owner_kind, owner_name) = (owner.resource.kind, &owner.name);
                if *outdated {
                    tracing::info!(owner_kind, owner_name, namespace, stage, action, object, "changed meanwhile");
                    return Err(failure);
                }
                tracing::warn!(
                    owner_kind,
                    owner_name,
                    namespace,
                    stage,
                    action,
                    object,
                    code,
                    error = message,
                    reason = step.reason,
                    "write failed"
                );
                if let Some(event) = &step.failed {
                    let message = format!("{}: {message}", event.message);
                    self.recorder.record(owner, &berth_workload::plan::Event { message, ..event.clone() });
                }
                return Err(failure);
            }
            let (owner_kind, owner_name) = (owner.resource.kind, &owner.name);
            tracing::info!(owner_kind, owner_name, namespace, stage, action, object, reason = step.reason, "written");
        }
        if let Some(event) = &step.done {
            self.recorder.record(owner, event);
        }
        Ok(())
    }

    async fn write(&self, write: &Write, owner: &str) -> Result<(), Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            self.quiet().await;
            let now = Instant::now();
            let until = self.leadership.deadline().map(|deadline| deadline.min(now + self.settings.timeout));
            let Some(until) = until.filter(|until| *until >= now + LEAST_TIME) else {
                return Err(answer::failure(write, Failed::unsent("not started: another process may lead now")));
            };
            match self.send(write, owner, until).await {
                Err(failed) if failed.code == 429 && tries < TRIES => {
                    self.keep_quiet(failed.retry_after.unwrap_or(RETRY_AFTER));
                }
                done => return done.map_err(|failed| answer::failure(write, failed)),
            }
        }
    }

    async fn send(&self, write: &Write, owner: &str, until: Instant) -> Result<(), Failed> {
        let left = until.saturating_duration_since(Instant::now()).as_millis();
        let uri = write.uri(&self.settings.field_manager, left);
        let request = client::request(write.method(), &uri, write.content, write.text().into_bytes())?;
        let ticket = (write.kind != Kind::DryRun)
            .then(|| self.expectations.enter(owner, &write.resource, &write.namespace, &write.name, until));
        match client::send(&self.client, request, until).await {
            Ok(body) => {
                answer::settle(write, ticket, &body);
                Ok(())
            }
            Err(failed) => self.failed(write, ticket, failed).await,
        }
    }

    /// A failure that is none is turned into success here.
    async fn failed(&self, write: &Write, ticket: Option<Ticket>, failed: Failed) -> Result<(), Failed> {
        match ticket {
            Some(ticket) if failed.not_done => ticket.refused(),
            // Dropped: in doubt.
            _ => {}
        }
        match write.kind {
            Kind::Delete if failed.code == 404 => Ok(()),
            Kind::Ensure if failed.reason == "AlreadyExists" => Ok(()),
            Kind::Create if failed.reason == "AlreadyExists" => {
                let path = write.resource.path(&write.namespace, &write.name);
                answer::existing(write, &client::get::<Value>(&self.client, &path).await?)
            }
            _ => Err(failed),
        }
    }

    async fn quiet(&self) {
        let until = *self.quiet_until.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::time::sleep_until(until).await;
    }

    fn keep_quiet(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut quiet_until = self.quiet_until.lock().unwrap_or_else(PoisonError::into_inner);
        *quiet_until = until.max(*quiet_until);
    }
}
