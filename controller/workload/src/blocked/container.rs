//! Faults of containers.

use std::cell::LazyCell;

use berth_api::{commands, image};

use super::cause::DETAIL;
use super::sidecar;
use crate::objects::pod::{ContainerStatus, ContainerTerminated, Pod, RestartPolicy, priority};
use crate::update::inplace::state::State;

/// The kubelet's reasons for a missing image of a container.
pub const NO_IMAGE: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];
/// Messages of runtimes about a registry that refuses the credentials, or requires some.
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
/// The reason of a container without its image.
const IMAGE_UNAVAILABLE: &str = "ImageUnavailable";
/// The reason of a container that ends repeatedly.
pub(super) const CRASH_LOOPING: &str = "ContainerCrashLooping";
/// The kubelet's reasons for a container that does not start although it has its image.
const NO_START: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
];

/// A fault of a container.
pub(super) struct Fault {
    /// The reason, one CamelCase word.
    pub(super) reason: &'static str,
    /// The container, and its fault.
    pub(super) what: String,
    /// The remedy.
    pub(super) remedy: String,
    /// The fault counts only if the condition has named it before.
    pub(super) only_if_reported: bool,
}

/// Init containers come first, because the others wait for them.
pub(super) fn states(pod: &Pod) -> impl Iterator<Item = (&ContainerStatus, bool)> {
    let init = pod
        .status
        .init_container_statuses
        .iter()
        .map(|status| (status, true));
    init.chain(
        pod.status
            .container_statuses
            .iter()
            .map(|status| (status, false)),
    )
}

/// The kubelet's failure of one of the pod's containers, once the kubelet has seen the pod's
/// present spec.
pub(super) fn fault(pod: &Pod) -> Option<Fault> {
    let observed = pod.status.observed_generation;
    if observed != 0 && observed < pod.metadata.generation {
        return None;
    }
    let unsettled = LazyCell::new(|| State::of(pod).filter(|state| !state.is_settled()));
    let (mut found, mut reported) = (None, None);
    for (status, init) in
        states(pod).filter(|(status, _)| !status.ready || status.state.waiting.is_some())
    {
        if !init && priority::is_held_back(pod, &status.name) {
            continue;
        }
        // The container is the one from before the update under way.
        let stale = unsettled.as_ref().is_some_and(|state| {
            let of_image = state
                .last_container_statuses
                .get(&*status.name)
                .map(|before| &before.container_id);
            let id = status.container_id.rsplit("://").next().unwrap_or_default();
            let mut before = of_image
                .into_iter()
                .chain(state.restarts.get(&*status.name));
            !id.is_empty() && before.any(|before| before.rsplit("://").next() == Some(id))
        });
        match container(pod, status, init, stale) {
            Some(fault) if fault.only_if_reported => reported = reported.or(Some(fault)),
            // A container may crash because another one, whose image is missing, does not run.
            Some(fault) if fault.reason == IMAGE_UNAVAILABLE => return Some(fault),
            Some(fault) => found = found.or(Some(fault)),
            None => {}
        }
    }
    found.or(reported)
}

pub(super) fn container(
    pod: &Pod,
    status: &ContainerStatus,
    init: bool,
    stale: bool,
) -> Option<Fault> {
    let name = &status.name;
    let (kind, list) = if init {
        ("init container", "initContainers")
    } else {
        ("container", "containers")
    };
    let field = |of: &str| field_of(pod, (list, name), of);
    let image = pod.container(name).map_or(&*status.image, |c| &*c.image);
    if let Some(waiting) = &status.state.waiting
        && NO_IMAGE.contains(&&*waiting.reason)
    {
        let error = pull_error(&waiting.reason, &waiting.message, image);
        let what = no_image((kind, name), image) + &error;
        let remedy = image_remedy(pod, (list, name), &waiting.reason, &what);
        return Some(Fault {
            reason: IMAGE_UNAVAILABLE,
            what,
            remedy,
            only_if_reported: false,
        });
    }
    if let Some((why, said)) = no_start(pod, status, stale) {
        let what = format!("{kind} {name} cannot start ({why}); the node{DETAIL}{said}");
        let remedy = format!("correct {}, or make what it names", field(""));
        return Some(Fault {
            reason: "ContainerCannotStart",
            what,
            remedy,
            only_if_reported: false,
        });
    }
    let backing_off = status
        .state
        .waiting
        .as_ref()
        .is_some_and(|waiting| waiting.is_back_off());
    if stale {
        // The kubelet tries the new image between two back-offs of the container that the update
        // stopped, and reports the missing image only at that time.
        return backing_off.then(|| Fault {
            reason: IMAGE_UNAVAILABLE,
            what: no_image((kind, name), image),
            remedy: String::new(),
            only_if_reported: true,
        });
    }
    let what = format!("{kind} {name} with image {image:?} ends again and again");
    crash_loop(pod, (status, init), backing_off, what, &field(""))
}

/// The fault of a container that ends repeatedly. `what` names it, and `field` is its place.
fn crash_loop(
    pod: &Pod,
    (status, init): (&ContainerStatus, bool),
    backing_off: bool,
    what: String,
    field: &str,
) -> Option<Fault> {
    let ended = status
        .state
        .terminated
        .as_ref()
        .or(status.last_state.terminated.as_ref());
    if !backing_off && (status.restart_count == 0 || ended.is_none()) {
        return None;
    }
    let exit = ended.map(|ended| exit(ended)).unwrap_or_default();
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    let log = commands::previous_log(namespace, name, &status.name);
    // Between two crashes the container runs for a while and looks like one that was restarted for
    // an update.
    let is_down = backing_off || (!status.ready && is_started_again(pod, status, init));
    Some(Fault {
        reason: CRASH_LOOPING,
        what: what + &exit,
        remedy: format!("see its log by {log}, and correct {field}"),
        only_if_reported: !is_down,
    })
}

/// The beginning of the message about a missing image.
fn no_image((kind, name): (&str, &str), image: &str) -> String {
    format!("the image {image:?} of {kind} {name} cannot be had; the node{DETAIL}")
}

/// Whether a container has just ended that its kubelet will start again after a back-off.
fn is_started_again(pod: &Pod, status: &ContainerStatus, init: bool) -> bool {
    let is_native = init && pod.container(&status.name).is_some();
    status.state.terminated.as_ref().is_some_and(|ended| {
        let restarts = match pod.spec.restart_policy {
            _ if is_native => true,
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => ended.exit_code != 0,
            RestartPolicy::Never => false,
        };
        restarts && ended.is_short()
    })
}

/// Why a container with an image does not start, and the node's message. After a try the message is
/// the runtime's: the kubelet repeats it during its back-off, too.
fn no_start<'a>(pod: &Pod, status: &'a ContainerStatus, stale: bool) -> Option<(&'a str, &'a str)> {
    let (state, last) = (&status.state, &status.last_state);
    let waiting = state.waiting.as_ref();
    let runs = waiting.is_none() && state.terminated.is_none();
    let tried = state
        .terminated
        .as_ref()
        .or(last.terminated.as_ref().filter(|_| !runs));
    // A kubelet takes a while to see that the barrier is open.
    let at_barrier = |message: &str| message.contains(&priority::barrier(&pod.metadata.name));
    let refused = waiting
        .filter(|waiting| NO_START.contains(&&*waiting.reason) && !at_barrier(&waiting.message));
    let tried = tried.filter(|ended| {
        let pauses = waiting
            .is_none_or(|it| matches!(&*it.reason, "CrashLoopBackOff" | "RunContainerError"));
        pauses && !stale && ended.has_never_run()
    });
    let tried = tried.map(|ended| (&*ended.reason, &*ended.message));
    tried.or_else(|| refused.map(|waiting| (&*waiting.reason, &*waiting.message)))
}

/// The remedy for a missing image of a container, by the node's message.
fn image_remedy(pod: &Pod, (list, name): (&str, &str), reason: &str, said: &str) -> String {
    let field = |of: &str| field_of(pod, (list, name), of);
    // A kubelet that verifies credentials also gives this reason for an existing image, if the
    // kubelet recorded no pull of it.
    if reason == "ErrImageNeverPull" {
        return format!(
            "set {} to IfNotPresent, so that the node asks the registry",
            field(".imagePullPolicy")
        );
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

/// The place of a container's field: in the workload's template, or in the SidecarSet that injected
/// the container.
fn field_of(pod: &Pod, (list, container): (&str, &str), of: &str) -> String {
    match sidecar::brought(pod, container) {
        Some((set, name)) => format!("spec.{list}[{name}]{of} of SidecarSet {set}"),
        None => format!("spec.template.spec.{list}[{container}]{of}"),
    }
}

/// The node's error, which is the same during a try and during a back-off, without the image, which
/// the message names already.
fn pull_error(reason: &str, message: &str, wanted: &str) -> String {
    let error = message
        .split_once("ErrImagePull: ")
        .map_or(message, |(_, error)| error);
    let error = error.strip_prefix("rpc error: ").unwrap_or(error).trim();
    if error.is_empty() || error.starts_with("Back-off pulling image") {
        let waiting_reason = if reason == "ErrImagePull" {
            "ImagePullBackOff"
        } else {
            reason
        };
        return waiting_reason.to_owned();
    }
    error.replace(&image::normalised(wanted), wanted)
}

pub(super) fn exit(ended: &ContainerTerminated) -> String {
    match &*ended.reason {
        "" | "Error" | "Completed" => format!(" with exit code {}", ended.exit_code),
        reason => format!(" with exit code {} ({reason})", ended.exit_code),
    }
}
