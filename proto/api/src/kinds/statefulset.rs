//! Advanced StatefulSet: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::conversion::Mapping;
use crate::kind::{Kind, read};
use crate::names::GROUP;
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{
    at, check, int_or_percent, int32, is_zero, reported_at, rule, unless_unchanged,
};
use crate::schema::{Schema, pods, template};
use crate::v1beta1::cloneset::{DEFAULT_REVISION_HISTORY_LIMIT, MAX_REVISION_HISTORY_LIMIT};
use crate::v1beta1::statefulset::MAX_MIN_READY_SECONDS;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// Advanced StatefulSet.
pub const STATEFUL_SET: Kind = Kind {
    group: GROUP,
    kind: "StatefulSet",
    plural: "statefulsets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::StatefulSet>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    mapping: Mapping::SAME,
    faults: validation::of_stateful_set,
    faults_of_change: validation::claim_changes,
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1beta1::StatefulSet::crd, v1alpha1::StatefulSet::crd],
    rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::integer("DESIRED", ".spec.replicas", "Pods that are wanted."),
    Column::integer("CURRENT", ".status.replicas", "Pods that exist."),
    Column::integer(
        "UPDATED",
        ".status.updatedReplicas",
        "Pods of the update revision.",
    ),
    Column::integer("READY", ".status.readyReplicas", "Pods that are ready."),
    Column::AGE,
    Column::string(
        "CONTAINERS",
        ".spec.template.spec.containers[*].name",
        "The template's containers.",
    )
    .wide(),
    Column::string(
        "IMAGES",
        ".spec.template.spec.containers[*].image",
        "The template's images.",
    )
    .wide(),
    Column::BLOCKED,
];

/// The longest name: with a dash and ten characters behind it, it is the value of a label of its pods.
const LONGEST_NAME: usize = 52;
/// The most entries of `reserveOrdinals`, each of which may be a range.
const MOST_RESERVED: usize = 1000;
const ROLLING: &str = "updateStrategy.rollingUpdate";

fn rules(version: Version) -> Vec<Patch> {
    let update = format!("spec.{ROLLING}");
    let mut rules = vec![
        at("", check(&[name()])),
        at("spec.replicas", json!({"default": 1})),
        int32("spec.replicas", 0),
        at(
            "spec.revisionHistoryLimit",
            json!({"default": DEFAULT_REVISION_HISTORY_LIMIT}),
        ),
        at(
            "spec.revisionHistoryLimit",
            json!({"minimum": 0, "maximum": MAX_REVISION_HISTORY_LIMIT}),
        ),
        at("spec.template", template::pod("StatefulSet")),
        at("spec.volumeClaimTemplates[]", template::claim()),
        at("spec.serviceName", json!({"maxLength": 253})),
        at(
            "spec.podManagementPolicy",
            json!({"default": "OrderedReady"}),
        ),
        at("spec.updateStrategy", json!({"default": {}})),
        at(
            "spec.updateStrategy.type",
            json!({"default": "RollingUpdate"}),
        ),
        at("spec.updateStrategy", check(&[rolls_by_itself()])),
        at(update.as_str(), json!({"default": {}})),
        at(format!("{update}.partition"), json!({"default": 0})),
        int32(format!("{update}.partition"), 0),
        at(format!("{update}.maxUnavailable"), json!({"default": 1})),
        int_or_percent(format!("{update}.maxUnavailable")),
        at(
            format!("{update}.maxUnavailable"),
            check(&[more_than_none("self")]),
        ),
        at(
            format!("{update}.podUpdatePolicy"),
            json!({"default": "ReCreate"}),
        ),
        at(
            format!("{update}.minReadySeconds"),
            json!({"default": 0, "minimum": 0, "maximum": MAX_MIN_READY_SECONDS}),
        ),
        int_or_percent(format!(
            "{update}.inPlaceUpdateStrategy.imagePreDownloadParallelism"
        )),
        int32(
            format!("{update}.inPlaceUpdateStrategy.gracePeriodSeconds"),
            0,
        ),
        int32(
            format!("{update}.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds"),
            0,
        ),
        int32(
            format!("{update}.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods"),
            0,
        ),
    ];
    let mut of_spec = vec![
        stays(
            "podManagementPolicy",
            "create another StatefulSet with the new policy",
        ),
        stays(
            "serviceName",
            "create another StatefulSet for the new Service",
        ),
        only_parallel(
            &format!("{ROLLING}.unorderedUpdate"),
            |_| "false".to_owned(),
            "updates pods by their ordinals",
        ),
        only_parallel(
            "scaleStrategy.maxUnavailable",
            one_at_a_time,
            "creates one pod at a time",
        ),
    ];
    if version == Version::V1Alpha1 {
        of_spec.extend([
            left_out(
                "reserveOrdinals",
                "[]",
                "pods of other ordinals would be deleted",
            ),
            left_out("ordinals", "{}", "pods of other ordinals would be deleted"),
            left_out(
                "lifecycle",
                "{}",
                "pods would be deleted without their hooks",
            ),
        ]);
    }
    rules.extend(ordinals_and_claims());
    rules.push(at("spec", check(&of_spec)));
    rules.extend(pods::selector("StatefulSet"));
    rules.extend(pods::priority(&format!(
        "{update}.unorderedUpdate.priorityStrategy"
    )));
    rules
}

/// Which ordinals there are, what becomes of claims, how many pods are made at once, and hooks.
fn ordinals_and_claims() -> Vec<Patch> {
    let ordinal = json!({
        "minimum": 0, "maximum": i32::MAX, "maxLength": 21, "pattern": "^[0-9]{1,10}(-[0-9]{1,10})?$",
        "description": "An ordinal, or a range such as 2-5.",
    });
    let mut rules = vec![
        at(
            "spec.volumeClaimUpdateStrategy.type",
            json!({"default": "OnDelete"}),
        ),
        at(
            "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
            json!({"default": "Retain"}),
        ),
        at(
            "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
            json!({"default": "Retain"}),
        ),
        at(
            "spec.reserveOrdinals",
            json!({"maxItems": MOST_RESERVED, "x-kubernetes-list-type": "atomic"}),
        ),
        at("spec.reserveOrdinals[]", ordinal),
        int32("spec.ordinals.start", 0),
        int_or_percent("spec.scaleStrategy.maxUnavailable"),
        at(
            "spec.scaleStrategy.maxUnavailable",
            check(&[more_than_none("self")]),
        ),
    ];
    rules.extend(pods::hooks());
    rules
}

/// Pods and revisions are named after the StatefulSet, and a name is a pod's host name and a label's value.
fn name() -> Value {
    let valid = format!(
        "oldSelf.hasValue() || (size(self.metadata.name) <= {LONGEST_NAME} && !self.metadata.name.contains('.'))"
    );
    let message = format!(
        "'has the name \"%s\", but its pods have host names and labels made from it: use at most {LONGEST_NAME} of a-z, 0-9 and -'\
         .format([self.metadata.name])"
    );
    let mut rule = rule(valid, message);
    rule["optionalOldSelf"] = json!(true);
    rule
}

/// A field that says what pods are, and not how many or of what.
fn stays(field: &str, remedy: &str) -> Value {
    let rule = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    json!({"rule": rule, "reason": "FieldValueForbidden", "fieldPath": format!(".{field}"),
           "message": format!("cannot be changed, the pods that there are were made by it: {remedy}")})
}

/// Clients that were built for OpenKruise's v1alpha1 do not know this field: they drop it when they read the object and
/// write the whole of it back.
fn left_out(field: &str, empty: &str, cause: &str) -> Value {
    let rule = format!("!has(oldSelf.{field}) || has(self.{field})");
    let message = format!(
        "is left out, as by a client that does not know it in v1alpha1, and {cause}: \
         write {field}: {empty}, or remove it with apiVersion apps.kruise.io/v1beta1"
    );
    json!({"rule": rule, "reason": "FieldValueRequired", "fieldPath": format!(".{field}"), "message": message})
}

/// With OnDelete nothing is said of a rolling update, but for what is filled in.
fn rolls_by_itself() -> Value {
    let is_default = |(field, value): (&str, &str)| {
        format!("(!has(self.rollingUpdate.{field}) || self.rollingUpdate.{field} == {value})")
    };
    let defaults = [
        ("partition", "0"),
        ("maxUnavailable", "1"),
        ("podUpdatePolicy", "'ReCreate'"),
        ("minReadySeconds", "0"),
        ("paused", "false"),
    ];
    let mut nothing: Vec<_> = defaults.into_iter().map(is_default).collect();
    nothing.extend(
        ["unorderedUpdate", "inPlaceUpdateStrategy"]
            .map(|field| format!("!has(self.rollingUpdate.{field})")),
    );
    let valid = format!(
        "!has(self.type) || self.type != 'OnDelete' || !has(self.rollingUpdate) || ({})",
        nothing.join(" && ")
    );
    let message = "has no meaning with type OnDelete, where whoever deletes a pod updates it: remove it, or set type to RollingUpdate";
    reported_at(".rollingUpdate", json!({"rule": valid, "message": message}))
}

fn more_than_none(field: &str) -> Value {
    let valid = format!("!{}", is_zero(field));
    rule(
        valid,
        format!("'is \"%s\", which lets no pod be away: set it to at least 1'.format([{field}])"),
    )
}

fn one_at_a_time(field: &str) -> String {
    format!("type({field}) == int && {field} == 1")
}

/// A field that contradicts what `OrderedReady` does.
fn only_parallel(field: &str, allowed: impl Fn(&str) -> String, ordered_ready: &str) -> Value {
    let path = format!("self.{field}");
    let mut there = Vec::new();
    let mut at = "self".to_owned();
    for name in field.split('.') {
        at = format!("{at}.{name}");
        there.push(format!("has({at})"));
    }
    let valid = format!(
        "(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !({}) || ({})",
        there.join(" && "),
        allowed(&path)
    );
    let message = format!(
        "needs podManagementPolicy Parallel, because OrderedReady {ordered_ready}: remove it"
    );
    let rule = reported_at(
        &format!(".{field}"),
        json!({"rule": valid, "message": message}),
    );
    unless_unchanged(&["podManagementPolicy", field], rule)
}
