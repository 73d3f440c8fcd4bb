//! ContainerRecreateRequest: v1alpha1 has annotations for two parts of v1beta1's status.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | annotation `crr.apps.kruise.io/sync-container-statuses` | `status.containerStatusSnapshot` |
//! | annotation `crr.apps.kruise.io/unready-acquired` | the time of condition `PreRecreateGrace` |
//!
//! An annotation becomes a part of an existing status and never makes a status, because every user
//! who creates a request can write its annotations.

use jiff::Timestamp;
use serde_json::json;

use crate::conversion::Mapping;
use crate::conversion::json::Json;
use crate::conversion::mapping::reads_fields;
use crate::conversion::memory::{remove_entry, set_entry};
use crate::kinds::containerrecreaterequest::v1beta1::{
    ContainerRecreateRequestStatus, ContainerStatusSnapshot, MAX_RECREATED_CONTAINERS,
};
use crate::names::annotation::{
    RECREATE_CONTAINER_STATUSES as STATUSES, RECREATE_UNREADY_ACQUIRED as ACQUIRED,
};
use crate::names::condition::PRE_RECREATE_GRACE;
use crate::names::reason;
use crate::version::Version;

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1,
    to_v1alpha1,
    touches: &[
        &["metadata", "annotations", STATUSES],
        &["metadata", "annotations", ACQUIRED],
        &["status", "containerStatusSnapshot"],
        &["status", "conditions"],
    ],
    decides: &[],
    is_read,
};

/// The longest annotation that is read: 64 containers need a tenth of it.
const LONGEST: usize = 128 << 10;

fn to_v1beta1(object: &mut Json<'_>) {
    let mut take = |key| {
        let metadata = object.at(&["metadata"]).and_then(Json::object)?;
        remove_entry(metadata, "annotations", key)?
            .as_string()
            .filter(|text| text.len() <= LONGEST)
    };
    let (statuses, acquired) = (take(STATUSES), take(ACQUIRED));
    let Some(status) = object.at(&["status"]).and_then(Json::object) else {
        return;
    };
    // v1alpha1 has no such field, so that a value there has no meaning.
    status.remove("containerStatusSnapshot");
    if let Some(statuses) = statuses.and_then(|text| snapshot(&text)) {
        status.insert("containerStatusSnapshot", Json::owned(statuses));
    }
    let Some(time) = acquired.and_then(|text| whole_seconds(&text)) else {
        return;
    };
    let condition = json!({
        "type": PRE_RECREATE_GRACE, "status": "True", "lastTransitionTime": time,
        "reason": reason::PRE_RECREATE_GRACE, "message": reason::PRE_RECREATE_GRACE_MESSAGE,
    });
    match status.get_mut("conditions") {
        Some(conditions) => {
            let Some(conditions) = conditions.list() else {
                return;
            };
            conditions.retain_mut(|condition| !is_grace(condition));
            conditions.push(Json::owned(condition.to_string()));
        }
        None => status.insert("conditions", Json::owned(json!([condition]).to_string())),
    }
}

fn to_v1alpha1(object: &mut Json<'_>) {
    let (mut statuses, mut acquired) = (None, None);
    if let Some(status) = object.at(&["status"]).and_then(Json::object) {
        statuses = status
            .remove("containerStatusSnapshot")
            .and_then(|value| snapshot(&value.to_string()));
        let conditions = status.get_mut("conditions").and_then(Json::list);
        let mut is_empty = false;
        if let Some(conditions) = conditions {
            conditions.retain_mut(|condition| {
                let is_grace = is_grace(condition);
                if is_grace {
                    let time = condition
                        .at(&["lastTransitionTime"])
                        .and_then(|time| time.as_string());
                    acquired = time.and_then(|time| whole_seconds(&time));
                }
                !is_grace
            });
            is_empty = conditions.is_empty();
        }
        if is_empty {
            status.remove("conditions");
        }
    }
    let Some(metadata) = object.at(&["metadata"]).and_then(Json::object) else {
        return;
    };
    for (key, value) in [(STATUSES, statuses), (ACQUIRED, acquired)] {
        match value {
            Some(value) => set_entry(metadata, "annotations", key, Json::string(&value)),
            // It has no meaning in v1beta1, but would have one in v1alpha1.
            None => drop(remove_entry(metadata, "annotations", key)),
        }
    }
}

/// The list of containers as both versions write it; `None` for another value or an empty list.
fn snapshot(text: &str) -> Option<String> {
    let list: Vec<ContainerStatusSnapshot> = serde_json::from_str(text).ok()?;
    (!list.is_empty() && list.len() <= MAX_RECREATED_CONTAINERS)
        .then(|| serde_json::to_string(&list).ok())?
}

fn whole_seconds(time: &str) -> Option<String> {
    let time: Timestamp = time.parse().ok()?;
    Timestamp::from_second(time.as_second())
        .ok()
        .map(|time| time.to_string())
}

fn is_grace(condition: &mut Json<'_>) -> bool {
    let mut is = |field, wanted| {
        condition
            .at(&[field])
            .and_then(|value| value.as_string())
            .as_deref()
            == Some(wanted)
    };
    is("type", PRE_RECREATE_GRACE) && is("status", "True")
}

/// Whether the type of a version can read the differing parts.
fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    let differing: &[&str] = match version {
        Version::V1Alpha1 => &["conditions"],
        Version::V1Beta1 => &["containerStatusSnapshot", "conditions"],
    };
    reads_fields::<ContainerRecreateRequestStatus>(object, "status", differing)
}
