//! The progress of the job, node by node.

mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::v1beta1::broadcastjob::{BroadcastJob, FailurePolicyType};
use berth_workload::objects::node::Node;
use berth_workload::objects::pod::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Snapshot;
use super::mark::{self, PodResult};
use super::place::Answer;
use super::settings::Settings;

pub use record::{hides_its_end, is_recorded, mark_of, missed, unrecorded};

/// The stage of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has not ended, and is not being deleted.
    Active,
    /// It is being deleted and had not ended before.
    Leaving,
    /// It was deleted before its end, and another pod replaces it.
    Disrupted,
    Ended(PodResult),
    /// It has exceeded its restart limit, and still runs.
    PastLimit,
}

/// A node with the job's pods on it.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) node: &'a Node,
    pub(super) hash: String,
    pub(super) answer: Answer,
    /// How its pod has ended, according to the status.
    pub(super) recorded: Option<PodResult>,
    /// How its pod has ended, according to the pods.
    seen: Option<PodResult>,
    /// Pods that have not ended and are not being deleted, the one that counts first.
    pub(super) active: Vec<&'a Arc<Pod>>,
    /// Pods that are being deleted.
    pub(super) leaving: Vec<&'a Arc<Pod>>,
    /// Pods that were deleted before their end, and still exist.
    pub(super) disrupted: Vec<&'a Arc<Pod>>,
}

/// The job's nodes, sorted by name, and its pods on them.
#[derive(Debug, Default)]
pub(super) struct Round<'a> {
    pub(super) places: Vec<Place<'a>>,
    /// Active pods of nodes that are gone.
    pub(super) strays: Vec<&'a Arc<Pod>>,
    /// Pods that run, or may run: they count for the parallelism.
    pub(super) running: usize,
    /// The time when the next pod that is being deleted no longer counts.
    pub(super) grace: Option<Timestamp>,
    /// Names of nodes with pods that have not ended.
    busy: BTreeSet<&'a str>,
}

/// The cause for which a job ends or pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All desired nodes have ended.
    Complete,
    /// A pod has failed, and the policy is FailFast.
    FailedPod,
    /// The deadline has passed.
    Deadline,
    /// A pod has failed, and the policy is Pause.
    Pause,
}

fn stage(pod: &Pod, restart_limit: Option<i64>) -> Stage {
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    match &*pod.status.phase {
        "Succeeded" => Stage::Ended(PodResult::Succeeded),
        "Failed" if is_leaving || pod.is_true("DisruptionTarget") => Stage::Disrupted,
        "Failed" => Stage::Ended(PodResult::Failed),
        _ if is_leaving => Stage::Leaving,
        _ if restart_limit.is_some_and(|limit| restarts(pod) > limit) => Stage::PastLimit,
        _ => Stage::Active,
    }
}

fn restarts(pod: &Pod) -> i64 {
    let all = pod
        .status
        .container_statuses
        .iter()
        .chain(&pod.status.init_container_statuses);
    all.map(|status| i64::from(status.restart_count)).sum()
}

/// The name of the node that the pod is on, or may be scheduled to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    let bound = Some(&*pod.spec.node_name).filter(|name| !name.is_empty());
    bound.or(pod.spec.pinned_to.as_deref())
}

/// Whether the pod is on this node, and not on an earlier node of the same name.
fn is_on(pod: &Pod, node: &Node) -> bool {
    node_of(pod) == Some(&node.metadata.name)
        && pod.metadata.creation_timestamp >= node.metadata.creation_timestamp
}

fn name(job: &BroadcastJob) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

impl<'a> Round<'a> {
    /// Reads every node and pod.
    pub(super) fn of(snapshot: &'a Snapshot, settings: &Settings, now: Timestamp) -> Self {
        let status = snapshot.job.status.as_ref();
        let records = status
            .map(|status| mark::read(&status.ended_nodes))
            .unwrap_or_default();
        let place = |node: &'a Arc<Node>| {
            let hash = mark::hash(&node.metadata.uid);
            let (recorded, answer) = (records.get(&*hash).copied(), settings.target.answer(node));
            Place {
                node,
                hash,
                answer,
                recorded,
                seen: None,
                active: vec![],
                leaving: vec![],
                disrupted: vec![],
            }
        };
        let mut places: Vec<_> = snapshot.nodes.iter().map(place).collect();
        places.sort_unstable_by_key(|place| &place.node.metadata.name);
        let by_hash: BTreeMap<_, _> = places
            .iter()
            .enumerate()
            .map(|(at, place)| (place.hash.clone(), at))
            .collect();
        let mut round = Self {
            places,
            ..Self::default()
        };
        for pod in snapshot.pods.iter().chain(&snapshot.gone) {
            let at = round.index(name(&snapshot.job), &by_hash, pod);
            round.add(pod, at, settings.restart_limit, now);
        }
        for place in &mut round.places {
            // The pod that counts: bound pods first, then the oldest, then by name.
            place.active.sort_unstable_by_key(|pod| {
                (
                    pod.spec.node_name.is_empty(),
                    pod.metadata.creation_timestamp,
                    &pod.metadata.name,
                )
            });
        }
        round
    }

    /// The place of a pod: by its name, or by its node if another program created the pod.
    fn index(&self, job: &str, by_hash: &BTreeMap<String, usize>, pod: &Pod) -> Option<usize> {
        if let Some(hash) = mark::in_name(job, &pod.metadata.name) {
            return by_hash.get(hash).copied();
        }
        let node = node_of(pod)?;
        let at = self
            .places
            .binary_search_by(|place| (*place.node.metadata.name).cmp(node))
            .ok()?;
        self.places
            .get(at)
            .filter(|place| is_on(pod, place.node))
            .map(|_| at)
    }

    fn add(
        &mut self,
        pod: &'a Arc<Pod>,
        at: Option<usize>,
        restart_limit: Option<i64>,
        now: Timestamp,
    ) {
        let stage = stage(pod, restart_limit);
        let may_run = match (stage, pod.metadata.deletion_timestamp) {
            (Stage::Active | Stage::PastLimit, _) => true,
            (Stage::Leaving, Some(until)) if until > now => {
                self.grace = Some(self.grace.map_or(until, |grace| grace.min(until)));
                true
            }
            _ => false,
        };
        self.running += usize::from(may_run);
        if matches!(stage, Stage::Active | Stage::PastLimit | Stage::Leaving) {
            self.busy.extend(node_of(pod));
        }
        let Some(place) = at.and_then(|at| self.places.get_mut(at)) else {
            // A pod that could run on any node does not count: it has neither a name of the job nor
            // a node.
            let has_node = node_of(pod).is_some();
            self.strays.extend(
                (matches!(stage, Stage::Active | Stage::PastLimit) && has_node).then_some(pod),
            );
            return;
        };
        match stage {
            Stage::Ended(result) => place.see(result),
            Stage::PastLimit => {
                place.see(PodResult::Failed);
                place.active.push(pod);
            }
            Stage::Active => place.active.push(pod),
            Stage::Leaving => place.leaving.push(pod),
            Stage::Disrupted => place.disrupted.push(pod),
        }
    }

    /// Nodes that get a pod, or have had one.
    pub(super) fn desired(&self) -> usize {
        self.places
            .iter()
            .filter(|place| place.is_desired())
            .count()
    }

    /// Nodes whose pod has not ended.
    pub(super) fn active(&self) -> usize {
        self.places.iter().filter(|place| place.is_active()).count()
    }

    /// Nodes whose pod has ended in this way.
    pub(super) fn ended(&self, is: impl Fn(PodResult) -> bool) -> usize {
        self.places
            .iter()
            .filter_map(Place::result)
            .filter(|result| is(*result))
            .count()
    }

    /// Nodes that need a pod, in this order, if the parallelism allows it.
    pub(super) fn open(&self) -> impl Iterator<Item = &Place<'a>> {
        let is_open = |place: &&Place<'a>| {
            let has_none = place.active.is_empty() && place.leaving.is_empty();
            let is_next = place.answer == Answer::Wanted && place.result().is_none() && has_none;
            is_next && !self.busy.contains(&*place.node.metadata.name)
        };
        self.places.iter().filter(is_open)
    }

    /// The cause for which the job ends or pauses; `None` if it goes on. A job that is paused does
    /// not end.
    pub(super) fn end(
        &self,
        job: &BroadcastJob,
        settings: &Settings,
        now: Timestamp,
    ) -> Option<End> {
        if job.spec.paused {
            return None;
        }
        let failed = |result| result != PodResult::Succeeded;
        match settings.failure {
            FailurePolicyType::FailFast if self.ended(failed) > 0 => return Some(End::FailedPod),
            FailurePolicyType::Pause if self.ended(|result| result == PodResult::Failed) > 0 => {
                return Some(End::Pause);
            }
            _ => {}
        }
        let mut desired = self
            .places
            .iter()
            .filter(|place| place.is_desired())
            .peekable();
        if settings.ends
            && desired.peek().is_some()
            && desired.all(|place| place.result().is_some())
        {
            return Some(End::Complete);
        }
        let left = left(
            settings,
            job.status
                .as_ref()
                .and_then(|status| status.start_time.as_ref()),
            now,
        )?;
        (!left.is_positive()).then_some(End::Deadline)
    }
}

/// The reason why no node gets a pod, if so: for each cause, on how many nodes it is the first.
pub(super) fn without_nodes(
    snapshot: &Snapshot,
    settings: &Settings,
    round: &Round<'_>,
) -> Option<String> {
    if round.desired() > 0 {
        return None;
    }
    let mut causes = BTreeMap::<String, usize>::new();
    for why in snapshot
        .nodes
        .iter()
        .filter_map(|node| settings.target.why_not(node))
    {
        *causes.entry(why).or_default() += 1;
    }
    let causes: Vec<_> = causes
        .into_iter()
        .map(|(why, count)| format!("{count} for {why}"))
        .collect();
    let nodes = snapshot.nodes.len();
    let colon = if causes.is_empty() { "" } else { ": " };
    Some(format!(
        "none of {nodes} nodes can have a pod of spec.template{colon}{}",
        causes.join(", ")
    ))
}

/// The time until the deadline of a job that began at this time.
pub(super) fn left(
    settings: &Settings,
    start: Option<&Time>,
    now: Timestamp,
) -> Option<SignedDuration> {
    let start = start.map_or(now, |start| start.0);
    settings
        .deadline
        .map(|deadline| deadline.saturating_sub(now.duration_since(start)))
}

impl Place<'_> {
    /// How its pod has ended. An end in the status stays.
    pub(super) fn result(&self) -> Option<PodResult> {
        self.recorded.or(self.seen)
    }

    /// Whether the end of its pod is not in the status yet.
    pub(super) fn is_new(&self) -> bool {
        self.recorded.is_none() && self.seen.is_some()
    }

    /// Records an end. If two pods have ended, success counts, because that pod did the work.
    fn see(&mut self, result: PodResult) {
        let has_succeeded = self.seen == Some(PodResult::Succeeded);
        self.seen = Some(if has_succeeded {
            PodResult::Succeeded
        } else {
            result
        });
    }

    pub(super) fn is_active(&self) -> bool {
        self.result().is_none() && !self.active.is_empty()
    }

    pub(super) fn is_desired(&self) -> bool {
        let runs = self.is_active() && self.answer != Answer::Unwanted;
        self.result().is_some() || runs || self.answer == Answer::Wanted
    }
}
