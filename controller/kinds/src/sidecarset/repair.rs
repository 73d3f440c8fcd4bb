//! Pods that lack the containers are replaced, as the annotation `apps.kruise.io/sidecarset-repair` asks: one after the other, the
//! next when the one before has a successor that has the containers and is ready.
//!
//! Whose turn it is stands in the status before anything is done to the pod, so whoever goes on after a crash does the same thing
//! again, and takes no second one. It is known by that record what its successor is: a pod of the same workload, by its name or by
//! being younger than all that the workload had by then, by the apiserver's clock alone. Where none comes for a minute, for the
//! workload was scaled down, say, or has no quota, the turn is over, and no other pod of that workload is taken until one has come.

mod lost;
mod stopped;

use std::sync::Arc;

use berth_api::names::label::SPECIFIED_DELETE;
use berth_api::v1beta1::sidecarset::{SidecarSetLostPod, SidecarSetRepair};
use berth_workload::intstr::{self, Round};
use berth_workload::owner::{OwnerKind, Reference};
use berth_workload::plan::{Action, Event, PodPatch, Step, Target};
use berth_workload::pod::Pod;
use berth_workload::resource::{CLONE_SETS, STATEFUL_SETS};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::audit::{Lack, lacking};
use super::choose::Settings;
use super::names::REPAIR;
use super::pods::Member;
use super::{Asked, Snapshot, refused, status};

pub(super) use lost::{given_up, still_lost};

/// How long after a refusal the next one is asked for.
pub(super) const REFUSED: SignedDuration = SignedDuration::from_secs(10);

/// So much older than the next turn is every pod of its workload: the successor is to be younger than they are, and pods tell their
/// age in whole seconds. As much again is for clocks that differ.
const APART: SignedDuration = SignedDuration::from_secs(2);

/// How long a pod that is deleted is waited for, whatever time it gives itself: anybody's pod may ask for days.
const LONGEST_END: SignedDuration = SignedDuration::from_secs(600);

/// By whom a pod is replaced: kinds that know the label of pods that shall go, and kinds that replace whatever is gone.
const BY_LABEL: [OwnerKind; 2] = [CLONE_SETS.owner_kind(), STATEFUL_SETS.owner_kind()];
const BY_EVICTION: [OwnerKind; 5] = [
    OwnerKind { group: "apps", kind: "ReplicaSet", namespaced: true },
    OwnerKind { group: "apps", kind: "StatefulSet", namespaced: true },
    OwnerKind { group: "apps", kind: "DaemonSet", namespaced: true },
    OwnerKind { group: "", kind: "ReplicationController", namespaced: true },
    OwnerKind { group: "apps.kruise.io", kind: "DaemonSet", namespaced: true },
];

/// Which pods are to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// None.
    Nobody,
    /// Those that were missed.
    Missed,
    /// All that lack something.
    All,
}

impl Scope {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let annotations = snapshot.set.metadata.annotations.as_ref();
        match annotations.and_then(|all| all.get(REPAIR)).map(String::as_str) {
            Some("Missed") => Self::Missed,
            Some("All") => Self::All,
            _ => Self::Nobody,
        }
    }

    fn has(self, lack: Lack) -> bool {
        self == Self::All || (self == Self::Missed && lack == Lack::Missed)
    }
}

/// How a pod is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Its workload is asked to.
    Label,
    /// It is evicted, and its workload makes another.
    Eviction,
}

impl How {
    /// By the kind of its controller alone: what else a pod says of its owner is never followed.
    ///
    /// # Errors
    /// Nobody makes another in its place: who it is, and the remedy.
    pub(super) fn of(pod: &Pod) -> Result<Self, String> {
        const SHOWN: usize = 63;
        let remedy = "so repair leaves it: replace it by hand";
        let owner = pod.metadata.controller().filter(|owner| !owner.uid.is_empty());
        let Some(owner) = owner else { return Err(format!("no workload makes another in its place, {remedy}")) };
        let is_of = |kinds: &[OwnerKind]| kinds.iter().any(|kind| kind.is_of(&Reference::from(owner)));
        if is_of(&BY_LABEL) {
            Ok(Self::Label)
        } else if is_of(&BY_EVICTION) {
            Ok(Self::Eviction)
        } else {
            let kind: String = owner.kind.chars().take(SHOWN).collect();
            Err(format!("its controller is a {kind}, which may make no other in its place, {remedy}"))
        }
    }
}

/// Whose turn it is.
#[derive(Debug)]
pub(super) enum Turn<'a> {
    /// Nobody asks for repair.
    Off,
    /// Nothing that repair could replace lacks anything; of what it leaves alone, one and why; and the record that is kept.
    Idle(Option<String>, Option<SidecarSetRepair>),
    /// No turn begins, or goes on, for this.
    Waits(String),
    /// It begins after this time, for the workload has just made another pod.
    Soon(SignedDuration),
    /// It begins with the record.
    Begins(&'a Arc<Pod>, SidecarSetRepair),
    /// It has begun: this is to be done.
    Replaces(&'a Arc<Pod>, Lack, How),
    /// It is done, and the successor is not proven yet. The pod itself ends after this time at the latest, if it is still there.
    UnderWay(String, Option<SignedDuration>),
    /// It is done, and there is no successor since then. For so long it is still waited for.
    Missing(String, Timestamp, SignedDuration),
    /// It was waited for long enough.
    Lost(String),
    /// The successor would lack the containers, so the pod stays, and another one is next.
    Fruitless(String),
    /// It is over; so often in a row the successor lacked the same.
    Over(i32),
    /// The successor lacks the same, since then. At least so long no other pod is taken.
    Stopped(String, Timestamp, SignedDuration),
}

/// How many pods are out of service for repair, or about to be.
pub(super) fn reserved(snapshot: &Snapshot) -> usize {
    let is_asked = Scope::of(snapshot) != Scope::Nobody;
    // One that is not taken yet, and not to be taken now, serves; and where it has stopped, the successor does.
    let is_out = |record: &SidecarSetRepair| {
        let pod = snapshot.repaired.as_ref().filter(|pod| *pod.metadata.uid == *record.uid);
        let serves = pod.is_some_and(|pod| pod.is_active()) && held(snapshot).is_some();
        !record.over && !serves && !status::has_stopped(snapshot)
    };
    usize::from(is_asked && record(snapshot).is_some_and(is_out))
}

fn record(snapshot: &Snapshot) -> Option<&SidecarSetRepair> {
    snapshot.set.status.as_ref()?.repair.as_ref()
}

/// Was the last one not let go? Nobody tells when it would be.
pub(super) fn was_refused(snapshot: &Snapshot) -> bool {
    record(snapshot).is_some_and(|record| record.refused)
}

/// Says whose turn it is, where so many pods are out of service, the one of repair among them.
pub(super) fn turn<'a>(
    snapshot: &'a Snapshot,
    members: &[Member<'a>],
    (settings, unavailable): (&Settings, usize),
    now: Timestamp,
) -> Turn<'a> {
    let scope = Scope::of(snapshot);
    if scope == Scope::Nobody {
        return Turn::Off;
    }
    let mut lacking = lacking(snapshot, members, now);
    lacking.retain(|(_, lack)| scope.has(*lack));
    let most = match most(snapshot) {
        Ok(most) => most,
        Err(why) => return Turn::Waits(why),
    };
    match record(snapshot).filter(|record| !record.over) {
        Some(record) => go_on(snapshot, (members, &lacking), (record, settings, now), (unavailable, most)),
        None => begin(snapshot, settings, lacking, (unavailable, most), now),
    }
}

/// How many pods may be out of service. Those that repair is for are among the selected ones, and not yet among the matched ones.
fn most(snapshot: &Snapshot) -> Result<usize, String> {
    let most = snapshot.set.spec.update_strategy.max_unavailable.clone().unwrap_or(IntOrString::Int(1));
    let selected = snapshot.pods.iter().filter(|pod| pod.is_active()).count();
    intstr::resolve(&most, selected, Round::Up).map_err(|error| format!("spec.updateStrategy.maxUnavailable: {error}"))
}

/// Why nothing new is done to any pod.
fn held(snapshot: &Snapshot) -> Option<String> {
    let spec = &snapshot.set.spec;
    if spec.update_strategy.paused {
        Some("it is paused by spec.updateStrategy.paused".to_owned())
    } else if spec.injection_strategy.paused {
        Some("spec.injectionStrategy.paused: another pod would lack the containers, too".to_owned())
    } else if snapshot.asked != Asked::Yes {
        let until = "until a dry run of a pod's creation shows that the webhook is asked and answers";
        Some(format!("another pod may lack the containers, too, {until}: see the condition InjectionReady"))
    } else {
        None
    }
}

/// Why a pod is not replaced that lacks this; `None` if it is.
fn stays(snapshot: &Snapshot, settings: &Settings, pod: &Pod, lack: Lack) -> Option<String> {
    if let Err(why) = How::of(pod) {
        return Some(why);
    }
    if let Some(why) = lost::stays(&settings.lost, pod) {
        return Some(why);
    }
    if snapshot.taken.contains_key(&pod.metadata.uid) {
        return Some("stays, for another pod would get the containers of a canary in place of these".to_owned());
    }
    if lack != Lack::NotUpgradable {
        return None;
    }
    // It works with what it has, and whoever keeps updates from it keeps them from it this way, too.
    if !snapshot.updates() {
        Some("stays, for spec.updateStrategy.type is NotUpdate".to_owned())
    } else if !settings.selects(pod) {
        Some("is not selected by spec.updateStrategy.selector".to_owned())
    } else if settings.has_partition() {
        Some("stays as long as spec.updateStrategy.partition is not 0".to_owned())
    } else if snapshot.set.spec.injection_strategy.revision.is_some() {
        Some("stays, for spec.injectionStrategy.revision gives another pod an older revision".to_owned())
    } else {
        None
    }
}

fn begin<'a>(
    snapshot: &'a Snapshot,
    settings: &Settings,
    mut lacking: Vec<(&'a Arc<Pod>, Lack)>,
    (unavailable, most): (usize, usize),
    now: Timestamp,
) -> Turn<'a> {
    let mut left = Vec::new();
    // Of workloads of which nothing else could be taken nothing needs to be known.
    let matters = |lost: &&SidecarSetLostPod| lacking.iter().any(|(pod, _)| is_of(pod, &lost.namespace, &lost.owner));
    let lost: Vec<_> = settings.lost.iter().filter(matters).cloned().collect();
    lacking.retain(|(pod, lack)| {
        let why = stays(snapshot, settings, pod, *lack);
        left.extend(why.iter().map(|why| (place(pod), why.clone())));
        why.is_none()
    });
    lacking.sort_by(|(one, _), (other, _)| place(one).cmp(&place(other)));
    let last = record(snapshot);
    // In turn, so that one that nobody lets go holds up no other.
    let is_next =
        |(pod, _): &&(&'a Arc<Pod>, Lack)| last.is_none_or(|last| place(pod) > (&*last.namespace, &*last.pod));
    let Some((pod, _)) = lacking.iter().find(is_next).or_else(|| lacking.first()) else {
        let last = last.filter(|_| !lost.is_empty());
        return Turn::Idle(left_alone(&left), last.map(|last| SidecarSetRepair { lost, ..last.clone() }));
    };
    if let Some(why) = held(snapshot) {
        return Turn::Waits(why);
    }
    if let Some(why) = lost::too_many(&lost) {
        return Turn::Waits(why);
    }
    if unavailable >= most {
        return Turn::Waits(format!(
            "it waits for spec.updateStrategy.maxUnavailable: {unavailable} of {most} that may be are out of service"
        ));
    }
    if let Some(last) = last.filter(|last| last.refused && seconds_since(last, now) < REFUSED.as_secs()) {
        return Turn::Waits(format!("pod {}/{} was not let go: another try follows", last.namespace, last.pod));
    }
    let newest = newest(snapshot, pod);
    // A clock that was set back makes nobody wait longer.
    let age = newest.map_or(APART, |newest| now.duration_since(newest).abs());
    if age < APART {
        return Turn::Soon(APART.saturating_sub(age));
    }
    let stops = last.map_or(0, |last| last.stops);
    Turn::Begins(pod, SidecarSetRepair { stops, ..begun(pod, newest, lost, now) })
}

fn left_alone(left: &[((&str, &str), String)]) -> Option<String> {
    let ((namespace, name), why) = left.iter().min()?;
    let more = if left.len() > 1 { format!("; {} more stay as they are", left.len() - 1) } else { String::new() };
    Some(format!("pod {namespace}/{name}: {why}{more}"))
}

fn place(pod: &Pod) -> (&str, &str) {
    (&pod.metadata.namespace, &pod.metadata.name)
}

fn seconds_since(record: &SidecarSetRepair, now: Timestamp) -> i64 {
    // A clock that was set back makes nobody wait longer.
    record.since.as_ref().map_or(i64::MAX, |since| (now.as_second() - since.0.as_second()).abs())
}

fn begun(pod: &Pod, newest: Option<Timestamp>, lost: Vec<SidecarSetLostPod>, now: Timestamp) -> SidecarSetRepair {
    SidecarSetRepair {
        namespace: pod.metadata.namespace.to_string(),
        pod: pod.metadata.name.to_string(),
        uid: pod.metadata.uid.to_string(),
        owner: owner(pod).to_owned(),
        newest: newest.map(Time),
        since: Some(Time(now)),
        refused: false,
        over: false,
        missing: None,
        stopped: None,
        stops: 0,
        lost,
    }
}

/// When the newest pod of the pod's workload was created.
fn newest(snapshot: &Snapshot, pod: &Pod) -> Option<Timestamp> {
    let siblings = pods_of(snapshot, &pod.metadata.namespace, owner(pod));
    siblings.filter_map(|sibling| sibling.metadata.creation_timestamp).max()
}

/// The pods of a workload, those that a canary takes among them.
fn pods_of<'a>(snapshot: &'a Snapshot, namespace: &'a str, uid: &'a str) -> impl Iterator<Item = &'a Arc<Pod>> {
    let all = snapshot.pods.iter().chain(snapshot.taken.values());
    all.filter(move |pod| is_of(pod, namespace, uid))
}

fn owner(pod: &Pod) -> &str {
    pod.metadata.controller().map_or("", |owner| &owner.uid)
}

fn is_of(pod: &Pod, namespace: &str, uid: &str) -> bool {
    *pod.metadata.namespace == *namespace && owner(pod) == uid
}

/// Did the pod come after one of this name, by its own name or by being younger than the newest of its workload was?
fn is_later(pod: &Pod, name: &str, newest: Option<Timestamp>) -> bool {
    *pod.metadata.name == *name || pod.metadata.creation_timestamp > newest
}

/// How long a pod that is deleted still takes at the most; `None` of any other, and of one that should be gone.
fn ends_after(pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let left = pod.metadata.deletion_timestamp?.duration_since(now);
    let given = SignedDuration::from_secs(pod.spec.termination_grace_period_seconds.max(0));
    let left = if given > LONGEST_END { left.saturating_sub(given.saturating_sub(LONGEST_END)) } else { left };
    left.is_positive().then_some(left)
}

fn go_on<'a>(
    snapshot: &'a Snapshot,
    (members, lacking): (&[Member<'a>], &[(&'a Arc<Pod>, Lack)]),
    (record, settings, now): (&SidecarSetRepair, &Settings, Timestamp),
    (unavailable, most): (usize, usize),
) -> Turn<'a> {
    let name = format!("{}/{}", record.namespace, record.pod);
    let repaired = snapshot.repaired.as_ref().filter(|pod| *pod.metadata.uid == *record.uid);
    if let Some(left) = repaired.and_then(|pod| ends_after(pod, now)) {
        return Turn::UnderWay(format!("pod {name} ends"), Some(left));
    }
    match repaired {
        Some(pod) if pod.is_active() => {
            let found = lacking.iter().find(|(known, _)| known.metadata.uid == pod.metadata.uid);
            let over = Turn::Over(record.stops);
            let Some((pod, lack)) = found else { return over };
            let Ok(how) = How::of(pod) else { return over };
            if how == How::Label && pod.metadata.label(SPECIFIED_DELETE).is_some() {
                let what = format!("pod {name} is to be deleted by its workload, by the label {SPECIFIED_DELETE}");
                return Turn::UnderWay(what, None);
            }
            // A canary may have come since.
            if stays(snapshot, settings, pod, *lack).is_some() {
                return over;
            }
            if let Some(why) = held(snapshot) {
                return Turn::Waits(why);
            }
            if let Some(why) = &snapshot.fruitless {
                return Turn::Fruitless(format!(
                    "pod {name} stays for now, for its successor would lack the containers: {why}"
                ));
            }
            if unavailable > most {
                return Turn::Waits(format!(
                    "pod {name} waits for spec.updateStrategy.maxUnavailable: {unavailable} of {most} that may be are out of service"
                ));
            }
            Turn::Replaces(pod, *lack, how)
        }
        _ => successor(snapshot, (members, lacking), (record, now)),
    }
}

/// The pod is gone, or should be. The pods that its workload has made since: one of them is its successor.
fn successor<'a>(
    snapshot: &'a Snapshot,
    (members, lacking): (&[Member<'a>], &[(&'a Arc<Pod>, Lack)]),
    (record, now): (&SidecarSetRepair, Timestamp),
) -> Turn<'a> {
    let name = format!("{}/{}", record.namespace, record.pod);
    let newest = record.newest.as_ref().map(|newest| newest.0);
    let is_new =
        |pod: &&Arc<Pod>| pod.is_active() && *pod.metadata.uid != *record.uid && is_later(pod, &record.pod, newest);
    let mut new = pods_of(snapshot, &record.namespace, &record.owner).filter(is_new).peekable();
    if new.peek().is_none() {
        return lost::missing(record, now);
    }
    for pod in new {
        let found = lacking.iter().find(|(known, _)| known.metadata.uid == pod.metadata.uid);
        let of_pod = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        if let Some((_, lack)) = found {
            let words = format!("pod {of_pod}, which came in place of {name}, {}", lack.words());
            return stopped::stopped(snapshot, record, &words, now);
        }
        let member = members.iter().find(|member| member.pod.metadata.uid == pod.metadata.uid);
        // Of one that a canary has taken nothing more is to come here.
        if member.is_none() && snapshot.taken.contains_key(&pod.metadata.uid) {
            continue;
        }
        if !member.is_some_and(|member| member.is_ready && member.unproven.is_none()) {
            return Turn::UnderWay(format!("pod {of_pod}, which comes in place of {name}, is not ready yet"), None);
        }
    }
    Turn::Over(0)
}

/// What replaces a pod.
pub(super) fn step(pod: &Pod, lack: Lack, how: How) -> Step {
    let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    let (action, what) = match how {
        How::Label => {
            let labels = [(SPECIFIED_DELETE.to_owned(), Some("true".to_owned()))].into();
            let patch = PodPatch { labels, ..PodPatch::default() };
            let target = Target::as_seen(&pod.metadata);
            (
                Action::PatchPod { target, patch },
                format!("gets the label {SPECIFIED_DELETE}, for its workload to replace it"),
            )
        }
        How::Eviction => (
            Action::EvictPod { target: Target::from(&pod.metadata) },
            "is evicted, for its workload to make another".to_owned(),
        ),
    };
    let message = format!("pod {name} {what}: it {}", lack.words());
    let done = Event { warning: false, reason: "RepairedPod", message: message.clone() };
    Step { done: Some(done), ..Step::new(action, message) }
}

/// What is told of a pod that lacks something: what becomes of it.
pub(super) fn prospect(snapshot: &Snapshot, settings: &Settings, pod: &Pod, lack: Lack) -> String {
    let refused = refused::reason(pod, snapshot.name()).filter(|_| lack == Lack::Refused);
    let words = refused.map_or_else(|| lack.words().to_owned(), |why| format!("{}: {why}", lack.words()));
    if !Scope::of(snapshot).has(lack) {
        if let Err(why) = How::of(pod) {
            return format!("{words}; {why}");
        }
        let value = if lack == Lack::Missed { "Missed or All" } else { "All" };
        return format!("{words}: replace the pod, or set metadata.annotations[{REPAIR}] to {value}");
    }
    match stays(snapshot, settings, pod, lack) {
        Some(why) => format!("{words}; {why}"),
        None => format!("{words}: it is replaced in its turn"),
    }
}

#[cfg(test)]
mod tests;
