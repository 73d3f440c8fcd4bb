//! Which pods the daemon is asked about.

use std::collections::BTreeSet;

use berth_api::v1beta1::nodeimage::{InspectPod, MAX_INSPECTED_PODS, NodeImage};

use super::{Snapshot, facts};
use crate::inplace::env;
use crate::inplace::exact::Verdict;
use crate::inplace::steps::{self, Phase, phase};
use crate::pod::Pod;

/// Is the daemon to look at the pod: is it one whose in-place update only the node can prove, or where there may be early
/// answers, can prove first? Once asked about, a pod stays in the list until its update is settled: the answer must last
/// until whoever waits for it has used it.
fn is_wanted(pod: &Pod, image: &NodeImage, early: bool) -> bool {
    // Facts are costly to gather: only for the few pods that are being updated.
    if !pod.is_active() || !steps::is_under_way(pod) {
        return false;
    }
    match phase(pod, &facts(image, &pod.metadata.uid)) {
        Phase::Patched(_, Verdict::AskNode(_)) => true,
        Phase::Patched(state, Verdict::Wait(_)) if early && state.restarts_containers() => true,
        Phase::Patched(..) => is_asked_about(pod, image),
        Phase::Idle | Phase::Draining => false,
    }
}

fn is_asked_about(pod: &Pod, image: &NodeImage) -> bool {
    image.spec.inspect_pods.iter().any(|asked| *asked.uid == *pod.metadata.uid)
}

/// Does a pod that has come to look so bear on what its node's daemon is asked? Of the many changes of a rollout's pods few
/// do.
pub fn bears_on(pod: &Pod, image: &NodeImage, early: bool) -> bool {
    is_asked_about(pod, image) || is_wanted(pod, image, early)
}

/// The pods that the daemon is to look at, at most as many as a NodeImage may name.
pub(super) fn wanted(snapshot: &Snapshot, image: &NodeImage) -> Vec<InspectPod> {
    let asked: BTreeSet<&str> = image.spec.inspect_pods.iter().map(|pod| pod.uid.as_str()).collect();
    let all = |early| -> Vec<_> {
        snapshot.pods.iter().filter(|pod| is_wanted(pod, image, early)).map(|pod| question(pod)).collect()
    };
    let mut pods = all(snapshot.early);
    if pods.len() > MAX_INSPECTED_PODS {
        pods = all(false);
    }
    let by_name = |pod: &InspectPod| (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
    if pods.len() > MAX_INSPECTED_PODS {
        pods.sort_by_key(|pod| (!asked.contains(pod.uid.as_str()), by_name(pod)));
        pods.truncate(MAX_INSPECTED_PODS);
    }
    pods.sort_by_key(by_name);
    pods
}

/// Is the node to be asked about a pod that it was not asked about, and need not be?
pub(super) fn any_early(snapshot: &Snapshot, image: &NodeImage) -> bool {
    let early = |pod: &Pod| {
        let waits = match phase(pod, &facts(image, &pod.metadata.uid)) {
            Phase::Patched(state, Verdict::Wait(_)) => state.restarts_containers(),
            _ => false,
        };
        waits && !is_asked_about(pod, image)
    };
    snapshot.pods.iter().any(|pod| pod.is_active() && early(pod))
}

/// What the daemon is asked about a pod.
pub fn question(pod: &Pod) -> InspectPod {
    InspectPod {
        namespace: pod.metadata.namespace.to_string(),
        name: pod.metadata.name.to_string(),
        uid: pod.metadata.uid.to_string(),
        env: env::question(pod),
    }
}
