//! Whether somebody counts pods in another cluster: the Lease of its controllers is seen to move, by the clock of who looks.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

/// A Lease that stands still for so long is of a controller that counts no more.
const SILENT: Duration = Duration::from_secs(15);

/// What is read of a Lease.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    spec: LeaseSpec,
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
    /// As it is, and when the read was sent that showed it so first.
    last: Option<(LeaseSpec, Instant)>,
    has_moved: bool,
    /// Why it could not be read the last time.
    unread: Option<String>,
}

impl Pulse {
    /// Notes what a read showed that was sent at that time.
    pub(super) fn note(&mut self, read: Result<Lease, String>, sent: Instant) {
        match read {
            Ok(Lease { spec }) => {
                self.unread = None;
                match &self.last {
                    Some((before, _)) if *before == spec => {}
                    before => {
                        self.has_moved |= before.is_some();
                        self.last = Some((spec, sent));
                    }
                }
            }
            Err(why) => self.unread = Some(why),
        }
    }

    /// Why its cluster's numbers do not count now; `None` if they do.
    pub(super) fn silence(&self, now: Instant) -> Option<String> {
        if let Some(why) = &self.unread {
            return Some(format!("is in a cluster that does not answer: {why}"));
        }
        let Some((_, since)) = &self.last else { return Some("is in a cluster that was not asked yet".to_owned()) };
        // No number of seconds: each would be a write of each status that tells of it.
        let stands_still = now.saturating_duration_since(*since) >= SILENT;
        let how = match (self.has_moved, stands_still) {
            (true, false) => return None,
            (false, false) => "has not been seen to move yet".to_owned(),
            (_, true) => format!("has not moved for {} s", SILENT.as_secs()),
        };
        Some(format!("is in a cluster where nobody may count: the Lease of its controllers {how}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(renewed: &str) -> Lease {
        Lease { spec: LeaseSpec { holder_identity: Some("one".to_owned()), renew_time: Some(renewed.to_owned()) } }
    }

    #[tokio::test]
    async fn a_cluster_counts_while_its_lease_moves_and_answers() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pulse = Pulse::default();
        assert!(pulse.silence(at(0)).is_some(), "it was not asked yet");
        pulse.note(Ok(lease("1")), at(0));
        assert!(pulse.silence(at(0)).is_some(), "it may have stood still for a day");
        pulse.note(Ok(lease("2")), at(2));
        assert_eq!(pulse.silence(at(3)), None);
        pulse.note(Err("no route".to_owned()), at(4));
        assert!(pulse.silence(at(4)).is_some_and(|why| why.contains("no route")));
        pulse.note(Ok(lease("2")), at(6));
        assert_eq!(pulse.silence(at(16)), None);
        assert!(pulse.silence(at(17)).is_some(), "it stands still for 15 s");
        pulse.note(Ok(lease("3")), at(20));
        assert_eq!(pulse.silence(at(20)), None);
    }
}
