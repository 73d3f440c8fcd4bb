//! The effects of a rollout on each pod, as tables.

use std::collections::BTreeMap;
use std::time::Duration;

use super::verify::Verified;
use crate::outage::Requests;
use crate::record::{Change, PodView, Record, seconds};

/// The observations of a rollout.
pub struct Evidence<'a> {
    /// The record of the pods.
    pub record: &'a Record,
    /// The requests of a client.
    pub asked: &'a Requests,
    /// When the image was changed.
    pub from: Duration,
    /// When the workload's status said that all is done.
    pub to: Duration,
    /// Keyed by the pod's uid.
    pub verified: BTreeMap<String, Verified>,
}

/// The effect on one pod: the same pod with another image, or another pod in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodOutcome {
    /// The pod before, if there was one.
    pub before: Option<PodView>,
    /// The pod after, if there is one.
    pub after: Option<PodView>,
    /// Containers restarted in the pod after.
    pub restarts: i32,
    /// The answers of the pods, in order.
    pub answers: Vec<String>,
    /// The time without an answer over HTTP.
    pub silent: Duration,
    /// The time not ready, or held by a gate, or gone.
    pub out_of_service: Duration,
    /// The image of the pod after.
    pub verified: Verified,
}

impl PodOutcome {
    fn kept(&self, part: fn(&PodView) -> &str) -> &'static str {
        let of = |pod: &Option<PodView>| pod.as_ref().map(|pod| part(pod).to_owned());
        if of(&self.before) == of(&self.after) {
            "same"
        } else {
            "new"
        }
    }

    /// Same uid, node and IP.
    pub fn in_place(&self) -> bool {
        let parts: [fn(&PodView) -> &str; 3] = [|pod| &pod.uid, |pod| &pod.node, |pod| &pod.ip];
        parts.iter().all(|part| self.kept(*part) == "same")
    }
}

impl Evidence<'_> {
    /// One entry for each pod. Deleted pods are paired with new ones: the first with the first.
    pub fn outcomes(&self) -> Vec<PodOutcome> {
        let rollout = self.record.since(self.from);
        let start: Vec<PodView> = rollout
            .moments()
            .next()
            .map(|m| m.pods.values().map(|s| s.pod.clone()).collect())
            .unwrap_or_default();
        let end: BTreeMap<String, PodView> = rollout
            .last()
            .pods
            .iter()
            .map(|(uid, s)| ((*uid).to_owned(), s.pod.clone()))
            .collect();
        let stays = |pod: &PodView| end.get(&pod.uid).is_some_and(|pod| !pod.terminating);
        let (kept, mut left): (Vec<_>, Vec<_>) = start
            .iter()
            .filter(|pod| !pod.terminating)
            .cloned()
            .partition(|pod| stays(pod));
        left.sort_by_key(|pod| {
            first(&rollout, |p| p.uid == pod.uid && !p.serves()).unwrap_or(Duration::MAX)
        });
        let is_new =
            |pod: &&PodView| !pod.terminating && start.iter().all(|old| old.uid != pod.uid);
        let mut came: Vec<_> = end.values().filter(is_new).cloned().collect();
        came.sort_by_key(|pod| first(&rollout, |p| p.uid == pod.uid));

        let mut outcomes: Vec<_> = kept
            .into_iter()
            .map(|pod| self.kept(&pod, &end[&pod.uid]))
            .collect();
        let pairs = left.len().max(came.len());
        let (mut left, mut came) = (left.into_iter(), came.into_iter());
        outcomes.extend((0..pairs).map(|_| self.replaced(left.next(), came.next())));
        outcomes
    }

    fn kept(&self, before: &PodView, after: &PodView) -> PodOutcome {
        let seen = self
            .asked
            .by_pod(self.from, self.to)
            .remove(&after.name)
            .unwrap_or_default();
        PodOutcome {
            restarts: after.restarts() - before.restarts(),
            answers: seen.answers,
            silent: seen.silent,
            out_of_service: self.record.out_of_service(&after.uid, self.from, self.to),
            verified: self
                .verified
                .get(&after.uid)
                .cloned()
                .unwrap_or(Verified::Unknown),
            before: Some(before.clone()),
            after: Some(after.clone()),
        }
    }

    fn replaced(&self, before: Option<PodView>, after: Option<PodView>) -> PodOutcome {
        let in_service = |pod: &Option<PodView>, serves: bool| {
            let uid = pod.as_ref().map(|pod| pod.uid.clone())?;
            first(&self.record.since(self.from), |p| {
                p.uid == uid && p.serves() == serves
            })
        };
        let went = in_service(&before, false).unwrap_or(self.from);
        let came = in_service(&after, true).unwrap_or(self.to);
        let name =
            |pod: &Option<PodView>| pod.as_ref().map(|pod| pod.name.clone()).unwrap_or_default();
        let last = self
            .asked
            .last_answer(&name(&before), self.from, self.to)
            .unwrap_or(self.from);
        let next = self
            .asked
            .first_answer(&name(&after), self.from, self.to)
            .unwrap_or(self.to);
        let mut seen = self.asked.by_pod(self.from, self.to);
        let mut answers = |pod| {
            seen.remove(&name(pod))
                .map(|seen| seen.answers)
                .unwrap_or_default()
        };
        let answers = [answers(&before), answers(&after)].concat();
        PodOutcome {
            restarts: after.as_ref().map_or(0, PodView::restarts),
            answers,
            silent: next.saturating_sub(last),
            out_of_service: came.saturating_sub(went),
            verified: after
                .as_ref()
                .and_then(|pod| self.verified.get(&pod.uid).cloned())
                .unwrap_or(Verified::Unknown),
            before,
            after,
        }
    }
}

/// When the record first shows such a pod.
fn first(record: &Record, like: impl Fn(&PodView) -> bool) -> Option<Duration> {
    let is_like = |change: &Change| matches!(change, Change::Is(pod) if like(pod));
    record
        .entries()
        .iter()
        .find(|entry| is_like(&entry.change))
        .map(|entry| entry.at)
}

/// One line per pod.
pub fn table(outcomes: &[PodOutcome]) -> String {
    let mut rows = vec![
        [
            "POD",
            "ANSWERED",
            "UID",
            "NODE",
            "IP",
            "RESTARTS",
            "NO ANSWER",
            "OUT OF SERVICE",
            "IMAGE ID",
        ]
        .map(String::from),
    ];
    rows.extend(outcomes.iter().map(|outcome| {
        let name =
            |pod: &Option<PodView>| pod.as_ref().map_or("-".to_owned(), |pod| pod.name.clone());
        let (before, after) = (name(&outcome.before), name(&outcome.after));
        [
            if before == after {
                after
            } else {
                format!("{before} → {after}")
            },
            outcome.answers.join(" → "),
            outcome.kept(|pod| &pod.uid).to_owned(),
            outcome.kept(|pod| &pod.node).to_owned(),
            outcome.kept(|pod| &pod.ip).to_owned(),
            outcome.restarts.to_string(),
            seconds(outcome.silent),
            seconds(outcome.out_of_service),
            outcome.verified.to_string(),
        ]
    }));
    aligned(&rows)
}

/// A rollout in a few numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// From the change of the image until the status said that all is done.
    pub took: Duration,
    /// Pods that are still the same.
    pub in_place: usize,
    /// Pods.
    pub pods: usize,
    /// Longest time without an answer of one pod, and the mean.
    pub silent: (Duration, Duration),
    /// Longest time out of service of one pod, and the mean.
    pub out_of_service: (Duration, Duration),
}

impl Summary {
    /// Sums up a rollout that took so long.
    pub fn of(took: Duration, outcomes: &[PodOutcome]) -> Summary {
        let longest_and_mean = |part: fn(&PodOutcome) -> Duration| {
            let sum: Duration = outcomes.iter().map(part).sum();
            let count = u32::try_from(outcomes.len()).unwrap_or(u32::MAX).max(1);
            (
                outcomes.iter().map(part).max().unwrap_or_default(),
                sum / count,
            )
        };
        Summary {
            took,
            in_place: outcomes.iter().filter(|outcome| outcome.in_place()).count(),
            pods: outcomes.len(),
            silent: longest_and_mean(|outcome| outcome.silent),
            out_of_service: longest_and_mean(|outcome| outcome.out_of_service),
        }
    }
}

/// Two rollouts, one beside the other.
pub fn side_by_side(in_place: &Summary, recreate: &Summary) -> String {
    let row = |what: &str, part: &dyn Fn(&Summary) -> String| {
        [what.to_owned(), part(in_place), part(recreate)]
    };
    let mean_and_longest = |(longest, mean): (Duration, Duration)| {
        format!("{} (at most {})", seconds(mean), seconds(longest))
    };
    aligned(&[
        ["".to_owned(), "IN PLACE".to_owned(), "RECREATE".to_owned()],
        row("all pods updated and ready after", &|s| seconds(s.took)),
        row("same uid, node and IP", &|s| {
            format!("{} of {}", s.in_place, s.pods)
        }),
        row("no answer, per pod", &|s| mean_and_longest(s.silent)),
        row("out of service, per pod", &|s| {
            mean_and_longest(s.out_of_service)
        }),
    ])
}

/// Columns as wide as their widest cell, two spaces apart.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            let padding = " ".repeat(width - cell.chars().count());
            format!("{cell}{padding}")
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
