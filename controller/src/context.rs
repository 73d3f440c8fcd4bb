//! The dependencies of every controller's writes, and the steps after a plan was carried out.

use std::sync::Arc;
use std::time::Duration;

use berth_runtime::Object;
use berth_runtime::driver::Next;
use berth_runtime::events::Owner;
use berth_runtime::executor::Executor;
use berth_runtime::expectations::Expectations;
use berth_runtime::store::Store;
use berth_workload::blocked;
use berth_workload::feature_gates::Gates;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Failure, Outcome, Plan, Target, Verb, Write};
use berth_workload::update::inplace::resize::Ability;
use kube::Client;
use serde::Serialize;

use crate::admission::injection::Injection;
use crate::admission::pod_pinning::PodPinning;
use crate::budgets::PodBudgets;

/// Shared by all controllers.
pub(crate) struct Context {
    /// The apiserver.
    pub(crate) client: Client,
    /// Writes that the stores have not seen yet.
    pub(crate) expectations: Arc<Expectations>,
    /// The only place that writes.
    pub(crate) executor: Arc<Executor>,
    /// Feature gates.
    pub(crate) gates: Gates,
    /// May resources of containers change in place?
    pub(crate) resize: Ability,
    /// Does the scheduler bind the pods of DaemonSets?
    pub(crate) assigns_by_scheduler: bool,
    /// Pins pods of workloads that are not ours.
    pub(crate) pod_pinning: Arc<PodPinning>,
    /// Knows the budgets of pods.
    pub(crate) pod_budgets: Arc<PodBudgets>,
    /// Gives new pods the containers of SidecarSets.
    pub(crate) injection: Arc<Injection>,
}

impl Context {
    /// To be called before a round: have the stores seen every write for the object with this uid?
    ///
    /// # Errors
    /// When to look again if not.
    pub(crate) async fn settled(&self, uid: &str) -> Result<(), Next> {
        match self.expectations.ready(&self.client, uid).await {
            Ok(None) => Ok(()),
            Ok(Some(wait)) => Err(Next::After(wait)),
            Err(failed) => Err(Next::Retry(failed.to_string())),
        }
    }

    /// The object after the stores have seen every write for it: an earlier read of it may be older
    /// than those writes.
    ///
    /// # Errors
    /// When to look again if the stores lack a write; `Next::Done` if the object is gone.
    pub(crate) async fn seen<T: Object>(
        &self,
        store: &Store<T>,
        object: &T,
    ) -> Result<Arc<T>, Next> {
        self.settled(object.uid()).await?;
        let now = store.get(object.namespace(), object.name());
        now.filter(|now| now.uid() == object.uid())
            .ok_or(Next::Done)
    }

    /// To be called before a decision about these pods: do they show the writes that other owners
    /// made to them?
    ///
    /// # Errors
    /// When to look again if not.
    pub(crate) fn has_all_of_others(&self, uid: &str, pods: &[Arc<Pod>]) -> Result<(), Next> {
        if self.expectations.others_wrote(uid, pods) {
            Err(Next::After(AT_LATEST))
        } else {
            Ok(())
        }
    }

    /// To be called when a round is over: forgets the expectations of an object that is gone.
    pub(crate) fn forget_if_gone<T: Object>(&self, store: &Store<T>, of: &T) {
        if store
            .get(of.namespace(), of.name())
            .is_none_or(|now| now.uid() != of.uid())
        {
            self.expectations.forget(of.uid());
        }
    }

    /// Carries out a plan for an object, writes the status that follows from the outcome, and says
    /// when to look again. Without a status (`None`) the object is going.
    pub(crate) async fn carry_out<T: Object, S: Serialize>(
        &self,
        plan: &Plan,
        store: &Store<T>,
        object: &T,
        (old, status): (&S, impl FnOnce(&Outcome) -> Option<S>),
    ) -> Next {
        let owner = Owner::of(object);
        let (admitted, held) = self
            .pod_budgets
            .admitted(self.injection.with_sidecars(plan), &owner)
            .await;
        let mut outcome = self.executor.act(&admitted, &owner).await;
        outcome.failures.extend(held);
        let written = match status(&outcome) {
            Some(new) => self.write_status(object, target(object), old, &new).await,
            None => Ok(false),
        };
        self.forget_if_gone(store, object);
        next(plan, &outcome, written)
    }

    /// Writes the difference between two statuses of an object, if the object is still as it was
    /// read.
    ///
    /// # Errors
    /// The server's answer.
    pub(crate) async fn write_status_as_read<T: Object, S: Serialize>(
        &self,
        object: &T,
        (old, new): (&S, &S),
    ) -> Result<bool, Failure> {
        let target = Target {
            resource_version: Some(object.resource_version().to_owned()),
            ..target(object)
        };
        self.write_status(object, target, old, new).await
    }

    /// Writes the difference between two statuses, and publishes an event for each change that
    /// needs one.
    ///
    /// # Errors
    /// The server's answer.
    async fn write_status<T: Object, S: Serialize>(
        &self,
        object: &T,
        target: Target,
        old: &S,
        new: &S,
    ) -> Result<bool, Failure> {
        match serde_json::to_value(old).and_then(|old| Ok((old, serde_json::to_value(new)?))) {
            Ok((old, new)) => {
                if let Some(event) = blocked::announced::event(&old, &new) {
                    self.executor.record(&Owner::of(object), &event);
                }
                self.executor
                    .write_status(&T::RESOURCE, &target, &old, &new)
                    .await
            }
            Err(error) => Err(Failure {
                write: Write::of(Verb::PatchStatus, T::RESOURCE),
                namespace: target.namespace,
                object: target.name,
                message: error.to_string(),
                code: 0,
                permanent: true,
                outdated: false,
                taken: false,
                infeasible: false,
            }),
        }
    }
}

/// A write to a pod for another owner wakes the pod's owner; the owner looks again after this time
/// at the latest.
const AT_LATEST: Duration = Duration::from_secs(1);

/// A decision about more objects than this has a thread to itself.
pub(crate) const LARGE: usize = 2_000;

/// An object as the target of a write, at any version.
pub(crate) fn target<T: Object>(object: &T) -> Target {
    Target {
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        resource_version: None,
    }
}

/// The longest wait until a write is tried again that a budget refused. Usually the object is woken
/// when the budget has capacity.
const HELD: Duration = Duration::from_secs(1);

/// The wait until a write is tried again that the server refused for a cause outside the workload,
/// such as a policy or a right.
pub(crate) const REFUSED: Duration = Duration::from_secs(60);

/// When to look again. A refused template waits for a change. Other refusals are tried again now
/// and then, because no watch reports that a policy was mended. All other failures are retried with
/// backoff. A conflict with another writer is no failure.
pub(crate) fn next(plan: &Plan, outcome: &Outcome, status: Result<bool, Failure>) -> Next {
    let failures = || {
        outcome
            .failures
            .iter()
            .chain(status.as_ref().err())
            .filter(|failure| !failure.permanent)
    };
    let describe =
        |failure: &Failure| format!("{} {}: {}", failure.write, failure.object, failure.message);
    if let Some(failure) = failures().find(|failure| !failure.outdated) {
        return Next::Retry(describe(failure));
    }
    if let Some(outdated) = failures().next() {
        return Next::Again(describe(outdated));
    }
    let is_held = outcome.failures.iter().any(Failure::is_of_budget);
    let is_mended_by_its_author =
        |failure: &Failure| failure.write.verb == Verb::Validate && failure.code != 403;
    let refused = outcome
        .failures
        .iter()
        .any(|failure| !is_mended_by_its_author(failure))
        || status.is_err();
    match plan.look_again {
        look_again if is_held => {
            Next::After(look_again.map_or(HELD, |wait| wait.unsigned_abs().min(HELD)))
        }
        Some(wait) if refused => Next::After(wait.unsigned_abs().min(REFUSED)),
        Some(wait) => Next::After(wait.unsigned_abs()),
        None if refused => Next::After(REFUSED),
        None => Next::Done,
    }
}

#[cfg(test)]
mod tests;
