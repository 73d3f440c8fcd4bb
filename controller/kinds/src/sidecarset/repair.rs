//! Replaces pods that lack the containers, as the annotation `apps.kruise.io/sidecarset-repair`
//! asks: one after the other, the next pod when the previous one has a successor that has the
//! containers and is ready.
//!
//! The status names the pod before the controller writes anything to the pod. So after a crash the
//! next leader does the same again, and takes no second pod. The record identifies the successor: a
//! pod of the same workload that has the same name, or that is younger than every pod that the
//! workload had then, by the apiserver's clock alone. If no successor comes within a minute, for
//! example because the workload was scaled down or has no quota, the turn is over, and repair takes
//! no other pod of that workload until a successor has come. The same holds if the successor lacks
//! the containers. The namespaces take turns.

pub(super) mod audit;
mod course;
pub(super) mod drift;
mod how;
mod lost;
pub mod refused;
mod stays;
mod turn;

use std::sync::Arc;

use berth_api::names::label::SPECIFIED_DELETE;
use berth_api::v1beta1::sidecarset::{SidecarSetLostPod, SidecarSetRepair};
use berth_workload::budget::surge::is_leftover;
use berth_workload::objects::intstr::{self, Round};
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, Event, PodPatch, Step, Target};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::names::{REPAIR, REPAIRING};
use super::repair::audit::{Lack, lacking};
use super::update::pods::Member;
use super::update::settings::Settings;
use super::{Snapshot, Turns};
use course::go_on;
use how::How;
use stays::{held, stays};
use turn::{owner, pods_of, record};

use lost::still_lost;
pub(super) use lost::{given_up, next_try, stopped};
pub(super) use turn::{REFUSED, Scope, Turn};

/// The least age of every pod of a workload when its next turn begins. The successor must be
/// younger than these pods, and a pod states its age in whole seconds. The second half of the time
/// is for clocks that differ.
const APART: SignedDuration = SignedDuration::from_secs(2);

/// The number of pods that are out of service for repair, or about to be, and the pods that have no
/// successor.
pub(super) fn reserved(
    snapshot: &Snapshot,
    members: &[Member<'_>],
    now: Timestamp,
) -> (usize, Vec<SidecarSetLostPod>) {
    let is_enabled = Scope::of(snapshot) != Scope::None;
    // A pod that is not deleted yet, and must not be deleted now, serves.
    let is_out = |record: &SidecarSetRepair| {
        let pod = snapshot
            .repaired
            .as_ref()
            .filter(|pod| *pod.metadata.uid == *record.uid);
        let serves = pod.is_some_and(|pod| pod.is_active()) && held(snapshot).is_some();
        !record.over && !serves
    };
    let repaired = usize::from(is_enabled && record(snapshot).is_some_and(is_out));
    (repaired, still_lost(snapshot, members, now))
}

/// Whether the last pod's deletion was refused. Nothing announces when the deletion would be
/// allowed.
pub(super) fn was_refused(snapshot: &Snapshot) -> bool {
    record(snapshot).is_some_and(|record| record.refused)
}

/// The next turn of repair. `unavailable` pods are out of service, including the pod that is under
/// repair.
pub(super) fn turn<'a>(
    snapshot: &'a Snapshot,
    members: &[Member<'a>],
    (settings, unavailable): (&Settings, usize),
    now: Timestamp,
) -> Turn<'a> {
    let scope = Scope::of(snapshot);
    if scope == Scope::None {
        return Turn::Off;
    }
    let mut lacking = lacking(snapshot, members, now);
    lacking.retain(|(_, lack)| scope.has(*lack));
    let most = match most(snapshot) {
        Ok(most) => most,
        Err(why) => return Turn::Waits(why),
    };
    match record(snapshot).filter(|record| !record.over) {
        Some(record) => go_on(
            snapshot,
            (members, &lacking),
            (record, settings, now),
            (unavailable, most),
        ),
        None => begin(snapshot, settings, lacking, (unavailable, most), now),
    }
}

/// How many pods may be out of service. Pods that need repair are among the selected pods, and not
/// among the matched ones yet.
fn most(snapshot: &Snapshot) -> Result<usize, String> {
    let most = snapshot
        .set
        .spec
        .update_strategy
        .max_unavailable
        .clone()
        .unwrap_or(IntOrString::Int(1));
    let selected = snapshot.pods.iter().filter(|pod| pod.is_active()).count();
    intstr::resolve(&most, selected, Round::Up)
        .map_err(|error| format!("spec.updateStrategy.maxUnavailable: {error}"))
}

fn begin<'a>(
    snapshot: &'a Snapshot,
    settings: &Settings,
    mut lacking: Vec<(&'a Arc<Pod>, Lack)>,
    (unavailable, most): (usize, usize),
    now: Timestamp,
) -> Turn<'a> {
    let mut left = Vec::new();
    let lost = settings.lost.clone();
    lacking.retain(|(pod, lack)| {
        let why = goes_already(pod).or_else(|| stays(snapshot, settings, pod, *lack));
        let why = why.or_else(|| Some(set_aside(snapshot, pod, now)?.0));
        left.extend(why.iter().map(|why| (place(pod), why.clone())));
        why.is_none()
    });
    if let Some(why) = lost::stopped_everywhere(&lost) {
        lacking.retain(|(pod, _)| lost::is_tried_again(&lost, pod, now));
        if lacking.is_empty() {
            return Turn::Stopped(why);
        }
    }
    let last = record(snapshot);
    let Some(pod) = next(lacking.iter().map(|(pod, _)| *pod), last, &snapshot.turns) else {
        let last = last.filter(|_| !lost.is_empty());
        return Turn::Idle(
            left_alone(&left),
            last.map(|last| SidecarSetRepair {
                lost,
                ..last.clone()
            }),
        );
    };
    if let Some(why) = held(snapshot) {
        return Turn::Waits(why);
    }
    if let Some(why) = lost::missing_everywhere(&lost) {
        return Turn::Waits(why);
    }
    if unavailable >= most {
        return Turn::Waits(format!(
            "it waits for spec.updateStrategy.maxUnavailable: {unavailable} of {most} that may be are out of service"
        ));
    }
    if let Some(last) =
        last.filter(|last| last.refused && seconds_since(last, now) < REFUSED.as_secs())
    {
        return Turn::Waits(refusal(snapshot, last));
    }
    let newest = newest(snapshot, pod);
    // A clock that was set back must not make a pod wait longer.
    let age = newest.map_or(APART, |newest| now.duration_since(newest).abs());
    if age < APART {
        return Turn::Soon(APART.saturating_sub(age));
    }
    Turn::Begins(pod, begun(pod, newest, lost, now))
}

/// The reason why the last pod was refused, as the condition has it until another pod is next.
fn refusal(snapshot: &Snapshot, last: &SidecarSetRepair) -> String {
    let pod = format!("pod {}/{} ", last.namespace, last.pod);
    let mut conditions = snapshot
        .set
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    let said = conditions.find(|known| known.type_ == REPAIRING && known.message.starts_with(&pod));
    said.map_or_else(
        || format!("{pod}was not let go: another try follows"),
        |said| said.message.clone(),
    )
}

/// The reason why repair does not begin a turn for a pod that a budget lets go when another has
/// come, because the budget had it taken from its ReplicaSet.
fn goes_already(pod: &Pod) -> Option<String> {
    is_leftover(pod)
        .then(|| "goes when another has come in its place, or after 10 minutes".to_owned())
}

/// The reason why a pod is set aside, and the time that is left.
pub(super) fn set_aside(
    snapshot: &Snapshot,
    pod: &Pod,
    now: Timestamp,
) -> Option<(String, SignedDuration)> {
    snapshot
        .turns
        .held(&pod.metadata.uid, &snapshot.hashes.hash, now)
}

/// The next pod: from the namespace after the one that had the last turn, the pod after that
/// namespace's own last pod. So no namespace keeps another one waiting, and no refused pod keeps
/// another pod waiting.
fn next<'a>(
    lacking: impl Iterator<Item = &'a Arc<Pod>>,
    last: Option<&SidecarSetRepair>,
    turns: &Turns,
) -> Option<&'a Arc<Pod>> {
    lacking.min_by_key(|pod| {
        let (namespace, name) = place(pod);
        let last_of_namespace = match last {
            Some(last) if last.namespace == namespace => Some(&*last.pod),
            _ => turns.last_repaired(namespace),
        };
        let had_its_turn = last.is_some_and(|last| namespace <= &*last.namespace);
        (
            had_its_turn,
            namespace,
            last_of_namespace.is_some_and(|last| name <= last),
            name,
        )
    })
}

fn left_alone(left: &[((&str, &str), String)]) -> Option<String> {
    let ((namespace, name), why) = left.iter().min()?;
    let more = if left.len() > 1 {
        format!("; {} more stay as they are", left.len() - 1)
    } else {
        String::new()
    };
    Some(format!("pod {namespace}/{name}: {why}{more}"))
}

fn place(pod: &Pod) -> (&str, &str) {
    (&pod.metadata.namespace, &pod.metadata.name)
}

fn seconds_since(record: &SidecarSetRepair, now: Timestamp) -> i64 {
    // A clock that was set back must not make a pod wait longer.
    record.since.as_ref().map_or(i64::MAX, |since| {
        (now.as_second() - since.0.as_second()).abs()
    })
}

fn begun(
    pod: &Pod,
    newest: Option<Timestamp>,
    lost: Vec<SidecarSetLostPod>,
    now: Timestamp,
) -> SidecarSetRepair {
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
        lost,
    }
}

/// When the newest pod of the pod's workload was created.
fn newest(snapshot: &Snapshot, pod: &Pod) -> Option<Timestamp> {
    let siblings = pods_of(snapshot, &pod.metadata.namespace, owner(pod));
    siblings
        .filter_map(|sibling| sibling.metadata.creation_timestamp)
        .max()
}

/// The step that replaces a pod.
pub(super) fn step(pod: &Pod, lack: Lack, how: How) -> Step {
    let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    let (action, what) = match how {
        How::Label => {
            let labels = [(SPECIFIED_DELETE.to_owned(), Some("true".to_owned()))].into();
            let patch = PodPatch {
                labels,
                ..PodPatch::default()
            };
            let target = Target::as_seen(&pod.metadata);
            (
                Action::PatchPod { target, patch },
                format!("gets the label {SPECIFIED_DELETE}, for its workload to replace it"),
            )
        }
        How::Eviction => (
            Action::EvictPod {
                target: Target::from(&pod.metadata),
            },
            "is evicted, for its workload to make another".to_owned(),
        ),
    };
    let message = format!("pod {name} {what}: it {}", lack.words());
    let done = Event::normal("RepairedPod", message.clone());
    Step {
        done: Some(done),
        ..Step::new(action, message)
    }
}

/// The message for a pod that lacks something: what repair does with the pod.
pub(super) fn prospect(snapshot: &Snapshot, settings: &Settings, pod: &Pod, lack: Lack) -> String {
    let refused = refused::reason(pod, snapshot.name()).filter(|_| lack == Lack::Refused);
    let words = refused.map_or_else(
        || lack.words().to_owned(),
        |why| format!("{}: {why}", lack.words()),
    );
    if !Scope::of(snapshot).has(lack) {
        if let Err(why) = How::of(pod) {
            return format!("{words}; {why}");
        }
        let value = if lack == Lack::Missed {
            "Missed or All"
        } else {
            "All"
        };
        return format!(
            "{words}: replace the pod, or set metadata.annotations[{REPAIR}] to {value}"
        );
    }
    let aside = || Some(set_aside(snapshot, pod, settings.now)?.0);
    match goes_already(pod)
        .or_else(|| stays(snapshot, settings, pod, lack))
        .or_else(aside)
    {
        Some(why) => format!("{words}; {why}"),
        None => format!("{words}: it is replaced in its turn"),
    }
}

#[cfg(test)]
mod tests;
