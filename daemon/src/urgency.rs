//! Decides when a changed status is worth a write.

use berth_api::v1beta1::nodeimage::{ImagePullPhase, NodeImageStatus, StoppedContainer};

/// How soon a status must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing changed.
    Not,
    /// Only the progress of pulls changed: a write every few seconds is enough.
    Progress,
    /// At once.
    Now,
}

/// Decides how urgent it is to write the status `wanted` over the status `written`.
pub fn urgency(written: &NodeImageStatus, wanted: &NodeImageStatus) -> Urgency {
    let gone = without_gone(written, wanted);
    let written = gone.as_ref().unwrap_or(written);
    if written == wanted {
        Urgency::Not
    } else if without_progress(written) == without_progress(wanted) {
        Urgency::Progress
    } else {
        Urgency::Now
    }
}

/// The written status without the stop results that are not wanted any more; `None` if it has none.
/// They go with the next write, and need no write of their own.
fn without_gone(written: &NodeImageStatus, wanted: &NodeImageStatus) -> Option<NodeImageStatus> {
    let is_gone = |answer: &StoppedContainer| {
        !wanted
            .stopped_containers
            .iter()
            .any(|new| (&new.request, &new.container) == (&answer.request, &answer.container))
    };
    written.stopped_containers.iter().any(is_gone).then(|| {
        let mut written = written.clone();
        written.stopped_containers.retain(|answer| !is_gone(answer));
        written
    })
}

fn without_progress(status: &NodeImageStatus) -> NodeImageStatus {
    let mut status = status.clone();
    for tag in status
        .image_statuses
        .values_mut()
        .flat_map(|image| &mut image.tags)
    {
        if tag.phase == ImagePullPhase::Pulling {
            tag.progress = 0;
            tag.bytes_done = None;
            tag.bytes_total = None;
        }
    }
    status
}

#[cfg(test)]
mod tests;
