//! The difference between a subset's workload and the wanted one, as a merge patch.

use berth_api::names::annotation::SUBSET_PATCH;
use berth_api::names::label::{KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME};
use berth_workload::objects::patch::merge::merge_patch;
use berth_workload::update::revision::defaults;
use serde_json::{Map, Value, json};

use super::render::{SUBSET_NODES, Workload, texts};
use super::subset_kind::SubsetKind;

/// The JSON merge patch that makes the existing object the wanted workload; `None` where they
/// agree.
///
/// A workload of the wanted revision, patch and nodes changes in replicas and partition alone, and
/// gets the label with its subset back, so that no other rendering than OpenKruise's restarts a
/// pod. Any other gets the whole spec, and loses the labels and annotations that only the template
/// of `older` has. `older` is the metadata of the template in the revision that the existing
/// object's label names; none if the revision is gone.
pub(super) fn change(existing: &Value, wanted: &Workload, older: Option<&Value>) -> Option<Value> {
    let spec = existing.get("spec").unwrap_or(&Value::Null);
    if has_source_of(existing, wanted) {
        let label = wanted.labels.get(SUBSET_NAME);
        let had = existing
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(SUBSET_NAME))
            .and_then(Value::as_str);
        let mut change = Map::new();
        if had != label.map(String::as_str) {
            change.insert(
                "metadata".to_owned(),
                json!({"labels": {SUBSET_NAME: label}}),
            );
        }
        change.extend(size(spec, wanted).map(|spec| ("spec".to_owned(), spec)));
        return (!change.is_empty()).then_some(Value::Object(change));
    }
    let mut spec_wanted = wanted.spec.clone();
    if let (Some(had), Some(template)) = (spec.get("template"), wanted.spec.get("template")) {
        let (explicit, explicit_wanted) = defaults::dropped(had, template);
        if explicit == explicit_wanted {
            spec_wanted.insert("template".to_owned(), had.clone());
        }
    }
    let mut change = Map::new();
    change.extend(
        metadata(existing, wanted, older).map(|metadata| ("metadata".to_owned(), metadata)),
    );
    let spec = merge_patch(spec, &Value::Object(spec_wanted));
    change.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    (!change.is_empty()).then_some(Value::Object(change))
}

/// The patch of labels and annotations.
fn metadata(existing: &Value, wanted: &Workload, older: Option<&Value>) -> Option<Value> {
    let mut patch = Map::new();
    for (field, wanted) in [
        ("labels", &wanted.labels),
        ("annotations", &wanted.annotations),
    ] {
        let existing = texts(existing.get("metadata"), field);
        // The cache keeps no annotations of other domains, so that an object may have a key that
        // the controller does not see.
        let gone = texts(older, field)
            .into_keys()
            .filter(|key| !wanted.contains_key(key));
        let changed = wanted
            .iter()
            .filter(|(key, value)| existing.get(*key) != Some(value));
        let changed = changed.map(|(key, value)| (key.clone(), json!(value)));
        let changes: Map<String, Value> =
            changed.chain(gone.map(|key| (key, Value::Null))).collect();
        if !changes.is_empty() {
            patch.insert(field.to_owned(), Value::Object(changes));
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether the existing object was made from the wanted one's template and subset. Patches are
/// compared as JSON, because OpenKruise keeps the bytes that it read. The nodes differ where a
/// subset left the list and came back between two rounds; workloads from OpenKruise have no hash of
/// them.
pub(super) fn has_source_of(existing: &Value, wanted: &Workload) -> bool {
    let text = |field: &str, key: &str| existing.get("metadata")?.get(field)?.get(key)?.as_str();
    let revision = wanted
        .labels
        .get(KRUISE_CONTROLLER_REVISION_HASH)
        .map(String::as_str);
    let patch = wanted
        .annotations
        .get(SUBSET_PATCH)
        .map(String::as_str)
        .unwrap_or_default();
    let had = text("annotations", SUBSET_PATCH).unwrap_or_default();
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let is_same_patch = || had == patch || read(had).is_some_and(|had| Some(had) == read(patch));
    let nodes = text("annotations", SUBSET_NODES);
    let has_same_nodes = nodes.is_none_or(|had| {
        wanted
            .annotations
            .get(SUBSET_NODES)
            .is_some_and(|nodes| nodes == had)
    });
    text("labels", KRUISE_CONTROLLER_REVISION_HASH) == revision && has_same_nodes && is_same_patch()
}

/// The patch of the spec's replicas, partition, and the number that reserved pods add to
/// `maxUnavailable`.
fn size(spec: &Value, wanted: &Workload) -> Option<Value> {
    let mut patch = Map::new();
    let replicas = wanted.spec.get("replicas").cloned().unwrap_or_default();
    // Without a number, all four kinds have one replica.
    let had = spec
        .get("replicas")
        .filter(|replicas| !replicas.is_null())
        .cloned();
    if had.unwrap_or_else(|| json!(1)) != replicas {
        patch.insert("replicas".to_owned(), replicas);
    }
    let wanted_spec = Value::Object(wanted.spec.clone());
    let partition = SubsetKind::partition(&wanted_spec);
    if wanted.kind.has_partition(&wanted.spec) && SubsetKind::partition(spec) != partition {
        patch.insert(
            "updateStrategy".to_owned(),
            json!({"rollingUpdate": {"partition": partition}}),
        );
    }
    if let Some(([strategy, rolling, field], _, _)) = wanted.kind.max_unavailable() {
        let path = format!("/{strategy}/{rolling}/{field}");
        let (had, wanted) = (spec.pointer(&path), wanted_spec.pointer(&path));
        // A number beside a template without one is what was added for reserved pods.
        if had != wanted && (wanted.is_some() || had.is_some_and(Value::is_number)) {
            let strategy = patch.entry(strategy).or_insert_with(|| json!({}));
            strategy[rolling][field] = wanted.cloned().unwrap_or_default();
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
