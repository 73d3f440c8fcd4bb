//! A plan: the next writes, as data. It can be printed, compared in a test, and executed by the
//! runtime.

mod action;
mod objects;
mod outcome;
mod write;

use jiff::SignedDuration;
use serde::Serialize;

use crate::objects::pod::Pod;
use crate::objects::resource::Resource;

pub use crate::objects::patch::pod::PodPatch;
pub use crate::objects::target::Target;

pub use action::{Action, Body, IfExists};
pub use objects::Object;
pub use outcome::{Failure, Outcome};
pub use write::{Verb, Write};

/// The result of a decision. An empty plan means that nothing needs to be done now.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Executed in order, up to the first required stage that fails.
    pub stages: Vec<Stage>,
    /// Events to record on the workload, whether or not the stages succeed.
    pub events: Vec<Event>,
    /// Decide again after this time even if nothing changes until then.
    pub look_again: Option<SignedDuration>,
    /// The reasons why the workload waits, pod by pod, which `kubectl berth why` prints.
    pub waiting: Vec<Waiting>,
    /// A fault of the workload that only its author can fix: nothing is retried until the workload
    /// changes.
    pub refusal: Option<Refusal>,
}

/// Steps that may run at the same time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// The purpose of the stage, e.g. `scale up`.
    pub name: &'static str,
    /// Whether later stages run only if every step of this one succeeded. For example, a failed
    /// creation does not block another pod's update.
    pub required: bool,
    /// The steps, most important first: an executor with limits starts them in this order.
    pub steps: Vec<Step>,
}

/// Actions on one object and its parts, in order; the first failure ends the step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The writes.
    pub actions: Vec<Action>,
    /// The reason, as a message.
    pub reason: String,
    /// Recorded when every action of the step succeeded.
    pub done: Option<Event>,
    /// Recorded, with the error appended to its message, when an action failed.
    pub failed: Option<Event>,
}

/// An event to record on the workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// `Warning` if set, else `Normal`.
    pub warning: bool,
    /// CamelCase, OpenKruise's reason if it has one.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Event {
    /// An event of type `Normal`.
    pub fn normal(reason: &'static str, message: String) -> Self {
        Self {
            warning: false,
            reason,
            message,
        }
    }

    /// An event of type `Warning`.
    pub fn warning(reason: &'static str, message: String) -> Self {
        Self {
            warning: true,
            reason,
            message,
        }
    }
}

/// A reason why a workload waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// The pod, or empty for the workload as a whole.
    pub pod: String,
    /// The reason, as a message.
    pub reason: String,
}

/// Why the controller does not act on a workload until its author changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// CamelCase reason for the condition and the event.
    pub reason: &'static str,
    /// Names the object, the field, the value and the remedy.
    pub message: String,
}

impl Step {
    /// A step of one action that records no event.
    pub fn new(action: Action, reason: String) -> Self {
        Self {
            actions: vec![action],
            reason,
            done: None,
            failed: None,
        }
    }
}

impl Stage {
    /// Reads the owner from the apiserver; later stages run only if the owner still exists.
    pub fn confirm(resource: Resource, owner: Target, reason: String) -> Self {
        let action = Action::Confirm {
            resource,
            target: owner,
        };
        Self {
            name: "confirm",
            required: true,
            steps: vec![Step::new(action, reason)],
        }
    }
}

impl Plan {
    /// Adds a stage that later stages do not depend on, unless it is empty.
    pub fn add_stage(&mut self, name: &'static str, steps: Vec<Step>) {
        self.stages.extend((!steps.is_empty()).then_some(Stage {
            name,
            required: false,
            steps,
        }));
    }

    /// Adds a stage that later stages depend on, unless it is empty.
    pub fn add_required_stage(&mut self, name: &'static str, steps: Vec<Step>) {
        self.stages.extend((!steps.is_empty()).then_some(Stage {
            name,
            required: true,
            steps,
        }));
    }

    /// Reads the owner from the apiserver before the first stage that creates pods, because a cache
    /// can show that pods are gone before it shows that their owner is. Otherwise the garbage
    /// collector would delete each new pod, and the controller would create another, until the
    /// cache catches up.
    pub fn confirm_before_pods(&mut self, resource: Resource, owner: Target) {
        let creates = |step: &Step| {
            let is_pod = |action: &Action| matches!(action, Action::CreatePod { .. });
            step.actions.iter().any(is_pod)
        };
        let is_first = |stage: &Stage| stage.steps.iter().any(creates);
        let Some(first) = self.stages.iter().position(is_first) else {
            return;
        };
        let reason = "pods are to be created".to_owned();
        let confirm = Stage::confirm(resource, owner, reason);
        self.stages.insert(first, confirm);
    }

    /// Notes why the workload as a whole waits.
    pub fn wait(&mut self, reason: String) {
        self.waiting.push(Waiting {
            pod: String::new(),
            reason,
        });
    }

    /// Notes why one of its pods waits.
    pub fn wait_for_pod(&mut self, pod: &Pod, reason: String) {
        self.waiting.push(Waiting {
            pod: pod.metadata.name.to_string(),
            reason,
        });
    }

    /// Refuses the workload until its author changes it, without retries. Adds an event unless
    /// `is_known` says that there was one.
    pub fn refuse(&mut self, refusal: Refusal, is_known: bool) {
        if !is_known {
            self.events
                .push(Event::warning(refusal.reason, refusal.message.clone()));
        }
        self.wait(refusal.message.clone());
        self.refusal = Some(refusal);
    }

    /// Whether there is nothing to write.
    pub fn is_idle(&self) -> bool {
        self.stages.iter().all(|stage| stage.steps.is_empty())
    }

    /// All writes, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.stages
            .iter()
            .flat_map(|stage| &stage.steps)
            .flat_map(|step| &step.actions)
    }

    /// Schedules another decision after `wait` at the latest.
    pub fn look_again_after(&mut self, wait: SignedDuration) {
        self.look_again = Some(self.look_again.map_or(wait, |old| old.min(wait)));
    }
}

#[cfg(test)]
mod tests;
