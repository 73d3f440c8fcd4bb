//! The objects that a plan's steps write to: one step for each object.
//!
//! Two steps for one object would not know of each other. The first write makes the data of the
//! second step stale, above all its resource version.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::{Action, Body, Event, Plan, Stage, Step, Target};

/// The object of an action: kind, namespace and name.
pub type Object = (&'static str, String, String);

/// The name of a new object.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    namespace: String,
    name: String,
}

impl Plan {
    /// Keeps at most one step for each object, in place of the first. A later step for the same pod
    /// joins the first, unless it depends on the seen version, which the first makes stale. All
    /// others are dropped, and decided again once the first write is seen. An object of a step for
    /// which `goes_alone` is true has no other write at all.
    pub fn join_steps_by_object(&mut self, goes_alone: impl Fn(&Step) -> bool) {
        let alone = self
            .stages
            .iter()
            .flat_map(|stage| &stage.steps)
            .filter(|step| goes_alone(step));
        let alone: BTreeSet<Object> = alone.flat_map(Step::objects).collect();
        let mut first: BTreeMap<Object, (usize, usize)> = BTreeMap::new();
        for stage in std::mem::take(&mut self.stages) {
            let at_stage = self.stages.len();
            self.stages.push(Stage {
                steps: Vec::new(),
                ..stage
            });
            for step in stage.steps {
                let objects: BTreeSet<Object> = step.objects().collect();
                if !goes_alone(&step) && !objects.is_disjoint(&alone) {
                    continue;
                }
                let mut before = objects
                    .iter()
                    .filter_map(|object| first.get(object).copied());
                let at = match (before.next(), before.next()) {
                    (None, _) => {
                        self.stages[at_stage].steps.push(step);
                        (at_stage, self.stages[at_stage].steps.len() - 1)
                    }
                    (Some(at), None) if self.stages[at.0].steps[at.1].join(&step) => at,
                    _ => continue,
                };
                first.extend(objects.into_iter().map(|object| (object, at)));
            }
        }
        self.stages.retain(|stage| !stage.steps.is_empty());
    }

    /// An object that two steps write to, if there is one.
    pub fn written_twice(&self) -> Option<Object> {
        let mut written = BTreeSet::new();
        let steps = self.stages.iter().flat_map(|stage| &stage.steps);
        let objects = steps.flat_map(|step| step.objects().collect::<BTreeSet<_>>());
        objects
            .into_iter()
            .find(|object| !written.insert(object.clone()))
    }
}

impl Step {
    /// The objects that the step writes to. A dry run writes to none.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        self.actions.iter().filter_map(Action::object)
    }

    /// Joins another step for the same object. Returns false and changes nothing if that step
    /// depends on the seen version, or has other events.
    fn join(&mut self, later: &Step) -> bool {
        let depends = |action: &Action| {
            action
                .target()
                .is_some_and(|target| target.resource_version.is_some())
        };
        let has_others = |own: &Option<Event>, other: &Option<Event>| {
            own.is_some() && other.is_some() && own != other
        };
        // Only writes to pods can be joined. A revision's labels record the progress of its jobs,
        // so that the order of these writes matters.
        let is_of_pod = |action: &Action| {
            action
                .object()
                .is_none_or(|(kind, ..)| kind == "Pod" || kind == "ConfigMap")
        };
        if !later.actions.iter().all(is_of_pod)
            || later.actions.iter().any(depends)
            || has_others(&self.done, &later.done)
            || has_others(&self.failed, &later.failed)
        {
            return false;
        }
        self.actions.extend(later.actions.iter().cloned());
        self.reason = format!("{}; {}", self.reason, later.reason);
        self.done = self.done.take().or_else(|| later.done.clone());
        self.failed = self.failed.take().or_else(|| later.failed.clone());
        true
    }
}

impl Action {
    /// The object that the action writes to. `None` for a dry run, a read, and a new pod, whose
    /// name no other object has.
    pub fn object(&self) -> Option<Object> {
        let new = |kind, body: &Value| {
            let field = |field: &str| {
                body["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            Some((kind, field("namespace"), field("name")))
        };
        let read = |kind, body: &Body| {
            let Named {
                metadata: Name { namespace, name },
            } = body.read().unwrap_or_default();
            Some((kind, namespace, name))
        };
        match self {
            Self::ValidateTemplate { .. } | Self::Confirm { .. } | Self::CreatePod { .. } => {
                return None;
            }
            Self::CreateRevision { body } | Self::CreateClaim { body } => {
                return read(self.write().resource.kind, body);
            }
            Self::Create { body, .. } => return new(self.write().resource.kind, body),
            _ => {}
        }
        let kind = self.write().resource.kind;
        self.target()
            .map(|target| (kind, target.namespace.clone(), target.name.clone()))
    }

    /// The existing object that the action is for; `None` for a creation.
    fn target(&self) -> Option<&Target> {
        match self {
            Self::ValidateTemplate { .. }
            | Self::CreateRevision { .. }
            | Self::CreatePod { .. }
            | Self::CreateClaim { .. }
            | Self::Create { .. } => None,
            Self::RenumberRevision { target, .. }
            | Self::PatchRevision { target, .. }
            | Self::DeleteRevision { target }
            | Self::DeletePod { target }
            | Self::EvictPod { target }
            | Self::ReleasePod { target, .. }
            | Self::AdoptPod { target, .. }
            | Self::AdoptRevision { target, .. }
            | Self::Confirm { target, .. }
            | Self::PatchClaim { target, .. }
            | Self::DeleteClaim { target }
            | Self::PatchPod { target, .. }
            | Self::ResizePod { target, .. }
            | Self::PatchPodStatus { target, .. }
            | Self::OpenBarrier { pod: target, .. }
            | Self::Patch { target, .. }
            | Self::Delete { target, .. } => Some(target),
        }
    }
}

#[cfg(test)]
mod tests;
