//! Whether somebody counts pods in another cluster: the Lease of its controllers is seen to move, by the clock of who looks.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::identity::Identity;

/// A Lease that stands still for so long is of a controller that counts no more.
const SILENT: Duration = Duration::from_secs(15);

/// What is read of a Lease.
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

/// How a Lease was seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Pulse {
    /// Which Lease it is.
    identity: Option<Identity>,
    /// As it is, and when the read was sent that showed it so first.
    last: Option<(LeaseSpec, Instant)>,
    has_moved: bool,
    /// Why it could not be read the last time, or what else was waited for in vain since.
    unread: Option<String>,
    /// When the newest answer came, to whatever was read there.
    answered: Option<Instant>,
}

impl Pulse {
    /// Notes what a read showed that was sent at that time and has its answer now; true where that is another Lease than before.
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

    /// Another Lease than before has to be seen to move anew.
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

    /// Whether it is of another cluster for certain.
    pub(super) fn is_apart(&self, other: &Self) -> bool {
        self.identity
            .as_ref()
            .zip(other.identity.as_ref())
            .is_some_and(|(one, other)| one.is_apart(other))
    }

    /// Notes that its context may lead elsewhere by now: nobody reads there before its Lease is read again.
    pub(super) fn reconnect(&mut self) {
        self.unread = Some("the kubeconfig has changed a moment ago".to_owned());
    }

    /// Notes that an answer has come now.
    pub(super) fn answer(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// Notes that a read which was sent at that time was waited for in vain. Unless something else was answered since, the cluster does not
    /// answer, and nobody is to wait for that again before its Lease is read.
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
        // No number of seconds: each would be a write of each status that tells of it.
        let stands_still = now.saturating_duration_since(*since) >= SILENT;
        let how = match (self.has_moved, stands_still) {
            (true, false) => return None,
            (false, false) => "has not been seen to move yet".to_owned(),
            (_, true) => format!("has not moved for {} s", SILENT.as_secs()),
        };
        Some(format!(
            "is in a cluster where nobody may count: the Lease of its controllers {how}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(renewed: &str) -> Lease {
        lease_of("u", renewed)
    }

    fn lease_of(uid: &str, renewed: &str) -> Lease {
        Lease {
            metadata: LeaseMetadata {
                uid: uid.to_owned(),
            },
            spec: LeaseSpec {
                holder_identity: Some("one".to_owned()),
                renew_time: Some(renewed.to_owned()),
            },
        }
    }

    #[tokio::test]
    async fn a_cluster_counts_while_its_lease_moves_and_answers() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pulse = Pulse::default();
        assert!(pulse.silence(at(0)).is_some(), "it was not asked yet");
        pulse.note(Ok(lease("1")), at(0), at(0));
        assert!(
            pulse.silence(at(0)).is_some(),
            "it may have stood still for a day"
        );
        pulse.note(Ok(lease("2")), at(2), at(2));
        assert_eq!(pulse.silence(at(3)), None);
        pulse.note(Err("no route".to_owned()), at(4), at(4));
        assert!(
            pulse
                .silence(at(4))
                .is_some_and(|why| why.contains("no route"))
        );
        pulse.note(Ok(lease("2")), at(6), at(6));
        assert_eq!(pulse.silence(at(16)), None);
        assert!(pulse.silence(at(17)).is_some(), "it stands still for 15 s");
        pulse.note(Ok(lease("3")), at(20), at(20));
        assert_eq!(pulse.silence(at(20)), None);
        pulse.reconnect();
        assert!(
            pulse.silence(at(21)).is_some(),
            "its context may lead elsewhere"
        );
        assert!(!pulse.note(Ok(lease("4")), at(22), at(22)));
        assert_eq!(pulse.silence(at(22)), None);
        assert!(pulse.note(Ok(lease_of("v", "5")), at(24), at(24)));
        assert!(
            pulse.silence(at(24)).is_some(),
            "another Lease may have stood still for a day"
        );
        assert!(!pulse.note(Ok(lease_of("v", "6")), at(26), at(26)));
        assert_eq!((pulse.silence(at(26)), pulse.uid()), (None, Some("v")));
    }

    #[tokio::test]
    async fn a_read_that_is_waited_for_in_vain_silences_a_cluster_that_answers_nothing_else_until_its_lease_is_read()
     {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (answered, sent, is_silent) in [
            (None, 3, true),
            (Some(2), 3, true),
            (Some(3), 3, true),
            (Some(4), 3, false),
        ] {
            let mut pulse = Pulse::default();
            pulse.note(Ok(lease("1")), at(0), at(0));
            pulse.note(Ok(lease("2")), at(2), at(2));
            if let Some(answered) = answered {
                pulse.answer(at(answered));
            }
            pulse.miss("no answer".to_owned(), at(sent));
            let silence = pulse.silence(at(5));
            assert_eq!(silence.is_some(), is_silent, "{answered:?}: {silence:?}");
            assert!(silence.is_none_or(|why| why.contains("does not answer: no answer")));
            pulse.note(Ok(lease("2")), at(6), at(6));
            assert_eq!(pulse.silence(at(6)), None, "{answered:?}");
        }
    }
}
