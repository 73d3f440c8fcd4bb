//! What every controller needs to act, and what it does when it has acted.

use std::sync::Arc;
use std::time::Duration;

use berth_runtime::driver::Next;
use berth_runtime::executor::{Executor, Owner};
use berth_runtime::expectations::Expectations;
use berth_runtime::{Object, Resource};
use berth_workload::gates::Gates;
use berth_workload::inplace::resize::Ability;
use berth_workload::plan::{Failure, Outcome, Plan, Target};
use kube::Client;
use serde::Serialize;

use crate::early::Early;
use crate::stores::Stores;

/// Shared by all controllers.
pub(crate) struct Acting {
    /// The apiserver.
    pub(crate) client: Client,
    /// What is seen.
    pub(crate) stores: Stores,
    /// Writes that the stores have not seen yet.
    pub(crate) expectations: Arc<Expectations>,
    /// The only place that writes.
    pub(crate) executor: Arc<Executor>,
    /// Feature gates.
    pub(crate) gates: Gates,
    /// May resources of containers change in place?
    pub(crate) resize: Ability,
    /// Questions to nodes for the sake of time.
    pub(crate) early: Early,
}

impl Acting {
    /// The workload that a plan is for.
    pub(crate) fn owner<T: Object>(&self, object: &T) -> Owner {
        Owner::of(object)
    }

    /// Writes what differs between two statuses.
    ///
    /// # Errors
    /// The server's answer.
    pub(crate) async fn write_status<S: Serialize>(
        &self,
        resource: &Resource,
        target: &Target,
        old: &S,
        new: &S,
    ) -> Result<bool, Failure> {
        let json = |status: &S| {
            serde_json::to_value(status).map_err(|error| Failure {
                action: "Status",
                object: target.name.clone(),
                message: error.to_string(),
                code: 0,
                permanent: true,
            })
        };
        self.executor.write_status(resource, target, &json(old)?, &json(new)?).await
    }
}

/// An object as the target of a write, whatever version it has by then.
pub(crate) fn target<T: Object>(object: &T) -> Target {
    Target {
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        resource_version: None,
    }
}

/// How long until something is tried again that the server refused for what is not in the workload: a policy, a right.
const REFUSED: Duration = Duration::from_secs(60);

/// When to look again. A refused template waits for a change; what is refused otherwise is tried again now and then, for
/// nothing tells when a policy is mended; everything else is tried again, ever more slowly.
pub(crate) fn next(plan: &Plan, outcome: &Outcome, status: Result<bool, Failure>) -> Next {
    let failed = outcome.failures.iter().chain(status.as_ref().err()).find(|failure| !failure.permanent);
    let refused = outcome.failures.iter().any(|failure| failure.action != "ValidateTemplate");
    match (failed, plan.look_again) {
        (Some(failure), _) => Next::Retry(format!("{} {}: {}", failure.action, failure.object, failure.message)),
        (None, Some(wait)) if refused => Next::After(wait.unsigned_abs().min(REFUSED)),
        (None, Some(wait)) => Next::After(wait.unsigned_abs()),
        (None, None) if refused => Next::After(REFUSED),
        (None, None) => Next::Done,
    }
}
