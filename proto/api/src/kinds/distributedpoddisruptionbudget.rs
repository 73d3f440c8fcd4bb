//! DistributedPodDisruptionBudget: its columns, and the defaults and validation of its fields.

use kube::CustomResourceExt;
use serde_json::json;

use crate::conversion::Mapping;
use crate::kind::{Kind, read};
use crate::names::POLICY_GROUP;
use crate::schema::Schema;
use crate::schema::budgets::{amount, ledger, one_of, unchanged};
use crate::schema::columns::Column;
use crate::schema::patch::Patch;
use crate::schema::rules::{
    DNS_LABEL, DNS_SUBDOMAIN, at, check, conditions, int32, label_selector, not_empty,
};
use crate::v1alpha1;
use crate::validation;
use crate::version::Version;
use crate::weight::Limits;

/// DistributedPodDisruptionBudget.
pub const DISTRIBUTED_POD_DISRUPTION_BUDGET: Kind = Kind {
    group: POLICY_GROUP,
    kind: "DistributedPodDisruptionBudget",
    plural: "distributedpoddisruptionbudgets",
    namespaced: true,
    stored: Version::V1Alpha1,
    older: &[],
    read: read::<v1alpha1::DistributedPodDisruptionBudget>,
    limits: |_| Limits::of_budgets(),
    template: None,
    owns: &["poddisruptionbudgets"],
    mapping: Mapping::SAME,
    faults: validation::of_distributed_pod_disruption_budget,
    faults_of_change: |_, _| Vec::new(),
};

pub(super) const SCHEMA: Schema = Schema {
    versions: &[v1alpha1::DistributedPodDisruptionBudget::crd],
    patches: rules,
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
