//! Defaults and validation of every kind, by field path.
//!
//! A message says what is wrong with which value and what to do; the apiserver puts the field before it.
//!
//! An object that has a fault already, from before a rule, must stay usable: its status is still written, its labels still
//! change. The apiserver sees to it where the field or object that a rule stands at did not change. It cannot tell for
//! anything that has a pod template in it, so rules that stand there compare for themselves, see [`unless_unchanged`].

use serde_json::{Value, json};

use super::patch::Patch;
use super::{node_image, template};
use crate::names::V1ALPHA1;
use crate::v1beta1::cloneset::{DEFAULT_MAX_UNAVAILABLE, DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::v1beta1::imagelistpulljob::MAX_LISTED_IMAGES;
use crate::v1beta1::nodeimage::{
    DEFAULT_BACKOFF_LIMIT, DEFAULT_TIMEOUT_SECONDS, MAX_BACKOFF_LIMIT, MAX_SANDBOX_BYTES, MAX_SANDBOX_PAIRS,
    MAX_TIMEOUT_SECONDS,
};

/// The longest label value, and the longest label key: prefix, slash and name.
const LABEL_VALUE: u32 = 63;
const LABEL_KEY: u32 = 253 + 1 + 63;

/// An image reference: an optional registry with port, a name of several parts, a tag, a digest.
const IMAGE: &str = "^(([a-zA-Z0-9.-]+|\\\\[[0-9a-fA-F:]+\\\\])(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*\
                     (:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9._+-]*:[0-9a-fA-F]{32,})?$";

/// The rules of one version of one kind.
pub(super) fn of(kind: &str, version: &str) -> Vec<Patch> {
    match kind {
        "CloneSet" => cloneset(version),
        "ImageListPullJob" => imagelistpulljob(),
        "ImagePullJob" => imagepulljob(),
        "NodeImage" => node_image::rules(),
        _ => Vec::new(),
    }
}

pub(super) fn at(path: impl Into<String>, keywords: Value) -> Patch {
    let keywords = if let Value::Object(keywords) = keywords { keywords } else { serde_json::Map::new() };
    Patch { path: path.into(), keywords }
}

/// A CEL rule whose message is an expression.
fn rule(rule: impl Into<String>, message: impl Into<String>) -> Value {
    json!({"rule": rule.into(), "messageExpression": message.into()})
}

pub(super) fn check(rules: &[Value]) -> Value {
    json!({"x-kubernetes-validations": rules})
}

/// The same, reported at a field below.
fn reported_at(field_path: &str, mut rule: Value) -> Value {
    if let Some(rule) = rule.as_object_mut() {
        rule.insert("fieldPath".to_owned(), json!(field_path));
    }
    rule
}

/// Makes a rule of the CloneSet's spec forgive a fault as long as none of the fields it looks at changes.
fn unless_unchanged(fields: &[&str], mut rule: Value) -> Value {
    let same: Vec<_> = fields.iter().map(|field| is_same("", field)).collect();
    if let Some(rule) = rule.as_object_mut() {
        let valid = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        let valid = format!("(oldSelf.hasValue() && {}) || ({valid})", same.join(" && "));
        rule.insert("rule".to_owned(), json!(valid));
        rule.insert("optionalOldSelf".to_owned(), json!(true));
    }
    rule
}

/// An expression: is a field the same as before? Each step may be missing. (Optional chaining would be shorter, but the
/// apiserver takes what it yields for unbounded and refuses the rule as too costly.)
fn is_same(parent: &str, field: &str) -> String {
    let (name, rest) = field.split_once('.').map_or((field, None), |(name, rest)| (name, Some(rest)));
    let path = format!("{parent}.{name}");
    let (new, old) = (format!("self{path}"), format!("oldSelf.value(){path}"));
    let same = rest.map_or_else(|| format!("{new} == {old}"), |rest| is_same(&path, rest));
    format!("(has({new}) ? has({old}) && {same} : !has({old}))")
}

/// An expression: is this number or percentage 0?
fn is_zero(field: &str) -> String {
    format!("(type({field}) == int ? {field} == 0 : {field}.matches('^0+([.]0+)?%$'))")
}

/// A number or percentage that is not negative.
fn int_or_percent(path: impl Into<String>) -> Patch {
    let valid = "type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^[0-9]+([.][0-9]+)?%$')";
    let message =
        "'is \"%s\", but must be a number from 0 to 2147483647 or a percentage such as \"25%%\"'.format([self])";
    at(path, check(&[rule(valid, message)]))
}

pub(super) fn not_negative(path: impl Into<String>) -> Patch {
    at(path, json!({"minimum": 0}))
}

/// A number of 32 bits. The apiserver takes no heed of a format, and what is larger could not be read.
pub(super) fn int32(path: impl Into<String>, least: i32) -> Patch {
    at(path, json!({"minimum": least, "maximum": i32::MAX}))
}

/// How long one try of a pull may take: it holds a slot of its node for as long.
pub(super) fn timeout(path: impl Into<String>) -> Patch {
    at(path, json!({"default": DEFAULT_TIMEOUT_SECONDS, "minimum": 1, "maximum": MAX_TIMEOUT_SECONDS}))
}

/// How often a failed pull is tried again.
pub(super) fn backoff(path: impl Into<String>) -> Patch {
    at(path, json!({"default": DEFAULT_BACKOFF_LIMIT, "minimum": 0, "maximum": MAX_BACKOFF_LIMIT}))
}

/// Labels and annotations that are copied into the NodeImage of every node that pulls.
fn sandbox() -> Vec<Patch> {
    let size = |field: &str| {
        format!("(has(self.{field}) ? self.{field}.map(key, size(key) + size(self.{field}[key])).sum() : 0)")
    };
    let whole = format!("{} + {}", size("labels"), size("annotations"));
    let message = format!(
        "'has labels and annotations of %d characters, but can have {MAX_SANDBOX_BYTES} in all: remove or shorten some'\
         .format([{whole}])"
    );
    let pairs = json!({
        "maxProperties": MAX_SANDBOX_PAIRS,
        "additionalProperties": {"type": "string", "maxLength": MAX_SANDBOX_BYTES},
    });
    vec![
        at("spec.sandboxConfig", check(&[rule(format!("{whole} <= {MAX_SANDBOX_BYTES}"), message)])),
        at("spec.sandboxConfig.labels", pairs.clone()),
        at("spec.sandboxConfig.annotations", pairs),
    ]
}

/// What a label selector's fields mean, how long they may be, and which operator takes values.
fn label_selector(path: &str) -> Vec<Patch> {
    let values = "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : \
                  !has(self.values) || size(self.values) == 0";
    let message = "(self.operator in ['In', 'NotIn'] ? 'operator %s of key \"%s\" needs values: add at least one' : \
                   'operator %s of key \"%s\" takes no values: remove them').format([self.operator, self.key])";
    vec![
        at(path, json!({"x-kubernetes-map-type": "atomic"})),
        at(
            format!("{path}.matchLabels"),
            json!({
                "description": "Labels that must be there with these values.",
                "maxProperties": 100,
                "additionalProperties": {"type": "string", "maxLength": LABEL_VALUE},
            }),
        ),
        at(
            format!("{path}.matchExpressions"),
            json!({"description": "Conditions on labels, all of which must hold.", "maxItems": 100,
                   "x-kubernetes-list-type": "atomic"}),
        ),
        at(format!("{path}.matchExpressions[]"), check(&[rule(values, message)])),
        at(
            format!("{path}.matchExpressions[].key"),
            json!({"description": "The label's key.", "minLength": 1, "maxLength": LABEL_KEY}),
        ),
        at(
            format!("{path}.matchExpressions[].operator"),
            json!({
                "description": "In or NotIn one of the values; Exists or DoesNotExist with any value.",
                "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
            }),
        ),
        at(
            format!("{path}.matchExpressions[].values"),
            json!({
                "description": "Values for In and NotIn.",
                "maxItems": 500,
                "items": {"type": "string", "maxLength": LABEL_VALUE},
                "x-kubernetes-list-type": "atomic",
            }),
        ),
    ]
}

fn cloneset(version: &str) -> Vec<Patch> {
    let alpha = version == V1ALPHA1;
    let update = if alpha { "spec.updateStrategy" } else { "spec.updateStrategy.rollingUpdate" };
    let mut rules = vec![
        at("spec.replicas", json!({"default": 1})),
        int32("spec.replicas", 0),
        at("spec.revisionHistoryLimit", json!({"default": DEFAULT_REVISION_HISTORY_LIMIT})),
        at("spec.revisionHistoryLimit", json!({"minimum": 0, "maximum": MAX_REVISION_HISTORY_LIMIT})),
        int32("spec.minReadySeconds", 0),
        int32("spec.progressDeadlineSeconds", 1),
        at("spec.template", template::pod()),
        at("spec.volumeClaimTemplates[]", template::claim()),
        at("spec.scaleStrategy", json!({"default": {}})),
        at(
            "spec.scaleStrategy.podsToDelete",
            json!({"x-kubernetes-list-type": "set", "items": {"type": "string", "minLength": 1, "maxLength": 253}}),
        ),
        int_or_percent("spec.scaleStrategy.maxUnavailable"),
        at("spec.updateStrategy", json!({"default": {}})),
        at(format!("{update}.partition"), json!({"default": 0})),
        int_or_percent(format!("{update}.partition")),
        at(format!("{update}.maxUnavailable"), json!({"default": DEFAULT_MAX_UNAVAILABLE})),
        int_or_percent(format!("{update}.maxUnavailable")),
        at(format!("{update}.maxSurge"), json!({"default": 0})),
        int_or_percent(format!("{update}.maxSurge")),
        int_or_percent(format!("{update}.inPlaceUpdateStrategy.imagePreDownloadParallelism")),
        int32(format!("{update}.inPlaceUpdateStrategy.gracePeriodSeconds"), 0),
        int32(format!("{update}.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds"), 0),
        int32(format!("{update}.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods"), 0),
        at(
            "status",
            json!({"required": ["availableReplicas", "readyReplicas", "replicas", "updatedReadyReplicas", "updatedReplicas"]}),
        ),
    ];
    if alpha {
        rules.push(at("spec.scaleStrategy.disablePVCReuse", json!({"default": false})));
        rules.push(at(format!("{update}.type"), json!({"default": "ReCreate"})));
        rules.push(at(update, check(&[surge_in_place("type")])));
    } else {
        rules.push(at("spec.scaleStrategy.enablePVCReuse", json!({"default": false})));
        rules.push(at("spec.scaleStrategy.excludePreparingDelete", json!({"default": false})));
        rules.push(at("spec.updateStrategy.type", json!({"default": "RollingUpdate"})));
        rules.push(at(update, json!({"default": {}})));
        rules.push(at(format!("{update}.podUpdatePolicy"), json!({"default": "ReCreate"})));
        rules.push(at(update, check(&[surge_in_place("podUpdatePolicy")])));
    }
    rules.extend(hooks());
    rules.extend(cloneset_selector());
    rules.extend(update_order(update));
    let limits = if alpha { "updateStrategy" } else { "updateStrategy.rollingUpdate" };
    rules.push(at(
        "spec",
        check(&[
            unless_unchanged(
                &[
                    "replicas",
                    &format!("{limits}.maxUnavailable"),
                    &format!("{limits}.maxSurge"),
                    "updateStrategy.type",
                ],
                no_way_to_update(alpha),
            ),
            unless_unchanged(&["minReadySeconds", "progressDeadlineSeconds"], deadline_after_ready()),
        ]),
    ));
    rules
}

/// Lifecycle hooks: a finalizer that no pod can have would hold pods for ever after their creation or update.
fn hooks() -> impl Iterator<Item = Patch> {
    let valid = "self.all(name, name.matches('^[^/]+/[^/]+$'))";
    let message = "'has %s, but a finalizer is a domain, / and a name, such as \"example.com/in-use\"'\
                   .format([self.filter(name, !name.matches('^[^/]+/[^/]+$'))])";
    ["preDelete", "inPlaceUpdate", "preNormal"].into_iter().flat_map(move |hook| {
        let path = format!("spec.lifecycle.{hook}.finalizersHandler");
        let limits = json!({"maxItems": 100, "items": {"type": "string", "maxLength": LABEL_KEY}});
        [at(&path, limits), at(&path, check(&[rule(valid, message)]))]
    })
}

/// The selector: not empty, never changed, matching the template.
fn cloneset_selector() -> Vec<Patch> {
    let not_empty = "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
                     (has(self.matchExpressions) && size(self.matchExpressions) > 0)";
    let mut rules = label_selector("spec.selector");
    rules.push(at(
        "spec.selector",
        check(&[
            json!({"rule": not_empty, "message": "is empty and would select every pod of the namespace: set matchLabels or matchExpressions"}),
            json!({"rule": "self == oldSelf", "reason": "FieldValueForbidden",
                   "message": "cannot be changed, the pods it selected would be left behind: create another CloneSet with the new selector"}),
        ]),
    ));
    let labels = "self.template.?metadata.?labels";
    let missing = format!("!({labels}[?k].orValue('') == self.selector.matchLabels[k] && {labels}[?k].hasValue())");
    let by_labels = format!("!has(self.selector.matchLabels) || !self.selector.matchLabels.exists(k, {missing})");
    let wanted = "'must have what spec.selector.matchLabels asks for, %s: set the same labels in both'.format([self.selector.matchLabels])";
    let value = format!("{labels}[?e.key]");
    let holds = format!(
        "e.operator == 'Exists' ? {value}.hasValue() : e.operator == 'DoesNotExist' ? !{value}.hasValue() : \
         (e.operator == 'In') == ({value}.hasValue() && has(e.values) && {value}.value() in e.values)"
    );
    let inputs = ["selector", "template.metadata.labels"];
    let by_expressions =
        format!("!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, {holds})");
    let failing = format!(
        "'must fulfil spec.selector.matchExpressions, but does not for %s: change these labels or the selector'\
         .format([self.selector.matchExpressions.filter(e, !({holds})).map(e, e.key)])"
    );
    rules.push(at(
        "spec",
        check(&[
            unless_unchanged(&inputs, reported_at(".template.metadata.labels", rule(by_labels, wanted))),
            unless_unchanged(&inputs, reported_at(".template.metadata.labels", rule(by_expressions, failing))),
        ]),
    ));
    rules
}

/// InPlaceOnly never replaces pods, so an update needs none beyond the replicas.
fn surge_in_place(policy: &str) -> Value {
    let valid = format!(
        "!has(self.{policy}) || self.{policy} != 'InPlaceOnly' || !has(self.maxSurge) || {}",
        is_zero("self.maxSurge")
    );
    let message = format!(
        "'is \"%s\", but InPlaceOnly never replaces pods: set it to 0, or {policy} to InPlaceIfPossible'.format([self.maxSurge])"
    );
    reported_at(".maxSurge", rule(valid, message))
}

/// With neither a pod to miss nor one to add, no update could begin.
fn no_way_to_update(alpha: bool) -> Value {
    let strategy = "self.updateStrategy";
    let (there, update, path) = if alpha {
        (format!("has({strategy})"), strategy.to_owned(), ".updateStrategy.maxUnavailable")
    } else {
        let update = format!("{strategy}.rollingUpdate");
        (format!("has({strategy}) && has({update})"), update, ".updateStrategy.rollingUpdate.maxUnavailable")
    };
    let on_delete = format!("has({strategy}.type) && {strategy}.type == 'OnDelete'");
    let (unavailable, surge) = (format!("{update}.maxUnavailable"), format!("{update}.maxSurge"));
    let stuck = format!("has({unavailable}) && {} && (!has({surge}) || {})", is_zero(&unavailable), is_zero(&surge));
    let valid = format!("(has(self.replicas) && self.replicas == 0) || !({there}) || ({on_delete}) || !({stuck})");
    let message = "is 0 and so is maxSurge, which leaves no way to update a pod: set one of them to at least 1";
    reported_at(path, json!({"rule": valid, "message": message}))
}

fn deadline_after_ready() -> Value {
    let valid = "!has(self.progressDeadlineSeconds) || !has(self.minReadySeconds) || \
                 self.progressDeadlineSeconds == 2147483647 || self.progressDeadlineSeconds > self.minReadySeconds";
    let message = "'is %d, but must be more than minReadySeconds, which is %d: no pod could be available in time'\
                   .format([self.progressDeadlineSeconds, self.minReadySeconds])";
    reported_at(".progressDeadlineSeconds", rule(valid, message))
}

fn update_order(update: &str) -> Vec<Patch> {
    let priority = format!("{update}.priorityStrategy");
    let one = "!(has(self.orderPriority) && size(self.orderPriority) > 0 && has(self.weightPriority) && size(self.weightPriority) > 0)";
    let not_empty = "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
                     (has(self.matchExpressions) && size(self.matchExpressions) > 0)";
    let mut rules = label_selector(&format!("{priority}.weightPriority[].matchSelector"));
    rules.extend([
        at(&priority, check(&[json!({"rule": one, "message": "has both orderPriority and weightPriority: remove one of them"})])),
        at(format!("{priority}.orderPriority"), json!({"maxItems": 100})),
        at(format!("{priority}.orderPriority[].orderedKey"), json!({"minLength": 1, "maxLength": LABEL_KEY})),
        at(format!("{priority}.weightPriority"), json!({"maxItems": 100})),
        at(format!("{priority}.weightPriority[].weight"), json!({"minimum": 0, "maximum": 100})),
        at(
            format!("{priority}.weightPriority[].matchSelector"),
            json!({
                "description": "The pods that get the weight, by their labels.",
                "x-kubernetes-validations": [{"rule": not_empty, "message": "is empty: set matchLabels or matchExpressions"}],
            }),
        ),
        at(
            format!("{update}.scatterStrategy"),
            json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key", "value"]}),
        ),
        at(format!("{update}.scatterStrategy[].key"), json!({"minLength": 1, "maxLength": LABEL_KEY})),
    ]);
    rules
}

fn imagepulljob() -> Vec<Patch> {
    let secrets = "has(self.pullSecrets) == has(oldSelf.pullSecrets) && (!has(self.pullSecrets) || self.pullSecrets == oldSelf.pullSecrets)";
    let fixed =
        json!({"rule": secrets, "reason": "FieldValueForbidden", "message": "cannot be changed: create another job"});
    let mut rules = pull_template();
    rules.extend([
        at("spec", check(&[reported_at(".pullSecrets", fixed)])),
        at("spec.image", json!({"minLength": 1, "maxLength": 1024})),
        at("spec.image", check(&[is_image()])),
    ]);
    rules
}

fn imagelistpulljob() -> Vec<Patch> {
    let list = json!({"minItems": 1, "maxItems": MAX_LISTED_IMAGES, "x-kubernetes-list-type": "set"});
    let mut rules = pull_template();
    rules.extend([
        at("spec.images", list),
        at("spec.images[]", json!({"minLength": 1, "maxLength": 1024})),
        at("spec.images[]", check(&[is_image()])),
        at("spec.pullSecrets", json!({"description": "Names of secrets for the registry, in the job's namespace."})),
    ]);
    rules
}

fn is_image() -> Value {
    let message =
        "'is \"%s\", but an image is [registry/]name[:tag][@digest] in lower case and without blanks'.format([self])";
    rule(format!("self.matches('{IMAGE}')"), message)
}

/// What the jobs of one image and of many share.
fn pull_template() -> Vec<Patch> {
    let both = "!(has(self.selector) && has(self.podSelector))";
    let deadline = "!has(self.completionPolicy) || !has(self.completionPolicy.activeDeadlineSeconds) || \
                    !has(self.pullPolicy) || !has(self.pullPolicy.timeoutSeconds) || \
                    self.completionPolicy.activeDeadlineSeconds >= self.pullPolicy.timeoutSeconds";
    let deadline_message = "'is %d, but must be at least pullPolicy.timeoutSeconds, which is %d (600 where nothing is said): \
                            raise the one or lower the other'\
                            .format([self.completionPolicy.activeDeadlineSeconds, self.pullPolicy.timeoutSeconds])";
    let names = "!(has(self.names) && (has(self.matchLabels) || has(self.matchExpressions)))";
    let never = "!has(self.type) || self.type != 'Never' || !(has(self.activeDeadlineSeconds) || has(self.ttlSecondsAfterFinished))";
    let mut rules = vec![
        at(
            "spec",
            check(&[
                reported_at(
                    ".podSelector",
                    json!({"rule": both, "message": "is set and so is selector: remove one of them"}),
                ),
                reported_at(".completionPolicy.activeDeadlineSeconds", rule(deadline, deadline_message)),
            ]),
        ),
        at(
            "spec.pullSecrets",
            json!({"maxItems": 256, "items": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN}}),
        ),
        at(
            "spec.selector",
            check(&[
                json!({"rule": names, "message": "has names and labels: remove names, or matchLabels and matchExpressions"}),
            ]),
        ),
        at("spec.selector.names", json!({"x-kubernetes-list-type": "set"})),
        int_or_percent("spec.parallelism"),
        at("spec.pullPolicy", json!({"default": {}})),
        timeout("spec.pullPolicy.timeoutSeconds"),
        backoff("spec.pullPolicy.backoffLimit"),
        at("spec.completionPolicy", json!({"default": {}})),
        at(
            "spec.completionPolicy",
            check(&[json!({
                "rule": never,
                "message": "has type Never, which knows neither activeDeadlineSeconds nor ttlSecondsAfterFinished: remove them, or set type to Always"
            })]),
        ),
        at("spec.completionPolicy.type", json!({"default": "Always"})),
        int32("spec.completionPolicy.activeDeadlineSeconds", 1),
        int32("spec.completionPolicy.ttlSecondsAfterFinished", 0),
        at("spec.imagePullPolicy", json!({"default": "IfNotPresent"})),
        at("status", json!({"required": ["desired"]})),
    ];
    rules.extend(sandbox());
    rules.extend(label_selector("spec.selector"));
    rules.extend(label_selector("spec.podSelector"));
    rules
}

/// What a name must match that becomes part of a request for an object. A NodeImage's are not held to it: one that a job
/// from before this rule names must not make the whole NodeImage unwritable, and whoever reads the secrets checks.
const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
