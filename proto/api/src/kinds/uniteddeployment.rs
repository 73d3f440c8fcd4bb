//! UnitedDeployment: its columns, and the defaults and validation of its fields.

mod division;
mod shapes;

use kube::CustomResourceExt;
use serde_json::{Value, json};

use self::division::SUBSETS;
use self::division::{bounds, share, sum_is_equal, sum_is_less};
use self::shapes::{clone_set_scale, clone_set_update, one_value};
use crate::conversion;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::Schema;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{
    LABEL_KEY, LABEL_VALUE, at, check, int32, label_selector, not_empty, reported_at, rule,
    unless_before, unless_unchanged,
};
use crate::v1beta1::uniteddeployment::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_NAME, MAX_SUBSETS};
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// UnitedDeployment.
pub const UNITED_DEPLOYMENT: Kind = Kind {
    group: GROUP,
    kind: "UnitedDeployment",
    plural: "uniteddeployments",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::UnitedDeployment>,
    limits: Limits::of_specs,
    // The pod template is below one of four fields, in the template of a workload.
    template: None,
    owns: &[
        "clonesets",
        "controllerrevisions",
        "deployments",
        "statefulsets",
    ],
    mapping: conversion::uniteddeployment::MAPPING,
    faults: validation::of_united_deployment,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[
        v1beta1::UnitedDeployment::crd,
        v1alpha1::UnitedDeployment::crd,
    ],
    patches: rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".spec.replicas", "Pods that are wanted."),
    Column::integer(
        "CURRENT",
        ".status.replicas",
        "Pods that exist, without reserved ones.",
    ),
    Column::integer(
        "UPDATED",
        ".status.updatedReplicas",
        "Pods of the updated revision, without reserved ones.",
    ),
    Column::integer("READY", ".status.readyReplicas", "Pods that are ready."),
    Column::integer(
        "RESERVED",
        ".status.reservedPods",
        "Pods for which other subsets run substitutes.",
    )
    .wide(),
    Column::AGE,
    Column::BLOCKED,
];

/// The fields that hold a template, one for each kind of workload.
const TEMPLATES: [&str; 4] = [
    "statefulSetTemplate",
    "advancedStatefulSetTemplate",
    "cloneSetTemplate",
    "deploymentTemplate",
];
const CLONE_SET: &str = "cloneSetTemplate";

fn rules(version: Version) -> Vec<Patch> {
    let mut rules = vec![
        at("", check(&[name()])),
        at("spec", json!({"required": ["selector", "template"]})),
        int32("spec.replicas", 0),
        int32("spec.revisionHistoryLimit", 0),
        at(
            "spec.revisionHistoryLimit",
            json!({"default": DEFAULT_REVISION_HISTORY_LIMIT}),
        ),
        at("spec.template", check(&one_template())),
        at(
            "spec.updateStrategy",
            json!({"default": {"type": "Manual", "manualUpdate": {}}}),
        ),
        at(
            "spec.updateStrategy.type",
            json!({"default": "Manual", "enum": ["Manual", ""]}),
        ),
        at(
            "spec.updateStrategy.manualUpdate.partitions",
            json!({
                "maxProperties": MAX_SUBSETS,
                "additionalProperties": {
                    "type": "integer", "format": "int32", "minimum": 0, "maximum": i32::MAX,
                },
            }),
        ),
    ];
    rules.extend(selector());
    rules.extend(TEMPLATES.iter().map(|template| workload(template, version)));
    rules.extend(topology());
    rules.extend(status(version));
    let mut of_spec = vec![
        known_partitions(),
        reserves(),
        bounds(),
        sum_is_less(),
        sum_is_equal(),
    ];
    for template in TEMPLATES {
        for labels in [
            format!("{template}.metadata"),
            format!("{template}.spec.template.metadata"),
        ] {
            of_spec.extend(match_selector(&format!("template.{labels}.labels")));
        }
    }
    rules.push(at("spec", check(&of_spec)));
    rules
}

/// Workloads and pods have a label with the name of a revision.
fn name() -> Value {
    let message = format!(
        "'has the name \"%s\", but its pods have a label made from it: use at most {MAX_NAME} characters'\
         .format([self.metadata.name])"
    );
    let mut rule = rule(
        format!("oldSelf.hasValue() || size(self.metadata.name) <= {MAX_NAME}"),
        message,
    );
    rule["optionalOldSelf"] = json!(true);
    rule
}

fn selector() -> Vec<Patch> {
    let empty =
        "is empty and would select every pod of the namespace: set matchLabels or matchExpressions";
    let stays = json!({
        "rule": "self == oldSelf", "reason": "FieldValueForbidden",
        "message": "cannot be changed, the pods it selected would be left behind: create another \
                    UnitedDeployment with the new selector",
    });
    let mut rules = label_selector("spec.selector");
    rules.push(at("spec.selector", check(&[not_empty(empty), stays])));
    rules
}

/// What each subset is, said once.
fn one_template() -> [Value; 2] {
    let count = TEMPLATES
        .map(|name| format!("(has(self.{name}) ? 1 : 0)"))
        .join(" + ");
    let given = TEMPLATES
        .map(|name| format!("(has(self.{name}) ? ' {name},' : '')"))
        .join(" + ");
    let names = TEMPLATES.join(", ");
    let none = format!("has no template: set one of {names}, as the workload that each subset is");
    let more = format!(
        "'has' + {given} + ' but must have one of them: keep the one of the workload that each subset is'"
    );
    [
        json!({"rule": format!("{count} >= 1"), "message": none}),
        rule(format!("{count} <= 1"), more),
    ]
}

/// The labels that selectors are compared with. The workload's own definition says what else is in its spec.
fn workload(template: &str, version: Version) -> Patch {
    let labels = |description: &str| {
        json!({
            "type": "object", "description": description, "maxProperties": 256,
            "additionalProperties": {"type": "string", "maxLength": LABEL_VALUE},
        })
    };
    let open = |description: &str, fields: Value| {
        json!({
            "type": "object", "description": description, "properties": fields,
            "x-kubernetes-preserve-unknown-fields": true,
        })
    };
    let of_pods = open(
        "Labels and annotations of the pods.",
        json!({"labels": labels("Labels of the pods. They must match the selector.")}),
    );
    let mut fields = json!({"template": open("The pods.", json!({"metadata": of_pods}))});
    if template == CLONE_SET && version == Version::V1Alpha1 {
        fields["progressDeadlineSeconds"] =
            json!({"type": "integer", "description": "See `kubectl explain cloneset.spec`."});
        fields["scaleStrategy"] = clone_set_scale();
        fields["updateStrategy"] = clone_set_update();
    }
    let metadata = open(
        "Labels and annotations of the workload. The labels must match the selector.",
        json!({"labels": labels("Labels of the workload. They must match the selector.")}),
    );
    let spec = open(
        "The workload's spec. Its replicas, selector and partition do not count, because each subset has its own.",
        fields,
    );
    at(
        format!("spec.template.{template}"),
        json!({"properties": {"metadata": metadata, "spec": spec}}),
    )
}

/// The selector matches these labels, `template.….labels`, wherever there is such a template.
fn match_selector(labels: &str) -> [Value; 2] {
    let template = labels.split('.').take(2).collect::<Vec<_>>().join(".");
    let mut optional = "self".to_owned();
    for step in labels.split('.') {
        optional = format!("{optional}.?{step}");
    }
    let field = format!(".{labels}");
    let absent = format!("!has(self.{template})");
    let inputs = ["selector", labels];
    let wanted = "self.selector.matchLabels";
    let by_labels = format!(
        "{absent} || !has({wanted}) || \
         {wanted}.all(k, {optional}[?k].hasValue() && {optional}[?k].value() == {wanted}[k])"
    );
    let missing = format!(
        "'must have what spec.selector.matchLabels asks for, %s: set the same labels in both'.format([{wanted}])"
    );
    let value = format!("{optional}[?e.key]");
    let holds = format!(
        "e.operator == 'Exists' ? {value}.hasValue() : e.operator == 'DoesNotExist' ? !{value}.hasValue() : \
         (e.operator == 'In') == ({value}.hasValue() && has(e.values) && {value}.value() in e.values)"
    );
    let expressions = "self.selector.matchExpressions";
    let by_expressions =
        format!("{absent} || !has({expressions}) || {expressions}.all(e, {holds})");
    let failing = format!(
        "'must fulfil spec.selector.matchExpressions, but does not for %s: change these labels or the selector'\
         .format([{expressions}.filter(e, !({holds})).map(e, e.key)])"
    );
    [
        unless_unchanged(&inputs, reported_at(&field, rule(by_labels, missing))),
        unless_unchanged(&inputs, reported_at(&field, rule(by_expressions, failing))),
    ]
}

fn topology() -> Vec<Patch> {
    let by_name = json!({
        "maxItems": MAX_SUBSETS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    });
    let label = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
    let no_label = "'is \"%s\", but the name of a subset has at most 63 of a-z, 0-9 and -, with a letter or digit at \
                    both ends: change it'.format([self])";
    let subset = format!("{SUBSETS}[]");
    let strategy = "spec.topology.scheduleStrategy";
    let mut rules = vec![
        at(
            "spec.topology",
            check(&[unless_before(one_way, one_way_message()), unbounded()]),
        ),
        at(SUBSETS, by_name),
        at(subset.as_str(), check(&[tolerations_stay()])),
        at(
            format!("{subset}.name"),
            json!({"minLength": 1, "maxLength": LABEL_VALUE}),
        ),
        at(format!("{subset}.name"), check(&[rule(label, no_label)])),
        at(format!("{subset}.patch"), json!({"nullable": true})),
        at(
            format!("{strategy}.type"),
            json!({"enum": ["Fixed", "Adaptive", ""]}),
        ),
        int32(format!("{strategy}.adaptive.rescheduleCriticalSeconds"), 0),
        int32(format!("{strategy}.adaptive.unschedulableDuration"), 0),
    ];
    for field in ["replicas", "minReplicas", "maxReplicas"] {
        rules.extend(share(field));
    }
    rules.extend(node_term(&format!("{subset}.nodeSelectorTerm")));
    rules.extend(tolerations(&format!("{subset}.tolerations")));
    rules
}

/// Either numbers, or bounds, which alone leave an adaptive division its freedom.
fn one_way(topology: &str) -> String {
    let subsets = format!("{topology}.subsets");
    let adaptive = format!(
        "(has({topology}.scheduleStrategy) && has({topology}.scheduleStrategy.type) && \
         {topology}.scheduleStrategy.type == 'Adaptive')"
    );
    format!(
        "!has({subsets}) || !{subsets}.exists(s, has(s.replicas)) || \
         !({adaptive} || {subsets}.exists(s, has(s.minReplicas) || has(s.maxReplicas)))"
    )
}

fn one_way_message() -> Value {
    let message = "'have replicas in %s, which neither type Adaptive nor minReplicas and maxReplicas of any subset allow: set \
                   minReplicas and maxReplicas instead, or remove those and set type to Fixed'\
                   .format([self.subsets.filter(s, has(s.replicas)).map(s, s.name)])";
    reported_at(".subsets", rule("true", message))
}

/// Otherwise pods beyond the sum of all bounds would have no place.
fn unbounded() -> Value {
    let valid = |topology: &str| {
        let subsets = format!("{topology}.subsets");
        format!(
            "!has({subsets}) || size({subsets}) == 0 || {subsets}.exists(s, !has(s.maxReplicas))"
        )
    };
    let message = "have maxReplicas each, so that pods beyond their sum have no place: remove it from at least one subset";
    unless_before(
        valid,
        reported_at(".subsets", json!({"rule": "true", "message": message})),
    )
}

/// Absent and empty are the same.
fn tolerations_stay() -> Value {
    let none =
        |subset: &str| format!("!has({subset}.tolerations) || size({subset}.tolerations) == 0");
    let valid = format!(
        "has(self.tolerations) && has(oldSelf.tolerations) ? self.tolerations == oldSelf.tolerations : \
         ({}) && ({})",
        none("self"),
        none("oldSelf")
    );
    let message = "'cannot be changed for subset \"%s\", whose pods have the old ones: take the change back, or remove the \
                   subset and add another of another name'.format([self.name])";
    let mut rule = reported_at(".tolerations", rule(valid, message));
    rule["reason"] = json!("FieldValueForbidden");
    rule
}

/// Which nodes a subset has.
fn node_term(term: &str) -> Vec<Patch> {
    let stays = json!({
        "rule": "self == oldSelf", "reason": "FieldValueForbidden",
        "message": "cannot be changed, because the subset's pods may run on nodes that would leave it: take the change \
                    back, or remove the subset and add another of another name",
    });
    let mut rules = vec![
        at(
            term,
            json!({"default": {}, "x-kubernetes-map-type": "atomic"}),
        ),
        at(term, check(&[stays])),
    ];
    for (list, what, value) in [
        ("matchExpressions", "labels", LABEL_VALUE),
        ("matchFields", "the field metadata.name", 253),
    ] {
        let path = format!("{term}.{list}");
        rules.extend([
            at(
                path.as_str(),
                json!({
                    "description": format!("Conditions on {what} of nodes, all of which must hold."),
                    "maxItems": 50, "x-kubernetes-list-type": "atomic",
                }),
            ),
            at(format!("{path}[].key"), json!({"description": "The key.", "minLength": 1, "maxLength": LABEL_KEY})),
            at(
                format!("{path}[].operator"),
                json!({
                    "description": "In or NotIn one of the values; Exists or DoesNotExist with any; Gt or Lt a number.",
                    "enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
                }),
            ),
            at(
                format!("{path}[].values"),
                json!({
                    "description": "Values for In and NotIn; one number for Gt and Lt.",
                    "maxItems": 500, "items": {"type": "string", "maxLength": value},
                    "x-kubernetes-list-type": "atomic",
                }),
            ),
        ]);
    }
    rules
}

fn tolerations(path: &str) -> Vec<Patch> {
    let text = |field: &str, description: &str, most: u32| {
        at(
            format!("{path}[].{field}"),
            json!({"description": description, "maxLength": most}),
        )
    };
    vec![
        at(
            path,
            json!({"maxItems": 50, "x-kubernetes-list-type": "atomic"}),
        ),
        text(
            "key",
            "The taint's key. Without it, every taint.",
            LABEL_KEY,
        ),
        text(
            "operator",
            "Exists with any value, or Equal to the value. Defaults to Equal.",
            16,
        ),
        text("value", "The taint's value, for Equal.", 253),
        text(
            "effect",
            "NoSchedule, PreferNoSchedule or NoExecute. Without it, each.",
            32,
        ),
        at(
            format!("{path}[].tolerationSeconds"),
            json!({"description": "Seconds for which a taint with NoExecute is tolerated. Without it, for ever."}),
        ),
    ]
}

fn known_partitions() -> Value {
    let partitions = "self.updateStrategy.manualUpdate.partitions";
    let names = "(has(self.topology) && has(self.topology.subsets) ? self.topology.subsets.map(s, s.name) : [])";
    let valid = format!(
        "!has(self.updateStrategy) || !has(self.updateStrategy.manualUpdate) || !has({partitions}) || \
         {partitions}.all(name, name in {names})"
    );
    let message = format!(
        "'has %s, which are no subsets of spec.topology.subsets: remove or rename them'\
         .format([{partitions}.map(name, name).filter(name, !(name in {names}))])"
    );
    let rule = reported_at(
        ".updateStrategy.manualUpdate.partitions",
        rule(valid, message),
    );
    unless_unchanged(
        &["topology.subsets", "updateStrategy.manualUpdate.partitions"],
        rule,
    )
}

/// A pod of a StatefulSet has an identity, so that there is no second one beside it.
fn reserves() -> Value {
    let adaptive = "self.topology.scheduleStrategy.adaptive";
    let valid = format!(
        "!has(self.topology) || !has(self.topology.scheduleStrategy) || !has({adaptive}) || \
         !has({adaptive}.reserveUnschedulablePods) || !{adaptive}.reserveUnschedulablePods || \
         !(has(self.topology.scheduleStrategy.type) && self.topology.scheduleStrategy.type == 'Adaptive') || \
         !(has(self.template.statefulSetTemplate) || has(self.template.advancedStatefulSetTemplate))"
    );
    let message = "is true, but a StatefulSet has no substitutes for its pods: set it to false, or use cloneSetTemplate or \
                   deploymentTemplate";
    let field = ".topology.scheduleStrategy.adaptive.reserveUnschedulablePods";
    let inputs = [
        "topology.scheduleStrategy",
        "template.statefulSetTemplate",
        "template.advancedStatefulSetTemplate",
    ];
    unless_unchanged(
        &inputs,
        reported_at(field, json!({"rule": valid, "message": message})),
    )
}

/// Bounds of what the controller writes, and of what OpenKruise has written.
fn status(version: Version) -> Vec<Patch> {
    let by_subset = json!({
        "maxProperties": 1024, "additionalProperties": {"type": "integer", "format": "int32"},
    });
    let mut rules = vec![
        at("status.currentRevision", json!({"maxLength": 253})),
        at("status.updatedRevision", json!({"maxLength": 253})),
        at("status.subsetStatuses", json!({"maxItems": 1024})),
        at("status.subsetStatuses[].name", json!({"maxLength": 253})),
    ];
    for conditions in ["status.conditions", "status.subsetStatuses[].conditions"] {
        rules.push(at(conditions, json!({"maxItems": 16})));
        rules.push(at(
            format!("{conditions}[].message"),
            json!({"maxLength": 32_768}),
        ));
    }
    if version == Version::V1Alpha1 {
        rules.push(at("status.subsetReplicas", by_subset.clone()));
        rules.push(at("status.updateStatus.currentPartitions", by_subset));
        rules.push(at(
            "status.updateStatus.updatedRevision",
            json!({"maxLength": 253}),
        ));
        rules.push(at("status", check(&one_value())));
    }
    rules
}
