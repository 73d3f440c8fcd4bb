//! Rules of a SidecarSet.

use schemars::Schema;
use schemars::transform::Transform;
use serde_json::{Value, json};

use super::container_rules::{
    IS_DNS_LABEL, NAME, dns_label, free_names, named_once, none_added, some,
};
use crate::names::label::NAMESPACE_NAME;
use crate::schema::field::patched;
use crate::schema::patch::{Patch, at};
use crate::schema::rules::{DNS_SUBDOMAIN, LABEL_VALUE, reported_at, rule, unless_unchanged};
use crate::version::Version;

/// The most volumes.
pub(super) const MOST_VOLUMES: u32 = 128;
/// The most secrets.
pub(super) const MOST_SECRETS: u32 = 64;
/// The most entries of `patchPodMetadata`, and of annotations in each.
pub(super) const MOST_PATCHES: u32 = 32;
const MOST_ANNOTATIONS: u32 = 64;
/// As much as Kubernetes takes of all annotations of a pod.
const ANNOTATIONS: u32 = 256 << 10;

/// Rules of the spec.
pub(super) fn of_spec() -> [Value; 5] {
    [
        has_selector(),
        some(),
        named_once(),
        free_names(),
        none_added(),
    ]
}

/// What no attribute can say: an empty description, and that v1alpha1 has the custom version in a
/// label.
pub(crate) fn patches(version: Version) -> Vec<Patch> {
    let ports = ["spec.containers[].ports[]", "spec.initContainers[].ports[]"];
    let mut patches = ports
        .map(|port| at(port, json!({"description": ""})))
        .to_vec();
    if version == Version::V1Alpha1 {
        patches.push(at("spec", json!({"properties": {"customVersion": null}})));
    }
    patches
}

/// Bounds the names of secrets.
pub(super) fn secrets(schema: &mut Schema) {
    let name = json!({
        "minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN,
        "description": "The secret's name.",
    });
    patched(vec![at("[].name", name)]).transform(schema);
}

/// Bounds the values of labels.
pub(super) fn short_values(schema: &mut Schema) {
    patched(vec![at("[].value", json!({"maxLength": LABEL_VALUE}))]).transform(schema);
}

/// Annotations that pods get. That none is there twice a webhook says, for a rule could not name
/// it: a map's keys are of any length.
pub(super) fn annotations() -> Value {
    json!({
        "minProperties": 1, "maxProperties": MOST_ANNOTATIONS,
        "additionalProperties": {"type": "string", "maxLength": ANNOTATIONS},
    })
}

pub(super) fn names_a_revision() -> Value {
    json!({
        "rule": "has(self.revisionName) || has(self.customVersion)",
        "message": "names no revision: set revisionName or customVersion, or remove it for the latest",
    })
}

pub(super) const EVERYTHING: &str =
    "is empty and would select every pod: set matchLabels or matchExpressions";
pub(super) const EVERYWHERE: &str =
    "is empty: set matchLabels or matchExpressions, or remove it for pods of all namespaces";

pub(super) fn volume() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["name"],
        "properties": {"name": {
            "type": "string", "maxLength": NAME, "description": "The name that containers mount the volume by.",
            "x-kubernetes-validations": [dns_label("the name of a volume")],
        }},
    })
}

fn has_selector() -> Value {
    let message = "is missing, so that it is not said which pods get the containers: set matchLabels or matchExpressions";
    let rule = reported_at(
        ".selector",
        json!({"rule": "has(self.selector)", "message": message}),
    );
    unless_unchanged(&["selector"], rule)
}

/// A namespace selector of the form that a namespace becomes in v1beta1 is there when a manifest is
/// applied again, and yields.
pub(crate) fn one_namespace() -> Value {
    let labels = "self.namespaceSelector.matchLabels";
    let converted = format!(
        "has({labels}) && size({labels}) == 1 && '{NAMESPACE_NAME}' in {labels} && \
         (!has(self.namespaceSelector.matchExpressions) || size(self.namespaceSelector.matchExpressions) == 0)"
    );
    let valid = format!(
        "!has(self.namespace) || self.namespace == '' || !has(self.namespaceSelector) || ({converted})"
    );
    let message = "'is \"%s\", but namespaceSelector is set, too: remove one of them'.format([self.namespace])";
    unless_unchanged(
        &["namespace", "namespaceSelector"],
        reported_at(".namespace", rule(valid, message)),
    )
}

pub(crate) fn namespace() -> Value {
    let mut rule = dns_label("the name of a namespace");
    rule["rule"] = json!(format!("self == '' || {IS_DNS_LABEL}"));
    rule
}

pub(super) fn label_value() -> Value {
    let message = "'is \"%s\", but a label of the revision has it: use at most 63 of letters, digits, -, _ and ., with a letter or digit at \
                   both ends'.format([self])";
    rule(
        "self == '' || self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",
        message,
    )
}

/// A percentage is said by somebody, 0 is what is filled in.
pub(super) fn selected_or_kept_back() -> Value {
    let valid = "!has(self.selector) || !has(self.partition) || (type(self.partition) == int && self.partition == 0) || \
                 (has(self.type) && self.type == 'NotUpdate')";
    let message = "'is \"%s\", but selector says already which pods are updated: remove one of them'.format([self.partition])";
    reported_at(".partition", rule(valid, message))
}
