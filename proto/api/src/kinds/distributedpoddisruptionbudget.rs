//! DistributedPodDisruptionBudget: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::json;

use super::Version;
use super::containerrecreaterequest::DNS_LABEL;
use super::imagepulljob::DNS_SUBDOMAIN;
use super::podunavailablebudget::{amount, ledger, one_of, unchanged};
use crate::crd::Schema;
use crate::crd::columns::Column;
use crate::crd::patch::Patch;
use crate::crd::rules::{at, check, conditions, int32, label_selector, not_empty};
use crate::v1alpha1;

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1alpha1::DistributedPodDisruptionBudget::crd],
    rules,
    columns: COLUMNS,
};

const COLUMNS: &[Column] = &[
    Column::string(
        "Min Available",
        ".spec.minAvailable",
        "Pods that must stay healthy.",
    ),
    Column::string(
        "Max Unavailable",
        ".spec.maxUnavailable",
        "Pods that may be out of service.",
    ),
    Column::integer(
        "Allowed",
        ".status.disruptionsAllowed",
        "Own pods that may be taken out of service now.",
    ),
    Column::integer(
        "Current",
        ".status.currentHealthy",
        "Pods that are healthy, own and federated ones.",
    ),
    Column::integer(
        "Desired",
        ".status.desiredHealthy",
        "Pods that must stay healthy, own and federated ones.",
    ),
    Column::AGE,
];

/// The most budgets that one federates: each is read before a pod goes.
const MOST_MEMBERS: u32 = 16;
/// The most conditions that a healthy pod must have.
const MOST_CONDITIONS: u32 = 16;

fn rules(_: Version) -> Vec<Patch> {
    let mut rules = vec![
        at(
            "spec",
            check(&[
                one_of("minAvailable", "maxUnavailable"),
                unchanged("selector"),
            ]),
        ),
        at(
            "spec.unhealthyPodEvictionPolicy",
            json!({"default": "IfHealthyBudget"}),
        ),
        amount("spec.minAvailable"),
        amount("spec.maxUnavailable"),
        at("spec.protectOperations", json!({"maxItems": 16})),
        at(
            "spec.healthyConditions",
            json!({"maxItems": MOST_CONDITIONS, "items": {"type": "string", "minLength": 1, "maxLength": 316}}),
        ),
        at(
            "spec.federation",
            json!({"maxItems": MOST_MEMBERS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["cluster", "namespace", "name"]}),
        ),
        at(
            "spec.federation[].cluster",
            json!({"default": "", "maxLength": 253}),
        ),
        int32("spec.floor", 0),
        at(
            "spec.leaseSeconds",
            json!({"default": 60, "minimum": 10, "maximum": 3600}),
        ),
        at(
            "spec.federation[].namespace",
            json!({"minLength": 1, "maxLength": 63, "pattern": DNS_LABEL}),
        ),
        at(
            "spec.federation[].name",
            json!({"minLength": 1, "maxLength": 253, "pattern": DNS_SUBDOMAIN}),
        ),
    ];
    rules.extend(label_selector("spec.selector"));
    rules.push(at(
        "spec.selector",
        check(&[not_empty(
            "is empty and would select every pod: set matchLabels or matchExpressions",
        )]),
    ));
    rules.extend(ledger());
    rules.push(at(
        "status.federatedStatuses",
        json!({"maxItems": MOST_MEMBERS}),
    ));
    rules.push(at(
        "status.federatedStatuses[].message",
        json!({"maxLength": 2048}),
    ));
    rules.push(at(
        "status.federatedStatuses[].uid",
        json!({"maxLength": 128}),
    ));
    rules.extend(conditions(
        "DisruptionAllowed, Enforced, Federated, ChildPDB or Blocked.",
    ));
    rules
}
