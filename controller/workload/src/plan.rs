//! A plan: what to do next, as data. It can be printed, compared in a test, and executed by the runtime.

mod deed;
mod objects;

use std::collections::BTreeMap;

use berth_api::text::JsonText;
use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::objects::patch::pod::Resizes;
use crate::objects::pod::{Condition, Pod};
use crate::objects::resource::Resource;

pub use crate::objects::patch::pod::PodPatch;
pub use crate::objects::target::Target;

pub use deed::{Deed, Verb};
pub use objects::Object;

/// What a decision asks for. An empty plan means that nothing is to be done now.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Executed in order, up to the first required stage that fails.
    pub stages: Vec<Stage>,
    /// Events to record on the workload, whether or not the stages succeed.
    pub events: Vec<Event>,
    /// Decide again after this time even if nothing changes until then.
    pub look_again: Option<SignedDuration>,
    /// What the workload waits for, pod by pod: the text behind `berth-controller explain`.
    pub waiting: Vec<Waiting>,
    /// The workload is broken in a way that only its author can mend: no retry until it changes.
    pub refusal: Option<Refusal>,
}

/// Steps that may run at the same time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// What the stage is for, e.g. `scale up`.
    pub name: &'static str,
    /// Later stages make sense only if every step of this one succeeded. A failed creation, for one, does not keep
    /// another pod from its update.
    pub required: bool,
    /// The steps, most important first: a bounded executor starts them in this order.
    pub steps: Vec<Step>,
}

/// Actions on one object and what belongs to it, in order; the first that fails ends the step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// What to write.
    pub actions: Vec<Action>,
    /// Why, in words, for people.
    pub reason: String,
    /// Recorded when every action of the step succeeded.
    pub done: Option<Event>,
    /// Recorded, with the error appended to its message, when an action failed.
    pub failed: Option<Event>,
}

/// An object as it is sent, or a part of one. Its text takes a tenth of the memory of a [`Value`], or a hundredth, and a plan
/// has hundreds of new pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body(JsonText);

impl Body {
    /// The object.
    pub fn value(&self) -> Value {
        self.0.value()
    }

    /// Its JSON text.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// What a type takes of it; `None` where the type does not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        self.0.read()
    }
}

impl From<&Value> for Body {
    fn from(object: &Value) -> Self {
        Self(JsonText::from(object))
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

/// What it means that an object which is to be created exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum IfExists {
    /// Success, if it has the same owner: an earlier answer was lost.
    IsOfSameOwner,
    /// Success, whoever made it.
    IsFine,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// Ask the apiserver, by a dry-run create of a core `PodTemplate`, whether a pod template is valid.
    ValidateTemplate {
        /// Where pods would be created.
        namespace: String,
        /// The template as the workload has it, with the volumes of its claims.
        template: Body,
    },
    /// Create a `ControllerRevision`. One that exists already with the same owner is success.
    CreateRevision {
        /// The whole object.
        body: Body,
    },
    /// Change the `revision` number of a `ControllerRevision`: a rollback makes an old one the newest.
    RenumberRevision {
        /// The revision.
        target: Target,
        /// The new number.
        revision: i64,
        /// Annotations that change.
        annotations: BTreeMap<String, String>,
    },
    /// A merge patch of a `ControllerRevision`'s metadata (its labels).
    PatchRevision {
        /// The revision.
        target: Target,
        /// The JSON merge patch.
        patch: Value,
    },
    /// Delete a `ControllerRevision` that the history limit drops.
    DeleteRevision {
        /// The revision.
        target: Target,
    },
    /// Create a pod. Expected in the feed before the workload is decided on again.
    CreatePod {
        /// The whole object, with `metadata.name` set.
        body: Body,
    },
    /// Delete a pod, with its own grace period. Expected in the feed before the workload is decided on again.
    DeletePod {
        /// The pod.
        target: Target,
    },
    /// Ask the apiserver to delete a pod, which it does where no disruption budget speaks against it. Expected as a deletion is.
    EvictPod {
        /// The pod.
        target: Target,
    },
    /// Take an owner off a pod, which runs on. The resource version of the target is always set.
    ReleasePod {
        /// The pod.
        target: Target,
        /// The uid of the owner.
        owner: String,
    },
    /// Give a pod that nobody controls an owner. The resource version of the target is always set.
    AdoptPod {
        /// The pod.
        target: Target,
        /// The owner reference.
        owner: Value,
    },
    /// Give a `ControllerRevision` that nobody controls an owner. The resource version of the target is always set.
    AdoptRevision {
        /// The revision.
        target: Target,
        /// The owner reference.
        owner: Value,
    },
    /// Create a claim. One that exists already with the same owner is success.
    CreateClaim {
        /// The whole object.
        body: Body,
    },
    /// A strategic merge patch of a claim: its owners, its annotations, or how much it asks for.
    PatchClaim {
        /// The claim.
        target: Target,
        /// The patch.
        patch: Value,
    },
    /// Delete a claim. The server keeps it until no pod uses it.
    DeleteClaim {
        /// The claim.
        target: Target,
    },
    /// A strategic merge patch of a pod's metadata and container images.
    PatchPod {
        /// The pod.
        target: Target,
        /// What changes.
        patch: PodPatch,
    },
    /// A strategic merge patch of a pod's `resize` subresource, which takes resources of containers and nothing else.
    ResizePod {
        /// The pod.
        target: Target,
        /// What changes, by container.
        resources: Resizes,
    },
    /// A strategic merge patch of a pod's `status` subresource, which may carry labels and annotations too.
    PatchPodStatus {
        /// The pod.
        target: Target,
        /// Conditions to set, by type.
        conditions: Vec<Condition>,
        /// Labels and annotations to set.
        patch: PodPatch,
    },
    /// Create an object of a kind that has no action of its own.
    Create {
        /// Its kind.
        resource: Resource,
        /// The whole object.
        body: Value,
        /// What it means that there is one of its name.
        if_exists: IfExists,
    },
    /// A merge patch of metadata or spec.
    Patch {
        /// Its kind.
        resource: Resource,
        /// The object. Its resource version is set where what others wrote must survive.
        target: Target,
        /// The JSON merge patch.
        patch: Value,
    },
    /// Delete an object.
    Delete {
        /// Its kind.
        resource: Resource,
        /// The object.
        target: Target,
    },
    /// Read an object from the apiserver, and go on only if it is the one that is meant and is not being deleted.
    Confirm {
        /// Its kind.
        resource: Resource,
        /// The object.
        target: Target,
    },
    /// Add keys to the ConfigMap for which a pod's containers wait, if it is that pod's.
    OpenBarrier {
        /// The pod.
        pod: Target,
        /// The keys.
        keys: Vec<String>,
    },
}

/// An event to record on the workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// `Warning` if set, else `Normal`.
    pub warning: bool,
    /// CamelCase, as the peer names it where it has one.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// Something that a workload waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// The pod, or empty for the workload as a whole.
    pub pod: String,
    /// What it waits for, in words.
    pub reason: String,
}

/// Why a workload cannot be acted on until its author changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// CamelCase reason for the condition and the event.
    pub reason: &'static str,
    /// Names the object, the field, the value and the remedy.
    pub message: String,
}

/// What came of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Failed actions in the order in which they failed. Empty: the whole plan was executed.
    pub failures: Vec<Failure>,
}

/// One failed action.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What was to be done.
    pub deed: Deed,
    /// The object's namespace, empty where it is in none.
    pub namespace: String,
    /// The object's name.
    pub object: String,
    /// The server's message.
    pub message: String,
    /// The HTTP status, 0 where there was no answer.
    pub code: u16,
    /// The same action will fail in the same way until the workload changes (HTTP 400, 403, 422).
    pub permanent: bool,
    /// The object is gone, or not as it was seen (HTTP 404, 409), or its name as a revision is taken: no failure, it is
    /// decided on anew.
    pub outdated: bool,
    /// The name of the object that was to be created is another object's, which was read to know it.
    pub taken: bool,
    /// The pod's node can never do this resize: it has not so much, or its operating system does not resize.
    pub infeasible: bool,
}

impl Failure {
    /// What a budget of pods does not allow now: nothing was tried.
    pub fn of_budget(deed: Deed, (namespace, object): (&str, &str), message: String) -> Self {
        let (namespace, object) = (namespace.to_owned(), object.to_owned());
        Self {
            deed,
            namespace,
            object,
            message,
            code: 429,
            permanent: true,
            outdated: false,
            taken: false,
            infeasible: false,
        }
    }

    /// Whether it is that.
    pub fn is_of_budget(&self) -> bool {
        self.code == 429 && self.permanent
    }
}

impl Outcome {
    /// Whether anything failed that is not just decided on anew.
    pub fn has_failed(&self) -> bool {
        self.failures.iter().any(|failure| !failure.outdated)
    }

    /// The server's message about the first of these deeds that failed, and not because the object had changed.
    pub fn first(&self, is_ours: impl Fn(Deed) -> bool) -> Option<String> {
        let mut told = self
            .failures
            .iter()
            .filter(|failure| !failure.outdated && !failure.is_of_budget());
        told.find(|failure| is_ours(failure.deed))
            .map(|failure| failure.message.clone())
    }
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

impl Plan {
    /// Adds a stage of which any step may fail, unless it is empty.
    pub fn add_stage(&mut self, name: &'static str, steps: Vec<Step>) {
        self.stages.extend((!steps.is_empty()).then_some(Stage {
            name,
            required: false,
            steps,
        }));
    }

    /// Adds a stage without which the later ones make no sense, unless it is empty.
    pub fn add_required_stage(&mut self, name: &'static str, steps: Vec<Step>) {
        self.stages.extend((!steps.is_empty()).then_some(Stage {
            name,
            required: true,
            steps,
        }));
    }

    /// Says what the workload as a whole waits for.
    pub fn wait(&mut self, reason: String) {
        self.waiting.push(Waiting {
            pod: String::new(),
            reason,
        });
    }

    /// Says what one of its pods waits for.
    pub fn wait_for_pod(&mut self, pod: &Pod, reason: String) {
        self.waiting.push(Waiting {
            pod: pod.metadata.name.to_string(),
            reason,
        });
    }

    /// The workload waits for its author: an event, unless `is_known` says that there was one, and nothing is retried.
    pub fn refuse(&mut self, refusal: Refusal, is_known: bool) {
        if !is_known {
            self.events.push(Event {
                warning: true,
                reason: refusal.reason,
                message: refusal.message.clone(),
            });
        }
        self.wait(refusal.message.clone());
        self.refusal = Some(refusal);
    }

    /// True when there is nothing to write.
    pub fn is_idle(&self) -> bool {
        self.stages.iter().all(|stage| stage.steps.is_empty())
    }

    /// All that is to be written, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.stages
            .iter()
            .flat_map(|stage| &stage.steps)
            .flat_map(|step| &step.actions)
    }

    /// Asks to decide again after `wait` at the latest.
    pub fn look_again_after(&mut self, wait: SignedDuration) {
        self.look_again = Some(self.look_again.map_or(wait, |old| old.min(wait)));
    }
}
