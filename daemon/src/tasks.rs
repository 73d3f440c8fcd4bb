//! The pulls of a node, as a state machine without I/O. Its inputs are the spec and events; its
//! outputs are the pulls to start or stop and the status to report.
//!
//! [`Tasks::step`] decides; [`Tasks::looked`], [`Tasks::progressed`] and [`Tasks::ended`] take the
//! events that follow.

pub mod manifest;
mod now;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::v1beta1::nodeimage::{
    ImagePullPolicy, ImageTagSpec, SyncStatus, backoff_limit, timeout_seconds,
};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::tasks::manifest::Bytes;
use berth_api::image;

pub(crate) use now::Began;
pub use now::Now;
pub use step::{Plan, Start, names};

/// The first pause after a failed try; it doubles with every further one.
const BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause between two tries.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Longer messages of runtimes and registries are cut.
const MESSAGE_MAX: usize = 1024;

/// One pull: an image's name and its tag or digest, as in the spec.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The image's name without tag, the key in `spec.images`.
    pub image: String,
    /// The tag or digest.
    pub tag: String,
}

impl Key {
    /// The image reference that is pulled.
    pub fn reference(&self) -> String {
        image::join(&self.image, &self.tag)
    }
}

/// An image on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The runtime's own id of it.
    pub id: String,
    /// All of its digests: of its config, its manifest and its index.
    pub ids: Vec<String>,
    /// Bytes of its blobs, if the runtime reports them.
    pub bytes: Option<u64>,
}

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The node has the image.
    Pulled(Resolved),
    /// The node has the image, although its secrets have an error: a registry may need none.
    PulledAlthough(Resolved, String),
    /// The image, the registry or the credentials are at fault: counts against the back-off limit.
    Failed(String),
    /// A program that every pull needs is away, the runtime or the controller: tried again until it
    /// is back.
    Held(String),
}

/// Bounds that hold for a node.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Pulls under way at once. Namespaces share them evenly, see [`Tasks::step`]. Tags of one
    /// image are always pulled one after the other, so that they share their layers and each pull's
    /// progress can be measured.
    pub parallel: usize,
}

/// All pulls of a node.
#[derive(Debug, Default)]
pub struct Tasks {
    tasks: BTreeMap<Key, Task>,
    attempts: u64,
    first_sync: Option<SyncStatus>,
    /// Keyed by a namespace that owns an entry: its last try.
    turns: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Task {
    version: i64,
    policy: Policy,
    /// The namespaces of the entry's owners; the empty name stands for an entry without an owner,
    /// put in by hand.
    namespaces: BTreeSet<String>,
    created: Option<Timestamp>,
    /// When the first try began.
    started: Option<Began>,
    /// Tries that count against the limit.
    failures: u32,
    /// Tries in a row that were held.
    holds: u32,
    /// The error of the last try.
    error: String,
    image: Option<Resolved>,
    /// The node is not checked for the image before this time.
    look_after: Option<Instant>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It is not known yet whether the node has the image.
    Unseen { requested: bool },
    /// The image must be pulled, not before a time.
    Absent { not_before: Option<Now> },
    /// A try is under way.
    Running(Running),
    /// Over.
    Done {
        succeeded: bool,
        at: Timestamp,
        stale: bool,
    },
}

/// A try that is under way.
#[derive(Debug)]
struct Running {
    attempt: u64,
    since: Instant,
    /// The namespace whose share includes this try's slot.
    namespace: String,
    bytes: Option<Bytes>,
    /// When its bytes last increased. `None` as long as they are not known.
    advanced: Option<Instant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Policy {
    timeout: Duration,
    backoff_limit: u32,
    deadline: Option<Duration>,
    always: bool,
}

impl Policy {
    fn of(tag: &ImageTagSpec) -> Policy {
        let policy = tag.pull_policy.clone().unwrap_or_default();
        Policy {
            timeout: Duration::from_secs(
                timeout_seconds(policy.timeout_seconds)
                    .unsigned_abs()
                    .into(),
            ),
            backoff_limit: backoff_limit(policy.backoff_limit).unsigned_abs(),
            deadline: policy
                .active_deadline_seconds
                .filter(|s| *s > 0)
                .map(|s| Duration::from_secs(s.unsigned_abs())),
            always: tag.image_pull_policy == Some(ImagePullPolicy::Always),
        }
    }
}

impl Tasks {
    /// Takes the result of a check whether the node has an image. An image that the node has is not
    /// pulled, unless its policy is `Always`. After a successful pull, the result replaces the
    /// image to report.
    pub fn looked(&mut self, key: &Key, found: Option<Resolved>, now: Now) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        match &task.state {
            State::Unseen { .. } if found.is_some() && !task.policy.always => {
                task.image = found;
                task.finish(true, now);
            }
            State::Unseen { .. } => task.state = State::Absent { not_before: None },
            State::Done {
                succeeded: true, ..
            } => {
                let bytes = task.image.take().and_then(|image| image.bytes);
                task.image = found.map(|image| Resolved {
                    bytes: image.bytes.or(bytes),
                    ..image
                });
            }
            State::Absent { .. } | State::Running(_) | State::Done { .. } => {}
        }
    }

    /// Takes the failure of a check for an image. The daemon checks again after `BACKOFF`.
    pub fn not_looked(&mut self, key: &Key, now: Now) {
        let Some(task) = self.tasks.get_mut(key) else {
            return;
        };
        match &mut task.state {
            State::Unseen { requested } => *requested = false,
            State::Done { stale, .. } => *stale = true,
            State::Absent { .. } | State::Running(_) => return,
        }
        task.look_after = Some(now.after(BACKOFF).steady);
    }

    /// Images were added, removed or renamed on the node. The daemon reads them again a little
    /// later, because such changes come in bursts.
    pub fn images_changed(&mut self, now: Now) {
        for task in self.tasks.values_mut() {
            if let State::Done {
                stale,
                succeeded: true,
                ..
            } = &mut task.state
                && !std::mem::replace(stale, true)
            {
                task.look_after = Some(now.after(BACKOFF).steady);
            }
        }
    }

    /// Takes the bytes that a try has on the node: 0 of 0 as long as its size is not known.
    pub fn progressed(&mut self, attempt: u64, now_here: Bytes, now: Now) {
        let Some(Task {
            state: State::Running(running),
            ..
        }) = self.running(attempt)
        else {
            return;
        };
        let before = running.bytes.unwrap_or_default();
        if now_here != before && (now_here.done > before.done || now_here.total != before.total) {
            running.advanced = Some(now.steady);
        }
        running.advanced.get_or_insert(now.steady);
        if now_here.total > 0 {
            running.bytes = Some(now_here);
        }
    }

    /// Takes the outcome of a try. The outcome of a cancelled try is dropped.
    pub fn ended(&mut self, attempt: u64, outcome: Outcome, now: Now) {
        let Some(task) = self.running(attempt) else {
            return;
        };
        match outcome {
            Outcome::Pulled(image) => {
                task.image = Some(image);
                task.finish(true, now);
            }
            Outcome::PulledAlthough(image, problem) => {
                task.image = Some(image);
                task.finish(true, now);
                task.error = shortened(format!("pulled, although {problem}"), MESSAGE_MAX);
            }
            Outcome::Failed(error) => task.fail(error, now),
            Outcome::Held(error) => task.hold(error, now),
        }
    }

    /// Forgets everything but the numbers of tries, so that a late result of an old try does not
    /// count for a new one.
    pub fn clear(&mut self) {
        *self = Tasks {
            attempts: self.attempts,
            ..Tasks::default()
        };
    }

    /// The number of tries under way.
    pub fn under_way(&self) -> usize {
        self.tasks
            .values()
            .filter(|task| matches!(task.state, State::Running(_)))
            .count()
    }

    /// The task whose try under way has this number.
    fn running(&mut self, attempt: u64) -> Option<&mut Task> {
        self.tasks.values_mut().find(
            |task| matches!(&task.state, State::Running(running) if running.attempt == attempt),
        )
    }
}

impl Task {
    fn finish(&mut self, succeeded: bool, now: Now) {
        self.begin(now);
        if succeeded {
            self.error.clear();
        }
        self.state = State::Done {
            succeeded,
            at: self.time_to_report(now),
            stale: false,
        };
    }

    /// Sets the start of the first try to now, unless it is set. A pull that needs no try starts
    /// and ends at once.
    fn begin(&mut self, now: Now) {
        let time = self.time_to_report(now);
        self.started.get_or_insert(Began::now(now, time));
    }

    /// The time to report for an event of now, never before the creation and the start of the pull.
    /// With a clock that is behind or was set back, a pull would otherwise seem to begin before its
    /// entry and to end before it began. Then the next daemon would take the entry for a new one,
    /// and the controller would take the pull for one that lasts too long.
    fn time_to_report(&self, now: Now) -> Timestamp {
        let before = self.created.max(self.started.map(|began| began.time));
        before.map_or(now.time, |before| before.max(now.time))
    }

    /// Counts a failed try. The task ends if no tries are left, otherwise it pauses.
    fn fail(&mut self, error: String, now: Now) {
        self.error = shortened(error, MESSAGE_MAX);
        self.failures += 1;
        self.holds = 0;
        if self.has_no_tries_left() {
            self.finish(false, now);
        } else {
            self.state = State::Absent {
                not_before: Some(now.after(pause(self.failures))),
            };
        }
    }

    fn has_no_tries_left(&self) -> bool {
        self.failures > self.policy.backoff_limit
    }

    /// Pauses after a try that was held, which does not count against the back-off limit.
    fn hold(&mut self, error: String, now: Now) {
        self.error = shortened(error, MESSAGE_MAX);
        self.holds += 1;
        self.state = State::Absent {
            not_before: Some(now.after(pause(self.holds))),
        };
    }
}

/// The pause after the n-th failure in a row.
fn pause(failures: u32) -> Duration {
    BACKOFF
        .checked_mul(1 << failures.saturating_sub(1).min(5))
        .unwrap_or(BACKOFF_MAX)
        .min(BACKOFF_MAX)
}

/// Cut after so many bytes, at a character.
fn shortened(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let end = (0..=longest)
            .rev()
            .find(|i| text.is_char_boundary(*i))
            .unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}
