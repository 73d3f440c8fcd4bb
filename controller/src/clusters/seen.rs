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
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// What is shown in each round, by uid; `""`: no answer.
    type Shown = &'static [&'static str];
    /// Here, in the east and in the west; then what is known of the east.
    type Case = (
        &'static str,
        Option<Shown>,
        Shown,
        Shown,
        Result<Shown, &'static str>,
    );

    #[tokio::test]
    async fn contexts_lead_to_one_cluster_unless_their_leases_were_seen_at_one_moment() {
        let start = Instant::now();
        let at = |round: usize, milliseconds: u64| {
            start
                + Duration::from_secs(2) * u32::try_from(round).unwrap()
                + Duration::from_millis(milliseconds)
        };
        let table: [Case; 12] = [
            (
                "three clusters",
                Some(&["h", "h"]),
                &["e", "e"],
                &["w", "w"],
                Ok(&[]),
            ),
            (
                "nobody is elected here",
                None,
                &["e", "e"],
                &["w", "w"],
                Ok(&[]),
            ),
            (
                "one of them twice",
                Some(&["h", "h"]),
                &["e", "e"],
                &["e", "e"],
                Ok(&["west"]),
            ),
            (
                "this one",
                Some(&["h", "h"]),
                &["h", "h"],
                &["w", "w"],
                Err("is in this very cluster"),
            ),
            (
                "this one does not answer",
                Some(&["", ""]),
                &["e", "e"],
                &["w", "w"],
                Err("could not be read yet"),
            ),
            (
                "it answers late",
                Some(&["", "h"]),
                &["e", "e"],
                &["w", "w"],
                Err("is in this very cluster"),
            ),
            (
                "and was seen beside since",
                Some(&["", "h", "h"]),
                &["e", "e", "e"],
                &["w", "w", "w"],
                Ok(&[]),
            ),
            (
                "the other answers late",
                Some(&["h", "h"]),
                &["e", "e"],
                &["", "w"],
                Ok(&["west"]),
            ),
            (
                "the other never does",
                Some(&["h", "h"]),
                &["e", "e"],
                &["", ""],
                Ok(&["west"]),
            ),
            (
                "the other did",
                Some(&["h", "h", "h"]),
                &["e", "e", "e"],
                &["w", "w", ""],
                Ok(&[]),
            ),
            // A Lease that was made anew may be that which the other context has shown before.
            (
                "made anew",
                Some(&["h", "h", "h"]),
                &["e", "f", "f"],
                &["e", "", ""],
                Ok(&["west"]),
            ),
            (
                "both shown since",
                Some(&["h", "h", "h"]),
                &["e", "f", "f"],
                &["e", "e", "e"],
                Ok(&[]),
            ),
        ];
        for (what, here, east, west, expected) in table {
            let mut seen = Seen::default();
            for round in 0..east.len() {
                let read = |shown: Shown| match shown[round] {
                    "" => Err("no route".to_owned()),
                    uid => Ok(serde_json::from_value(
                        json!({"metadata": {"uid": uid}, "spec": {"renewTime": round.to_string()}}),
                    )
                    .unwrap()),
                };
                if let Some(here) = here {
                    seen.note_here(read(here), at(round, 0), at(round, 5));
                }
                seen.note("east", read(east), at(round, 0), at(round, 5));
                seen.note("west", read(west), at(round, 0), at(round, 5));
            }
            let way = seen.way("east", at(east.len() - 1, 5));
            match (way, expected) {
                (Ok(way), Ok(aliases)) => {
                    assert_eq!(Vec::from_iter(&way.aliases), aliases, "{what}")
                }
                (Err(why), Err(words)) => assert!(why.contains(words), "{what}: {why}"),
                (way, _) => panic!("{what}: {way:?}"),
            }
        }
    }

    #[tokio::test]
    async fn what_a_cluster_has_promised_is_not_counted_on_where_its_context_shows_another_lease() {
        let now = Instant::now();
        let lease =
            |uid: &str| Ok(serde_json::from_value(json!({"metadata": {"uid": uid}})).unwrap());
        for (shown, is_kept) in [
            (lease("e"), true),
            (Err("no route".to_owned()), true),
            (lease("f"), false),
        ] {
            let mut seen = Seen::default();
            seen.note("east", lease("e"), now, now);
            for cluster in ["east", "west"] {
                let member = Member {
                    cluster: cluster.to_owned(),
                    ..Member::default()
                };
                seen.members.insert(
                    member,
                    SeenMember {
                        promise: Some((2, now)),
                        ..SeenMember::default()
                    },
                );
            }
            let what = format!("{shown:?}");
            seen.note("east", shown, now, now);
            let kept = |of: &str| {
                let mut members = seen.members.iter();
                members.any(|(member, seen)| member.cluster == of && seen.promise.is_some())
            };
            assert_eq!((kept("east"), kept("west")), (is_kept, true), "{what}");
        }
    }
}
