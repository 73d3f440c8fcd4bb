//! What a decision knows of one pod that has containers of the SidecarSet.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::sidecarset::{SidecarContainer, SidecarSetSpec};
use berth_workload::inplace::exact::{self, Verdict};
use berth_workload::inplace::sidecars;
use berth_workload::inplace::state::State;
use berth_workload::node::image::facts;
use berth_workload::pod::{ContainerStatus, Pod};

use super::hot::{self, Pair};
use super::on_pod;
use super::sidecar::{self, List};
use super::{Snapshot, revisions};

/// A pod that has the containers.
pub(super) struct Member<'a> {
    pub(super) pod: &'a Arc<Pod>,
    /// Its containers are those of the SidecarSet as it is now.
    pub(super) is_updated: bool,
    /// An update in place can bring it there: it differs in images alone.
    pub(super) is_upgradable: bool,
    /// Why its last update is not proven yet.
    pub(super) unproven: Option<String>,
    /// The node has proven it, which is to be noted: its word does not last.
    pub(super) proven_by_node: Option<State>,
    /// It serves; a pod between the two halves of a hot upgrade does not.
    pub(super) is_ready: bool,
    /// A container of the SidecarSet fails, by the kubelet's word.
    pub(super) is_failing: bool,
    /// Hot-upgraded containers of which the old one still runs.
    pub(super) upgrading: Vec<Pair>,
}

/// The image of a container.
pub(super) fn image(container: &SidecarContainer) -> &str {
    container.container.get("image").and_then(|image| image.as_str()).unwrap_or_default()
}

/// Is the container made of two?
pub(super) fn is_hot(container: &SidecarContainer) -> bool {
    sidecar::is_hot(container, List::Main)
}

/// The names that the containers have in pods.
fn names_in_pods(containers: &[SidecarContainer]) -> BTreeSet<String> {
    containers.iter().flat_map(|container| sidecar::names_in_pod(container, List::Main)).collect()
}

impl<'a> Member<'a> {
    /// The pod as one that the SidecarSet updates; `None` if it is not: it is on its way out, or does not have all its containers.
    pub(super) fn of(snapshot: &Snapshot, pod: &'a Arc<Pod>) -> Option<Self> {
        let set = &snapshot.set;
        let name = snapshot.name();
        if !pod.is_active() || !on_pod::is_injected(pod, name) {
            return None;
        }
        let names = names_in_pods(&set.spec.containers);
        if !names.iter().all(|name| pod.spec.containers.iter().any(|container| *container.name == **name)) {
            return None;
        }
        let hash = on_pod::record(pod, name).map(|record| record.hash).unwrap_or_default();
        let without = on_pod::record_without_image(pod, name).map(|record| record.hash).unwrap_or_default();
        let upgrading = hot::upgrading(&set.spec.containers, pod);
        // The old one of two is changed only when the new one is proven.
        let state = sidecars::state(pod, name).unwrap_or_default();
        let judged = State {
            last_container_statuses: state
                .last_container_statuses
                .into_iter()
                .filter(|(name, _)| !upgrading.iter().any(|pair| pair.empty == *name))
                .collect(),
            ..state
        };
        let proof = if judged.is_settled() { Ok("pod") } else { proof(snapshot, pod, &judged) };
        let is_failing = names.iter().filter_map(|name| pod.container_status(name)).any(fails);
        Some(Self {
            is_updated: hash == snapshot.hashes.hash,
            is_upgradable: without == snapshot.hashes.without_image && has_same_natives(snapshot, pod),
            proven_by_node: (proof == Ok("node")).then_some(judged),
            unproven: proof.err(),
            is_ready: upgrading.is_empty() && &*pod.status.phase == "Running" && pod.is_true("Ready"),
            is_failing,
            upgrading,
            pod,
        })
    }

    /// By container of the spec: the images that the pod does not have of it.
    pub(super) fn changes<'b>(&self, spec: &'b SidecarSetSpec) -> impl Iterator<Item = (&'b str, &'b str)> {
        let pod = self.pod;
        let lacks = move |container: &&SidecarContainer| {
            let names = sidecar::names_in_pod(container, List::Main);
            !pod.spec
                .containers
                .iter()
                .any(|has| names.iter().any(|name| *has.name == **name) && *has.image == *image(container))
        };
        spec.containers.iter().filter(lacks).map(|container| (sidecar::name(container), image(container)))
    }

    /// It was updated, and does not serve with its new containers yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_updated && (self.unproven.is_some() || !self.is_ready)
    }
}

/// Are the containers that start before the pod's own, and run beside them, those that it has? Their images are not changed in place
/// yet, so a pod whose are others cannot get there.
fn has_same_natives(snapshot: &Snapshot, pod: &Pod) -> bool {
    if !snapshot.set.spec.init_containers.iter().any(sidecar::is_native) {
        return true;
    }
    let revision = on_pod::record(pod, snapshot.name()).map(|record| record.controller_revision);
    let of_pod = snapshot.revisions.iter().find(|known| revision.as_deref() == Some(&*known.metadata.name));
    let init = |data: &serde_json::Value| data["spec"]["initContainers"].clone();
    of_pod.is_some_and(|known| init(&known.data.value()) == init(&revisions::data(&snapshot.set.spec)))
}

/// By what it is known that the containers are those of the pod's spec.
///
/// # Errors
/// Why they may not be yet.
fn proof(snapshot: &Snapshot, pod: &Pod, state: &State) -> Result<&'static str, String> {
    let node = snapshot.node_images.get(&pod.spec.node_name);
    let node = node.map(|node| facts(node, pod)).unwrap_or_default();
    match exact::judge(pod, state, &node) {
        Verdict::Exact { verified_by, .. } => Ok(verified_by),
        Verdict::Wait(why) | Verdict::AskNode(why) => Err(why),
        Verdict::Resize(_) => Err("resources of containers are not written yet".to_owned()),
    }
}

fn fails(status: &ContainerStatus) -> bool {
    const FAILURES: [&str; 7] = [
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "CrashLoopBackOff",
    ];
    status.state.waiting.as_ref().is_some_and(|waiting| FAILURES.contains(&&*waiting.reason))
}
