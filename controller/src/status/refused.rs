//! Writes that the apiserver refused lately. They are not sent again until they change, or a minute
//! has passed, because pods wake a workload far more often than its author mends it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use berth_workload::plan::{Action, Failure, Outcome, Plan, Step, Verb};
use parking_lot::Mutex;

use crate::context::REFUSED;

/// Refused writes by the uid of the object that they were decided for.
#[derive(Debug, Default)]
pub(crate) struct Refused(Mutex<HashMap<String, Vec<Held>>>);

#[derive(Debug)]
struct Held {
    /// The hash of the object's name and of the refused content.
    hash: u64,
    failure: Failure,
    at: Instant,
}

impl Refused {
    /// Removes the steps from the plan that were refused within the last minute. Returns their
    /// failures, with the time until the first of them may be tried again.
    pub(crate) fn hold(
        &self,
        uid: &str,
        plan: &mut Plan,
        now: Instant,
    ) -> (Vec<Failure>, Option<Duration>) {
        let mut all = self.0.lock();
        all.retain(|_, held| {
            held.retain(|held| now.duration_since(held.at) < REFUSED);
            !held.is_empty()
        });
        let (mut failures, mut wait) = (Vec::new(), None);
        let Some(held) = all.get(uid) else {
            return (failures, wait);
        };
        for stage in &mut plan.stages {
            stage.steps.retain(|step| {
                let found = write_of(step)
                    .and_then(|write| held.iter().find(|held| held.hash == write.hash));
                let Some(found) = found else { return true };
                failures.push(found.failure.clone());
                let left = REFUSED.saturating_sub(now.duration_since(found.at));
                wait = Some(wait.map_or(left, |wait: Duration| wait.min(left)));
                false
            });
        }
        plan.stages.retain(|stage| !stage.steps.is_empty());
        (failures, wait)
    }

    /// Notes the steps of a plan that were refused.
    pub(crate) fn note(&self, uid: &str, plan: &Plan, outcome: &Outcome, now: Instant) {
        let steps = || plan.stages.iter().flat_map(|stage| &stage.steps);
        let held: Vec<_> = outcome
            .failures
            .iter()
            .filter(|failure| failure.permanent && !failure.outdated)
            .filter_map(|failure| {
                let is_it = |write: &StepWrite<'_>| {
                    write.verb == failure.write.verb && write.name == failure.object
                };
                let StepWrite { hash, .. } = steps().filter_map(write_of).find(is_it)?;
                Some(Held {
                    hash,
                    failure: failure.clone(),
                    at: now,
                })
            })
            .collect();
        if !held.is_empty() {
            self.0
                .lock()
                .entry(uid.to_owned())
                .or_default()
                .extend(held);
        }
    }
}

struct StepWrite<'a> {
    verb: Verb,
    name: &'a str,
    hash: u64,
}

/// The object that a step creates or changes. The version of the object does not count.
fn write_of(step: &Step) -> Option<StepWrite<'_>> {
    let (verb, name, resource, content) = match step.actions.last()? {
        Action::Create { resource, body, .. } => (
            Verb::Create,
            body["metadata"]["name"].as_str()?,
            resource,
            body,
        ),
        Action::Patch {
            resource,
            target,
            patch,
        } => (Verb::Patch, &*target.name, resource, patch),
        _ => return None,
    };
    let mut hasher = DefaultHasher::new();
    (resource, name, content.to_string()).hash(&mut hasher);
    Some(StepWrite {
        verb,
        name,
        hash: hasher.finish(),
    })
}

#[cfg(test)]
mod tests;
