//! The patches that give pods new images, and the records of their old ones.

use berth_api::v1beta1::sidecarset::SidecarSetPatchPodMetadata;
use berth_workload::objects::pod::Pod;
use berth_workload::plan::{Action, PodPatch, Step, Target};
use berth_workload::update::inplace::sidecars;
use berth_workload::update::inplace::state::State;
use jiff::Timestamp;
use serde_json::json;

use crate::sidecarset::inject::metadata;
use crate::sidecarset::names::{HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST, INPLACE_UPDATE_STATE};
use crate::sidecarset::on_pod::{image, images_in, in_pod};
use crate::sidecarset::records::{self, Record, second};
use crate::sidecarset::sidecar::name;
use crate::sidecarset::update::hot;
use crate::sidecarset::update::pods::Member;
use crate::sidecarset::{Snapshot, sidecar};

/// Gives the pod's containers their new images.
pub(super) fn update(
    snapshot: &Snapshot,
    member: &Member<'_>,
    latest: &str,
    now: Timestamp,
) -> Step {
    let (set, pod) = (&snapshot.set, member.pod);
    let version = set.metadata.resource_version.as_deref().unwrap_or("0");
    let mut patch = hot::begin(&set.spec, pod, version, &member.handed_over);
    // Init containers that end have ended: only the records have their new images.
    for (container, list) in
        sidecar::lasting(&set.spec).filter(|(container, list)| !sidecar::is_hot(container, *list))
    {
        let has = in_pod(pod, name(container), list);
        if has.is_some_and(|has| &*has.image != image(container)) {
            images_in(&mut patch, list)
                .insert(name(container).to_owned(), image(container).to_owned());
        }
    }
    note_state(snapshot, member, &mut patch, now);
    note_hashes(snapshot, pod, latest, &mut patch, now);
    patch_metadata(snapshot, pod, &mut patch);
    let images: Vec<_> = patch
        .all_images()
        .map(|(container, image)| format!("{container} {image}"))
        .collect();
    let what = if images.is_empty() {
        "no image".to_owned()
    } else {
        images.join(", ")
    };
    step(
        pod,
        patch,
        format!("update pod {} in place: {what}", key(pod)),
    )
}

/// Annotations change together with images.
fn patch_metadata(snapshot: &Snapshot, pod: &Pod, patch: &mut PodPatch) {
    let has = snapshot.annotations.get(&pod.metadata.uid);
    for SidecarSetPatchPodMetadata {
        annotations,
        patch_policy,
    } in &snapshot.set.spec.patch_pod_metadata
    {
        for (key, wanted) in annotations {
            if metadata::is_ours(key) || !snapshot.allowed.contains(key) {
                continue;
            }
            let old = has.and_then(|has| has.get(key)).map(String::as_str);
            // A text that cannot be merged stays as it is, because the image matters more.
            if let Ok(Some(new)) = metadata::annotation(old, wanted, *patch_policy) {
                patch.annotations.insert(key.clone(), Some(new));
            }
        }
    }
}

pub(super) fn step(pod: &Pod, patch: PodPatch, reason: String) -> Step {
    // Several writers write the shared annotations, so the patch applies only to the version that
    // the controller read.
    Step::new(
        Action::PatchPod {
            target: Target::as_seen(&pod.metadata),
            patch,
        },
        reason,
    )
}

/// Records the containers before the update, so that the new containers can be told from the old
/// ones.
pub(super) fn note_state(
    snapshot: &Snapshot,
    member: &Member<'_>,
    patch: &mut PodPatch,
    now: Timestamp,
) {
    if !patch.changes_images() {
        return;
    }
    let (pod, settled) = (member.pod, member.unproven.is_none());
    let old = sidecars::state(pod, snapshot.name()).unwrap_or_default();
    let changed = patch.all_images().map(|(container, _)| container);
    let mut state = State::begin(pod, &snapshot.hashes.hash, changed, settled, second(now));
    // A pod that an unfinished update took out of service was Ready before that update.
    let is_between = !settled || !member.upgrading.is_empty();
    state.was_ready = member.is_ready || (is_between && old.was_ready);
    // The records of containers that do not change now stay valid.
    for (container, before) in old.last_container_statuses {
        state
            .last_container_statuses
            .entry(container)
            .or_insert(before);
    }
    write_state(snapshot, pod, &state, patch);
}

/// Writes the state of this SidecarSet. The states of other SidecarSets stay.
pub(super) fn write_state(snapshot: &Snapshot, pod: &Pod, state: &State, patch: &mut PodPatch) {
    let mut states = sidecars::written(pod);
    states.insert(snapshot.name().to_owned(), json!(state));
    // A map with string keys always serialises.
    let text = serde_json::to_string(&states).unwrap_or_default();
    patch
        .annotations
        .insert(INPLACE_UPDATE_STATE.to_owned(), Some(text));
}

/// Writes hash and revision together, because they belong together in one record.
fn note_hashes(snapshot: &Snapshot, pod: &Pod, latest: &str, patch: &mut PodPatch, now: Timestamp) {
    let set = snapshot.name();
    let names = sidecar::lasting_names(&snapshot.set.spec);
    let is_unlisted = pod
        .metadata
        .annotation(INJECTED_LIST)
        .is_none_or(str::is_empty);
    for (annotation, hash, revision) in [
        (HASH, &snapshot.hashes.hash, latest),
        (HASH_WITHOUT_IMAGE, &snapshot.hashes.without_image, ""),
    ] {
        let record = Record::new(set, (hash, revision), &names, &second(now).to_string());
        let (text, noted) = records::noted(pod.metadata.annotation(annotation), record);
        // Without a list the records say which SidecarSets the pod has. If there is a list, they do
        // not.
        if is_unlisted && annotation == HASH {
            let list = records::list(None, noted.iter().map(String::as_str));
            patch
                .annotations
                .insert(INJECTED_LIST.to_owned(), Some(list));
        }
        patch.annotations.insert(annotation.to_owned(), Some(text));
    }
}

pub(super) fn key(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}
