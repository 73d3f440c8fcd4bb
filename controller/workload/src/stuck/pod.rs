//! What holds one pod.

use std::cell::LazyCell;

use berth_api::commands;
use berth_api::names::lifecycle_state::{PREPARING_DELETE, PREPARING_NORMAL, PREPARING_UPDATE, UPDATED};
use jiff::Timestamp;

use super::cause::{Cause, DETAIL, Grade, LASTING};
use super::sidecar;
use crate::inplace::exact::Verdict;
use crate::inplace::resize::{INFEASIBLE, refused};
use crate::inplace::state::State;
use crate::inplace::steps::Phase;
use crate::lifecycle::{self, hook};
use crate::pod::{Availability, Condition, ContainerStatus, Pod, availability, priority};
use crate::podset::Scene;
use berth_api::image;

/// The reasons with which a kubelet says that a container's image is not there.
pub const NO_IMAGE: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];
/// How runtimes put it that a registry refuses the credentials, or that there are none.
const DENIED: [&str; 8] = [
    "401 Unauthorized",
    "403 Forbidden",
    "access denied",
    "authentication required",
    "authorization failed",
    "failed to authorize",
    "is denied",
    "no basic auth credentials",
];
/// Why a container with an image does not start.
const NO_START: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
];

/// What is wrong with a container.
struct Fault {
    reason: &'static str,
    what: String,
    remedy: String,
    only_if_told: bool,
}

/// The pod's causes, whether they count by now or later.
pub(super) fn causes(scene: &Scene<'_>, pod: &Pod, now: Timestamp) -> Vec<Cause> {
    if pod.metadata.deletion_timestamp.is_some() {
        return terminating(scene, pod).into_iter().collect();
    }
    if !pod.is_active() {
        let is_held = lifecycle::state(pod) == PREPARING_DELETE;
        return hook(scene, pod).filter(|_| is_held).into_iter().collect();
    }
    let mut causes: Vec<_> = resize(scene, pod, now).into_iter().collect();
    match availability(pod, scene.workload.min_ready_seconds, now) {
        Availability::NotReady => {}
        Availability::Held => {
            // A gate may be open before the update is proven.
            causes.extend(hook(scene, pod).or_else(|| unproven(scene, pod)));
            return causes;
        }
        Availability::Available | Availability::After(_) => return causes,
    }
    if pod.spec.node_name.is_empty() {
        causes.push(unscheduled(scene, pod));
        return causes;
    }
    if let Some(Fault { reason, what, remedy, only_if_told }) = fault(pod) {
        let message = sentence(scene, pod, &what, &remedy);
        causes.push(Cause { grade: Grade::Failing, reason, message, from: now, only_if_told });
    }
    if causes.iter().all(|cause| cause.only_if_told) {
        let other = hook(scene, pod).or_else(|| unproven(scene, pod));
        causes.push(other.unwrap_or_else(|| not_ready(scene, pod)));
    }
    causes
}

/// Why a pod is not ready, for people.
pub(super) fn why_not_ready(pod: &Pod) -> String {
    if pod.spec.node_name.is_empty() {
        let why = pod.condition("PodScheduled").map(|c| &*c.message).filter(|why| !why.is_empty());
        return why.map_or_else(|| "is not scheduled yet".to_owned(), |why| format!("is not scheduled yet: {why}"));
    }
    if let Some(fault) = fault(pod).filter(|fault| !fault.only_if_told) {
        return fault.what;
    }
    if &*pod.status.phase != "Running" {
        let waiting = states(pod).find_map(|(status, _)| Some((&status.name, &status.state.waiting.as_ref()?.reason)));
        let why = waiting.map(|(name, reason)| format!(", container {name} is in {reason}")).unwrap_or_default();
        return format!("is {} on node {}{why}", pod.status.phase, pod.spec.node_name);
    }
    // Init containers that end are done with by now.
    let lasting = states(pod).filter(|(status, init)| !init || pod.container(&status.name).is_some());
    let unready = lasting.map(|(status, _)| status).filter(|c| !c.ready && !priority::is_held_back(pod, &c.name));
    let unready: Vec<_> = unready.map(|c| &*c.name).collect();
    if !unready.is_empty() {
        return format!("its container {} runs and does not pass its startup or readiness probe", unready.join(", "));
    }
    if pod.is_called_away() {
        return format!("its containers are ready and it is not, as when its node {} is not Ready", pod.spec.node_name);
    }
    let closed = pod.spec.readiness_gates.iter().find(|gate| !pod.is_true(&gate.condition_type));
    closed.map_or_else(
        || "is not ready yet".to_owned(),
        |gate| format!("its readiness gate {} is not open", gate.condition_type),
    )
}

/// Why a pod that is to be gone is not.
pub(super) fn why_not_gone(pod: &Pod) -> String {
    if pod.metadata.finalizers.is_empty() {
        return format!("is being deleted, and node {} does not say that it has ended", pod.spec.node_name);
    }
    format!("is being deleted, and its finalizers {} are still there", pod.metadata.finalizers.join(", "))
}

fn sentence(scene: &Scene<'_>, pod: &Pod, what: &str, remedy: &str) -> String {
    let node = &pod.spec.node_name;
    let place = if node.is_empty() { String::new() } else { format!(" on node {node}") };
    format!("{}: pod {}{place}: {what}; {remedy}", scene.workload, pod.metadata.name)
}

/// Something that counts when it has lasted.
fn lasting(reason: &'static str, message: String, since: Option<Timestamp>) -> Cause {
    let from = since.and_then(|since| since.checked_add(LASTING).ok()).unwrap_or(Timestamp::UNIX_EPOCH);
    Cause { grade: Grade::Lasting, reason, message, from, only_if_told: false }
}

fn terminating(scene: &Scene<'_>, pod: &Pod) -> Option<Cause> {
    // The time at which its grace period is over.
    let due = pod.metadata.deletion_timestamp?;
    let remedy = if pod.metadata.finalizers.is_empty() {
        "see whether the node is up; if it will not come back, delete the pod by force"
    } else {
        "whoever set the finalizers must take them off"
    };
    let what = format!("{}, which was due at {due}", why_not_gone(pod));
    Some(lasting("PodTerminating", sentence(scene, pod, &what, remedy), Some(due)))
}

fn unscheduled(scene: &Scene<'_>, pod: &Pod) -> Cause {
    let condition = pod.condition("PodScheduled");
    let since = condition.and_then(|c| c.last_transition_time).or(pod.metadata.creation_timestamp);
    let (what, remedy) = match condition {
        Some(condition) => (
            format!("it has no node; the scheduler{DETAIL}{}", condition.message),
            // Kubernetes' words where a claim has no volume, or names none.
            if condition.message.contains("PersistentVolumeClaim")
                || condition.message.contains("persistentvolumeclaim")
            {
                format!(
                    "{} says what its claims wait for: a StorageClass that does not exist or provisions nothing, or a volume",
                    commands::describe_all("pvc", &pod.metadata.namespace)
                )
            } else {
                "ask for less in spec.template.spec, or make room".to_owned()
            },
        ),
        None => (
            "it has no node, and no scheduler has looked at it".to_owned(),
            "see whether the scheduler that spec.template.spec.schedulerName names runs".to_owned(),
        ),
    };
    lasting("PodUnschedulable", sentence(scene, pod, &what, &remedy), since)
}

/// Init containers first: the others wait for them.
fn states(pod: &Pod) -> impl Iterator<Item = (&ContainerStatus, bool)> {
    let init = pod.status.init_container_statuses.iter().map(|status| (status, true));
    init.chain(pod.status.container_statuses.iter().map(|status| (status, false)))
}

/// What the kubelet calls a failure of one of the pod's containers, once it has seen the pod's present spec.
fn fault(pod: &Pod) -> Option<Fault> {
    let observed = pod.status.observed_generation;
    if observed != 0 && observed < pod.metadata.generation {
        return None;
    }
    let unsettled = LazyCell::new(|| State::of(pod).filter(|state| !state.is_settled()));
    let mut told = None;
    for (status, init) in states(pod).filter(|(status, _)| !status.ready || status.state.waiting.is_some()) {
        if !init && priority::is_held_back(pod, &status.name) {
            continue;
        }
        // The container from before the update that is under way.
        let stale = unsettled.as_ref().is_some_and(|state| {
            let of_image = state.last_container_statuses.get(&*status.name).map(|before| &before.container_id);
            let id = status.container_id.rsplit("://").next().unwrap_or_default();
            let mut before = of_image.into_iter().chain(state.restarts.get(&*status.name));
            !id.is_empty() && before.any(|before| before.rsplit("://").next() == Some(id))
        });
        match container(pod, status, init, stale) {
            Some(fault) if fault.only_if_told => told = told.or(Some(fault)),
            Some(fault) => return Some(fault),
            None => {}
        }
    }
    told
}

fn container(pod: &Pod, status: &ContainerStatus, init: bool, stale: bool) -> Option<Fault> {
    let name = &status.name;
    let (kind, list) = if init { ("init container", "initContainers") } else { ("container", "containers") };
    let field = |of: &str| field_of(pod, (list, name), of);
    let image = pod.container(name).map_or(&*status.image, |c| &*c.image);
    if let Some(waiting) = &status.state.waiting {
        if NO_IMAGE.contains(&&*waiting.reason) {
            let what = format!(
                "the image {image:?} of {kind} {name} cannot be had; the node{DETAIL}{}",
                pull_error(&waiting.reason, &waiting.message, image)
            );
            let remedy = image_remedy(pod, (list, name), &waiting.reason, &what);
            return Some(Fault { reason: "ImageUnavailable", what, remedy, only_if_told: false });
        }
        // A kubelet takes a while to see that the barrier is open.
        let at_barrier = waiting.message.contains(&priority::barrier(&pod.metadata.name));
        if NO_START.contains(&&*waiting.reason) && !at_barrier {
            let what = format!("{kind} {name} cannot start ({}); the node{DETAIL}{}", waiting.reason, waiting.message);
            let remedy = format!("correct {}, or make what it names", field(""));
            return Some(Fault { reason: "ContainerCannotStart", what, remedy, only_if_told: false });
        }
    }
    let backing_off = status.state.waiting.as_ref().is_some_and(|waiting| &*waiting.reason == "CrashLoopBackOff");
    let ended = status.last_state.terminated.as_ref().or(status.state.terminated.as_ref());
    if stale || !(backing_off || (status.restart_count > 0 && ended.is_some())) {
        return None;
    }
    let how = ended.map(|ended| match &*ended.reason {
        "" | "Error" | "Completed" => format!(" with exit code {}", ended.exit_code),
        reason => format!(" with exit code {} ({reason})", ended.exit_code),
    });
    let what = format!("{kind} {name} with image {image:?} ends again and again{}", how.unwrap_or_default());
    let log = commands::previous_log(&pod.metadata.namespace, &pod.metadata.name, name);
    let remedy = format!("see its log by {log}, and correct {}", field(""));
    // Between two crashes it runs for a while, and looks like one that was restarted for an update.
    Some(Fault { reason: "ContainerCrashLooping", what, remedy, only_if_told: !backing_off })
}

/// How a node gets the image of a container, by what the node says.
fn image_remedy(pod: &Pod, (list, name): (&str, &str), reason: &str, said: &str) -> String {
    let field = |of: &str| field_of(pod, (list, name), of);
    // A kubelet that verifies credentials says so of an image that is there, too: it recorded no pull of it.
    if reason == "ErrImageNeverPull" {
        return format!("set {} to IfNotPresent, so that the node asks the registry", field(".imagePullPolicy"));
    }
    let image = field(".image");
    if !DENIED.iter().any(|words| said.contains(words)) {
        return format!("correct the image in {image}, its registry or imagePullSecrets");
    }
    let secrets = sidecar::brought(pod, name).map_or_else(
        || "spec.template.spec.imagePullSecrets".to_owned(),
        |(set, _)| format!("spec.imagePullSecrets of SidecarSet {set}"),
    );
    format!("add a Secret that opens the registry to {secrets}, or correct the image in {image}")
}

/// Where a field of a container is written: in the workload's template, or in the SidecarSet that brought the container.
fn field_of(pod: &Pod, (list, container): (&str, &str), of: &str) -> String {
    match sidecar::brought(pod, container) {
        Some((set, name)) => format!("spec.{list}[{name}]{of} of SidecarSet {set}"),
        None => format!("spec.template.spec.{list}[{container}]{of}"),
    }
}

/// The node's own words, which are the same while it tries and while it pauses. Without the image: it is named already.
fn pull_error(reason: &str, message: &str, wanted: &str) -> String {
    let error = message.split_once("ErrImagePull: ").map_or(message, |(_, error)| error);
    let error = error.strip_prefix("rpc error: ").unwrap_or(error).trim();
    if error.is_empty() || error.starts_with("Back-off pulling image") {
        let told = if reason == "ErrImagePull" { "ImagePullBackOff" } else { reason };
        return told.to_owned();
    }
    error.replace(&image::normalised(wanted), wanted)
}

/// A change of resources that the node refuses or puts off.
fn resize(scene: &Scene<'_>, pod: &Pod, now: Timestamp) -> Option<Cause> {
    // What is said of a spec before is no news of this one.
    if pod.status.observed_generation < pod.metadata.generation {
        return None;
    }
    let is_true = |condition: &&Condition| &*condition.status == "True";
    let pending = pod.condition("PodResizePending").filter(is_true);
    let failed = pod.condition("PodResizeInProgress").filter(is_true).filter(|c| &*c.reason == "Error");
    let condition = pending.or(failed)?;
    if let Some((INFEASIBLE, why)) = refused(pod) {
        let message = format!("{}: pod {} {why}", scene.workload, pod.metadata.name);
        return Some(Cause::new(Grade::Failing, INFEASIBLE, message, now));
    }
    let what = format!("its resources cannot be changed ({}); the node{DETAIL}{}", condition.reason, condition.message);
    let remedy = "ask for less in spec.template.spec.containers.resources, or make room on the node";
    let message = sentence(scene, pod, &what, remedy);
    if &*condition.reason == "Deferred" {
        return Some(lasting("ResizeDeferred", message, condition.last_transition_time));
    }
    Some(Cause::new(Grade::Failing, "ResizeFailed", message, now))
}

/// A hook that nobody has released.
fn hook(scene: &Scene<'_>, pod: &Pod) -> Option<Cause> {
    let hooks = scene.workload.lifecycle?;
    let state = lifecycle::state(pod);
    let (name, hook, holds) = match state {
        PREPARING_DELETE => ("preDelete", &hooks.pre_delete, true),
        PREPARING_UPDATE => ("inPlaceUpdate", &hooks.in_place_update, true),
        UPDATED => ("inPlaceUpdate", &hooks.in_place_update, false),
        PREPARING_NORMAL => ("preNormal", &hooks.pre_normal, false),
        _ => return None,
    };
    let hook = hook.as_ref()?;
    let parts = if holds { hook::present(hook, pod) } else { hook::missing(hook, pod) };
    if parts.is_empty() {
        return None;
    }
    let since = lifecycle::since(pod).or(pod.metadata.creation_timestamp);
    let since_text = since.map(|since| format!(" since {since}")).unwrap_or_default();
    let what = format!(
        "is in lifecycle state {state}{since_text}: hook {name} holds it {} {}",
        if holds { "as long as it has" } else { "until it has" },
        parts.join(", ")
    );
    let remedy = format!(
        "whoever guards spec.lifecycle.{name} must {}",
        if holds { "take them off the pod" } else { "put them on the pod" }
    );
    Some(lasting("HookNotReleased", sentence(scene, pod, &what, &remedy), since))
}

/// An in-place update whose end neither the pod nor its node tells.
fn unproven(scene: &Scene<'_>, pod: &Pod) -> Option<Cause> {
    let phase = scene.phase(pod);
    let Phase::Patched(state, verdict) = &*phase else { return None };
    let since = state.update_timestamp.map(|since| format!(" since {since}")).unwrap_or_default();
    let (reason, what, remedy) = match verdict {
        // What is still to be written is written in this round, or its failure told.
        Verdict::Exact { .. } | Verdict::Resize(_) => return None,
        Verdict::AskNode(why) => {
            let what = format!("its update is not proven{since}: {why}, and the node's daemon has not answered");
            ("DaemonSilent", what, "see whether the kruise-daemon of the node runs")
        }
        Verdict::Wait(why) => {
            let what = format!("its update is not done{since}: {why}");
            ("UpdateNotDone", what, "see the pod's events, and whether the node is up")
        }
    };
    Some(lasting(reason, sentence(scene, pod, &what, remedy), state.update_timestamp))
}

fn not_ready(scene: &Scene<'_>, pod: &Pod) -> Cause {
    let since = pod.condition("Ready").and_then(|c| c.last_transition_time).or(pod.metadata.creation_timestamp);
    let since_text = since.map(|since| format!("is not ready since {since}: ")).unwrap_or_default();
    let what = format!("{since_text}{}", why_not_ready(pod));
    let remedy = if pod.is_called_away() { "see whether the node is up" } else { "see its events and its log" };
    lasting("PodNotReady", sentence(scene, pod, &what, remedy), since)
}
