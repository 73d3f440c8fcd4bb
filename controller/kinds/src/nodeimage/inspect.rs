//! The pods that the daemon of a node inspects.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::v1beta1::nodeimage::{InspectPod, MAX_INSPECTED_PODS};
use berth_workload::objects::node::image::NodeFacts;
use berth_workload::objects::node::image::{NodeImage, facts};
use berth_workload::objects::pod::Pod;
use berth_workload::update::inplace::change::MAX_VARIABLES;
use berth_workload::update::inplace::env;
use berth_workload::update::inplace::exact::{self, UpdateDecision};
use berth_workload::update::inplace::sidecars;
use berth_workload::update::inplace::state::State;
use berth_workload::update::inplace::steps::{self, Phase, phase};
use serde::Serialize;

use super::Snapshot;

/// Whether the daemon must inspect the pod, because only the node can prove its in-place update. A
/// pod stays in the list until its update is settled, so that the daemon's answer is there until
/// the update has used it.
fn is_wanted(pod: &Pod, image: &NodeImage) -> bool {
    // Facts are costly to gather: only for the few pods that are being updated.
    if !pod.is_active() {
        return false;
    }
    if sidecar_asks(pod, image) {
        return true;
    }
    if !steps::is_under_way(pod) {
        return false;
    }
    match phase(pod, &facts(image, pod)) {
        Phase::Patched(_, UpdateDecision::NeedsDaemon(_)) => true,
        Phase::Patched(..) => needs_inspection(pod, image),
        Phase::Idle | Phase::Draining => false,
    }
}

/// Whether the update of a container that a SidecarSet injected waits for the daemon's answer.
fn sidecar_asks(pod: &Pod, image: &NodeImage) -> bool {
    let asks = |state: State| {
        matches!(
            exact::judge(pod, &state, &facts(image, pod)),
            UpdateDecision::NeedsDaemon(_)
        )
    };
    // A pod in the list stays there until its state records the answer.
    sidecars::unsettled(pod).any(|state| {
        asks(state.clone())
            || (needs_inspection(pod, image)
                && matches!(
                    exact::judge(pod, &state, &NodeFacts::default()),
                    UpdateDecision::NeedsDaemon(_)
                ))
    })
}

fn needs_inspection(pod: &Pod, image: &NodeImage) -> bool {
    image
        .spec
        .inspect_pods
        .iter()
        .any(|inspected| *inspected.uid == *pod.metadata.uid)
}

/// Whether a change of the pod can change the list of inspected pods. Few of the many pod changes
/// of a rollout can.
pub fn bears_on(pod: &Pod, image: &NodeImage) -> bool {
    needs_inspection(pod, image) || is_wanted(pod, image)
}

/// The controller adds no more pods when a NodeImage's spec has this many bytes as JSON. An object
/// in etcd has at most 1.5 MiB, each write of the daemon's answers writes the whole object, and
/// every controller holds the object in memory.
const MAX_SPEC_BYTES: usize = 256 * 1024;
/// Bytes of a name or a hash in a question.
const MAX_TEXT: usize = 253;
/// Bytes of the entry of one pod, as JSON.
const MAX_QUESTION_BYTES: usize = 32 * 1024;

/// The pods that the daemon must inspect.
pub(super) struct Questions {
    /// Sorted by name, at most as many as a NodeImage may name.
    pub(super) pods: Vec<InspectPod>,
    /// The reason why other pods are left out; their updates wait.
    pub(super) left_out: Option<String>,
}

/// The entries chosen so far, and the part of each namespace: pods and bytes. Tenants write the
/// records of their pods. So a single namespace gets at most half of the space, two get a third
/// each, and some space is always left for the next namespace.
struct Chosen<'a> {
    pods: Vec<&'a InspectPod>,
    bytes: usize,
    of_namespace: BTreeMap<&'a str, (usize, usize)>,
}

impl<'a> Chosen<'a> {
    /// Takes one more pod.
    ///
    /// # Errors
    /// The reason why there is no space for the pod.
    fn take(&mut self, pod: &'a InspectPod) -> Result<(), String> {
        let own = json_bytes(pod);
        let (pods, bytes) = self.of_namespace.entry(&pod.namespace).or_default();
        let free = MAX_INSPECTED_PODS.saturating_sub(self.pods.len());
        let left = MAX_SPEC_BYTES.checked_sub(self.bytes + own);
        if free == 0 {
            return Err(format!("it names {MAX_INSPECTED_PODS} pods already"));
        }
        if let Some(problem) = excess(pod, own) {
            return Err(problem);
        }
        match left {
            None => {
                return Err(format!(
                    "its spec would have more than {MAX_SPEC_BYTES} bytes"
                ));
            }
            Some(left) if *pods >= free || *bytes + own > left => {
                return Err(format!(
                    "namespace {} has its share of this node's questions",
                    pod.namespace
                ));
            }
            Some(_) => {}
        }
        *pods += 1;
        *bytes += own;
        self.bytes += own;
        self.pods.push(pod);
        Ok(())
    }
}

/// Chooses the pods that the daemon must inspect. Pods that are in the list already come first.
pub(super) fn wanted(snapshot: &Snapshot, image: &NodeImage) -> Questions {
    let listed: BTreeSet<&str> = image
        .spec
        .inspect_pods
        .iter()
        .map(|pod| pod.uid.as_str())
        .collect();
    let mut pods: Vec<_> = snapshot
        .pods
        .iter()
        .filter(|pod| is_wanted(pod, image))
        .map(|pod| question(pod))
        .collect();
    let by_name = |pod: &InspectPod| (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
    pods.sort_by_cached_key(|pod| (!listed.contains(pod.uid.as_str()), by_name(pod)));
    let bytes = json_bytes(&image.spec.images);
    let mut chosen = Chosen {
        pods: Vec::new(),
        bytes,
        of_namespace: BTreeMap::new(),
    };
    let problem = |pod| {
        chosen
            .take(pod)
            .err()
            .map(|problem| format!("pod {}/{}: {problem}", pod.namespace, pod.name))
    };
    let left_out: Vec<String> = pods.iter().filter_map(problem).collect();
    let mut chosen: Vec<InspectPod> = chosen.pods.into_iter().cloned().collect();
    chosen.sort_by_cached_key(by_name);
    let count = left_out.len();
    let left_out = left_out.into_iter().next().map(|first| {
        format!(
            "NodeImage {}: spec.inspectPods leaves out {count} pods, whose updates wait. {first}",
            snapshot.name
        )
    });
    Questions {
        pods: chosen,
        left_out,
    }
}

/// The limit that the entry exceeds, and the remedy.
fn excess(pod: &InspectPod, bytes: usize) -> Option<String> {
    let variables: usize = pod.env.iter().map(|env| env.values.len()).sum();
    let texts = pod.env.iter().flat_map(|env| {
        let values = env.values.iter().flat_map(|(name, hash)| [name, hash]);
        [&env.container, &env.update, &env.container_id]
            .into_iter()
            .chain(values)
    });
    let longest = texts.map(String::len).max().unwrap_or(0);
    if variables > MAX_VARIABLES {
        Some(format!(
            "its record names {variables} variables, and {MAX_VARIABLES} are the most: delete the pod"
        ))
    } else if longest > MAX_TEXT {
        Some(format!(
            "its record has a name of {longest} bytes, and {MAX_TEXT} are the most: delete the pod"
        ))
    } else if bytes > MAX_QUESTION_BYTES {
        Some(format!(
            "its entry in spec.inspectPods has {bytes} bytes, and {MAX_QUESTION_BYTES} are the most: delete the pod"
        ))
    } else {
        None
    }
}

/// The length of the value as JSON, in bytes.
fn json_bytes<T: Serialize>(part: &T) -> usize {
    serde_json::to_vec(part).map_or(0, |text| text.len())
}

/// The entry for a pod in the list of pods that the daemon inspects.
pub fn question(pod: &Pod) -> InspectPod {
    InspectPod {
        namespace: pod.metadata.namespace.to_string(),
        name: pod.metadata.name.to_string(),
        uid: pod.metadata.uid.to_string(),
        env: env::question(pod),
    }
}
