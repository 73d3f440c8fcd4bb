//! The status to report.

use berth_api::v1beta1::nodeimage::{ImagePullPhase, ImageTagStatus, NodeImageStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::turns::TURN_OVER;
use super::{Key, MESSAGE_MAX, Resolved, Running, State, Task, Tasks, shortened};
use crate::tasks::manifest::Bytes;

/// Bytes of all messages of a status together.
const MESSAGES_MAX: usize = 128 * 1024;
/// The minimum size of each message in bytes, for any number of messages.
const MESSAGE_MIN: usize = 128;

impl Tasks {
    /// The part of the status about pulls.
    pub fn status(&self) -> NodeImageStatus {
        let mut status = NodeImageStatus {
            first_sync_status: self.first_sync.clone(),
            ..NodeImageStatus::default()
        };
        // Many pulls that fail alike must not make the object too large for a write.
        let longest = (MESSAGES_MAX / self.tasks.len().max(1)).clamp(MESSAGE_MIN, MESSAGE_MAX);
        for (key, task) in &self.tasks {
            let mut tag = task.status(key);
            tag.message = shortened(tag.message, longest);
            status.desired += 1;
            *match tag.phase {
                ImagePullPhase::Waiting => &mut status.waiting,
                ImagePullPhase::Pulling => &mut status.pulling,
                ImagePullPhase::Succeeded => &mut status.succeeded,
                ImagePullPhase::Failed => &mut status.failed,
            } += 1;
            status
                .image_statuses
                .entry(key.image.clone())
                .or_default()
                .tags
                .push(tag);
        }
        status
    }
}

impl Task {
    fn status(&self, key: &Key) -> ImageTagStatus {
        let mut status = ImageTagStatus {
            tag: key.tag.clone(),
            version: self.version,
            start_time: self.started.map(|began| Time(began.time)),
            message: self.error.clone(),
            ..ImageTagStatus::default()
        };
        let tries = self.policy.backoff_limit.saturating_add(1);
        match &self.state {
            State::Unseen { .. } | State::Absent { .. } if self.started.is_none() => {
                status.phase = ImagePullPhase::Waiting;
            }
            State::Unseen { .. } | State::Absent { not_before: None } => {
                status.phase = ImagePullPhase::Pulling
            }
            // The message stays the same while the pull is tried again, otherwise every try would
            // be two writes.
            State::Absent { .. } | State::Running(Running { bytes: None, .. })
                if self.holds > 0 =>
            {
                status.phase = ImagePullPhase::Pulling;
                status.message = format!("held, and tried again until it works: {}", self.error);
            }
            State::Absent { .. } if self.error == TURN_OVER => {
                status.phase = ImagePullPhase::Pulling
            }
            State::Absent {
                not_before: Some(at),
            } => {
                status.phase = ImagePullPhase::Pulling;
                status.message = format!(
                    "try {} of {tries} failed, the next begins at {:.0}: {}",
                    self.failures, at.time, self.error
                );
            }
            State::Running(Running { bytes, .. }) => {
                status.phase = ImagePullPhase::Pulling;
                status.message = self.last_failure(tries);
                if let Some(bytes) = bytes {
                    status.report(*bytes);
                }
            }
            State::Done { succeeded, at, .. } => {
                status.phase = if *succeeded {
                    ImagePullPhase::Succeeded
                } else {
                    ImagePullPhase::Failed
                };
                status.completion_time = Some(Time(*at));
                if let (true, Some(image)) = (succeeded, &self.image) {
                    status.identify(key, image);
                }
                status.progress = if *succeeded { 100 } else { 0 };
            }
        }
        status
    }

    /// The message of a pull under way: why the last try failed, if it did.
    fn last_failure(&self, tries: u32) -> String {
        if self.failures == 0 {
            return String::new();
        }
        let next = self.failures + 1;
        format!("try {next} of {tries}; the last one: {}", self.error)
    }
}

/// Fills a tag's status from the runtime's data.
trait Facts {
    fn report(&mut self, bytes: Bytes);
    fn identify(&mut self, key: &Key, image: &Resolved);
}

impl Facts for ImageTagStatus {
    fn report(&mut self, bytes: Bytes) {
        self.progress = bytes.percent();
        self.bytes_done = i64::try_from(bytes.done).ok();
        self.bytes_total = i64::try_from(bytes.total).ok();
    }

    fn identify(&mut self, key: &Key, image: &Resolved) {
        if !image.id.is_empty() {
            // OpenKruise's form: the name, and the runtime's id behind an @.
            self.image_id = format!("{}@{}", key.image, image.id);
        }
        self.image_ids.clone_from(&image.ids);
        self.bytes_total = image.bytes.and_then(|n| i64::try_from(n).ok());
        self.bytes_done = self.bytes_total;
    }
}
