//! What was seen of other clusters, and which contexts may lead to one and the same: its pods must not count twice.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_workload::budget::sharing::Held;
use jiff::Timestamp;
use tokio::time::Instant;

use super::pulse::{Lease, Pulse};
use berth_workload::budget::federation::{Brings, Silence};
use berth_workload::budget::sharing::Elsewhere;

/// Of a context that leads to this cluster. What is counted here by the pods themselves would count again.
const HERE: &str = "is in this very cluster as far as is known, for its context shows the Lease of the controllers here: name it without a \
                    cluster, or tell the controllers by the chart's clusters.name what this cluster is called; where one cluster was made \
                    of a copy of the other, delete that Lease in one of them";
/// Nobody knows whether a context leads to this cluster.
const HERE_UNREAD: &str =
    "may be in this very cluster, for the Lease of the controllers here could not be read yet";

/// What a budget of another cluster has, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    /// What it is, as it was read last.
    pub(crate) elsewhere: Elsewhere,
    pub(crate) brings: Result<Brings, Silence>,
    /// When it was read last, where it cannot be read now.
    pub(crate) last_read: Option<Timestamp>,
}

/// All that was seen.
#[derive(Default)]
pub(super) struct Seen {
    /// The Lease of this cluster; `None` where nobody holds one.
    here: Option<Pulse>,
    /// Those of the others, by context.
    pub(super) pulses: BTreeMap<String, Pulse>,
    pub(super) members: BTreeMap<Member, SeenMember>,
}

/// What was seen of a budget.
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
    /// Notes what a read of the Lease of this cluster showed that was sent at that time and has its answer now.
    pub(super) fn note_here(&mut self, read: Result<Lease, String>, sent: Instant, now: Instant) {
        self.here.get_or_insert_default().note(read, sent, now);
    }

    /// The same of another cluster.
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
        // What may be counted on was promised by a cluster to which the context may lead no more.
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
    /// In words.
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

    /// The other contexts that may lead to the same cluster as this one: all that do not lead to another one for certain.
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
