//! The results of reads of other clusters, and which contexts may lead to the same cluster: its
//! pods must not count twice.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_workload::budget::sharing::Held;
use jiff::Timestamp;
use tokio::time::Instant;

use super::pulse::{Lease, Pulse};
use berth_workload::budget::federation::{Brings, Silence};
use berth_workload::budget::sharing::Elsewhere;

/// The message about a context that leads to this cluster. Pods here are counted already, so its
/// numbers would count them twice.
const HERE: &str = "is in this very cluster as far as is known, for its context shows the Lease of the controllers here: name it without a \
                    cluster, or tell the controllers by the chart's clusters.name what this cluster is called; where one cluster was made \
                    of a copy of the other, delete that Lease in one of them";
/// The message about a context of which it is not known whether it leads to this cluster.
const HERE_UNREAD: &str =
    "may be in this very cluster, for the Lease of the controllers here could not be read yet";

/// The state of a budget in another cluster, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    /// Its identity by the last read.
    pub(crate) elsewhere: Elsewhere,
    pub(crate) brings: Result<Brings, Silence>,
    /// When it was last read, if it cannot be read now.
    pub(crate) last_read: Option<Timestamp>,
}

/// All results of reads.
#[derive(Default)]
pub(super) struct Seen {
    /// The Lease of this cluster; `None` if no controller holds one.
    here: Option<Pulse>,
    /// The Leases of the other clusters, by context.
    pub(super) pulses: BTreeMap<String, Pulse>,
    pub(super) members: BTreeMap<Member, SeenMember>,
}

/// The results of reads of a budget.
#[derive(Default)]
pub(super) struct SeenMember {
    pub(super) kind: Option<MemberKind>,
    pub(super) held: Option<Held>,
    pub(super) read: Option<Timestamp>,
    /// How many pods stay, and until when that is certain.
    pub(super) promise: Option<(usize, Instant)>,
    pub(super) last: Option<Known>,
}

/// Where a context leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// The uid of the Lease there.
    pub(super) uid: String,
    /// The other contexts that may lead to the same cluster.
    pub(super) aliases: BTreeSet<String>,
}

impl Seen {
    /// Notes the result of a read of the Lease of this cluster, sent and answered at these times.
    pub(super) fn note_here(&mut self, read: Result<Lease, String>, sent: Instant, now: Instant) {
        self.here.get_or_insert_default().note(read, sent, now);
    }

    /// Notes the result of a read of another cluster's Lease.
    pub(super) fn note(
        &mut self,
        cluster: &str,
        read: Result<Lease, String>,
        sent: Instant,
        now: Instant,
    ) {
        if !self
            .pulses
            .entry(cluster.to_owned())
            .or_default()
            .note(read, sent, now)
        {
            return;
        }
        // The promise came from a cluster to which the context may no longer lead.
        for (_, of_member) in self
            .members
            .iter_mut()
            .filter(|(member, _)| member.cluster == cluster)
        {
            of_member.promise = None;
        }
    }

    /// Where a context leads; or why the numbers there do not count.
    ///
    /// # Errors
    /// The reason, as part of a message.
    pub(super) fn way(&self, cluster: &str, now: Instant) -> Result<Way, String> {
        let pulse = self.pulses.get(cluster).cloned().unwrap_or_default();
        if let Some(why) = pulse.silence(now) {
            return Err(why);
        }
        match &self.here {
            Some(here) if here.uid().is_none() => return Err(HERE_UNREAD.to_owned()),
            Some(here) if !here.is_apart(&pulse) => return Err(HERE.to_owned()),
            _ => {}
        }
        Ok(Way {
            uid: pulse.uid().unwrap_or_default().to_owned(),
            aliases: self.aliases(cluster),
        })
    }

    /// The other contexts that may lead to the same cluster as this one: all except those that
    /// certainly lead elsewhere.
    pub(super) fn aliases(&self, cluster: &str) -> BTreeSet<String> {
        let own = self.pulses.get(cluster);
        let is_apart = |other: &Pulse| own.is_some_and(|own| own.is_apart(other));
        let others = self
            .pulses
            .iter()
            .filter(|(name, other)| **name != cluster && !is_apart(other));
        others.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
