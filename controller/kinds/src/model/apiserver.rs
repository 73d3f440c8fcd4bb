//! The simulated apiserver's handling of writes to pods and revisions: whether it accepts a write,
//! and the object after the write.
//!
//! The tests of the runtime compare this with a real apiserver, by the same random writes to both.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::plan::{Action, PodPatch, Target};

/// Objects of a kind, by name.
pub(crate) type Objects = BTreeMap<String, Value>;

/// The HTTP status of a write that is refused.
pub(crate) type Refused = u16;

/// Applies a write to a pod. A new pod gets the uid. A deleted pod stays until its kubelet has
/// ended it.
pub(crate) fn write_pod(
    pods: &mut Objects,
    action: &Action,
    uid: &str,
    now: &Value,
) -> Result<(), Refused> {
    match action {
        Action::CreatePod { body } => {
            let mut pod = body.value();
            pod["metadata"]["generation"] = json!(1);
            pod["status"] = json!({"phase": "Pending"});
            create(pods, pod, uid, now)
        }
        Action::DeletePod { target } => {
            let metadata = &mut find(pods, target)?["metadata"];
            if metadata["deletionTimestamp"].is_null() {
                metadata["deletionTimestamp"] = now.clone();
                metadata["generation"] =
                    json!(metadata["generation"].as_i64().unwrap_or_default() + 1);
            }
            Ok(())
        }
        Action::ReleasePod { target, owner } => {
            let owners = &mut find(pods, target)?["metadata"]["ownerReferences"];
            owners
                .as_array_mut()
                .into_iter()
                .for_each(|all| all.retain(|other| other["uid"] != *owner));
            Ok(())
        }
        Action::AdoptPod { target, owner } => adopt(find(pods, target)?, owner),
        Action::PatchPod { target, patch } => {
            let pod = find(pods, target)?;
            patch_metadata(pod, patch)?;
            let before = pod["spec"].clone();
            for (list, images) in patch.images_by_list() {
                for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                    if let Some(image) = images.get(container["name"].as_str().unwrap_or_default())
                    {
                        container["image"] = json!(image);
                    }
                }
            }
            count_change(pod, &before);
            Ok(())
        }
        Action::PatchPodStatus {
            target,
            conditions,
            patch,
        } => {
            assert!(
                !patch.changes_images(),
                "the status subresource carries no spec"
            );
            let pod = find(pods, target)?;
            patch_metadata(pod, patch)?;
            conditions
                .iter()
                .for_each(|condition| set_condition(pod, json!(condition)));
            Ok(())
        }
        other => panic!("{} writes no pod", other.write()),
    }
}

/// Applies a write to a revision. A new revision gets the uid.
pub(crate) fn write_revision(
    revisions: &mut Objects,
    action: &Action,
    uid: &str,
    now: &Value,
) -> Result<(), Refused> {
    match action {
        Action::CreateRevision { body } => create(revisions, body.value(), uid, now),
        Action::AdoptRevision { target, owner } => adopt(find(revisions, target)?, owner),
        Action::RenumberRevision {
            target,
            revision,
            annotations,
        } => {
            let stored = find(revisions, target)?;
            stored["revision"] = json!(revision);
            annotations
                .iter()
                .for_each(|(key, value)| stored["metadata"]["annotations"][key] = json!(value));
            Ok(())
        }
        Action::PatchRevision { target, patch } => {
            merge(find(revisions, target)?, patch);
            Ok(())
        }
        Action::DeleteRevision { target } => {
            find(revisions, target)?;
            revisions.remove(&target.name);
            Ok(())
        }
        other => panic!("{} writes no revision", other.write()),
    }
}

/// Adds an owner; no object has two that manage it.
fn adopt(object: &mut Value, owner: &Value) -> Result<(), Refused> {
    let owners = &mut object["metadata"]["ownerReferences"];
    let mut all = owners.as_array().cloned().unwrap_or_default();
    all.retain(|other| other["uid"] != owner["uid"]);
    all.push(owner.clone());
    if all
        .iter()
        .filter(|owner| owner["controller"] == true)
        .count()
        > 1
    {
        return Err(422);
    }
    *owners = json!(all);
    Ok(())
}

/// A pod's spec was changed: its generation counts that.
pub(crate) fn count_change(pod: &mut Value, before: &Value) {
    let generation = pod["metadata"]["generation"].as_i64().unwrap_or_default();
    pod["metadata"]["generation"] = json!(generation + i64::from(pod["spec"] != *before));
}

/// The object of a write, if its uid and version are the expected ones.
pub(crate) fn find<'a>(
    objects: &'a mut Objects,
    target: &Target,
) -> Result<&'a mut Value, Refused> {
    let object = objects.get_mut(&target.name).ok_or(404u16)?;
    let metadata = &object["metadata"];
    // A world that counts no versions always has the expected one.
    let is_version = |version: &String| {
        metadata["resourceVersion"]
            .as_str()
            .is_none_or(|own| own == version)
    };
    let is_meant =
        metadata["uid"] == target.uid && target.resource_version.as_ref().is_none_or(is_version);
    if is_meant { Ok(object) } else { Err(409) }
}

fn create(objects: &mut Objects, mut object: Value, uid: &str, now: &Value) -> Result<(), Refused> {
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if objects.contains_key(&name) {
        return Err(409);
    }
    object["metadata"]["uid"] = json!(uid);
    object["metadata"]["creationTimestamp"] = now.clone();
    objects.insert(name, object);
    Ok(())
}

fn patch_metadata(pod: &mut Value, patch: &PodPatch) -> Result<(), Refused> {
    let metadata = &mut pod["metadata"];
    let mut finalizers = metadata["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let new: Vec<_> = patch
        .finalizers
        .iter()
        .map(|name| json!(name))
        .filter(|name| !finalizers.contains(name))
        .collect();
    if !new.is_empty() {
        // An object that is being deleted takes no new finalizers.
        if !metadata["deletionTimestamp"].is_null() {
            return Err(422);
        }
        finalizers.extend(new);
        metadata["finalizers"] = json!(finalizers);
    }
    for (field, changes) in [
        ("labels", &patch.labels),
        ("annotations", &patch.annotations),
    ] {
        for (key, value) in changes {
            match value {
                Some(value) => metadata[field][key] = json!(value),
                None => {
                    if let Some(map) = metadata[field].as_object_mut() {
                        map.remove(key);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Sets a pod's condition of this type.
pub(crate) fn set_condition(pod: &mut Value, condition: Value) {
    let conditions = &mut pod["status"]["conditions"];
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().into_iter().flatten();
    match conditions
        .into_iter()
        .find(|c| c["type"] == condition["type"])
    {
        Some(old) => *old = condition,
        None => pod["status"]["conditions"]
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(condition.clone())),
    }
}

/// A JSON merge patch, RFC 7386.
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            object
                .as_object_mut()
                .into_iter()
                .for_each(|object| drop(object.remove(key)));
        } else {
            merge(&mut object[key], value);
        }
    }
}
