//! Decides the next step.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::v1beta1::nodeimage::{
    ImagePullPhase, ImageTagSpec, ImageTagStatus, NodeImageSpec, NodeImageStatus, SyncStatus,
    SyncStatusPhase,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::{Began, Key, Limits, MESSAGE_MAX, Now, Policy, Resolved, Running, State, Task, Tasks};

/// The actions to take, and when to decide again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Check the node for these images; the result goes to [`Tasks::looked`] or
    /// [`Tasks::not_looked`].
    pub look: Vec<Key>,
    /// Begin these tries; the result goes to [`Tasks::ended`].
    pub start: Vec<Start>,
    /// Stop these tries, without a result.
    pub cancel: Vec<u64>,
    /// Step again at this time, if no event comes before.
    pub wake_at: Option<Instant>,
}

/// A try to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The image to pull.
    pub key: Key,
    /// The number of the try, unique in the life of the process.
    pub attempt: u64,
}

impl Tasks {
    /// Brings the tasks in line with the spec and decides what to do now. `previous` is the status
    /// in the NodeImage: tasks that it reports as over do not begin again.
    ///
    /// Namespaces take turns for the slots: the next slot is for a namespace with the fewest tries
    /// under way. A namespace with more than its share gives a slot back if another one waits, and
    /// so does a try that gets no bytes.
    pub fn step(
        &mut self,
        spec: &NodeImageSpec,
        previous: &NodeImageStatus,
        runtime_ready: bool,
        limits: Limits,
        now: Now,
    ) -> Plan {
        let mut plan = Plan::default();
        self.follow(spec, previous, &mut plan, now);
        self.expire(&mut plan, now);
        if runtime_ready {
            self.look(&mut plan, now);
            self.take_turns(&mut plan, limits, now);
        }
        self.note_first_sync(spec, previous, now);
        let turn = self.next_turn(limits, now).filter(|_| runtime_ready);
        plan.wake_at = self
            .tasks
            .values()
            .filter_map(|task| task.next_event(runtime_ready, now))
            .chain(turn)
            .min();
        plan
    }

    fn follow(
        &mut self,
        spec: &NodeImageSpec,
        previous: &NodeImageStatus,
        plan: &mut Plan,
        now: Now,
    ) {
        let wanted = entries(spec);
        self.tasks.retain(|key, task| {
            let keep = wanted
                .get(key)
                .is_some_and(|tag| tag.version == task.version);
            if let (false, State::Running(running)) = (keep, &task.state) {
                plan.cancel.push(running.attempt);
            }
            keep
        });
        for (key, tag) in wanted {
            match self.tasks.get_mut(&key) {
                Some(task) => (task.policy, task.namespaces) = (Policy::of(tag), namespaces(tag)),
                None => {
                    let before = previous.image_statuses.get(&key.image);
                    let before =
                        before.and_then(|image| image.tags.iter().find(|t| t.tag == key.tag));
                    let before = before.filter(|t| t.version == tag.version);
                    self.tasks.insert(key, Task::recall(tag, before, now));
                }
            }
        }
    }

    fn expire(&mut self, plan: &mut Plan, now: Now) {
        for task in self.tasks.values_mut() {
            if matches!(task.state, State::Done { .. }) {
                continue;
            }
            // The limit is lower than at the failure of the last try.
            if matches!(task.state, State::Absent { .. }) && task.has_no_tries_left() {
                let (failures, limit) = (task.failures, task.policy.backoff_limit);
                let ends = format!(
                    "{failures} tries failed, and backoffLimit={limit} allows no more; last: {}",
                    task.error
                );
                task.error = super::shortened(ends, MESSAGE_MAX);
                task.finish(false, now);
                continue;
            }
            let overdue = task.deadline().is_some_and(|at| at <= now.steady);
            let timed_out = task.times_out().is_some_and(|at| at <= now.steady);
            if !overdue && !timed_out {
                continue;
            }
            let progress = match &task.state {
                State::Running(running) => {
                    plan.cancel.push(running.attempt);
                    running.progress()
                }
                _ => String::new(),
            };
            if overdue {
                let seconds = task.policy.deadline.map_or(0, |d| d.as_secs());
                let last = if task.error.is_empty() {
                    String::new()
                } else {
                    format!("; last: {}", task.error)
                };
                task.error = super::shortened(
                    format!("not done within activeDeadlineSeconds={seconds}{progress}{last}"),
                    MESSAGE_MAX,
                );
                task.finish(false, now);
            } else {
                task.fail(
                    format!(
                        "not done within timeoutSeconds={}{progress}",
                        task.policy.timeout.as_secs()
                    ),
                    now,
                );
            }
        }
    }

    fn look(&mut self, plan: &mut Plan, now: Now) {
        for (key, task) in &mut self.tasks {
            if task.look_after.is_some_and(|at| at > now.steady) {
                continue;
            }
            let open = match &mut task.state {
                State::Unseen { requested } => !std::mem::replace(requested, true),
                State::Done {
                    succeeded: true,
                    stale,
                    ..
                } => std::mem::replace(stale, false),
                _ => false,
            };
            if open {
                plan.look.push(key.clone());
            }
        }
    }

    /// Notes when all first pulls are over. Jobs add their entries one after the other, so finished
    /// pulls count only after the controller has listed all first pulls. A node with nothing to
    /// pull is done at once.
    fn note_first_sync(&mut self, spec: &NodeImageSpec, previous: &NodeImageStatus, now: Now) {
        if self.first_sync.is_none() {
            self.first_sync.clone_from(&previous.first_sync_status);
        }
        let over = |task: &Task| matches!(task.state, State::Done { .. });
        if self.first_sync.is_some() || !spec.first_pulls_listed || !self.tasks.values().all(over) {
            return;
        }
        let failed: Vec<String> = (self.tasks.iter())
            .filter(|(_, task)| {
                matches!(
                    task.state,
                    State::Done {
                        succeeded: false,
                        ..
                    }
                )
            })
            .map(|(key, _)| key.reference())
            .collect();
        let (status, message) = match failed.len() {
            0 => (SyncStatusPhase::Succeeded, String::new()),
            n => (
                SyncStatusPhase::Failed,
                super::shortened(
                    format!("{n} not pulled: {}", failed.join(", ")),
                    MESSAGE_MAX,
                ),
            ),
        };
        self.first_sync = Some(SyncStatus {
            sync_at: Some(Time(now.time)),
            status: Some(status),
            message,
        });
    }
}

impl Task {
    /// Makes the task for an entry of the spec. `before` is the reported status of the same version
    /// of the entry.
    fn recall(tag: &ImageTagSpec, before: Option<&ImageTagStatus>, now: Now) -> Task {
        let mut task = Task {
            version: tag.version,
            policy: Policy::of(tag),
            namespaces: namespaces(tag),
            created: tag.created_at.as_ref().map(|t| t.0),
            started: before
                .and_then(|b| b.start_time.as_ref())
                .map(|t| Began::reported(t.0, now)),
            failures: 0,
            holds: 0,
            error: String::new(),
            image: None,
            look_after: None,
            state: State::Unseen { requested: false },
        };
        let Some(before) = before else { return task };
        // An entry that was dropped and added again is for a pull that is still to come.
        let is_new_request =
            before.completion_time.is_some() && tag.created_at > before.completion_time;
        if is_new_request {
            task.started = None;
            return task;
        }
        if let (Some(at), ImagePullPhase::Succeeded | ImagePullPhase::Failed) =
            (&before.completion_time, before.phase)
        {
            let succeeded = before.phase == ImagePullPhase::Succeeded;
            task.error.clone_from(&before.message);
            task.state = State::Done {
                succeeded,
                at: at.0,
                stale: true,
            };
            task.image = succeeded.then(|| Resolved {
                id: before
                    .image_id
                    .rsplit_once('@')
                    .map_or(before.image_id.as_str(), |(_, id)| id)
                    .to_owned(),
                ids: before.image_ids.clone(),
                bytes: before.bytes_total.and_then(|n| u64::try_from(n).ok()),
            });
        }
        task
    }

    fn deadline(&self) -> Option<Instant> {
        self.started?.lasts_until(self.policy.deadline?)
    }

    fn times_out(&self) -> Option<Instant> {
        match &self.state {
            State::Running(running) => running.since.checked_add(self.policy.timeout),
            _ => None,
        }
    }

    /// The time at which this task changes without an event.
    fn next_event(&self, runtime_ready: bool, now: Now) -> Option<Instant> {
        let look = self
            .look_after
            .filter(|at| runtime_ready && *at > now.steady);
        let retry = match &self.state {
            State::Done { stale: true, .. } => return look,
            State::Done { .. } => return None,
            State::Unseen { requested: false } => look,
            State::Absent { not_before } if runtime_ready => {
                not_before.map(|at| at.steady).filter(|at| *at > now.steady)
            }
            _ => None,
        };
        [retry, self.deadline(), self.times_out()]
            .into_iter()
            .flatten()
            .min()
    }
}

impl Running {
    /// The progress of the pull, for the message about its end.
    pub(super) fn progress(&self) -> String {
        self.bytes.map_or(String::new(), |bytes| {
            format!(", at {} of {} bytes", bytes.done, bytes.total)
        })
    }
}

/// The spec's entries. Of two for one tag, the newer version counts.
pub(super) fn entries(spec: &NodeImageSpec) -> BTreeMap<Key, &ImageTagSpec> {
    let mut entries: BTreeMap<Key, &ImageTagSpec> = BTreeMap::new();
    for (image, of) in &spec.images {
        for tag in &of.tags {
            let entry = entries
                .entry(Key {
                    image: image.clone(),
                    tag: tag.tag.clone(),
                })
                .or_insert(tag);
            if tag.version > entry.version {
                *entry = tag;
            }
        }
    }
    entries
}

/// The references that a spec names, as it spells them.
pub fn names(spec: &NodeImageSpec) -> Vec<String> {
    entries(spec).keys().map(Key::reference).collect()
}

/// The namespaces that an entry is pulled for. An entry that was put in by hand has the empty one.
fn namespaces(tag: &ImageTagSpec) -> BTreeSet<String> {
    let owners: BTreeSet<String> = tag.namespaces().map(str::to_owned).collect();
    if owners.is_empty() {
        [String::new()].into()
    } else {
        owners
    }
}
