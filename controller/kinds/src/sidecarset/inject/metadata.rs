//! Annotations that a SidecarSet puts on pods.

use berth_api::v1beta1::sidecarset::PatchPolicy;
use berth_workload::update::revision::form;
use serde_json::{Value, json};

use super::super::names::{PREFIX, VERSION_ALT_PREFIX, VERSION_PREFIX};
use super::json::map;
use super::request::{Matched, Reason, Settings};

/// Prefixes of annotations in which a pod records its SidecarSets.
const OURS: [&str; 3] = [PREFIX, VERSION_PREFIX, VERSION_ALT_PREFIX];

/// Puts the annotations on a pod that was created as `created`. Annotations that are not allowed
/// are left out, with a warning. They were allowed when the SidecarSet was admitted, or the
/// admission could not check them.
///
/// # Errors
/// Texts that must be merged are no JSON.
pub(super) fn patch(
    pod: &mut Value,
    (created, set): (&Value, &Matched<'_>),
    settings: &Settings<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Reason> {
    if set
        .spec
        .patch_pod_metadata
        .iter()
        .all(|patch| patch.annotations.is_empty())
    {
        return Ok(());
    }
    let metadata = pod.as_object_mut().and_then(|pod| map(pod, "metadata"));
    let Some(annotations) = metadata.and_then(|metadata| map(metadata, "annotations")) else {
        return Ok(());
    };
    for patch in &set.spec.patch_pod_metadata {
        for (key, wanted) in &patch.annotations {
            if is_ours(key) || !(settings.allows)(set.name, key) {
                let set = set.name;
                warnings.push(format!(
                    "SidecarSet {set:?} may not set the annotation {key:?}: the pod does not get it"
                ));
                continue;
            }
            let old = annotations.get(key).and_then(Value::as_str);
            let new = annotation(old, wanted, patch.patch_policy);
            let reason = |problem: String| {
                let created = created["metadata"]["annotations"][key]
                    .as_str()
                    .filter(|text| !text.is_empty());
                let is_of_pod =
                    created.is_some_and(|text| object(text).is_err()) && object(wanted).is_ok();
                Reason {
                    text: format!("annotation {key:?}: {problem}"),
                    is_of_pod,
                }
            };
            if let Some(new) = new.map_err(reason)? {
                annotations.insert(key.clone(), Value::String(new));
            }
        }
    }
    Ok(())
}

/// Whether the key is one in which a pod records its SidecarSets.
pub(in super::super) fn is_ours(key: &str) -> bool {
    OURS.iter().any(|ours| key.starts_with(ours))
}

/// The new value of an annotation; `None` if it stays as it is.
///
/// # Errors
/// Texts that must be merged are no JSON.
pub(in super::super) fn annotation(
    old: Option<&str>,
    wanted: &str,
    policy: PatchPolicy,
) -> Result<Option<String>, String> {
    let old = match (policy, old) {
        (PatchPolicy::Retain, Some(_)) => return Ok(None),
        (PatchPolicy::MergePatchJson, old) => old.filter(|old| !old.is_empty()),
        _ => return Ok(Some(wanted.to_owned())),
    };
    let patch = object(wanted)?;
    let before = old.map(object).transpose()?;
    let mut after = before.clone().unwrap_or_else(|| json!({}));
    json_patch::merge(&mut after, &patch);
    Ok(match before {
        // A text that would change only in spelling stays as it is.
        Some(before) if before == after => None,
        None if after == patch => Some(wanted.to_owned()),
        _ => Some(form::text(&after)),
    })
}

fn object(text: &str) -> Result<Value, String> {
    let object = serde_json::from_str(text).ok().filter(Value::is_object);
    object.ok_or_else(|| format!("{text:?} is no JSON object, and cannot be merged"))
}

#[cfg(test)]
mod tests;
