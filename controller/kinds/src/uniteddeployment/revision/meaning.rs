//! Whether two templates mean the same workloads: replicas, selector and partition never count, and
//! a default counts as much as a field that is left out.

use berth_workload::update::revision::defaults;
use serde_json::{Map, Value, json};

/// Fields of a workload that the UnitedDeployment sets itself.
const IGNORED: [&str; 2] = ["replicas", "selector"];
/// Defaults by the field that holds them, as JSON.
const DEFAULTS: [(&str, &str, &str); 12] = [
    ("spec", "podManagementPolicy", "\"OrderedReady\""),
    ("spec", "revisionHistoryLimit", "10"),
    ("spec", "serviceName", "\"\""),
    ("spec", "volumeMode", "\"Filesystem\""),
    ("strategy", "type", "\"RollingUpdate\""),
    ("updateStrategy", "type", "\"RollingUpdate\""),
    ("volumeClaimUpdateStrategy", "type", "\"OnDelete\""),
    ("rollingUpdate", "podUpdatePolicy", "\"ReCreate\""),
    ("rollingUpdate", "minReadySeconds", "0"),
    (
        "persistentVolumeClaimRetentionPolicy",
        "whenDeleted",
        "\"Retain\"",
    ),
    (
        "persistentVolumeClaimRetentionPolicy",
        "whenScaled",
        "\"Retain\"",
    ),
    ("ordinals", "start", "0"),
];
/// Defaults that differ by the kind of the workload: its template, then the field that holds them.
const OF_KIND: [(&str, &str, &str, &str); 7] = [
    (
        "deploymentTemplate",
        "spec",
        "progressDeadlineSeconds",
        "600",
    ),
    ("deploymentTemplate", "rollingUpdate", "maxSurge", "\"25%\""),
    (
        "deploymentTemplate",
        "rollingUpdate",
        "maxUnavailable",
        "\"25%\"",
    ),
    ("cloneSetTemplate", "rollingUpdate", "maxSurge", "0"),
    (
        "cloneSetTemplate",
        "rollingUpdate",
        "maxUnavailable",
        "\"20%\"",
    ),
    (
        "statefulSetTemplate",
        "rollingUpdate",
        "maxUnavailable",
        "1",
    ),
    (
        "advancedStatefulSetTemplate",
        "rollingUpdate",
        "maxUnavailable",
        "1",
    ),
];
/// Objects without a meaning while they are empty.
const EMPTY: [&str; 10] = [
    "inPlaceUpdateStrategy",
    "lifecycle",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "priorityStrategy",
    "rollingUpdate",
    "scaleStrategy",
    "strategy",
    "unorderedUpdate",
    "updateStrategy",
];
/// Fields of a claim template that make no other claim: the apiserver and OpenKruise's webhook
/// write them.
const OF_CLAIMS: [&str; 3] = ["apiVersion", "kind", "status"];

/// Whether two templates in the written form mean the same.
pub(super) fn same(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.len() == other.len()
        && one.iter().all(|(field, one)| {
            other
                .get(field)
                .is_some_and(|other| same_workload(field, one, other))
        })
}

fn same_workload(field: &str, one: &Value, other: &Value) -> bool {
    if without(field, one) != without(field, other) {
        return false;
    }
    let pod = |template: &Value| template["spec"]["template"].clone();
    let (one, other) = defaults::dropped(&pod(one), &pod(other));
    one == other
}

/// A workload's template without its pod template, without ignored fields, and without fields that
/// have their default.
fn without(field: &str, template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|name, _| name != "template" && !IGNORED.contains(&name.as_str()));
        let claims = spec
            .get_mut("volumeClaimTemplates")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for claim in claims.filter_map(Value::as_object_mut) {
            claim.retain(|name, _| !OF_CLAIMS.contains(&name.as_str()));
            undated(claim);
        }
    }
    if let Some(template) = template.as_object_mut() {
        undated(template);
    }
    drop_in(field, "", &mut template);
    template
}

fn undated(holder: &mut Map<String, Value>) {
    if let Some(metadata) = holder.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
}

fn drop_in(kind: &str, holder: &str, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.iter_mut()
                .filter(|(name, _)| *name != "metadata")
                .for_each(|(name, value)| drop_in(kind, name, value));
            map.retain(|name, value| !says_nothing(kind, holder, name, value));
        }
        Value::Array(list) => list.iter_mut().for_each(|item| drop_in(kind, holder, item)),
        _ => {}
    }
}

fn says_nothing(kind: &str, holder: &str, name: &str, value: &Value) -> bool {
    if (holder, name) == ("rollingUpdate", "partition")
        || (EMPTY.contains(&name) && *value == json!({}))
    {
        return true;
    }
    let is_default = |(of, field, default): (&str, &str, &str)| {
        (of, field) == (holder, name)
            && serde_json::from_str::<Value>(default).is_ok_and(|default| default == *value)
    };
    DEFAULTS.into_iter().any(is_default)
        || OF_KIND
            .into_iter()
            .any(|(of, holder, name, default)| of == kind && is_default((holder, name, default)))
}
