//! Whether a controller counts pods in another cluster: this replica must see the Lease of the
//! controllers there move, by its own clock.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::identity::Identity;

/// A Lease that stands still for this long belongs to a controller that counts no more.
const SILENT: Duration = Duration::from_secs(15);

/// The parts of a Lease that are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    metadata: LeaseMetadata,
    spec: LeaseSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct LeaseMetadata {
    uid: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
    renew_time: Option<String>,
}

/// The results of the reads of a Lease.
#[derive(Debug, Clone, Default)]
pub(super) struct Pulse {
    /// Which Lease it is.
    identity: Option<Identity>,
    /// Its spec, and when the first read was sent that showed this spec.
    last: Option<(LeaseSpec, Instant)>,
    has_moved: bool,
    /// Why the last read failed, or why another call to the cluster failed since.
    unread: Option<String>,
    /// When the newest answer came, to any read there.
    answered: Option<Instant>,
}

impl Pulse {
    /// Notes the result of a read that was sent at `sent` and answered at `now`; true if it shows
    /// another Lease than before.
    pub(super) fn note(
        &mut self,
        read: Result<Lease, String>,
        sent: Instant,
        now: Instant,
    ) -> bool {
        let Lease { metadata, spec } = match read {
            Ok(lease) => lease,
            Err(why) => {
                self.unread = Some(why);
                return false;
            }
        };
        (self.unread, self.answered) = (None, Some(now));
        let is_another = self.identify(metadata.uid, sent, now);
        match &self.last {
            Some((before, _)) if *before == spec => {}
            before => {
                self.has_moved |= before.is_some();
                self.last = Some((spec, sent));
            }
        }
        is_another
    }

    /// A Lease that replaces another one must be seen to move again.
    fn identify(&mut self, uid: String, sent: Instant, now: Instant) -> bool {
        if self
            .identity
            .as_mut()
            .is_some_and(|identity| identity.is_seen_again(&uid, sent))
        {
            return false;
        }
        let before = self.identity.replace(Identity::new(uid, sent, now));
        (self.last, self.has_moved) = (None, false);
        before.is_some()
    }

    /// The uid of the Lease that was read last.
    pub(super) fn uid(&self) -> Option<&str> {
        self.identity.as_ref().map(Identity::uid)
    }

    /// Whether it certainly belongs to another cluster.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        self.identity
            .as_ref()
            .zip(other.identity.as_ref())
            .is_some_and(|(one, other)| one.is_apart(other))
    }

    /// Notes that the context may lead elsewhere by now: no budget is read there before the Lease
    /// was read again.
    pub(super) fn reconnect(&mut self) {
        self.unread = Some("the kubeconfig has changed a moment ago".to_owned());
    }

    /// Notes that an answer has come now.
    pub(super) fn answer(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// Notes that a read sent at that time got no answer. Unless another call was answered since,
    /// the cluster does not answer, and no request waits for it again before its Lease is read.
    pub(super) fn miss(&mut self, why: String, sent: Instant) {
        if self.answered.is_none_or(|answered| answered <= sent) {
            self.unread = Some(why);
        }
    }

    /// Why its cluster's numbers do not count now; `None` if they do.
    pub(super) fn silence(&self, now: Instant) -> Option<String> {
        if let Some(why) = &self.unread {
            return Some(format!("is in a cluster that does not answer: {why}"));
        }
        let Some((_, since)) = &self.last else {
            return Some("is in a cluster that was not asked yet".to_owned());
        };
        // The message contains no running number of seconds, because each new number would be a
        // write of every status with this message.
        let stands_still = now.saturating_duration_since(*since) >= SILENT;
        let how = match (self.has_moved, stands_still) {
            (true, false) => return None,
            (false, false) => "has not been seen to move yet".to_owned(),
            (_, true) => format!("has not moved for {} s", SILENT.as_secs()),
        };
        Some(format!(
            "is in a cluster that may have no leader to count pods: the Lease of its controllers {how}"
        ))
    }
}

#[cfg(test)]
mod tests;
