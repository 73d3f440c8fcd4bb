//! Writes the status: when it differs, one write at a time, and progress alone not too often.

use std::time::Duration;

use berth_api::names::condition::RUNTIME_READY;
use berth_api::v1beta1::NodeImage;
use berth_api::v1beta1::nodeimage::{NodeImageCondition, NodeImageStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::jobs::Done;
use crate::metrics::Metrics;
use crate::nodeimage::{self, NodeImageError};
use crate::urgency::{Urgency, urgency};

/// The pause after the first write that failed; it doubles up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long the watch may lag behind an own write before it is believed again.
const LAG_MAX: Duration = Duration::from_secs(10);

/// The last known status in the apiserver, and when to write it again.
pub(super) struct Publisher {
    api: Api<NodeImage>,
    progress_interval: Duration,
    known: NodeImageStatus,
    under_way: bool,
    last: Option<Instant>,
    /// An own write that the watch has not shown yet. Until then, what the watch shows is older
    /// than `known`.
    unseen: Option<(String, Instant)>,
    not_before: Option<Instant>,
    retry: Duration,
}

impl Publisher {
    pub(super) fn new(api: Api<NodeImage>, progress_interval: Duration) -> Publisher {
        Publisher {
            api,
            progress_interval,
            known: NodeImageStatus::default(),
            under_way: false,
            last: None,
            unseen: None,
            not_before: None,
            retry: RETRY,
        }
    }

    /// The last known status in the apiserver.
    pub(super) fn known(&self) -> &NodeImageStatus {
        &self.known
    }

    /// The NodeImage is another object from now on.
    pub(super) fn reset(&mut self) {
        self.known = NodeImageStatus::default();
        self.unseen = None;
    }

    /// Takes the object from the watch.
    pub(super) fn observed(&mut self, node: &NodeImage) {
        let version = node
            .metadata
            .resource_version
            .as_deref()
            .unwrap_or_default();
        if self
            .unseen
            .as_ref()
            .is_some_and(|(own, since)| own != version && since.elapsed() < LAG_MAX)
        {
            return;
        }
        self.unseen = None;
        if !self.under_way {
            self.known = node.status.clone().unwrap_or_default();
        }
    }

    /// A write is over.
    pub(super) fn written(
        &mut self,
        result: Result<(NodeImageStatus, String), NodeImageError>,
        node: Option<&NodeImage>,
        metrics: &Metrics,
    ) {
        self.under_way = false;
        match result {
            Ok((status, version)) => {
                let seen =
                    node.and_then(|n| n.metadata.resource_version.as_deref()) == Some(&version);
                self.unseen = (!seen).then(|| (version, Instant::now()));
                self.known = status;
                self.retry = RETRY;
                self.not_before = None;
                metrics.written("succeeded");
            }
            Err(error) => {
                warn!(%error, retry_seconds = self.retry.as_secs(), "the NodeImage's status could not be written");
                self.not_before = Some(Instant::now() + self.retry);
                self.retry = (self.retry * 2).min(RETRY_MAX);
                metrics.written("failed");
            }
        }
    }

    /// Writes the status if it is time, otherwise returns the time of the next write.
    pub(super) fn publish(
        &mut self,
        node: &NodeImage,
        status: NodeImageStatus,
        done: &mpsc::Sender<Done>,
    ) -> Option<Instant> {
        let urgency = urgency(&self.known, &status);
        if self.under_way || urgency == Urgency::Not {
            return None;
        }
        let spaced = match urgency {
            Urgency::Progress => self.last.map(|last| last + self.progress_interval),
            _ => None,
        };
        if let Some(at) = self.not_before.max(spaced)
            && at > Instant::now()
        {
            return Some(at);
        }
        let (Some(name), Some(uid)) = (node.metadata.name.clone(), node.metadata.uid.clone())
        else {
            return None;
        };
        debug!(?urgency, "writing the status");
        self.under_way = true;
        self.last = Some(Instant::now());
        let (api, done) = (self.api.clone(), done.clone());
        tokio::spawn(async move {
            let written = nodeimage::write_status(&api, &name, &uid, &status).await;
            // The send fails only when the daemon ends.
            let _ = done
                .send(Done::Written(written.map(|version| (status, version))))
                .await;
        });
        None
    }
}

/// The condition RuntimeReady. Its time is that of the last change of its status.
pub(super) fn runtime_condition(
    before: &[NodeImageCondition],
    ready: bool,
    message: String,
    now: Timestamp,
) -> NodeImageCondition {
    let (status, reason) = if ready {
        ("True", "RuntimeAnswers")
    } else {
        ("False", "RuntimeAway")
    };
    let same = before
        .iter()
        .find(|c| c.type_ == RUNTIME_READY && c.status == status);
    NodeImageCondition {
        type_: RUNTIME_READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: same
            .and_then(|c| c.last_transition_time.clone())
            .or(Some(Time(now))),
    }
}

#[cfg(test)]
mod tests;
