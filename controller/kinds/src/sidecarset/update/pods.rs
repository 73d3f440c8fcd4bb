//! The view of a decision on one pod that has containers of the SidecarSet.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::image::{normalised, pins};
use berth_api::v1beta1::sidecarset::{SidecarContainer, SidecarSetSpec};
use berth_workload::blocked::NO_IMAGE;
use berth_workload::objects::node::image::facts;
use berth_workload::objects::pod::{ContainerStatus, Pod};
use berth_workload::update::inplace::exact::{self, UpdateDecision};
use berth_workload::update::inplace::sidecars;
use berth_workload::update::inplace::state::State;
use jiff::{SignedDuration, Timestamp};

use super::hot::{self, Pair};
use crate::sidecarset::Snapshot;
use crate::sidecarset::on_pod::{self, image, in_pod};
use crate::sidecarset::sidecar::{self, List};

/// The longest time that a pod counts against `maxUnavailable` when its update takes no container
/// out of service.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// A pod that has the containers.
pub(in crate::sidecarset) struct Member<'a> {
    pub(in crate::sidecarset) pod: &'a Arc<Pod>,
    /// The reason why the pod cannot be read as it is now. What the controller read last may stay
    /// wrong for ever.
    pub(in crate::sidecarset) unreadable: Option<&'a str>,
    /// Whether its containers are those of the SidecarSet's present spec.
    pub(in crate::sidecarset) is_updated: bool,
    /// Whether an update in place can bring it there, because it differs in images alone.
    pub(in crate::sidecarset) is_upgradable: bool,
    /// The reason why its last update is not proven yet.
    pub(in crate::sidecarset) unproven: Option<String>,
    /// The state to record because the node has proven it: the node's answer does not last.
    pub(in crate::sidecarset) proven_by_node: Option<State>,
    /// Whether it serves. A pod between the two halves of a hot upgrade does not.
    pub(in crate::sidecarset) is_ready: bool,
    /// The SidecarSet's containers are ready. Of a hot pair the working container counts. The pod's
    /// other containers do not count.
    pub(in crate::sidecarset) has_ready_sidecars: bool,
    /// The time of its last patch by an update, and whether the pod was Ready until then.
    pub(in crate::sidecarset) patched: Option<(Timestamp, bool)>,
    /// The failure of a container of the SidecarSet, as the kubelet reports it.
    pub(in crate::sidecarset) failing: Option<Failure>,
    /// Hot-upgraded pairs in which the old container still runs.
    pub(in crate::sidecarset) upgrading: Vec<Pair>,
    /// The pairs of `upgrading` whose new container is proven and ready, by their names in the
    /// SidecarSet.
    pub(in crate::sidecarset) handed_over: BTreeSet<String>,
}

/// The pods that the SidecarSet updates.
pub(in crate::sidecarset) fn members(snapshot: &Snapshot) -> Vec<Member<'_>> {
    let in_lists = |(container, list)| {
        sidecar::names_in_pod(container, list)
            .into_iter()
            .map(move |name| (name, list))
    };
    let names: Vec<_> = sidecar::lasting(&snapshot.set.spec)
        .flat_map(in_lists)
        .collect();
    snapshot
        .pods
        .iter()
        .filter_map(|pod| Member::of(snapshot, &names, pod))
        .collect()
}

fn is_ready(pod: &Pod, container: &str) -> bool {
    pod.container_status(container)
        .is_some_and(|status| status.ready)
}

/// The failure of the first of these containers that fails.
fn failing(pod: &Pod, names: &[(String, List)]) -> Option<Failure> {
    names.iter().find_map(|(name, list)| {
        let image = in_pod(pod, name, *list).map_or("", |container| &*container.image);
        failure(pod.container_status(name)?, image, *list)
    })
}

/// Whether all sidecars of the set are ready in the pod. In a hot-upgraded pair the working
/// container counts.
fn has_ready_sidecars(snapshot: &Snapshot, pod: &Pod) -> bool {
    sidecar::lasting(&snapshot.set.spec).all(|(container, list)| {
        if sidecar::is_hot(container, list) {
            is_ready(pod, &Pair::of(container, list, pod).working)
        } else {
            is_ready(pod, sidecar::name(container))
        }
    })
}

impl<'a> Member<'a> {
    /// The pod as one that the SidecarSet updates; `names` are the names of its containers in pods.
    /// `None` if the SidecarSet does not update it, because it is being deleted, or does not have
    /// all its `containers` with the mark that the webhook gives them. Without the mark the
    /// admission policies let no container be updated. A pod that lacks a native sidecar counts,
    /// and cannot be updated.
    fn of(snapshot: &'a Snapshot, names: &[(String, List)], pod: &'a Arc<Pod>) -> Option<Self> {
        let set = &snapshot.set;
        let name = snapshot.name();
        if !pod.is_active() || !on_pod::is_injected(pod, name) {
            return None;
        }
        let has = |(name, list): &(String, List)| {
            in_pod(pod, name, *list).is_some_and(|found| found.env.is_injected)
        };
        if !names
            .iter()
            .filter(|(_, list)| *list == List::Main)
            .all(has)
        {
            return None;
        }
        let hash =
            |record: Option<on_pod::Known>| record.map(|record| record.hash).unwrap_or_default();
        let without = hash(on_pod::record_without_image(pod, name));
        let hash = hash(on_pod::record(pod, name));
        let upgrading = hot::upgrading(&set.spec, pod);
        // The old container of a pair changes only when the new one is proven.
        let state = sidecars::state(pod, name).unwrap_or_default();
        let serves = |pair: &&Pair| {
            is_ready(pod, &pair.working)
                && proof(
                    snapshot,
                    pod,
                    &of_containers(state.clone(), |name| *name == pair.working),
                )
                .is_ok()
        };
        let handed_over = upgrading.iter().filter(serves);
        let handed_over = handed_over.map(|pair| pair.name.clone()).collect();
        let patched = state.update_timestamp.map(|at| (at, state.was_ready));
        let judged = of_containers(state, |name| {
            !upgrading.iter().any(|pair| pair.empty == *name)
        });
        let proof = proof(snapshot, pod, &judged);
        // Before a kubelet has seen the new images, a failure is that of the old ones. Older
        // kubelets do not report the generation that they have seen.
        let seen = pod.status.observed_generation;
        let has_seen = seen == 0 || seen >= pod.metadata.generation;
        let failing = failing(pod, names).filter(|_| has_seen);
        Some(Self {
            is_updated: hash == snapshot.hashes.hash,
            is_upgradable: without == snapshot.hashes.without_image && names.iter().all(has),
            proven_by_node: (proof == Ok("node")).then_some(judged),
            unproven: proof.err(),
            is_ready: upgrading.is_empty()
                && &*pod.status.phase == "Running"
                && pod.is_true("Ready"),
            has_ready_sidecars: has_ready_sidecars(snapshot, pod),
            patched,
            failing,
            handed_over,
            upgrading,
            unreadable: snapshot
                .unreadable
                .get(&pod.metadata.uid)
                .map(String::as_str),
            pod,
        })
    }

    /// By container of the spec: the images that the pod does not have.
    pub(in crate::sidecarset) fn changes<'b>(
        &self,
        spec: &'b SidecarSetSpec,
    ) -> impl Iterator<Item = (&'b str, &'b str)> {
        let lacks = |(container, list): &(&SidecarContainer, List)| {
            let names = sidecar::names_in_pod(container, *list);
            !names.iter().any(|name| {
                in_pod(self.pod, name, *list).is_some_and(|has| *has.image == *image(container))
            })
        };
        sidecar::lasting(spec)
            .filter(lacks)
            .map(|(container, _)| (sidecar::name(container), image(container)))
    }

    /// How long the pod still counts against `maxUnavailable` for its last update at most; `None`
    /// if it does not count. It counts from its patch until the SidecarSet's containers run new
    /// images, of the present or an earlier form, and are ready. The pod's other containers keep no
    /// other pod waiting. So three kinds of pods count for [`PATIENCE`] at most: a pod that was not
    /// Ready before its patch, one that only waits for the end of a hot upgrade's old container,
    /// and one that the controller cannot read.
    pub(in crate::sidecarset) fn counts_for(&self, now: Timestamp) -> Option<SignedDuration> {
        let (at, was_ready) = self.patched?;
        let is_handed_over = self
            .upgrading
            .iter()
            .all(|pair| self.handed_over.contains(&pair.name));
        let waits_for_sidecars = self.unproven.is_some()
            || !is_handed_over
            || (self.is_updated && !self.has_ready_sidecars);
        if waits_for_sidecars && was_ready && self.unreadable.is_none() {
            return Some(SignedDuration::MAX);
        }
        // A clock that is set back must not lengthen the wait.
        let left = PATIENCE.saturating_sub(now.duration_since(at).abs());
        (left.is_positive() && (waits_for_sidecars || !self.upgrading.is_empty())).then_some(left)
    }
}

/// The part of a record about these containers.
fn of_containers(mut state: State, is_meant: impl Fn(&String) -> bool) -> State {
    state
        .last_container_statuses
        .retain(|name, _| is_meant(name));
    state
}

/// The proof that the containers are those of the pod's spec: `pod` or `node`.
///
/// # Errors
/// The reason why they may not be yet.
fn proof(snapshot: &Snapshot, pod: &Pod, state: &State) -> Result<&'static str, String> {
    if state.is_settled() {
        return Ok("pod");
    }
    let node = snapshot.node_images.get(&pod.spec.node_name);
    let node = node.map(|node| facts(node, pod)).unwrap_or_default();
    match exact::judge(pod, state, &node) {
        UpdateDecision::Proven { verified_by, .. } => Ok(verified_by),
        UpdateDecision::Wait(why) | UpdateDecision::NeedsDaemon(why) => Err(why),
        UpdateDecision::Resize(_) => Err("resources of containers are not written yet".to_owned()),
    }
}

/// The failure of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sidecarset) struct Failure {
    pub(in crate::sidecarset) container: String,
    /// The image that the container must run.
    pub(in crate::sidecarset) image: String,
    /// CamelCase.
    pub(in crate::sidecarset) reason: &'static str,
    /// The kubelet's message.
    pub(in crate::sidecarset) message: String,
}

fn failure(status: &ContainerStatus, image: &str, list: List) -> Option<Failure> {
    const FAILURES: [&str; 4] = [
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "CrashLoopBackOff",
    ];
    /// The most characters of the kubelet's message.
    const SHOWN: usize = 300;
    let said = |reason, message: &str| {
        let (message, image) = (
            message.chars().take(SHOWN).collect(),
            image.chars().take(SHOWN).collect(),
        );
        Some(Failure {
            container: status.name.to_string(),
            image,
            reason,
            message,
        })
    };
    if let Some(waiting) = &status.state.waiting {
        let reason = NO_IMAGE
            .into_iter()
            .chain(FAILURES)
            .find(|known| **known == *waiting.reason)?;
        return is_of_image(status, image, reason, &waiting.message)
            .then(|| said(reason, &waiting.message))?;
    }
    // For a native sidecar that it cannot start again, the kubelet of 1.34 reports how the
    // container ended, and not why it waits.
    status
        .state
        .terminated
        .as_ref()
        .filter(|_| list == List::Init)?;
    said(
        "NotStartedAgain",
        "it has ended, and the kubelet does not start it again",
    )
}

/// Whether a container fails with this image. A kubelet that has just seen a new image repeats for
/// a moment how the last container failed, while it starts the next one. If that counted as a
/// failure, the update would replace the next container just when it takes over.
fn is_of_image(status: &ContainerStatus, image: &str, reason: &str, message: &str) -> bool {
    match reason {
        _ if NO_IMAGE.contains(&reason) => message.is_empty() || message.contains(image),
        "RunContainerError" | "CrashLoopBackOff" => {
            status.image.is_empty()
                || normalised(&status.image) == normalised(image)
                || pins(image, &status.image_id)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
