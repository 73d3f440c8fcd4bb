//! ImagePullJob: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::Version;
use crate::crd::Schema;
use crate::crd::columns::Column;
use crate::crd::patch::Patch;
use crate::crd::rules::{at, backoff, check, int_or_percent, int32, label_selector, reported_at, rule, timeout};
use crate::v1beta1::nodeimage::{MAX_SANDBOX_BYTES, MAX_SANDBOX_PAIRS};
use crate::{v1alpha1, v1beta1};

pub(super) const SCHEMA: Schema =
    Schema { versions: &[v1beta1::ImagePullJob::crd, v1alpha1::ImagePullJob::crd], rules, columns: COLUMNS };

const COLUMNS: &[Column] = &[
    Column::integer("TOTAL", ".status.desired", "Nodes that shall pull."),
    Column::integer("ACTIVE", ".status.active", "Nodes that are pulling."),
    Column::integer("SUCCEED", ".status.succeeded", "Nodes that have the image."),
    Column::integer("FAILED", ".status.failed", "Nodes that gave up."),
    Column::AGE,
    Column::string("MESSAGE", ".status.message", "What is going on.").only_in(Version::V1Alpha1),
];

/// An image reference: an optional registry with port, a name of several parts, a tag, a digest.
const IMAGE: &str = "^(([a-zA-Z0-9.-]+|\\\\[[0-9a-fA-F:]+\\\\])(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*\
                     (:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9._+-]*:[0-9a-fA-F]{32,})?$";

/// What a name must match that becomes part of a request for an object. A NodeImage's are not held to it: one that a job
/// from before this rule names must not make the whole NodeImage unwritable, and whoever reads the secrets checks.
pub(super) const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

fn rules(_: Version) -> Vec<Patch> {
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

/// Whether a text is an image reference.
pub(super) fn is_image() -> Value {
    let message =
        "'is \"%s\", but an image is [registry/]name[:tag][@digest] in lower case and without blanks'.format([self])";
    rule(format!("self.matches('{IMAGE}')"), message)
}

/// What the jobs of one image and of many share.
pub(super) fn pull_template() -> Vec<Patch> {
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
