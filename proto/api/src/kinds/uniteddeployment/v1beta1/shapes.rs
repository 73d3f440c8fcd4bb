//! What OpenKruise's v1alpha1 has in two shapes: one of them is enough.

use serde_json::{Value, json};

use crate::schema::rules::{reported_at, rule, unless_before};

/// What only one of two shapes of a CloneSet's `scaleStrategy` has. OpenKruise reads a v1alpha1
/// UnitedDeployment's as v1alpha1 up to 1.9.0, and as v1beta1 since.
pub(super) fn clone_set_scale() -> Value {
    let newer = "(has(self.enablePVCReuse) || has(self.excludePreparingDelete))";
    let message = "has disablePVCReuse of v1alpha1 and fields of v1beta1 (enablePVCReuse, excludePreparingDelete): \
                   keep those of one version";
    json!({
        "type": "object",
        "description": "How the number of pods changes, as a CloneSet of v1alpha1 or v1beta1 has it.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "disablePVCReuse": {"type": "boolean", "description": "As in v1alpha1."},
            "enablePVCReuse": {"type": "boolean", "description": "As in v1beta1."},
            "excludePreparingDelete": {"type": "boolean", "description": "As in v1beta1."},
        },
        "x-kubernetes-validations": [{"rule": format!("!(has(self.disablePVCReuse) && {newer})"), "message": message}],
    })
}

/// The same of its `updateStrategy`.
pub(super) fn clone_set_update() -> Value {
    let int_or_string =
        json!({"x-kubernetes-int-or-string": true, "description": "As in v1alpha1."});
    let open = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "As in v1alpha1.",
    });
    let number =
        json!({"type": "integer", "description": "As in v1beta1; v1alpha1 has an annotation."});
    let mut in_place = open.clone();
    in_place["properties"] = json!({
        "imagePreDownloadParallelism": {
            "x-kubernetes-int-or-string": true, "description": "As in v1beta1; v1alpha1 has an annotation.",
        },
        "imagePreDownloadTimeoutSeconds": number,
        "imagePreDownloadMinUpdatedReadyPods": number,
    });
    let flat = [
        ("partition", int_or_string.clone()),
        ("maxUnavailable", int_or_string.clone()),
        ("maxSurge", int_or_string),
        (
            "paused",
            json!({"type": "boolean", "description": "As in v1alpha1."}),
        ),
        ("priorityStrategy", open),
        ("inPlaceUpdateStrategy", in_place),
    ];
    let given: Vec<_> = flat
        .iter()
        .map(|(name, _)| format!("has(self.{name})"))
        .collect();
    let older = format!(
        "({} || (has(self.type) && self.type in ['ReCreate', 'InPlaceIfPossible', 'InPlaceOnly']))",
        given.join(" || ")
    );
    let newer = "(has(self.rollingUpdate) || (has(self.type) && self.type == 'RollingUpdate'))";
    let message = "has fields of v1alpha1 beside rollingUpdate of v1beta1: move them below rollingUpdate and set \
                   type to RollingUpdate, or remove rollingUpdate";
    let mut update = json!({
        "type": "object",
        "description": "How a changed template reaches the pods, as a CloneSet of v1alpha1 or v1beta1 has it.",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "type": {"type": "string", "description": "The type of either version."},
            "rollingUpdate": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "As in v1beta1.",
            },
        },
        "x-kubernetes-validations": [{"rule": format!("!({older} && {newer})"), "message": message}],
    });
    for (name, schema) in flat {
        update["properties"][name] = schema;
    }
    update
}

/// What v1alpha1's status has in two places has one value. OpenKruise leaves zeros out.
pub(crate) fn one_value() -> [Value; 3] {
    let by_subset = |field: &str, place: &str| {
        let other = format!("self.{place}");
        let parent = place
            .split_once('.')
            .map_or_else(String::new, |(parent, _)| {
                format!("!has(self.{parent}) || ")
            });
        let differs = format!(
            "has(s.name) && has(s.{field}) && s.{field} != 0 && s.name in {other} && {other}[s.name] != s.{field}"
        );
        let valid = format!(
            "!has(self.subsetStatuses) || {parent}!has({other}) || !self.subsetStatuses.exists(s, {differs})"
        );
        let message = format!(
            "'has other values than {field} in subsetStatuses for %s: write one of the two'\
             .format([self.subsetStatuses.filter(s, {differs}).map(s, s.name)])"
        );
        let valid = |of: &str| valid.replace("self.", &format!("{of}."));
        unless_before(
            valid,
            reported_at(&format!(".{place}"), rule("true", message)),
        )
    };
    let revision = |of: &str| {
        format!(
            "!has({of}.updateStatus) || !has({of}.updateStatus.updatedRevision) || !has({of}.updatedRevision) || \
             {of}.updatedRevision == {of}.updateStatus.updatedRevision"
        )
    };
    let message = "'is \"%s\", but updateStatus.updatedRevision is \"%s\": write one of the two'\
                   .format([self.updatedRevision, self.updateStatus.updatedRevision])";
    [
        by_subset("replicas", "subsetReplicas"),
        by_subset("partition", "updateStatus.currentPartitions"),
        unless_before(
            revision,
            reported_at(".updatedRevision", rule("true", message)),
        ),
    ]
}
