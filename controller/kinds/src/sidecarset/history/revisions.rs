//! The SidecarSet's history: a ControllerRevision for each form that its containers had, in the
//! controller's namespace, in OpenKruise's bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1beta1::cloneset::DEFAULT_REVISION_HISTORY_LIMIT;
use berth_api::v1beta1::sidecarset::{SidecarSet, SidecarSetSpec};
use berth_workload::objects::owner::controller_reference;
use berth_workload::objects::resource::SIDECAR_SETS;
use berth_workload::plan::{Action, Body, Plan, Step};
use berth_workload::update::revision::{self, HASH_LABEL, Revision, form, revision_name};
use serde_json::{Value, json};

use super::hash;
use crate::sidecarset::Snapshot;
use crate::sidecarset::names::{CUSTOM_VERSION, HASH, HASH_WITHOUT_IMAGE, NAME};
use crate::sidecarset::on_pod;

/// The SidecarSet's position in its history.
pub(in crate::sidecarset) struct History {
    /// The name of the revision of its containers as they are now.
    pub(in crate::sidecarset) latest: String,
    /// How many candidate names belonged to other revisions.
    pub(in crate::sidecarset) collisions: i32,
}

/// The fields that a revision keeps.
pub(in crate::sidecarset) const KEPT: [&str; 5] = [
    "containers",
    "imagePullSecrets",
    "initContainers",
    "patchPodMetadata",
    "volumes",
];

/// The most hashes that are tried for the name of a revision. An attacker who can write statuses
/// can write their number.
const MOST_COLLISIONS: i32 = 16;

/// The part of a SidecarSet that a revision keeps.
pub(in crate::sidecarset) fn data(spec: &SidecarSetSpec) -> Value {
    json!({"spec": hash::kept(spec)})
}

impl History {
    /// The history, with this data as the latest.
    fn with(snapshot: &Snapshot, data: &Value) -> Self {
        let collisions = snapshot
            .set
            .status
            .as_ref()
            .and_then(|status| status.collision_count)
            .unwrap_or(0);
        let (latest, collisions) = name_of(snapshot.name(), data, &snapshot.revisions, collisions);
        Self { latest, collisions }
    }

    /// The history, with the present spec as the latest.
    pub(in crate::sidecarset) fn of(snapshot: &Snapshot) -> Self {
        Self::with(snapshot, &data(&snapshot.set.spec))
    }
}

/// Brings the history up to date: makes the present spec the newest revision, and drops revisions
/// beyond the limit.
pub(in crate::sidecarset) fn keep(snapshot: &Snapshot, plan: &mut Plan) -> History {
    let data = data(&snapshot.set.spec);
    let newest = snapshot
        .revisions
        .last()
        .map_or(0, |newest| newest.revision);
    let History { latest, collisions } = History::with(snapshot, &data);
    match snapshot
        .revisions
        .iter()
        .rposition(|revision| *revision.metadata.name == *latest)
    {
        Some(at) => {
            let found = &snapshot.revisions[at];
            if at + 1 < snapshot.revisions.len() {
                let action = Action::RenumberRevision {
                    target: found.target(),
                    revision: newest.saturating_add(1),
                    annotations: [].into(),
                };
                let reason = format!("revision {latest} is wanted again");
                plan.add_required_stage("revision", vec![Step::new(action, reason)]);
            }
            name_version(snapshot, found, plan);
        }
        None => {
            let body = body(
                snapshot,
                &latest,
                &revision::hash(&data, collisions),
                newest.saturating_add(1),
                data,
            );
            let action = Action::CreateRevision {
                body: Body::from(&body),
            };
            let reason = format!("its containers are new: revision {latest}");
            plan.add_required_stage("revision", vec![Step::new(action, reason)]);
        }
    }
    drop_old(snapshot, &latest, plan);
    History { latest, collisions }
}

/// The name of the revision with this data, whether or not it exists, and how many candidate names
/// belonged to other revisions.
pub(in crate::sidecarset) fn name_of(
    set: &str,
    data: &Value,
    revisions: &[Arc<Revision>],
    mut collisions: i32,
) -> (String, i32) {
    let text = form::text(data);
    let is_it = |revision: &&Arc<Revision>| {
        revision.data.as_str() == text || revision.data.value() == *data
    };
    if let Some(found) = revisions.iter().rev().find(is_it) {
        return (found.metadata.name.to_string(), collisions);
    }
    loop {
        let name = revision_name(set, &revision::hash(data, collisions));
        if !revisions
            .iter()
            .any(|revision| *revision.metadata.name == *name)
        {
            return (name, collisions);
        }
        collisions = collisions.saturating_add(1);
    }
}

/// Whether the revision's name has the hash of its data. The name is all that a SidecarSet and an
/// administrator write of a revision, so its data may have been replaced otherwise.
pub(in crate::sidecarset) fn is_genuine(set: &SidecarSet, revision: &Revision) -> bool {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let collisions = set
        .status
        .as_ref()
        .and_then(|status| status.collision_count)
        .unwrap_or(0);
    let data = revision.data.value();
    let is_it = |collision| {
        *revision.metadata.name == *revision_name(name, &revision::hash(&data, collision))
    };
    (0..=collisions.clamp(0, MOST_COLLISIONS)).any(is_it)
}

/// Writes the version that the author gave last to the revision.
fn name_version(snapshot: &Snapshot, found: &Revision, plan: &mut Plan) {
    let version = &snapshot.set.spec.custom_version;
    if version.is_empty() || found.metadata.label(CUSTOM_VERSION) == Some(version) {
        return;
    }
    let patch = json!({"metadata": {"labels": {CUSTOM_VERSION: version}}});
    let action = Action::PatchRevision {
        target: found.target(),
        patch,
    };
    let reason = format!("spec.customVersion is {version}");
    plan.add_stage("version of the revision", vec![Step::new(action, reason)]);
}

fn body(snapshot: &Snapshot, name: &str, hash: &str, number: i64, data: Value) -> Value {
    let set = &snapshot.set;
    let mut labels = json!(set.metadata.labels.clone().unwrap_or_default());
    labels[HASH_LABEL] = json!(hash);
    labels[NAME] = json!(snapshot.name());
    if !set.spec.custom_version.is_empty() {
        labels[CUSTOM_VERSION] = json!(set.spec.custom_version);
    }
    let mut annotations = json!(set.metadata.annotations.clone().unwrap_or_default());
    annotations[HASH] = json!(snapshot.hashes.hash);
    annotations[HASH_WITHOUT_IMAGE] = json!(snapshot.hashes.without_image);
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": name, "namespace": snapshot.own_namespace, "labels": labels, "annotations": annotations,
            "ownerReferences": [controller_reference(&SIDECAR_SETS, &set.metadata)],
        },
        "data": data, "revision": number,
    })
}

/// Drops the oldest revisions that no pod has, that no SidecarSet needs and that are not the
/// latest.
fn drop_old(snapshot: &Snapshot, latest: &str, plan: &mut Plan) {
    let spec = &snapshot.set.spec;
    let limit = spec
        .revision_history_limit
        .unwrap_or(DEFAULT_REVISION_HISTORY_LIMIT)
        .max(1);
    let too_many = snapshot
        .revisions
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(1));
    if too_many == 0 {
        return;
    }
    let records = snapshot
        .pods
        .iter()
        .filter_map(|pod| on_pod::record(pod, snapshot.name()));
    let mut used: BTreeSet<String> = records.map(|record| record.controller_revision).collect();
    used.insert(latest.to_owned());
    if let Some(pin) = &spec.injection_strategy.revision {
        used.extend(pin.revision_name.clone());
        used.extend(
            pin.custom_version
                .as_ref()
                .and_then(|version| of_version(&snapshot.revisions, version)),
        );
    }
    let unused = snapshot
        .revisions
        .iter()
        .filter(|revision| !used.contains(&*revision.metadata.name));
    let steps = unused.take(too_many).map(|revision| {
        let reason = format!(
            "more than {limit} revisions, and no pod uses {}",
            revision.metadata.name
        );
        Step::new(
            Action::DeleteRevision {
                target: revision.target(),
            },
            reason,
        )
    });
    plan.add_stage("history", steps.collect());
}

/// The newest revision that had this version.
pub(in crate::sidecarset) fn of_version(
    revisions: &[Arc<Revision>],
    version: &str,
) -> Option<String> {
    let found = revisions
        .iter()
        .rev()
        .find(|revision| revision.metadata.label(CUSTOM_VERSION) == Some(version))?;
    Some(found.metadata.name.to_string())
}
