//! Rules of a UnitedDeployment.

use kube::core::{Message, Rule};
use serde_json::{Value, json};

use super::division::{bounds, sum_is_equal, sum_is_less};
use crate::schema::rules::{reported_at, rule, unless_before, unless_unchanged};

/// Most subsets of one UnitedDeployment.
pub const MAX_SUBSETS: usize = 200;
/// The longest name: a label has the name of a revision, which is this name, a dash and a hash of
/// up to ten digits.
pub const MAX_NAME: usize = 52;
/// The fields that hold a template, one for each kind of workload.
const TEMPLATES: [&str; 4] = [
    "statefulSetTemplate",
    "advancedStatefulSetTemplate",
    "cloneSetTemplate",
    "deploymentTemplate",
];

/// Rules of the spec.
pub(super) fn of_spec() -> Vec<Value> {
    let mut rules = vec![
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
            rules.extend(match_selector(&format!("template.{labels}.labels")));
        }
    }
    rules
}

/// Workloads and pods have a label with the name of a revision.
pub(crate) fn name() -> Rule {
    let message = format!(
        "'has the name \"%s\", but its pods have a label made from it: use at most {MAX_NAME} characters'\
         .format([self.metadata.name])"
    );
    let valid = format!("oldSelf.hasValue() || size(self.metadata.name) <= {MAX_NAME}");
    Rule::new(valid)
        .message(Message::Expression(message))
        .optional_old_self(true)
}

/// What each subset is, said once.
pub(super) fn one_template() -> [Value; 2] {
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

pub(super) fn is_subset_name() -> Value {
    let label = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
    let no_label = "'is \"%s\", but the name of a subset has at most 63 of a-z, 0-9 and -, with a letter or digit at \
                    both ends: change it'.format([self])";
    rule(label, no_label)
}

/// Either numbers, or bounds, which alone leave an adaptive division its freedom.
fn is_one_way(topology: &str) -> String {
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

pub(super) fn one_way() -> Value {
    let message = "'have replicas in %s, which neither type Adaptive nor minReplicas and maxReplicas of any subset allow: set \
                   minReplicas and maxReplicas instead, or remove those and set type to Fixed'\
                   .format([self.subsets.filter(s, has(s.replicas)).map(s, s.name)])";
    unless_before(is_one_way, reported_at(".subsets", rule("true", message)))
}

/// Otherwise pods beyond the sum of all bounds would have no place.
pub(super) fn unbounded() -> Value {
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
pub(super) fn tolerations_stay() -> Value {
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
