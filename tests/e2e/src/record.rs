//! A recorded pod watch, and the state at every instant.
//!
//! The server orders all changes of all pods, so a watch without a gap is the whole history: after
//! each of its events the pods were in exactly the state of a [`Moment`], and between two events
//! nothing changed but the time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodSpec};

/// Seconds for people: `1.25 s`.
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// The parts of one version of a pod by which a rollout is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// Uid: the pod's identity.
    pub uid: String,
    /// Name.
    pub name: String,
    /// Empty until scheduled.
    pub node: String,
    /// The one node of its affinity; empty without one.
    pub pinned: String,
    /// Empty until it has one.
    pub ip: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The label `controller-revision-hash`.
    pub revision: String,
    /// True from the deletion request on.
    pub terminating: bool,
    /// The kubelet's `Ready` condition.
    pub ready: bool,
    /// The kubelet has seen the present spec.
    pub is_seen: bool,
    /// True when every readiness gate's condition is True. A gate may be False for a moment while
    /// `Ready` is still True.
    pub gates: bool,
    /// Containers by name.
    pub containers: BTreeMap<String, ContainerView>,
}

/// The parts of one version of a pod about one of its containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerView {
    /// The image that the spec asks for.
    pub wanted: String,
    /// The image id that the status reports; empty before the container was created.
    pub image_id: String,
    /// Runtime and id; empty before the container was created.
    pub container_id: String,
    /// Restarts.
    pub restarts: i32,
}

impl PodView {
    /// Reads a pod. A pod without a name or a uid, which no server sends, gets empty ones.
    pub fn of(pod: &Pod) -> PodView {
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let conditions: &[PodCondition] = status
            .and_then(|s| s.conditions.as_deref())
            .unwrap_or_default();
        let is_true = |type_: &str| {
            conditions
                .iter()
                .any(|c| c.type_ == type_ && c.status == "True")
        };
        let gates = spec
            .and_then(|s| s.readiness_gates.as_deref())
            .unwrap_or_default();
        let statuses: &[ContainerStatus] = status
            .and_then(|s| s.container_statuses.as_deref())
            .unwrap_or_default();
        let containers = spec
            .map(|s| s.containers.as_slice())
            .unwrap_or_default()
            .iter()
            .map(|container| {
                let status = statuses.iter().find(|s| s.name == container.name);
                let view = ContainerView {
                    wanted: container.image.clone().unwrap_or_default(),
                    image_id: status.map(|s| s.image_id.clone()).unwrap_or_default(),
                    container_id: status
                        .and_then(|s| s.container_id.clone())
                        .unwrap_or_default(),
                    restarts: status.map_or(0, |s| s.restart_count),
                };
                (container.name.clone(), view)
            });
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        PodView {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            node: spec.and_then(|s| s.node_name.clone()).unwrap_or_default(),
            pinned: spec.and_then(pinned).unwrap_or_default(),
            ip: status.and_then(|s| s.pod_ip.clone()).unwrap_or_default(),
            revision: labels.get(REVISION_LABEL).cloned().unwrap_or_default(),
            labels,
            annotations: pod.metadata.annotations.clone().unwrap_or_default(),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            ready: is_true("Ready"),
            is_seen: status.and_then(|s| s.observed_generation) == pod.metadata.generation,
            gates: gates.iter().all(|gate| is_true(&gate.condition_type)),
            containers: containers.collect(),
        }
    }

    /// In service: neither terminating nor held back by a gate, and ready.
    pub fn serves(&self) -> bool {
        self.ready && self.gates && !self.terminating
    }

    /// The value of a label; empty where it has none.
    pub fn label(&self, name: &str) -> &str {
        self.labels
            .get(name)
            .map(String::as_str)
            .unwrap_or_default()
    }

    /// The value of an annotation; empty where it has none.
    pub fn annotation(&self, name: &str) -> &str {
        self.annotations
            .get(name)
            .map(String::as_str)
            .unwrap_or_default()
    }

    /// Restarts of all containers.
    pub fn restarts(&self) -> i32 {
        self.containers.values().map(|c| c.restarts).sum()
    }
}

fn pinned(spec: &PodSpec) -> Option<String> {
    let required = spec
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let mut fields = required
        .node_selector_terms
        .iter()
        .flat_map(|term| term.match_fields.iter().flatten());
    let named = fields.find(|field| field.key == "metadata.name")?;
    named.values.as_ref()?.first().cloned()
}

/// The label with the name of the revision that a pod belongs to.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// One event of the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it arrived, since the record began.
    pub at: Duration,
    /// The change.
    pub change: Change,
}

/// The content of a watch's event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The pod is new, or is now as given here.
    Is(PodView),
    /// The pod of this uid is gone.
    Gone(String),
}

/// A list of pods and the watch that follows it, in the server's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    began: Duration,
    first: Vec<(PodView, Option<Duration>)>,
    entries: Vec<Entry>,
}

/// All pods at the beginning of a record or right after an entry.
#[derive(Debug, Clone, Default)]
pub struct Moment<'a> {
    /// Since the record began.
    pub at: Duration,
    /// Pods by uid, terminating ones included.
    pub pods: BTreeMap<&'a str, Standing<'a>>,
}

/// A pod at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// The pod.
    pub pod: &'a PodView,
    /// Since when it serves without a break; `None` while it does not.
    pub serves_since: Option<Duration>,
}

impl Record {
    /// Begins with a list. Pods that serve in it count as serving since then.
    pub fn starting_with(pods: impl IntoIterator<Item = PodView>) -> Record {
        let serves = |pod: PodView| {
            let since = pod.serves().then_some(Duration::ZERO);
            (pod, since)
        };
        Record {
            first: pods.into_iter().map(serves).collect(),
            ..Record::default()
        }
    }

    /// Adds the next event.
    pub fn push(&mut self, at: Duration, change: Change) {
        self.entries.push(Entry { at, change });
    }

    /// The events.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The record from this time on: it begins with the state just before.
    pub fn since(&self, from: Duration) -> Record {
        let before = self.entries.partition_point(|entry| entry.at < from);
        let mut state = self.replay();
        self.entries[..before]
            .iter()
            .for_each(|entry| state.step(entry));
        let first = state
            .pods
            .values()
            .map(|standing| (standing.pod.clone(), standing.serves_since));
        Record {
            began: from,
            first: first.collect(),
            entries: self.entries[before..].to_vec(),
        }
    }

    /// The state at the beginning and after every entry, in order.
    pub fn moments(&self) -> impl Iterator<Item = Moment<'_>> {
        let mut state = self.replay();
        let first = Moment {
            at: self.began,
            pods: state.pods.clone(),
        };
        let rest = self.entries.iter().map(move |entry| {
            state.step(entry);
            Moment {
                at: entry.at,
                pods: state.pods.clone(),
            }
        });
        std::iter::once(first).chain(rest)
    }

    /// The state after the last entry.
    pub fn last(&self) -> Moment<'_> {
        let mut state = self.replay();
        self.entries.iter().for_each(|entry| state.step(entry));
        Moment {
            at: self.entries.last().map_or(self.began, |entry| entry.at),
            pods: state.pods,
        }
    }

    fn replay(&self) -> Replay<'_> {
        let standing = |(pod, serves_since)| Standing { pod, serves_since };
        let pods = self
            .first
            .iter()
            .map(|(pod, since)| (pod.uid.as_str(), standing((pod, *since))));
        Replay {
            pods: pods.collect(),
        }
    }

    /// How long a pod was out of service between `from` and `to`: from the time it stops serving
    /// until it serves again. Time before the pod's creation and after its end does not count.
    pub fn out_of_service(&self, uid: &str, from: Duration, to: Duration) -> Duration {
        let mut out = Duration::ZERO;
        let down_at_first =
            |(pod, _): &&(PodView, Option<Duration>)| pod.uid == uid && !pod.serves();
        let mut down_since = self.first.iter().find(down_at_first).map(|_| self.began);
        for entry in &self.entries {
            let (up, gone) = match &entry.change {
                Change::Is(pod) if pod.uid == uid => (pod.serves(), false),
                Change::Gone(gone) if gone == uid => (false, true),
                _ => continue,
            };
            if let Some(since) = down_since.take() {
                out += overlap(since, entry.at, from, to);
            }
            if !up && !gone {
                down_since = Some(entry.at);
            }
        }
        out + down_since.map_or(Duration::ZERO, |since| overlap(since, to, from, to))
    }
}

fn overlap(start: Duration, end: Duration, from: Duration, to: Duration) -> Duration {
    end.min(to).saturating_sub(start.max(from))
}

struct Replay<'a> {
    pods: BTreeMap<&'a str, Standing<'a>>,
}

impl<'a> Replay<'a> {
    fn step(&mut self, entry: &'a Entry) {
        match &entry.change {
            Change::Is(pod) => {
                let served = self.pods.get(pod.uid.as_str()).and_then(|s| s.serves_since);
                let serves_since = pod.serves().then(|| served.unwrap_or(entry.at));
                self.pods.insert(&pod.uid, Standing { pod, serves_since });
            }
            Change::Gone(uid) => {
                self.pods.remove(uid.as_str());
            }
        }
    }
}

impl Moment<'_> {
    /// Pods that have served for `min_ready` without a break.
    pub fn available(&self, min_ready: Duration) -> usize {
        let long_enough = |since: Duration| self.at.saturating_sub(since) >= min_ready;
        self.pods
            .values()
            .filter(|s| s.serves_since.is_some_and(long_enough))
            .count()
    }

    /// All pods in words.
    pub fn describe(&self) -> String {
        let pods = self.pods.values().map(|standing| {
            let pod = standing.pod;
            let state = match (pod.terminating, pod.ready, pod.gates) {
                (true, ..) => "terminating",
                (_, false, _) => "not ready",
                (_, _, false) => "held by a gate",
                _ => "serves",
            };
            format!("{} {} {state}", pod.name, pod.revision)
        });
        pods.collect::<Vec<_>>().join(", ")
    }

    /// Pods that are not terminating.
    pub fn active(&self) -> usize {
        self.pods.values().filter(|s| !s.pod.terminating).count()
    }

    /// The label that pods of the revision with this name have: the name, or its hash alone. `None`
    /// without such pods.
    pub fn label_of(&self, revision: &str) -> Option<&str> {
        let mut labels = self
            .pods
            .values()
            .map(|standing| standing.pod.revision.as_str());
        labels.find(|label| !label.is_empty() && revision.ends_with(label))
    }

    /// Active pods of a revision.
    pub fn of_revision(&self, revision: &str) -> usize {
        self.pods
            .values()
            .filter(|s| !s.pod.terminating && s.pod.revision == revision)
            .count()
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
pub(crate) mod tests;
