//! Carries out plans: the only place that writes.
//!
//! The stages run in order, the steps of a stage in parallel, and the actions of a step in order.
//! Every write has the preconditions of its decision and is entered in the expectations. It ends
//! before the leader's time does, both here and on the server.

mod answer;
mod pace;
mod quiet;
mod request;
mod settings;
mod window;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_workload::objects::patch::merge::merge_patch;
use berth_workload::plan::{Action, Event, Failure, Outcome, Plan, Stage, Step, Target};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::client::{self, Failed};
use crate::election::Leadership;
use crate::events::{Owner, Recorder};
use crate::expectations::{Expectations, Ticket};
use crate::object::Resource;
use pace::Pace;
use quiet::Quiet;
use request::{Kind, Request};
pub use settings::Settings;
use window::Window;

/// Carries out plans.
pub struct Executor {
    client: Client,
    leadership: Leadership,
    expectations: Arc<Expectations>,
    recorder: Recorder,
    settings: Settings,
    /// The limits of parallel writes, by the kind of the workload.
    permits: Mutex<HashMap<&'static str, Arc<Semaphore>>>,
    quiet: Mutex<Quiet>,
    pace: Mutex<Pace>,
}

/// A line of the log about a write.
macro_rules! say {
    ($level:ident, $owner:expr, $stage:expr, $request:expr, $($more:tt)*) => {
        tracing::$level!(
            owner_kind = $owner.resource.kind,
            owner_name = $owner.name,
            namespace = $request.namespace,
            stage = $stage,
            action = %$request.write,
            object = $request.name,
            $($more)*
        )
    };
}

/// How many times a write is sent that the server refuses with 429.
const TRIES: u32 = 4;
/// The wait if the server's refusal names none.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// With less time left than this, no write is started.
const LEAST_TIME: Duration = Duration::from_millis(100);

impl Executor {
    /// Creates an executor that writes while `leadership` lasts.
    pub fn new(
        client: Client,
        leadership: Leadership,
        expectations: Arc<Expectations>,
        recorder: Recorder,
        settings: Settings,
    ) -> Self {
        let (permits, quiet, pace) = Default::default();
        Self {
            client,
            leadership,
            expectations,
            recorder,
            settings,
            permits,
            quiet,
            pace,
        }
    }

    /// Carries out a plan and records its events. Stops at the first required stage with a failure.
    pub async fn act(&self, plan: &Plan, owner: &Owner) -> Outcome {
        for event in &plan.events {
            self.recorder.record(owner, event);
        }
        let mut outcome = Outcome::default();
        for stage in &plan.stages {
            let failures = self.stage(stage, owner).await;
            let stop = stage.required && !failures.is_empty();
            outcome.failures.extend(failures);
            if stop || !self.goes_on() {
                break;
            }
        }
        outcome
    }

    /// Records an event of an owner.
    pub fn record(&self, owner: &Owner, event: &Event) {
        self.recorder.record(owner, event);
    }

    /// Whether another write may begin.
    fn goes_on(&self) -> bool {
        self.leadership.is_leader() && !self.settings.stop.is_cancelled()
    }

    /// Writes the difference between two statuses of an object. Returns whether it wrote.
    ///
    /// # Errors
    /// The server refused the write or did not answer; then the store still has the old status.
    pub async fn write_status(
        &self,
        resource: &Resource,
        target: &Target,
        old: &Value,
        new: &Value,
    ) -> Result<bool, Failure> {
        let Some(patch) = merge_patch(old, new) else {
            return Ok(false);
        };
        let request = Request::status(resource, target, patch);
        self.write(&request, (resource.kind, &target.uid))
            .await
            .map(|_| true)
            .map_err(|unwritten| unwritten.failure)
    }

    async fn stage(&self, stage: &Stage, owner: &Owner) -> Vec<Failure> {
        let creates = |step: &Step| {
            step.actions
                .iter()
                .any(|action| matches!(action, Action::CreatePod { .. }))
        };
        let mut window = Window::new(
            stage.steps.iter().any(creates),
            self.settings.parallel_per_plan,
        );
        let mut waiting = stage.steps.iter();
        let (mut running, mut failures) = (FuturesUnordered::new(), Vec::new());
        loop {
            while window.admits(running.len()) {
                let Some(step) = waiting.next() else { break };
                running.push(self.step(stage.name, step, owner));
            }
            match running.next().await {
                None => return failures,
                Some(Ok(waited)) => window.succeeded(waited),
                Some(Err(failure)) => {
                    window.failed();
                    if !self.goes_on() {
                        window.close();
                    }
                    failures.push(failure);
                }
            }
        }
    }

    /// Runs a step. Returns the largest share of waiting in its answers' times.
    async fn step(&self, stage: &'static str, step: &Step, owner: &Owner) -> Result<f64, Failure> {
        let mut waited: f64 = 0.0;
        for action in &step.actions {
            let request = Request::of(action);
            let by = (owner.resource.kind, &*owner.uid);
            match self.write(&request, by).await {
                Ok(of_write) => {
                    waited = waited.max(of_write);
                    say!(info, owner, stage, request, reason = step.reason, "written");
                }
                Err(unwritten) => return Err(self.tell(unwritten, owner, stage, step, &request)),
            }
        }
        if let Some(event) = &step.done {
            self.recorder.record(owner, event);
        }
        Ok(waited)
    }

    /// Logs that a write of the step failed. It also records an event if the failure is about the
    /// object.
    fn tell(
        &self,
        unwritten: Unwritten,
        owner: &Owner,
        stage: &'static str,
        step: &Step,
        request: &Request,
    ) -> Failure {
        let Unwritten {
            failure,
            is_of_object,
        } = unwritten;
        let Failure {
            code,
            message,
            outdated,
            ..
        } = &failure;
        if !is_of_object {
            // This leader continues when it has more time, or the next leader does.
            say!(
                info,
                owner,
                stage,
                request,
                message,
                "cut short by the end of leadership"
            );
        } else if *outdated {
            say!(info, owner, stage, request, "changed meanwhile");
        } else {
            say!(
                warn,
                owner,
                stage,
                request,
                code,
                error = message,
                reason = step.reason,
                "write failed"
            );
            if let Some(event) = &step.failed {
                let message = format!("{}: {message}", event.message);
                self.recorder.record(
                    owner,
                    &Event {
                        message,
                        ..event.clone()
                    },
                );
            }
        }
        failure
    }

    /// Sends a write for a workload of this kind and uid. Returns the share of the answer's time
    /// that was waiting.
    async fn write(
        &self,
        request: &Request,
        (kind, owner): (&'static str, &str),
    ) -> Result<f64, Unwritten> {
        let mut tries = 0;
        loop {
            tries += 1;
            self.quiet(owner).await;
            let permit = self.permit(kind).await;
            let deadline = self.leadership.deadline_after(LEAST_TIME).await;
            let Some(deadline) = deadline.filter(|_| !self.settings.stop.is_cancelled()) else {
                let failed =
                    Failed::unsent("not started: another process may lead now, or this one ends");
                return Err(Unwritten {
                    failure: answer::failure(request, failed),
                    is_of_object: false,
                });
            };
            let now = Instant::now();
            let until = deadline.min(now + self.settings.timeout);
            let answer = self.send(request, owner, until).await;
            drop(permit);
            let is_short = until < now + self.settings.timeout;
            if is_short && now.elapsed() >= until.duration_since(now) / 2 {
                self.leadership.needs_time();
            }
            let is_cut = is_short && until <= Instant::now() + LEAST_TIME;
            match answer {
                // An eviction gets 429 from a disruption budget, independent of the server's load.
                Err(failed)
                    if failed.code == 429 && tries < TRIES && request.kind != Kind::Evict =>
                {
                    let (wait, of_server) = (
                        failed.retry_after.unwrap_or(RETRY_AFTER),
                        !answer::is_of_budget(&failed),
                    );
                    let mut quiet = self.quiet.lock();
                    quiet.heard(owner, Instant::now(), wait, of_server);
                }
                Err(failed) => {
                    let has_no_answer = failed.code == 0 || failed.code >= 500;
                    let is_of_object = !has_no_answer || !is_cut && self.leadership.is_leader();
                    return Err(Unwritten {
                        failure: answer::failure(request, failed),
                        is_of_object,
                    });
                }
                Ok(waited) => return Ok(waited),
            }
        }
    }

    async fn send(&self, request: &Request, owner: &str, until: Instant) -> Result<f64, Failed> {
        let left = until.saturating_duration_since(Instant::now()).as_millis();
        let uri = request.uri(&self.settings.field_manager, left)?;
        let sent = client::request(
            request.method(),
            &uri,
            request.content,
            request.text().into_bytes(),
        )?;
        let ticket = (!matches!(request.kind, Kind::DryRun | Kind::Confirm)).then(|| {
            self.expectations.enter(
                owner,
                &request.write.resource,
                &request.namespace,
                &request.name,
                until,
            )
        });
        let began = Instant::now();
        match client::send(&self.client, sent, until).await {
            Ok(body) if request.kind == Kind::Confirm => answer::confirmed(request, &body)?,
            Ok(body) => answer::settle(request, ticket, &body),
            // A refusal comes faster than a success, so that its time does not count.
            Err(failed) => return self.failed(request, ticket, failed).await.map(|()| 0.0),
        }
        let (now, mut pace) = (Instant::now(), self.pace.lock());
        Ok(pace.answered(request.write, now.duration_since(began), now))
    }

    /// Turns answers into success that only look like failures.
    async fn failed(
        &self,
        request: &Request,
        ticket: Option<Ticket>,
        failed: Failed,
    ) -> Result<(), Failed> {
        match ticket {
            Some(ticket) if failed.not_done => ticket.refused(),
            // The ticket is dropped, so that the write is in doubt.
            _ => {}
        }
        match request.kind {
            Kind::Delete | Kind::Evict if failed.code == 404 => Ok(()),
            Kind::Ensure if failed.reason == "AlreadyExists" => Ok(()),
            Kind::Create if failed.reason == "AlreadyExists" => {
                let resource = &request.write.resource;
                let path = resource.path(&request.namespace, &request.name)?;
                answer::existing(
                    request,
                    &client::get::<answer::Existing>(&self.client, &path).await?,
                )
            }
            _ => Err(failed),
        }
    }

    /// Waits while the server asks this workload to wait, but not beyond the end of leadership.
    async fn quiet(&self, owner: &str) {
        loop {
            let until = self.quiet.lock().until(owner, Instant::now());
            let Some(until) = until else { return };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = self.settings.stop.cancelled() => return,
            }
        }
    }

    /// Waits for a permit among the writes for workloads of this kind. `None` never happens,
    /// because no semaphore is closed.
    async fn permit(&self, kind: &'static str) -> Option<OwnedSemaphorePermit> {
        let of_kind = {
            let mut permits = self.permits.lock();
            permits
                .entry(kind)
                .or_insert_with(|| Arc::new(Semaphore::new(self.settings.parallel.max(1))))
                .clone()
        };
        of_kind.acquire_owned().await.ok()
    }
}

/// A write that failed.
struct Unwritten {
    failure: Failure,
    /// False if the lease ended before the server answered, or leadership ended before the write
    /// was sent.
    is_of_object: bool,
}

#[cfg(test)]
mod tests;
